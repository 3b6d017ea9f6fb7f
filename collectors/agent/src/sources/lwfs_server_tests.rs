//! The source as the agent uses it: looks, kills, rotation, a server that begins anew.

use super::line::{BUCKETS, KINDS};
use super::*;
use crate::clock::Clock;
use crate::ship::batch::{open_window, Batch, RAW_BYTES_MAX};
use crate::sources::cursors::{blocks_of, restore_one};
use crate::sources::samples::golden::{repository, Defined};
use crate::sources::{Pass, Progress, Source};
use crate::sys;
use crate::testing::{temp_dir, Random};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

const S: i64 = 1_000_000_000;
/// Starting one takes a while.
static CLOCK: OnceLock<Clock> = OnceLock::new();

/// A directory with a log, what the spool holds, and an agent's source.
struct Site {
    dir: PathBuf,
    config: Config,
    counters: Arc<Counters>,
    source: LwfsServer,
    spool: Vec<Vec<u8>>,
    events: Vec<Json>,
}

impl Site {
    fn new(name: &str) -> Site {
        let dir = temp_dir(name);
        let config = Config {
            root: dir.clone(),
            lwfs_server_logs: vec!["/log".into()],
            lwfs_server_time_zone: "UTC".into(),
            ..Config::default()
        };
        check(&config).unwrap();
        let counters = Arc::new(Counters::default());
        Site {
            source: new(&config, counters.clone()),
            dir,
            config,
            counters,
            spool: Vec::new(),
            events: Vec::new(),
        }
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        let mut options = OpenOptions::new();
        let mut log = options.create(true).append(true).open(self.dir.join("log"));
        log.as_mut().unwrap().write_all(text.as_ref()).unwrap();
    }

    /// Renames the log to log.1, that to log.2, and so on.
    fn rotate(&self) {
        let name = |n: u32| match n {
            0 => self.dir.join("log"),
            n => self.dir.join(format!("log.{n}")),
        };
        let last = (1..).find(|n| !name(*n).exists()).unwrap();
        for n in (0..last).rev() {
            fs::rename(name(n), name(n + 1)).unwrap();
        }
    }

    /// Batches of so many events are committed until `commits` of them were. False: the agent was killed then.
    fn pass(&mut self, events_max: u32, mut commits: usize) -> bool {
        self.source.look_at_once();
        let mut pass = Pass::new(CLOCK.get_or_init(Clock::start).now(), true);
        self.source.begin(&mut pass);
        loop {
            let mut batch = Batch::new("n1", 1, 1, events_max, RAW_BYTES_MAX);
            let progress = self.source.read(&mut pass, &mut batch);
            if commits == 0 {
                return false;
            }
            commits -= 1;
            let window = batch.finish().unwrap();
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
            if progress == Progress::Done {
                return true;
            }
        }
    }

    fn look(&mut self) {
        assert!(self.pass(4096, usize::MAX));
    }

    fn restart(&mut self) {
        self.source = new(&self.config, self.counters.clone());
        for cursors in &self.spool {
            assert_eq!(restore_one(&mut self.source, false, cursors), 0);
        }
    }

    /// What all samples of the log's own time add up to. Those of silence, which stand at the present, say 0.
    fn sums(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for event in &self.events {
            assert!(event["start"].as_i64() <= event["end"].as_i64(), "{event}");
            for (name, value) in event["values"].as_object().unwrap() {
                if name != "queue_length" {
                    *sums.entry(name.clone()).or_insert(0) += value.as_u64().unwrap();
                }
            }
        }
        sums
    }
}

fn fixture() -> Vec<u8> {
    fs::read(repository().join("tests/fixtures/lwfs_server/taihulight/server.log")).unwrap()
}

/// A sample of the log's own time.
fn is_of_log(event: &&Json) -> bool {
    event["end"].as_i64().unwrap() < 1_600_000_000 * S
}

