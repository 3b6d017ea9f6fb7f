use super::ring::FILE_BYTES_MAX;
use super::*;
use crate::clock::Clock;
use crate::ship::batch::open_window;
use crate::sources::cursors::{blocks_of, restore_one};
use crate::testing::{own_uid, rings_dir, temp_dir, RingFile};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use tracepack::record::Operation;

#[path = "preload_bounds_tests.rs"]
mod bounds;

struct Fixture {
    config: Config,
    dir: PathBuf,
    counters: Arc<Counters>,
    source: Preload,
    batch: Batch,
    /// How far ahead of the present a pass happens.
    ahead_ns: i64,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let (rings, dir) = rings_dir(name);
        let config = Config {
            rings,
            rings_per_user_max: 20,
            ..Config::default()
        };
        let counters = Arc::new(Counters::default());
        let source = Preload::new(&config, counters.clone());
        Fixture {
            config,
            dir,
            counters,
            source,
            batch: Batch::new("n", 1, 1, 3, 1 << 20),
            ahead_ns: 0,
        }
    }

    fn new_pass(&self, last: bool) -> Pass {
        let mut now = Clock::start().now();
        now.pair.monotonic_ns += self.ahead_ns;
        Pass::new(now, last)
    }

    /// A pass that settles the user, as if a job event waited. `commit` false: killed before the spool had it.
    fn pass(&mut self, commit: bool) -> Vec<Value> {
        let mut pass = self.new_pass(false);
        self.source.begin(&mut pass);
        pass.settle.insert(own_uid());
        let mut found = Vec::new();
        loop {
            let progress = self.source.read(&mut pass, &mut self.batch);
            let window = self.batch.finish().unwrap();
            if window.events > 0 {
                found.extend(open_window(window.payload));
            }
            self.batch.restart(1);
            if commit {
                self.source.committed();
            }
            if progress == Progress::Done {
                return found;
            }
        }
    }

    /// Another agent, from these cursors.
    fn restart(&mut self, saved: &[u8]) {
        self.counters = Arc::new(Counters::default());
        self.source = Preload::new(&self.config, self.counters.clone());
        assert_eq!(restore_one(&mut self.source, true, saved), 0);
    }

    fn saved(&self) -> Vec<u8> {
        blocks_of(&self.source, true)
    }
}

