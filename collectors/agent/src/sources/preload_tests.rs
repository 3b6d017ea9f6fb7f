use super::ring::FILE_BYTES_MAX;
use super::*;
use crate::clock::Clock;
use crate::ship::batch::open_window;
use crate::sources::cursors::restore_one;
use crate::testing::{own_uid, rings_dir, temp_dir, RingFile};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use tracepack::record::Operation;

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
            self.batch.restart(1).unwrap();
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
        let mut out = Vec::new();
        self.source.cursors(true, &mut out);
        out
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
fn more_rings_than_the_bound_leave_the_user_unfinished() {
    let mut f = Fixture::new("many");
    let rings: Vec<RingFile> = (0..25).map(|i| RingFile::new(&f.dir, 4194304, i)).collect();
    for ring in &rings {
        ring.record(0, &write(0, 1));
    }
    let mut pass = Pass::new(Clock::start().now(), true);
    f.source.begin(&mut pass);
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(pass.unfinished.contains(&own_uid()));
    f.source.committed();
    let (starts, operations) = counts(&f.pass(true));
    assert_eq!((starts, operations), (5, 5));
    assert_eq!(fs::read_dir(&f.dir).unwrap().count(), 0);
}

/// A program ends, leaves its ring, and then its job's end: whoever sees the end must have seen the ring.
#[test]
fn a_user_who_was_not_listed_is_not_settled() {
    let mut f = Fixture::new("unlisted");
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    let mut unfinished = |f: &mut Fixture, uid: u32| {
        let mut pass = Pass::new(Clock::start().now(), false);
        f.source.begin(&mut pass);
        pass.settle.insert(uid);
        assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
        pass.unfinished.contains(&uid)
    };
    assert!(!unfinished(&mut f, own_uid()));
    assert!(unfinished(&mut f, own_uid() + 1));
}

/// Commits close files between two looks at the same ring.
#[test]
fn more_rings_than_files_are_kept_open_are_read_whole() {
    let mut f = Fixture::new("many-open");
    f.config.rings_per_user_max = 1000;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let _idle: Vec<RingFile> = (0..OPEN_FILES_MAX)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    f.pass(true);
    let ended = RingFile::new(&f.dir, 4194304, 1);
    (0..10).for_each(|i| ended.record(0, &write(i * i, 1)));
    assert_eq!(counts(&f.pass(true)), (1, 10));
    assert!(!ended.path.exists());
    end(&mut child);
}

/// Headers that claim 1,024 segments, over holes.
#[test]
fn segments_without_runs_take_no_room_in_the_spool() {
    let mut f = Fixture::new("holes");
    f.config.rings_per_user_max = 100;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let rings: Vec<RingFile> = (0..80)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    rings.iter().for_each(|r| r.grow(1024));
    f.pass(true);
    // Nor in a pass.
    let mut pass = f.new_pass(false);
    f.source.begin(&mut pass);
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(!pass.more);
    f.source.committed();
    assert!(f.saved().len() < 80 * 100, "{} bytes", f.saved().len());
    rings[3].set_head(1000, 1);
    f.pass(true);
    assert!(f.saved().len() < 80 * 100 + 100);
    assert_eq!(rings[3].tail(1000), 1);
    end(&mut child);
    f.pass(true);
    assert!(f.saved().is_empty());
    assert_eq!(f.counters.bad_rings.get(), 0);
}

#[test]
fn a_users_cursors_are_bounded_and_what_waits_is_not_lost() {
    let mut f = Fixture::new("room");
    f.config.spool_max_bytes = 1 << 20;
    f.restart(&[]);
    f.batch = Batch::new("n", 1, 1, 4096, 1 << 20);
    let (mut child, ticks) = living();
    let mut rings: Vec<RingFile> = (0..4)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    let second = 1_000_000_000;
    for ring in &mut rings {
        ring.grow(20);
        for handle in 0..32 {
            let mut o = write(7, 1);
            (o.handle, o.start, o.end) = (handle, o.start - 5 * second, o.end - 5 * second);
            ring.record(0, &o);
        }
        (1..20).for_each(|to| ring.copy_segment(to));
    }
    let bound = cursors_bytes_max(f.config.spool_max_bytes);
    let (_, mut done) = counts(&f.pass(true));
    assert!((1000..4 * 20 * 32).contains(&done), "{done}");
    assert!(f.saved().len() <= bound + 16, "{} bytes", f.saved().len());
    assert!(f.counters.waiting_rings.get() > 0);
    let waiting = f.counters.waiting_rings.get();
    done += counts(&f.pass(true)).1;
    assert_eq!(f.counters.waiting_rings.get(), waiting, "counted once");
    // Another agent takes up the cursors, and the process's end makes room.
    let saved = f.saved();
    f.restart(&saved);
    end(&mut child);
    done += counts(&f.pass(true)).1;
    assert_eq!(done, 4 * 20 * 32);
    assert!(rings.iter().all(|r| !r.path.exists()));
    assert!(f.saved().is_empty());
}

