//! The source as the agent uses it: looks, commits, kills, rotation.

use super::*;
use crate::clock::Clock;
use crate::ship::batch::{open_window, Batch, RAW_BYTES_MAX};
use crate::sources::cursors::{blocks_of, restore_one};
use crate::sources::log_file::source::TURN_BYTES;
use crate::sources::{Pass, Progress, Source};
use crate::testing::{temp_dir, Random};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[path = "lwfs_client_rotation_tests.rs"]
mod rotation;
#[path = "lwfs_client_spool_tests.rs"]
mod spool;

/// A directory with a log, what the spool holds, and an agent's source.
pub(super) struct Site {
    pub dir: PathBuf,
    config: Config,
    pub counters: Arc<Counters>,
    source: LwfsClient,
    /// Cursors of each commit.
    spool: Vec<Vec<u8>>,
    pub events: Vec<Value>,
}

/// The present. Starting a clock takes a while.
fn now() -> crate::clock::Now {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).now()
}

impl Site {
    pub fn new(name: &str) -> Site {
        Self::with(name, |_| ())
    }

    /// With other settings.
    pub fn with(name: &str, change: impl FnOnce(&mut Config)) -> Site {
        let dir = temp_dir(name);
        let mut config = Config {
            lwfs_client_logs: vec![dir.join("log")],
            lwfs_client_time_zone: "UTC".into(),
            ..Config::default()
        };
        change(&mut config);
        let counters = Arc::new(Counters::default());
        Site {
            source: super::new(&config, counters.clone()),
            dir,
            config,
            counters,
            spool: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn append(&self, text: impl AsRef<[u8]>) {
        append(&self.log(), text.as_ref());
    }

    /// Renames the log to log.1, that to log.2, and so on.
    pub fn rotate(&self) {
        let name = |n: u32| match n {
            0 => self.log(),
            n => self.dir.join(format!("log.{n}")),
        };
        let last = (1..).find(|n| !name(*n).exists()).unwrap();
        for n in (0..last).rev() {
            fs::rename(name(n), name(n + 1)).unwrap();
        }
    }

    /// One pass; every batch is committed until `commits` of them were. Answers false if there was more: the agent was killed then.
    fn pass(&mut self, last: bool, events_max: u32, mut commits: usize) -> bool {
        self.source.look_at_once();
        let mut pass = Pass::new(now(), last);
        self.source.begin(&mut pass);
        loop {
            let mut batch = Batch::new("n1", 1, 1, events_max, RAW_BYTES_MAX);
            let progress = self.source.read(&mut pass, &mut batch);
            if commits == 0 {
                return false;
            }
            commits -= 1;
            self.commit(batch);
            if progress == Progress::Done {
                return true;
            }
        }
    }

    fn commit(&mut self, mut batch: Batch) {
        let window = batch.finish().unwrap();
        // A segment of the spool begins now and then.
        let all = self.spool.len() % 4 == 0;
        if all {
            self.spool.clear();
        }
        let cursors = blocks_of(&self.source, all);
        self.spool.push(cursors);
        if window.events > 0 {
            self.events.extend(open_window(window.payload));
        }
        self.source.committed();
    }

    /// A pass that stands still after each batch, which is committed, while `meanwhile` happens.
    pub fn pass_with(&mut self, last: bool, mut meanwhile: impl FnMut(&Site)) {
        self.source.look_at_once();
        let mut pass = Pass::new(now(), last);
        self.source.begin(&mut pass);
        loop {
            let mut batch = Batch::new("n1", 1, 1, 1, RAW_BYTES_MAX);
            let progress = self.source.read(&mut pass, &mut batch);
            self.commit(batch);
            if progress == Progress::Done {
                return;
            }
            meanwhile(self);
        }
    }

    pub fn look(&mut self) {
        assert!(self.pass(false, 4096, usize::MAX));
    }

    pub fn end(&mut self) {
        assert!(self.pass(true, 4096, usize::MAX));
    }

    /// The agent is gone; another one goes on from the spool.
    pub fn restart(&mut self) {
        self.source = super::new(&self.config, self.counters.clone());
        for cursors in &self.spool {
            assert_eq!(restore_one(&mut self.source, false, cursors), 0);
        }
    }

    /// Every operation by itself, in order.
    pub fn operations(&self) -> Vec<String> {
        let mut all: Vec<String> = self.events.iter().flat_map(operations).collect();
        all.sort();
        all
    }

    /// Whether what was read is what these lines say, and nothing else.
    #[track_caller]
    pub fn expect(&self, log: &[u8]) {
        let mut wrong = BTreeMap::new();
        self.operations()
            .into_iter()
            .for_each(|o| *wrong.entry(o).or_insert(0) += 1);
        naive(log)
            .into_iter()
            .for_each(|o| *wrong.entry(o).or_insert(0) -= 1);
        wrong.retain(|_, times| *times != 0);
        assert!(
            wrong.is_empty(),
            "so often too much, or too seldom: {wrong:?}"
        );
    }
}

pub(super) fn append(path: &Path, text: &[u8]) {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).open(path).unwrap();
    file.write_all(text).unwrap();
}

/// A record's operations.
fn operations(event: &Value) -> Vec<String> {
    let n = |key: &str| event[key].as_i64().unwrap();
    assert_eq!(n("flags") & 64, 64);
    assert_eq!(n("bytes"), n("size") * n("count"), "{event}");
    assert!(n("end") - n("start") >= 1_000_000_000);
    let one = |i: i64| {
        let offset = n("offset") + i * n("stride");
        let (op, handle) = (event["op"].as_str().unwrap(), n("handle"));
        let file = event["file"].as_str().unwrap_or("-");
        format!(
            "{op} {handle:x} {file} {offset}+{} errno {}",
            n("size"),
            n("errno")
        )
    };
    (0..n("count")).map(one).collect()
}

/// What a log's lines say, worked out the slow way: each operation by itself, corrected by its reply.
fn naive(log: &[u8]) -> Vec<String> {
    use super::line::{parse, Outcome, What};
    let mut done: Vec<(u64, String, String, u64, u16)> = Vec::new();
    let mut names = std::collections::HashMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    for line in log.split(|b| *b == b'\n').filter_map(parse) {
        match line.what {
            What::Data(d) => {
                let file = names.get(&d.handle).cloned().unwrap_or("-".to_string());
                let op = format!("{:?}", d.op).to_lowercase();
                for i in 0..d.count {
                    let offset = d.offset + i * d.size;
                    let start = format!("{op} {:x} {file} {offset}+", d.handle);
                    done.push((line.id, start, String::new(), d.size, 0));
                }
            }
            What::Meta { op, path, .. } => {
                let op = format!("{op:?}").to_lowercase();
                let path = path.map_or("-".into(), text);
                done.push((line.id, format!("{op} -1 {path} 0+"), String::new(), 0, 0));
            }
            What::Opened { path, handle } => drop(names.insert(handle, text(path))),
            What::Release { handle, .. } => {
                let path = names.remove(&handle).unwrap_or("-".to_string());
                done.push((line.id, format!("close -1 {path} 0+"), String::new(), 0, 0));
            }
            What::Reply(outcome) => {
                if let Some(asked) = done.iter_mut().rev().find(|d| d.0 == line.id) {
                    match outcome {
                        Outcome::Bytes(bytes) => asked.3 = bytes,
                        Outcome::Failed(errno) => (asked.3, asked.4) = (0, errno),
                    }
                }
            }
            What::Done | What::Other => {}
        }
    }
    let text = |d: (u64, String, String, u64, u16)| format!("{}{} errno {}", d.1, d.3, d.4);
    // Handles print as signed numbers do.
    done.into_iter()
        .map(text)
        .map(|t| t.replace(" -1 ", " ffffffffffffffff "))
        .collect()
}

/// A part of a random log: requests, each followed by its reply if it has one, and other things.
pub(super) fn part(random: &mut Random, id: &mut u64, lines: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..lines {
        *id += 1;
        let stamp = format!("[2018-09-10 14:{:02}:{:02}]", *id / 600 % 60, *id / 10 % 60);
        let handle = 0x10 + random.below(5);
        let (name, function) =
            [("READ", "fuse_readv"), ("WRITE", "fuse_writev")][random.below(2) as usize];
        let (size, offset) = (4096 << random.below(2), 4096 * random.below(6));
        let place = format!("{stamp} T [fuse-bridge.c:1967:{function}");
        match random.below(20) {
            0 => out.extend(
                format!(
                    "{stamp} T OPEN() /file {}/{id} => {handle:#x}\n",
                    random.below(3)
                )
                .bytes(),
            ),
            1 => out.extend(format!("{stamp} T RELEASE {handle:#x}\n").bytes()),
            2 => out.extend(format!("{stamp} T LOOKUP /READ size=\n").bytes()),
            3 => out.extend(format!("{stamp} T OPEN /file {id}\n").bytes()),
            4 => out.extend(b"\xff\xfegarbage\0\n"),
            5 => out
                .extend(format!("{place}] lwfs-fuse: {id}: {name} ({handle:#x}, size=1\n").bytes()),
            6 => out.extend(
                format!(
                    "{stamp} T {name} {handle:#x} size={size} offset={} count=3\n",
                    9 * size
                )
                .bytes(),
            ),
            kind => {
                let mut offset = offset;
                for _ in 0..1 + random.below(9) {
                    *id += 1;
                    let request = format!("{place}] lwfs-fuse: {id}: {name} ({handle:#x}, size={size}, offset={offset})\n");
                    out.extend(request.bytes());
                    let said = match kind {
                        7 => "-1 (No space left on device)".into(),
                        8 => format!("{}/{size},0/0", random.below(size + 1)),
                        _ => format!("{size}/{size},0/0"),
                    };
                    out.extend(format!("{place}_cbk] lwfs-fuse: {id}: {name} => {said}\n").bytes());
                    offset += size;
                }
            }
        }
    }
    out
}

const FIXTURE: &[u8] =
    include_bytes!("../../../../tests/fixtures/lwfs_client/taihulight/client.log");

#[test]
fn the_fixture_is_read_as_it_says() {
    let mut site = Site::new("fixture");
    site.append(FIXTURE);
    site.end();
    site.expect(FIXTURE);
    assert_eq!(site.events.len(), 12);
    assert_eq!(site.counters.bad_lines.get(), 1);
    assert_eq!(site.counters.other_operations.get(), 1);
    assert_eq!(site.counters.seen.get(), 28);
    let first = &site.events[0];
    for (key, value) in [
        ("source", "lwfs_client"),
        ("process", "node"),
        ("program", ""),
        ("layer", "compute"),
    ] {
        assert_eq!(first[key], value);
    }
    assert!(["uid", "job", "parent", "rank"]
        .iter()
        .all(|key| first[*key].is_null()));
}

/// Whatever part of the last line is written when the agent looks, the rest is waited for.
#[test]
fn a_log_cut_at_every_byte_says_the_same() {
    for cut in 0..=FIXTURE.len() {
        let mut site = Site::new("cut");
        site.append(&FIXTURE[..cut]);
        site.look();
        if cut % 2 == 0 {
            site.restart();
        }
        site.append(&FIXTURE[cut..]);
        site.end();
        site.expect(FIXTURE);
        assert!(cut % 2 == 0 || site.counters.bad_lines.get() == 1);
        fs::remove_dir_all(&site.dir).unwrap();
    }
}

/// Killed before or after any commit, and restarted from the spool, while the log grows and is rotated.
#[test]
fn nothing_is_lost_or_doubled_by_kills_and_rotation() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut site = Site::new("killed");
        // Of logs that were rotated before the first commit nothing is known.
        let (mut id, mut all) = (0, b"[2018-09-10 14:00:00] T STAT /a\n".to_vec());
        site.append(&all);
        site.look();
        for _ in 0..40 {
            for _ in 0..random.below(3) {
                let lines = 1 + random.below(20);
                let text = part(&mut random, &mut id, lines);
                site.append(&text);
                all.extend(text);
                if random.below(4) == 0 {
                    site.rotate();
                }
            }
            let events_max = 1 + random.below(6) as u32;
            let whole = match random.below(3) {
                0 => site.pass(false, events_max, random.below(4) as usize),
                _ => site.pass(false, events_max, usize::MAX),
            };
            if !whole || random.below(5) == 0 {
                site.restart();
            }
        }
        // Something must follow for the last ones to be found.
        let text = part(&mut random, &mut id, 5);
        site.append(&text);
        all.extend(text);
        site.end();
        site.expect(&all);
        assert_eq!(site.counters.lost_log_bytes.get(), 0, "seed {seed}");
        fs::remove_dir_all(&site.dir).unwrap();
    }
}

