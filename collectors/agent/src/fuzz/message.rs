//! The readers of system logs: lines of every form and entries of the journal, cut, damaged or written by whoever may write to a log.
//!
//! Input: which kind of log and which zone (one byte each), then the log.

use super::{mutator, reached, stage, Random, Stage, Target};
use crate::counters::Counters;
use crate::ship::batch::{open_window, Batch, RAW_BYTES_MAX};
use crate::sources::cursors::Reader;
use crate::sources::log_file::local_time::zone;
use crate::sources::syslog::clock::Clock;
use crate::sources::syslog::events::Events;
use crate::sources::syslog::message::{shown, Origin, PROGRAM_CHARACTERS_MAX, TEXT_CHARACTERS_MAX};
use crate::sources::syslog::teller::{Said, Teller, Wanted, KINDS};
use crate::sources::syslog::{entry, line};
use crate::testing::temp_dir;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::path::PathBuf;

const HEAD: usize = 2;
const NOW_NS: i64 = 1_795_400_000_000_000_000; // 2026-11-23
const PER_MINUTE: u32 = 3;
/// How much is in the log is known, so this is what the records' counts may come to.
const COUNT_MAX: u64 = 1 << 40;

const LINES: &[&str] = &[
    "Nov 23 00:31:16 oss1 kernel: [45097.023734] Lustre: Failing over scratch-OST0004",
    "Nov  3 00:31:16 oss1 mdadm[12]: RebuildStarted event detected on md device /dev/md0",
    "Dec 31 23:59:59 oss1 kernel: message repeated 12 times: [ nfs: server home1 not responding, still trying]",
    "<4>2026-11-23T00:31:16.123456+01:00 oss1 kernel: EXT4-fs error (device sda2): x",
    "<30>2026-11-23T00:31:16Z oss1 systemd[1]: Started Session 12.",
    "<165>1 2026-11-22T23:31:19.5Z oss1 app 1 ID47 [a@1 b=\"]\\\"\" c=\"\"][d] \u{feff}said",
    "<0>1 2026-11-22T23:31:19Z oss1 kernel - - - LustreError: 1:0:(x.c:1:x()) LBUG",
    "<3>[45101.023734] Buffer I/O error on dev sdb, logical block 256, async page read",
    "<3>[45101.023734] Buffer I/O error on dev sdb, logical block 256, async page read",
    "<3>2026-11-23 00:31:16 oss1 prog: red \u{1b}[31m and \u{fffd}",
];
/// Two hosts' clocks in one log.
const TO_AND_FRO: [&str; 2] = [
    "<3>2026-11-23T00:31:12Z oss1 app: again",
    "<3>2026-11-23T00:31:00Z oss2 app: again",
];
const ENTRIES: &[&str] = &[
    r#"{"__CURSOR":"s=6a;i=8c1;x=1","__REALTIME_TIMESTAMP":"1795394353459725","MESSAGE":"I/O error, dev sdz, sector 8","PRIORITY":"3","_TRANSPORT":"kernel"}"#,
    r#"{"_UID":"0","__CURSOR":"s=6a;i=8c2","__REALTIME_TIMESTAMP":"1795394353459726","MESSAGE":[101,27,255],"PRIORITY":"4","SYSLOG_FACILITY":"3"}"#,
    r#"{"_UID":["1","2"],"__CURSOR":"s=6a;i=8c3","__REALTIME_TIMESTAMP":"1795394353459727","MESSAGE":null,"SYSLOG_IDENTIFIER":"kernel"}"#,
];
const TOKENS: &[&str] = &[
    "\n",
    "<",
    ">",
    "[",
    "]",
    "\"",
    "\\",
    "Feb 29 12:00:00",
    "2026-03-29T02:30:00",
    "+99:99",
    "-00:30",
    ".999999999999999999999",
    "[99999999999.5]",
    "<191>",
    "1 ",
    "kernel: ",
    "message repeated 1000000 times: [ ",
    "\0",
    "\u{1b}[2J",
    "\r",
    "-9223372036854775808",
];

pub struct MessageFuzz {
    stat: PathBuf,
    zones: [TimeZone; 2],
    wanted: Wanted,
}

impl MessageFuzz {
    pub fn new() -> MessageFuzz {
        let stat = temp_dir("message").join("stat");
        std::fs::write(&stat, "btime 1795348779\n").unwrap();
        MessageFuzz {
            stat,
            zones: ["UTC", "Europe/Berlin"].map(|name| zone(name, "zone").unwrap()),
            wanted: Wanted {
                oldest_ns: None,
                severity: 4,
                per_minute: PER_MINUTE,
                events: Events::new(&BTreeMap::new()),
            },
        }
    }

    /// Whether it is to be told, or counted.
    fn is_wanted(&self, said: &Said) -> bool {
        let is_event = said.origin != Origin::User
            && self.wanted.events.find(said.program, said.text).is_some();
        let is_grave = said.severity.is_some_and(|s| s <= self.wanted.severity);
        said.time >= 1
            && said.time <= NOW_NS + 23 * 3600 * 1_000_000_000
            && (is_event || is_grave)
            && !said.text.is_empty()
    }
}

const STAGES: [Stage; 6] = [
    stage("a line was understood", 50.0),
    stage("a line was not", 20.0),
    stage("a message was told", 40.0),
    stage("an event was told", 30.0),
    stage("the same message was counted", 3.0),
    stage("an entry of the journal was understood", 5.0),
];

