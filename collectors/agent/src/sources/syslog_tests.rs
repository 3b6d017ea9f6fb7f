//! The source as the agent uses it: looks, kills, rotation, storms, and a program in journalctl's place.

use super::*;
use crate::clock::Clock;
use crate::ship::batch::{open_window, Batch, RAW_BYTES_MAX};
use crate::sources::cursors::{blocks_of, restore_one};
use crate::sources::samples::golden::repository;
use crate::sources::{Pass, Progress, Source};
use crate::testing::{temp_dir, Random};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Starting one takes a while.
static CLOCK: OnceLock<Clock> = OnceLock::new();

/// A directory with a log, what the spool holds, and an agent's source.
struct Site {
    dir: PathBuf,
    config: Config,
    counters: Arc<Counters>,
    source: Syslog,
    spool: Vec<Vec<u8>>,
    events: Vec<Json>,
}

impl Site {
    fn new(name: &str, change: impl FnOnce(&mut Config, &Path)) -> Site {
        let dir = temp_dir(name);
        let mut config = Config {
            root: dir.clone(),
            syslog_logs: vec!["/messages".into()],
            syslog_time_zone: "UTC".into(),
            ..Config::default()
        };
        change(&mut config, &dir);
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

    /// Of the journal that a shell's program prints. `$W` in it is a folder of its own.
    fn of_journal(text: &str) -> Site {
        Site::new("journal", |config, dir| {
            let path = dir.join("journalctl");
            let head = format!("#!/bin/sh\nW={}\necho \"$@\" >> $W/asked\n", dir.display());
            fs::write(&path, format!("{head}{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let entries = repository().join("tests/fixtures/syslog/journal/entries.jsonl");
            fs::copy(entries, dir.join("entries")).unwrap();
            config.root = PathBuf::new();
            config.syslog_logs.clear();
            config.syslog_journal_period_s = 1;
            config.syslog_journal_command = path;
        })
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        let mut options = OpenOptions::new();
        let log = options
            .create(true)
            .append(true)
            .open(self.dir.join("messages"));
        log.unwrap().write_all(text.as_ref()).unwrap();
    }

    fn rotate(&self) {
        let name = |n: u32| match n {
            0 => self.dir.join("messages"),
            n => self.dir.join(format!("messages.{n}")),
        };
        let last = (1..).find(|n| !name(*n).exists()).unwrap();
        for n in (0..last).rev() {
            fs::rename(name(n), name(n + 1)).unwrap();
        }
    }

    /// Batches of so many events are committed until `commits` of them were. False: the agent was killed then.
    fn pass(&mut self, last: bool, events_max: u32, mut commits: usize) -> bool {
        self.source.look_at_once();
        let mut pass = Pass::new(CLOCK.get_or_init(Clock::start).now(), last);
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
        assert!(self.pass(true, 4096, usize::MAX));
    }

    fn restart(&mut self) {
        self.source = new(&self.config, self.counters.clone());
        for cursors in &self.spool {
            assert_eq!(restore_one(&mut self.source, false, cursors), 0);
        }
    }

    /// How often each text was said.
    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            let text = event["text"].as_str().unwrap().to_string();
            *counts.entry(text).or_insert(0) += event["count"].as_u64().unwrap();
        }
        counts
    }

    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.dir.join("asked")).unwrap_or_default();
        asked.lines().map(String::from).collect()
    }

    /// Looks until a command more has been asked and has ended.
    fn ask(&mut self) {
        let until = self.asked().len() + 1;
        let since = Instant::now();
        let mut is_read = false;
        while self.asked().len() < until || !is_read {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "{:?}",
                self.asked()
            );
            let before = self.asked().len();
            self.pass(false, 4096, usize::MAX);
            // Nothing runs, or was left, once a pass has nothing more.
            is_read = before >= until && !self.source.is_unfinished();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn the_fixture_is_read_as_it_says() {
    let made = repository().join("tests/fixtures/syslog/made");
    let mut site = Site::new("fixture", |_, dir| {
        fs::create_dir(dir.join("proc")).unwrap();
        fs::copy(made.join("proc/stat"), dir.join("proc/stat")).unwrap();
    });
    site.append(fs::read(made.join("messages")).unwrap());
    site.look();
    let mut lines = String::new();
    for event in &site.events {
        let mut event = event.clone();
        let fields = event.as_object_mut().unwrap();
        fields.retain(|key, _| !["node", "boot", "seq"].contains(&key.as_str()));
        lines.push_str(&format!("{event}\n"));
    }
    let expected = made.join("expected.jsonl");
    if std::env::var_os("BELLROCK_UPDATE").is_some() {
        fs::write(&expected, &lines).unwrap();
    }
    assert_eq!(lines, fs::read_to_string(&expected).unwrap());
    // A cut stamp, and no line at all.
    assert_eq!(site.counters.bad_lines.get(), 2);
    assert_eq!(site.counters.records.get(), site.events.len() as u64);
}

/// Over kills, rotations, full batches and garbage between the lines, each message is told as often as it was said.
#[test]
fn every_message_is_told_as_often_as_it_was_said_whatever_happens() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut site = Site::new("exact", |_, _| ());
        let mut said: BTreeMap<String, u64> = BTreeMap::new();
        let mut second = 0;
        // What was rotated away before it was ever met is not looked for.
        site.append("\n");
        site.look();
        for _ in 0..60 {
            second += random.below(4);
            let text = format!(
                "Fail event detected on md device /dev/md{}",
                random.below(4)
            );
            let times = 1 + random.below(3);
            *said.entry(text.clone()).or_insert(0) += times;
            for _ in 0..times {
                let (minute, second) = (second / 60, second % 60);
                site.append(format!(
                    "2026-11-23T00:{minute:02}:{second:02}Z oss1 mdadm: {text}\n"
                ));
            }
            match random.below(8) {
                0 => site.append("garbage\n\n"),
                1 => site.rotate(),
                2 => site.append(vec![b'x'; 70_000]),
                _ => {}
            }
            if random.below(8) == 0 {
                site.append("\n");
            }
            match random.below(4) {
                0 => {
                    site.pass(
                        random.below(2) == 0,
                        1 + random.below(3) as u32,
                        random.below(4) as usize,
                    );
                    site.restart();
                }
                1 => {
                    site.pass(false, 4096, usize::MAX);
                }
                _ => {}
            }
            // What has no end yet is no line.
            site.append("\n");
        }
        site.look();
        site.look();
        assert_eq!(site.counts(), said, "seed {seed}");
        assert_eq!(site.counters.lost_log_bytes.get(), 0);
    }
}