#[test]
fn interleaved_handles_merge_and_a_changed_direction_does_no_harm() {
    let mut site = Site::new("interleaved");
    let mut log = String::new();
    for i in 0..400u64 {
        for handle in 0..150 {
            let name = if (handle + i) % 2 == 0 {
                "READ"
            } else {
                "WRITE"
            };
            let line = format!(
                "[2018-09-10 14:00:0{}] T {name} ({handle:#x}, size=10, offset={})\n",
                i / 200,
                i / 2 * 70
            );
            log += &line;
        }
    }
    site.append(&log);
    site.end();
    assert_eq!(site.events.len(), 300);
    site.expect(log.as_bytes());
}

#[test]
fn a_run_is_shipped_when_its_window_is_over() {
    let mut site = Site::new("window");
    let line = |second: u32| {
        format!(
            "[2018-09-10 14:00:{second:02}] T WRITE (0x1, size=10, offset={})\n",
            second * 10
        )
    };
    (0..35).for_each(|second| site.append(line(second)));
    site.look();
    // 0 to 10, and 11 to 21; from 22 on it is open, or waits for replies.
    let counts: Vec<i64> = site
        .events
        .iter()
        .map(|e| e["count"].as_i64().unwrap())
        .collect();
    assert_eq!(counts, [11, 11]);
    // A job event waits: nothing stays behind.
    site.source.look_at_once();
    let mut pass = Pass::new(now(), false);
    pass.settle.insert(0);
    site.source.begin(&mut pass);
    let mut batch = Batch::new("n1", 1, 1, 100, RAW_BYTES_MAX);
    assert_eq!(site.source.read(&mut pass, &mut batch), Progress::Done);
    let rest = open_window(batch.finish().unwrap().payload);
    assert_eq!(
        rest.iter()
            .map(|e| e["count"].as_i64().unwrap())
            .collect::<Vec<_>>(),
        [11, 2]
    );
}