#[test]
fn the_fixture_is_read_as_it_says() {
    let defined = Defined::of("lwfs_server");
    let mut site = Site::new("fixture");
    site.append(fixture());
    site.look();
    let mut lines = String::new();
    for event in site.events.iter().filter(is_of_log) {
        let mut event = event.clone();
        let fields = event.as_object_mut().unwrap();
        fields.retain(|key, _| !["kind", "node", "boot", "seq"].contains(&key.as_str()));
        lines.push_str(&format!("{event}\n"));
    }
    let expected = repository().join("tests/fixtures/lwfs_server/taihulight/expected.jsonl");
    if std::env::var_os("BELLROCK_UPDATE").is_some() {
        fs::write(&expected, &lines).unwrap();
    }
    assert_eq!(lines, fs::read_to_string(&expected).unwrap());
    // A cut line, one that was written into, and one of which a digit is missing.
    assert_eq!(site.counters.bad_lines.get(), 3);
    let told = site.sums().into_keys().chain(["queue_length".to_string()]);
    let told = told.map(|name| defined.find(&name).0.to_string()).collect();
    defined.are_all(&told);
}

/// A group as a server writes it.
fn group(second: u64, counts: &[[u64; BUCKETS]; KINDS.len()], queue: u64) -> String {
    let stamp = format!(
        "[2018-02-25 {:02}:{:02}:{:02}]  [Trace]:",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    let heads = [
        "Read exe",
        "Read wait",
        "Write exe",
        "Write wait",
        "Meta exe",
        "Meta wait",
    ];
    let mut text = String::new();
    for (head, counts) in heads.iter().zip(counts) {
        let words: Vec<String> = counts.iter().map(u64::to_string).collect();
        text.push_str(&format!("{stamp} {head}: {}\n", words.join(" ")));
    }
    text + &format!("{stamp} queue length: {queue}\n")
}

/// Over kills, rotations, full batches, servers that begin anew and garbage between the lines, what samples say adds up to what was served.
#[test]
fn sums_are_exact_whatever_happens() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut site = Site::new("exact");
        let mut counts = [[1000; BUCKETS]; KINDS.len()];
        let mut served = [[0; BUCKETS]; KINDS.len()];
        // What the first second ends with is the base.
        site.append(group(9, &counts, 0));
        site.look();
        let mut second = 10;
        let (mut age, mut rotated) = (0, 0);
        for _ in 0..40 {
            second += random.below(3);
            age += 1;
            // One that served little before it began anew cannot be told from one that went on.
            let is_new = age > 5 && random.below(10) == 0;
            if is_new {
                age = 0;
                // A log that is rotated, a server that begins anew and an agent that is killed, all in one second: that one is lost.
                if second - rotated < 3 {
                    site.look();
                }
                counts = [[0; BUCKETS]; KINDS.len()];
            }
            for (count, sum) in counts.iter_mut().flatten().zip(served.iter_mut().flatten()) {
                let more = random.below(50);
                (*count, *sum) = (*count + more, *sum + more);
            }
            let text = group(second, &counts, random.below(9));
            site.append(&text);
            if is_new {
                // Only what is said twice is believed.
                site.append(&text);
            }
            match random.below(10) {
                0 => site.append(format!(
                    "[2018-02-25 00:00:10]  [Trace]: Read exe: 1 2 3{text}"
                )),
                1 => site.append(&text[..random.below(40) as usize]),
                2 => site.append("\nRead wait: 1 2 3 4 5 6 7 8\n"),
                3 => {
                    site.rotate();
                    rotated = second;
                    site.append(&text);
                }
                _ => {}
            }
            // What was cut ends here, and is said again.
            site.append(format!("\n{text}"));
            match random.below(4) {
                0 => {
                    site.pass(1 + random.below(3) as u32, random.below(4) as usize);
                    site.restart();
                }
                1 => site.look(),
                _ => {}
            }
        }
        site.look();
        site.look();
        let sums = site.sums();
        for (kind, served) in KINDS.iter().zip(&served) {
            for (bucket, served) in served.iter().enumerate() {
                let bound = match bucket {
                    7 => "inf".into(),
                    n => 10u64.pow(n as u32 + 1).to_string(),
                };
                let name = format!("{kind}_to_{bound}");
                assert_eq!(sums.get(&name), Some(served), "seed {seed}: {name}");
            }
        }
        assert_eq!(site.counters.lost_log_bytes.get(), 0);
        // Each second that says something is told by itself.
        for event in site.events.iter().filter(is_of_log) {
            let [start, end] = ["start", "end"].map(|key| event[key].as_i64().unwrap());
            assert!(end - start <= 3 * S, "seed {seed}: {event}");
        }
    }
}