#[test]
fn a_storm_is_bounded_and_what_was_left_out_is_counted() {
    let mut site = Site::new("storm", |config, _| config.syslog_per_minute = 5);
    let mut storm = String::new();
    for n in 0..10_000 {
        let minute = n / 5_000;
        storm += &format!("<3>2026-11-23T00:{minute:02}:00Z oss1 chatter: number {n}\n");
    }
    storm += "<4>2026-11-23T00:01:30Z oss1 kernel: Lustre: Failing over scratch-OST0001\n";
    site.append(storm);
    site.look();
    let told = |event: &str| -> Vec<u64> {
        let of_event = site
            .events
            .iter()
            .filter(|e| e["event"].as_str().unwrap_or("") == event);
        of_event.map(|e| e["count"].as_u64().unwrap()).collect()
    };
    assert_eq!(told(""), [1; 10]);
    assert_eq!(told("messages_left_out"), [4995, 4995]);
    // Chatter does not keep an event from being told.
    assert_eq!(told("lustre_failover"), [1]);
    assert_eq!(site.counters.left_out_messages.get(), 9990);
}

/// What a clock that was ahead wrote must not use up the minutes until then.
#[test]
fn a_clock_that_is_set_back_silences_nothing() {
    let mut site = Site::new("back", |config, _| config.syslog_per_minute = 2);
    let line = |hour: u32, text: &str| format!("<3>2026-11-22T{hour:02}:00:00Z oss1 app: {text}\n");
    for hour in [20, 3, 20, 3, 20, 3] {
        for n in 0..3 {
            site.append(line(hour, &format!("number {n}")));
        }
    }
    site.look();
    // Once ahead, once back; and what comes again and again is no clock's doing.
    let told = site.events.iter().filter(|e| e["event"].is_null()).count();
    assert_eq!(told, 4 + 2);
}