#[test]
fn late_and_unknown_replies_are_counted() {
    let mut site = Site::new("late");
    let mut log = String::new();
    let place = "[2018-09-10 14:00:00] T [f.c:1:fuse_readv] lwfs-fuse:";
    for id in 1..=trace::WAITING_MAX + 1 {
        log += &format!("{place} {id}: READ (0x1, size=10, offset={id})\n");
    }
    log += &format!(
        "{place} 1: READ => 3/10,0/0\n{place} 2: READ => 3/10,0/0\n{place} 99999: READ => -1\n"
    );
    site.append(&log);
    site.end();
    assert_eq!(site.counters.late_replies.get(), 2);
    let bytes: i64 = site
        .events
        .iter()
        .map(|e| e["bytes"].as_i64().unwrap())
        .sum();
    assert_eq!(bytes, 10 * (trace::WAITING_MAX as i64 + 1) - 7);
}

#[test]
fn windows_end_in_a_log_without_data_too() {
    let mut site = Site::new("meta");
    for (second, what) in [(0, "MKDIR /a"), (20, "STAT /a"), (40, "STAT /b")] {
        site.append(format!("[2018-09-10 14:00:{second:02}] T {what}\n"));
    }
    site.look();
    let ops: Vec<_> = site.events.iter().map(|e| &e["op"]).collect();
    assert_eq!(ops, ["mkdir"]);
}