/// A commit of one program's many threads writes the few whose segments changed.
#[test]
fn only_the_segments_that_changed_go_into_the_next_entry() {
    let mut f = Fixture::new("delta");
    f.batch = Batch::new("n", 1, 1, 4096, 1 << 20);
    let (mut child, ticks) = living();
    let mut ring = RingFile::new(&f.dir, child.id(), ticks);
    ring.grow(50);
    (0..10).for_each(|i| ring.record(0, &write(i * i, 1)));
    (1..50).for_each(|to| ring.copy_segment(to));
    f.pass(true);
    let all = f.saved();
    (10..20).for_each(|i| ring.record(0, &write(i * i, 1)));
    f.pass(false);
    let mut changed = Vec::new();
    f.source.cursors(false, &mut changed);
    assert!((1..all.len() / 10).contains(&changed.len()));
    let now = f.saved();
    f.restart(&all);
    assert_eq!(restore_one(&mut f.source, false, &changed), 0);
    assert_eq!(f.saved(), now);
    // What ended needs no cursor, in whatever entry that is said.
    end(&mut child);
    f.pass(true);
    assert!(f.saved().is_empty());
    let mut whole = Cursor::read(&mut Reader(&now[4..])).unwrap().2;
    let ended = Cursor {
        ended: 48,
        started: true,
        ..Cursor::default()
    };
    whole.merge(ended);
    let left: Vec<u32> = whole.segments.iter().map(|s| s.index).collect();
    assert_eq!((whole.ended, &left[..]), (48, &[48, 49][..]));
}

#[test]
fn whoever_has_less_than_a_share_finds_room_although_others_took_it_all() {
    let mut f = Fixture::new("share");
    let other = own_uid() + 1;
    let dir = f.config.rings.join(other.to_string());
    fs::create_dir(&dir).unwrap();
    if std::os::unix::fs::chown(&dir, Some(other), None).is_err() {
        return; // only root can make other users' files
    }
    f.config.spool_max_bytes = 1 << 20;
    f.restart(&[]);
    let (mut child, ticks) = living();
    let greedy: Vec<RingFile> = (0..20)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    for ring in &greedy {
        ring.grow(1024);
        (0..1024).for_each(|index| ring.set_head(index, 1));
    }
    f.pass(true);
    assert!(f.counters.waiting_rings.get() > 0);
    let ring = RingFile::with_header(&dir, child.id(), ticks, |h| h.uid = other);
    std::os::unix::fs::chown(&ring.path, Some(other), None).unwrap();
    for i in 0..10 {
        ring.record(0, &write(i * i, 1));
    }
    std::thread::sleep(Duration::from_millis(600)); // the users are listed again
    f.pass(true);
    assert!(ring.tail(0) > 0);
    end(&mut child);
}

#[test]
fn a_user_gets_a_part_of_a_pass_and_every_ring_its_turn() {
    let mut f = Fixture::new("turns");
    let (mut child, ticks) = living();
    let rings: Vec<RingFile> = (0..3)
        .map(|_| RingFile::new(&f.dir, child.id(), ticks))
        .collect();
    // What stands there makes no sense and costs time all the same.
    let heads = |ring: &RingFile, runs: u64| {
        ring.grow(80);
        (0..80).for_each(|index| ring.set_head(index, runs));
    };
    f.pass(true);
    rings.iter().for_each(|r| heads(r, 960));
    let read = |ring: &RingFile| (0..80).filter(|&index| ring.tail(index) > 0).count();
    let mut batch = Batch::new("n", 1, 1, 1000, 1 << 20);
    let mut bad = 0;
    for round in 0..4 {
        let mut pass = f.new_pass(false);
        f.source.begin(&mut pass);
        pass.settle.insert(own_uid());
        assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
        f.source.committed();
        let steps = f.counters.bad_runs.get() - bad;
        assert!(steps <= TURN_STEPS_MAX, "{steps} runs in one pass");
        bad += steps;
        assert_eq!(pass.more, round < 3, "round {round}");
        // A living process keeps no job waiting.
        assert!(!pass.unfinished.contains(&own_uid()));
        assert!(round == 0 || rings.iter().filter(|r| read(r) > 0).count() > round.min(2));
    }
    assert_eq!((bad, rings.iter().map(read).sum::<usize>()), (230_400, 240));
    // The last pass goes on until all is read.
    rings.iter().for_each(|r| heads(r, 1920));
    let mut pass = f.new_pass(true);
    f.source.begin(&mut pass);
    assert_eq!(f.source.read(&mut pass, &mut batch), Progress::Done);
    assert_eq!(f.counters.bad_runs.get(), 460_800);
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