#[test]
fn what_is_asked_for_is_told_and_nothing_else() {
    let lines = "<6>2026-11-23T00:00:00Z oss1 app: all is well\n\
        <4>2026-11-23T00:00:01Z oss1 app: it is warm\n\
        2026-11-23T00:00:02Z oss1 app: the pump in rack 3 has failed\n\
        2026-11-23T00:00:03Z oss1 app: said by nobody knows whom\n";
    for (severity, expected) in [
        (
            "warning",
            &["it is warm", "the pump in rack 3 has failed"][..],
        ),
        ("error", &["the pump in rack 3 has failed"]),
        (
            "info",
            &["all is well", "it is warm", "the pump in rack 3 has failed"],
        ),
    ] {
        let mut site = Site::new("severity", |config, _| {
            config.syslog_severity = severity.into();
            config.syslog_patterns = [("pump_failed".into(), "*pump *failed".into())].into();
        });
        site.append(lines);
        site.look();
        let told: Vec<&str> = site
            .events
            .iter()
            .map(|e| e["text"].as_str().unwrap())
            .collect();
        assert_eq!(told, expected, "{severity}");
    }
}

/// What was not told yet of a log that is taken from the settings is in the spool alone.
#[test]
fn of_a_log_that_is_not_read_any_more_all_that_was_counted_is_told() {
    let mut site = Site::new("retired", |config, _| config.syslog_per_minute = 1);
    let now_s = crate::sys::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000;
    let stamp = crate::sys::utc(now_s as u64).replace(" UTC", "Z");
    for text in ["again", "again", "again", "left out", "left out"] {
        site.append(format!("<3>{stamp} oss1 app: {text}\n"));
    }
    site.pass(false, 4096, usize::MAX);
    let told = site.counts().values().sum::<u64>();
    assert!(told < 5, "{told}");
    site.config.syslog_logs.clear();
    site.restart();
    // Killed before it was committed, and then a batch at a time.
    assert!(!site.pass(false, 1, 0));
    site.restart();
    assert!(site.pass(false, 1, usize::MAX));
    let left_out =
        "more messages came in this minute than syslog_per_minute: the rest was left out";
    let expected = [("again".to_string(), 3), (left_out.to_string(), 2)];
    assert_eq!(site.counts(), BTreeMap::from(expected));
    assert_eq!(site.source.log_count(), 0);
    site.restart();
    site.look();
    assert_eq!(site.counts().values().sum::<u64>(), 5);
}

/// On a machine itself the past of a log is not told.
#[test]
fn of_a_log_that_is_new_only_the_last_day_is_told() {
    let mut site = Site::new("past", |config, dir| {
        config.syslog_logs = vec![dir.join("messages")];
        config.root = PathBuf::new();
    });
    let line = |age_s: i64, text: &str| {
        let at = (crate::sys::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000 - age_s) as u64;
        let stamp = crate::sys::utc(at).replace(" UTC", "Z");
        format!("<3>{stamp} oss1 app: {text}\n")
    };
    site.append(line(25 * 3600, "old"));
    site.append(line(3600, "new"));
    site.look();
    assert_eq!(site.counts(), BTreeMap::from([("new".to_string(), 1)]));
    // But what an agent that was away has missed.
    site.restart();
    site.append(line(22 * 3600, "late"));
    site.look();
    assert_eq!(site.counts().len(), 2);
}

#[test]
fn messages_keep_no_job_waiting() {
    let mut site = Site::new("jobs", |_, _| ());
    site.append("<3>2026-11-23T00:00:00Z oss1 app: said\n");
    let mut pass = Pass::new(CLOCK.get_or_init(Clock::start).now(), false);
    pass.settle.insert(1000);
    site.source.begin(&mut pass);
    let mut batch = Batch::new("n1", 1, 1, 10, RAW_BYTES_MAX);
    assert_eq!(site.source.read(&mut pass, &mut batch), Progress::Done);
    assert!(pass.unfinished.is_empty());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |name: &str, change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        let error = check(&config).unwrap_err();
        assert!(error.starts_with(name), "{error}");
    };
    refused("syslog_logs", |c| c.syslog_logs = vec!["messages".into()]);
    refused("syslog_logs", |c| {
        c.syslog_logs = vec![format!("/{}", "l".repeat(255)).into()];
    });
    refused("syslog_time_zone", |c| {
        c.syslog_time_zone = "Mars/Olympus".into()
    });
    refused("syslog_severity", |c| c.syslog_severity = "bad".into());
    refused("syslog_patterns", |c| {
        c.syslog_patterns = [("Pump".into(), "x".into())].into();
    });
}

#[path = "syslog_journal_tests.rs"]
mod journal_tests;