#[test]
fn a_job_event_waits_for_a_log_that_one_turn_does_not_read() {
    let mut site = Site::new("turn");
    fs::File::create(site.log())
        .and_then(|log| log.set_len(TURN_BYTES + (8 << 20)))
        .unwrap();
    for unfinished in [vec![7], vec![]] {
        let mut pass = Pass::new(now(), false);
        pass.settle.insert(7);
        site.source.begin(&mut pass);
        let mut batch = Batch::new("n1", 1, 1, 9, RAW_BYTES_MAX);
        assert_eq!(site.source.read(&mut pass, &mut batch), Progress::Done);
        assert!(pass.unfinished.into_iter().eq(unfinished));
    }
}

#[test]
fn a_reply_is_for_one_request_alone() {
    let mut site = Site::new("replies");
    let at = "[2018-09-10 14:00:00] T [f.c:1:fuse_readv] lwfs-fuse:";
    // Of several operations no reply says which one moved less.
    site.append(format!("{at} 1: READ 0x1 size=10 offset=20 count=3\n"));
    site.append(format!("{at} 1: READ => 4/30,0/0\n"));
    // Answered, and its number used anew by a request that is not in the log.
    site.append(format!("{at} 2: READ (0x2, size=10, offset=0)\n"));
    site.append(format!("{at} 2: READ => 10/10,0/0\n"));
    site.append(format!("{at} 2: READ => -1 (No such file or directory)\n"));
    site.end();
    let bytes = |e: &Value| (e["bytes"].as_i64().unwrap(), e["errno"].as_i64().unwrap());
    let mut all: Vec<_> = site.events.iter().map(bytes).collect();
    all.sort();
    assert_eq!(all, [(10, 0), (30, 0)]);
    assert_eq!(site.counters.bad_lines.get(), 1);
    assert_eq!(site.counters.late_replies.get(), 1);
}