#[test]
fn a_second_is_told_once_it_is_over_and_at_its_end() {
    let mut site = Site::new("second");
    let mut counts = [[5; BUCKETS]; KINDS.len()];
    site.append(group(100, &counts, 0));
    counts[0][0] += 7;
    site.append(group(103, &counts, 2));
    counts[0][0] += 1;
    site.append(group(103, &counts, 4));
    site.look();
    let event = site.events.iter().find(is_of_log).unwrap();
    let [start, end] = ["start", "end"].map(|key| event[key].as_i64().unwrap() / S % 86_400);
    assert_eq!((start, end), (101, 104));
    assert_eq!(event["instance"], "/log");
    assert_eq!(
        (
            &event["values"]["read_exe_to_10"],
            &event["values"]["queue_length"]
        ),
        (&8.into(), &4.into())
    );
    // Of the present second more may come.
    let now = sys::clock_ns(libc::CLOCK_REALTIME) / S + 3600;
    let stamp = sys::utc(now as u64).replace(" UTC", "");
    let told = site.events.len();
    site.append(format!("[{stamp}]  [Trace]: queue length: 9\n"));
    site.look();
    assert_eq!(site.events.len(), told);
}

#[test]
fn a_log_that_is_silent_says_so_once_a_minute_and_one_that_is_gone_says_nothing() {
    let mut site = Site::new("silent");
    site.append(group(100, &[[5; BUCKETS]; KINDS.len()], 3));
    site.look();
    site.look();
    // Since 2018.
    let silent: Vec<&Json> = site.events.iter().collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(
        (
            &silent[0]["values"]["meta_wait_to_inf"],
            &silent[0]["values"]["queue_length"]
        ),
        (&0.into(), &3.into())
    );
    let mut site = Site::new("gone");
    site.append(group(100, &[[5; BUCKETS]; KINDS.len()], 3));
    site.look();
    let told = site.events.len();
    fs::remove_file(site.dir.join("log")).unwrap();
    site.restart();
    site.look();
    assert_eq!(site.events.len(), told);
}

#[test]
fn a_log_cut_at_every_byte_says_the_same() {
    let whole = fixture();
    let mut expected = None;
    // What the first second ends with is the base, so that one is whole.
    let first = memchr::memmem::find(&whole, b"[2018-02-25 18:00:13]").unwrap();
    for cut in (first..whole.len()).step_by(7) {
        let mut site = Site::new("cut");
        site.append(&whole[..cut]);
        site.look();
        if cut % 2 == 0 {
            site.restart();
        }
        site.append(&whole[cut..]);
        site.look();
        let sums = site.sums();
        assert_eq!(expected.get_or_insert(sums.clone()), &sums, "cut at {cut}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        check(&config).unwrap_err()
    };
    let bounds = refused(|c| c.lwfs_server_bounds_us = vec![1, 2, 3]);
    assert!(bounds.starts_with("lwfs_server_bounds_us"), "{bounds}");
    let falling = refused(|c| c.lwfs_server_bounds_us = vec![1, 2, 3, 4, 5, 7, 6]);
    assert!(falling.starts_with("lwfs_server_bounds_us"), "{falling}");
    let long = refused(|c| c.lwfs_server_logs = vec![format!("/{}", "l".repeat(255)).into()]);
    assert!(long.starts_with("lwfs_server_logs"), "{long}");
    let relative = refused(|c| c.lwfs_server_logs = vec!["log".into()]);
    assert!(relative.starts_with("lwfs_server_logs"), "{relative}");
    let zone = refused(|c| c.lwfs_server_time_zone = "Mars/Olympus".into());
    assert!(zone.starts_with("lwfs_server_time_zone"), "{zone}");
}