fn living() -> (Child, u64) {
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let ticks = process::start_ticks(child.id());
    (child, ticks)
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn write(offset: u64, size: u64) -> Operation {
    let now = sys::clock_ns(libc::CLOCK_MONOTONIC) as u64;
    Operation {
        file: 0,
        offset,
        size,
        start: now - 10,
        end: now,
        handle: 5,
        op: 2,
        ..Operation::default()
    }
}

fn counts(events: &[Value]) -> (usize, u64) {
    let starts = events.iter().filter(|e| e["op"] == "start").count();
    (
        starts,
        events
            .iter()
            .filter(|e| e["op"] != "start")
            .map(|e| e["count"].as_u64().unwrap())
            .sum(),
    )
}

#[test]
fn a_ring_is_read_while_its_process_lives_and_removed_after() {
    let mut f = Fixture::new("life");
    let (mut child, ticks) = living();
    let ring = RingFile::new(&f.dir, child.id(), ticks);
    for i in 0..10 {
        ring.record(0, &write(i * i, 1)); // never a stride for long
    }
    // A job event waits, so open runs go too: its processes may be about to die.
    assert_eq!(counts(&f.pass(true)), (1, 10));
    assert!(ring.tail(0) > 0);
    ring.record(0, &write(5000, 1));
    end(&mut child);
    assert_eq!(counts(&f.pass(true)), (0, 1));
    assert!(!ring.path.exists());
    assert!(f.pass(true).is_empty());
    assert_eq!(f.source.open_files(), 0);
    assert_eq!(f.counters.bad_runs.get() + f.counters.bad_rings.get(), 0);
}

#[test]
fn a_kill_before_and_after_the_spool_has_it_loses_and_repeats_nothing() {
    let mut f = Fixture::new("kill");
    let (mut child, ticks) = living();
    let ring = RingFile::new(&f.dir, child.id(), ticks);
    for i in 0..10 {
        ring.record(0, &write(i * i, 1));
    }
    end(&mut child);
    // Killed before: nothing is written, nothing removed, all is read again.
    let nothing = f.saved();
    assert_eq!(counts(&f.pass(false)), (1, 10));
    assert!(ring.path.exists() && ring.tail(0) == 0);
    f.restart(&nothing);
    assert_eq!(counts(&f.pass(false)), (1, 10));
    // Killed after the spool had it, before the file was removed: it is removed, and nothing is shipped.
    let saved = f.saved();
    f.restart(&saved);
    assert_eq!(
        f.saved(),
        saved,
        "cursors outlive an agent that saw nothing"
    );
    assert!(f.pass(true).is_empty());
    assert!(!ring.path.exists());
    // Its cursor goes with it.
    f.pass(true);
    std::thread::sleep(Duration::from_millis(1));
    f.restart(&saved);
    f.pass(true);
    assert!(f.saved().is_empty());
}

#[test]
fn what_is_no_ring_is_refused_and_goes_with_its_process() {
    let mut f = Fixture::new("refused");
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    let age = |name: &str| {
        fs::File::options()
            .write(true)
            .open(f.dir.join(name))
            .unwrap()
            .set_modified(old)
            .unwrap()
    };
    fs::write(f.dir.join("4194304-1-old.ring"), "no header").unwrap();
    age("4194304-1-old.ring");
    fs::write(f.dir.join("4194304-1-new.ring"), "no header").unwrap();
    let forged = RingFile::with_header(&f.dir, 4194304, 2, |h| h.pid = 1);
    age(&forged.name);
    let clock = RingFile::with_header(&f.dir, 4194304, 3, |h| h.clock = 9);
    age(&clock.name);
    let other = temp_dir("other");
    let target = RingFile::new(&other, 4194304, 4);
    symlink(&target.path, f.dir.join("4194304-4-link.ring")).unwrap();
    fs::hard_link(&target.path, f.dir.join("4194304-4-hard.ring")).unwrap();
    fs::create_dir(f.dir.join("4194304-4-dir.ring")).unwrap();
    fs::write(f.dir.join("what.ring"), "").unwrap();
    let huge = fs::File::create(f.dir.join("4194304-5-huge.ring")).unwrap();
    huge.set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(Command::new("mkfifo")
        .arg(f.dir.join("4194304-6-fifo.ring"))
        .status()
        .unwrap()
        .success());
    assert!(f.pass(true).is_empty());
    let left: Vec<bool> = [
        "4194304-1-old.ring",
        "4194304-1-new.ring",
        &forged.name,
        &clock.name,
    ]
    .iter()
    .map(|n| f.dir.join(n).exists())
    .collect();
    assert_eq!(left, [false, true, false, false]);
    assert_eq!(f.counters.bad_rings.get(), 8);
    assert!(target.path.exists());
}

#[test]
fn a_file_cut_short_harms_nobody() {
    let mut f = Fixture::new("cut");
    let (mut child, ticks) = living();
    let ring = RingFile::new(&f.dir, child.id(), ticks);
    ring.record(0, &write(0, 1));
    f.pass(true);
    let file = fs::File::options().write(true).open(&ring.path).unwrap();
    for length in [tracepack::ring::segment_at(0) as u64 + 64, 5000, 100, 0] {
        file.set_len(length).unwrap();
        assert!(f.pass(true).is_empty());
    }
    assert!(f.counters.bad_runs.get() > 0);
    end(&mut child);
}

#[test]
fn what_an_ended_process_left_comes_before_what_others_go_on_with() {
    let mut f = Fixture::new("ended-first");
    let (mut child, ticks) = living();
    let busy = RingFile::new(&f.dir, child.id(), ticks);
    busy.grow(100);
    f.pass(true);
    let ended = RingFile::new(&f.dir, 4194304, 1);
    ended.record(0, &write(0, 1));
    (0..100).for_each(|index| busy.set_head(index, 1000));
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    let mut pass = f.new_pass(false);
    f.source.begin(&mut pass);
    pass.settle.insert(own_uid());
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(pass.more && !pass.unfinished.contains(&own_uid()));
    f.source.committed();
    assert!(!ended.path.exists());
    end(&mut child);
}

#[test]
fn a_process_in_another_pid_namespace_is_judged_by_its_ring() {
    let mut f = Fixture::new("foreign");
    let own = process::namespace(Path::new("/proc")).unwrap();
    f.source.namespaces_seen = Some(Instant::now()); // as if they could not be seen
    let ours = RingFile::with_header(&f.dir, 4194304, 1, |h| h.pid_namespace = own);
    let theirs = RingFile::with_header(&f.dir, 4194304, 2, |h| h.pid_namespace = own + 1);
    let mut done = 10;
    (0..done).for_each(|i| theirs.record(0, &write(i * i, 1)));
    let first = f.pass(true);
    assert_eq!(counts(&first), (2, 10));
    let names: std::collections::BTreeSet<&str> =
        first.iter().filter_map(|e| e["process"].as_str()).collect();
    let there = format!("4194304.2.{:x}", own + 1);
    assert_eq!(names, ["4194304.1", &there].into());
    let mut operate = |f: &mut Fixture, times: u64| {
        for _ in 0..times {
            theirs.record(0, &write(done * done, 1));
            done += 1;
        }
        counts(&f.pass(true))
    };
    assert!(!ours.path.exists());
    assert_eq!(operate(&mut f, 5), (0, 5));
    f.ahead_ns = life::SILENT_AFTER_NS + 60_000_000_000;
    assert_eq!(operate(&mut f, 0), (0, 0));
    assert!(theirs.path.exists());
    // It was only paused.
    assert_eq!(operate(&mut f, 3), (0, 3));
    assert_eq!(operate(&mut f, 2), (0, 2));
    f.ahead_ns += life::REMOVE_AFTER_NS - 1_000_000_000;
    assert_eq!(operate(&mut f, 0), (0, 0));
    assert!(theirs.path.exists());
    f.ahead_ns += 2_000_000_000;
    assert_eq!(operate(&mut f, 0), (0, 0));
    assert!(!theirs.path.exists());
    assert_eq!(f.counters.bad_runs.get(), 0);
}

#[test]
fn a_process_in_another_pid_namespace_has_ended_when_none_has_its_number_there() {
    let mut f = Fixture::new("container");
    let child = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no unshare. Run: apt-get install util-linux");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut echo = [0];
    if input.write_all(b"x").is_err() || child.stdout.take().unwrap().read_exact(&mut echo).is_err()
    {
        child.wait().unwrap();
        eprintln!("skipped: only root can make pid namespaces");
        return;
    }
    let own = process::namespace(Path::new("/proc")).unwrap();
    let is_child = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(&format!(") S {} ", child.id()))
    };
    let mut inside = String::new();
    while inside.is_empty() {
        let pids = fs::read_dir("/proc").unwrap();
        let names = pids.map(|e| e.unwrap().file_name().into_string().unwrap());
        inside = names.into_iter().find(is_child).unwrap_or_default();
    }
    let theirs = fs::metadata(format!("/proc/{inside}/ns/pid"))
        .unwrap()
        .ino();
    if process::in_other_namespaces(Path::new("/proc"), own).is_none() {
        end(&mut child);
        eprintln!("skipped: in a container other pid namespaces cannot be seen");
        return;
    }
    let there = RingFile::with_header(&f.dir, 1, 5, |h| h.pid_namespace = theirs);
    let gone = RingFile::with_header(&f.dir, 2, 5, |h| h.pid_namespace = theirs);
    f.pass(true);
    assert!(there.path.exists() && gone.path.exists(), "not asked yet");
    f.pass(true);
    assert!(there.path.exists() && !gone.path.exists());
    drop(input);
    child.wait().unwrap();
}