impl Target for MessageFuzz {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let log =
            |kind: u8, lines: &[&str]| [&[kind, 0], (lines.join("\n") + "\n").as_bytes()].concat();
        let mut seeds: Vec<Vec<u8>> = LINES.chunks(2).map(|lines| log(0, lines)).collect();
        seeds.extend([log(0, LINES), log(1, ENTRIES), log(1, &ENTRIES[..1])]);
        seeds.push(log(0, &TO_AND_FRO.repeat(20)));
        seeds
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        let kind = input.first().copied();
        if random.below(2) == 0 {
            mutator::mutate(random, input, other);
        }
        for _ in 0..random.below(3) {
            let token = TOKENS[random.below(TOKENS.len() as u64) as usize];
            let at = random.below(input.len() as u64 + 1) as usize;
            input.splice(at..at, token.bytes());
        }
        // The journal's reader turns away what is no JSON.
        if let (Some(kind), Some(first)) = (kind, input.first_mut()) {
            *first = kind;
        }
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        let Some((head, log)) = input.split_at_checked(HEAD) else {
            return 0;
        };
        let zone = &self.zones[head[1] as usize % self.zones.len()];
        let mut clock = Clock::new(zone.clone(), self.stat.clone());
        clock.look(NOW_NS);
        let counters = Counters::default();
        let mut batch = Batch::new("n1", 1, 1, u32::MAX, RAW_BYTES_MAX);
        let mut teller = Teller::default();
        teller.look(NOW_NS, &self.wanted);
        let (mut understood, mut bad, mut entries, mut said_count) = (0, 0, 0, 0);
        let (mut minutes, mut minute) = (0, None);
        for text in log.split(|b| *b == b'\n') {
            let found = if head[0] == 1 {
                entry::parse(text).map(|entry| {
                    assert!((1..=entry::CURSOR_BYTES_MAX).contains(&entry.cursor.len()));
                    entries += 1;
                    let (time, origin) = (entry.time, entry.origin);
                    (
                        time,
                        entry.severity,
                        entry.facility,
                        entry.program,
                        entry.text,
                        origin,
                        1,
                    )
                })
            } else {
                line::parse(text).and_then(|line| {
                    assert!((1..=1_000_000).contains(&line.count));
                    let time = clock.utc_ns(&line.when)?;
                    let (program, text) = (line.program.to_vec(), line.text.to_vec());
                    Some((
                        time,
                        line.severity,
                        line.facility,
                        program,
                        text,
                        Origin::Claimed,
                        line.count,
                    ))
                })
            };
            let Some((time, severity, facility, program, text, origin, count)) = found else {
                bad += 1;
                continue;
            };
            understood += 1;
            assert!(severity.is_none_or(|s| s <= 7) && facility.is_none_or(|f| f <= 23));
            let said = Said {
                time,
                severity,
                facility,
                program: &program,
                text: &text,
                origin,
                count,
            };
            if self.is_wanted(&said) {
                said_count += count;
                let own = Some(time / 60_000_000_000);
                minutes += (std::mem::replace(&mut minute, own) != own) as u64;
            }
            teller.take(&said, &self.wanted, &counters);
            // Killed here, another one goes on.
            let mut cursor = Vec::new();
            teller.write_cursor(&mut cursor);
            let mut reader = Reader(&cursor);
            let mut again = Teller::read_cursor(&mut reader).expect("its own cursor");
            assert!(reader.is_empty());
            again.look(NOW_NS, &self.wanted);
            let mut same = Vec::new();
            again.write_cursor(&mut same);
            assert_eq!(cursor, same);
            teller = again;
            assert!(teller.tell("/log", &counters, &mut batch));
        }
        teller.rest(NOW_NS, true);
        assert!(teller.tell("/log", &counters, &mut batch) && !teller.waits());
        let window = batch.finish().unwrap();
        let told = match window.events {
            0 => Vec::new(),
            _ => open_window(window.payload),
        };
        // For each that a minute has room for its count, too, and what it left out.
        let most = minutes * (KINDS as u64 * 2 * u64::from(PER_MINUTE) + 1) + 2;
        assert!(
            told.len() as u64 <= most,
            "{} records of {minutes} minutes",
            told.len()
        );
        let mut told_count = 0;
        for record in &told {
            let text = |name: &str| record[name].as_str();
            let number = |name: &str| record[name].as_i64().unwrap();
            assert!(
                number("start") <= number("end") && number("start") >= 1,
                "{record}"
            );
            assert!((0..=7).contains(&number("severity")) && number("count") >= 1);
            told_count += number("count") as u64;
            let said = text("text").unwrap();
            assert!((1..=TEXT_CHARACTERS_MAX + 1).contains(&said.chars().count()));
            assert!(!said.chars().any(char::is_control), "{record}");
            assert_eq!(shown(said.as_bytes(), TEXT_CHARACTERS_MAX + 1), said);
            assert!(text("program").is_none_or(|p| p.chars().count() <= PROGRAM_CHARACTERS_MAX + 1));
        }
        // All that was said is told, or told of.
        assert!(told_count < COUNT_MAX);
        assert_eq!(told_count, said_count);
        let is_event = told.iter().any(|record| record["event"].is_string());
        let is_counted = told.iter().any(|record| record["count"].as_u64() > Some(1));
        reached([
            understood > 0,
            bad > 0,
            !told.is_empty(),
            is_event,
            is_counted,
            entries > 0,
        ])
    }
}
