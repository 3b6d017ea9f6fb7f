//! The line parser: trace logs of LWFS clients, cut, damaged or written by whoever names files so.
//!
//! Input: how the log is cut into pieces and which zone its times are in (one byte each), then the log.

use super::{mutator, reached, stage, Random, Stage, Target};
use crate::sources::log_file::lines::{Lines, Next, LINE_BYTES_MAX};
use crate::sources::log_file::local_time::{zone, LocalTime};
use crate::sources::lwfs_client::line::{parse, Line, What};
use crate::sources::lwfs_client::trace::Trace;
use jiff::tz::TimeZone;
use tracepack::record::{Op, OP_NAMES};

const HEAD: usize = 2;
const WINDOW_NS: u64 = 60_000_000_000;
/// So little that runs and handles must make room for others.
const TABLE_BYTES_MAX: usize = 4096;
/// Sums of a record fit so many.
const SUM_MAX: u64 = i64::MAX as u64;

/// Lines as LWFS clients and Beacon's own filter write them.
const LOG: &[&str] = &[
    "[2016-07-27 15:34:32] T [fuse-bridge.c:800:fuse_open] lwfs-fuse: 18040: OPEN /User146/a => b/-7",
    "[2016-07-27 15:34:32] T [fuse-bridge.c:700:fuse_fd_cbk] lwfs-fuse: 18040: OPEN() /User146/a => b/-7 => 0x1200bd3f0",
    "[2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=131072, offset=2096496640)",
    "[2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: 18049: WRITE => 4096/131072,2096627712/2096627712",
    "[2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18050: WRITE (0x1200bd3f0, size=131072, offset=2096627712)",
    "[2016-07-27 15:34:34] T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: 18050: WRITE => -1 (No space left on device)",
    "[2016-07-27 15:34:34] T [fuse-bridge.c:1700:fuse_readv] lwfs-fuse: 18051: READ (0xffff888800000010, size=0, offset=9223372036854775807)",
    "[2018-09-10 14:16:52] T OPEN() /User146/6596814368836924247/-1160749754054947605 => 0x1200bd3f0",
    "[2018-09-10 14:16:52] T READ 0x1200bd3f0 size=131072 offset=2096496640 count=7",
    "[2018-09-10 14:16:53] T READ 0x1200bd3f0 size=131072 offset=2096627712 count=1\r",
    "[2018-09-10 14:18:00] T RELEASE 0x1200bd3f0",
    "[2018-10-28 02:30:00] T [fuse-bridge.c:500:fuse_lookup] lwfs-fuse: 9: LOOKUP /User146/x(ino)",
    "[2018-10-28 02:30:00] T [fuse-bridge.c:400:fuse_entry_cbk] lwfs-fuse: 9: LOOKUP() /x => -1 (No such file or directory)",
    "[2018-10-28 02:30:01] T [fuse-bridge.c:2100:fuse_readdir] lwfs-fuse: 10: READDIR (0x7, size=4096, offset=0)",
    "[2018-10-28 02:30:01] D [fuse-bridge.c:2200:fuse_statfs] lwfs-fuse: 11: STATFS",
    "[2018-10-28 02:30:02] T WRITE 0x1 size=0 offset=9 count=9223372036854775807",
];
/// Put in where the log is changed: what its forms are made of.
const TOKENS: &[&str] = &[
    "\n",
    "\r\n",
    " => ",
    "0x",
    "size=",
    "offset=",
    "count=",
    "_cbk]",
    "READ ",
    "WRITE (",
    "OPEN() /",
    "RELEASE 0x1200bd3f0",
    "18049: ",
    "-1 (",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "[2018-03-25 02:30:00] T ",
    "\0",
    "\u{fffd}",
];

pub struct LineFuzz {
    zones: [TimeZone; 2],
    /// Kept, since it holds much memory.
    lines: Lines,
}

impl LineFuzz {
    pub fn new() -> LineFuzz {
        LineFuzz {
            zones: ["UTC", "Europe/Berlin"].map(|name| zone(name, "zone").unwrap()),
            lines: Lines::default(),
        }
    }

    /// The log's lines and where they begin, as its reader cuts them out of pieces of up to so many bytes.
    fn cut(&mut self, log: &[u8], longest: usize) -> Vec<(u64, Vec<u8>)> {
        let (mut found, mut at) = (Vec::new(), 0);
        self.lines.reset(0, false);
        loop {
            match self.lines.next_line() {
                Next::Line(at, line) => found.push((at, line.to_vec())),
                Next::TooLong(_) => {}
                Next::Nothing if at == log.len() => return found,
                Next::Nothing => {
                    let room = self.lines.room();
                    let length = room.len().min(longest).min(log.len() - at);
                    room[..length].copy_from_slice(&log[at..at + length]);
                    self.lines.filled(length);
                    at += length;
                }
            }
        }
    }
}

/// The whole lines of a log that are no longer than they may be.
fn reference(log: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    for line in log.split_inclusive(|&b| b == b'\n') {
        if let Some(whole) = line.strip_suffix(b"\n") {
            if whole.len() <= LINE_BYTES_MAX {
                found.push((at, whole.to_vec()));
            }
        }
        at += line.len() as u64;
    }
    found
}

/// The plainest line that says what this one says. `None`: there are many ways to say it.
fn plain(line: &Line) -> Option<Vec<u8>> {
    let name = |op: Op| if op == Op::Read { "READ" } else { "WRITE" };
    let (what, path): (String, &[u8]) = match line.what {
        What::Data(d) if d.count == 1 => {
            let (name, handle) = (name(d.op), d.handle);
            let text = format!(
                "{name} (0x{handle:x}, size={}, offset={})",
                d.size, d.offset
            );
            (text, b"")
        }
        What::Data(d) => {
            let (name, last) = (name(d.op), d.offset + d.size * (d.count - 1));
            let (handle, size, count) = (d.handle, d.size, d.count);
            let text = format!("{name} 0x{handle:x} size={size} offset={last} count={count}");
            (text, b"")
        }
        What::Meta {
            op: Op::Open,
            directory,
            path,
        } => {
            let name = if directory { "OPENDIR " } else { "OPEN " };
            (name.into(), path.expect("an open has a path"))
        }
        What::Release { directory, handle } => {
            let name = if directory { "RELEASEDIR" } else { "RELEASE" };
            (format!("{name} 0x{handle:x}"), b"")
        }
        _ => return None,
    };
    let head = format!("] T [f] lwfs-fuse: {}: {what}", line.id);
    // One carriage return at a line's end is none of the name's.
    Some([b"[", &line.stamp[..], head.as_bytes(), path, b"\r"].concat())
}

/// Operations that a line stands for.
fn operations(line: &Line) -> u64 {
    match line.what {
        What::Data(data) => data.count,
        What::Meta { .. } | What::Release { .. } => 1,
        _ => 0,
    }
}

const STAGES: [Stage; 5] = [
    stage("a line was understood", 70.0),
    stage("a line was not", 30.0),
    stage("several operations made one run", 20.0),
    stage("a run had its file's name", 20.0),
    stage("the log was cut within lines", 50.0),
];

impl Target for LineFuzz {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let log = |lines: &[&str]| [&[40, 0], (lines.join("\n") + "\n").as_bytes()].concat();
        let mut seeds: Vec<Vec<u8>> = LOG.chunks(4).map(log).collect();
        seeds.push(log(LOG));
        seeds
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        if random.below(2) == 0 {
            mutator::mutate(random, input, other);
        }
        for _ in 0..random.below(3) {
            let token = TOKENS[random.below(TOKENS.len() as u64) as usize];
            let at = random.below(input.len() as u64 + 1) as usize;
            // In place of what stands there, or between.
            let end = if random.below(2) == 0 {
                at
            } else {
                input.len().min(at + token.len())
            };
            input.splice(at..end, token.bytes());
        }
        for head in input.iter_mut().take(HEAD) {
            *head = random.number() as u8;
        }
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        let Some((head, log)) = input.split_at_checked(HEAD) else {
            return 0;
        };
        let longest = 1 + head[0] as usize;
        let lines = self.cut(log, longest);
        assert_eq!(lines, reference(log), "in pieces of up to {longest} bytes");

        let zone = &self.zones[head[1] as usize % self.zones.len()];
        let mut times = LocalTime::new(zone.clone(), 0);
        let mut trace = Trace::new(LocalTime::new(zone.clone(), 0), WINDOW_NS, TABLE_BYTES_MAX);
        let (mut understood, mut asked, mut bytes) = (0, 0u128, 0u128);
        let mut runs = Vec::new();
        for (at, text) in &lines {
            let line = parse(text);
            if let Some(line) = &line {
                assert_eq!(line.stamp, &text[1..20]);
                if let Some(plain) = plain(line) {
                    assert_eq!(parse(&plain).as_ref(), Some(line), "said plainly");
                }
            }
            if let Some(line) = line.filter(|l| times.utc_ns(l.stamp).is_some()) {
                understood += 1;
                asked += operations(&line) as u128;
                if let What::Data(data) = line.what {
                    assert!(
                        data.count > 0
                            && data.offset as u128 + data.size as u128 * data.count as u128
                                <= SUM_MAX as u128
                    );
                    bytes += data.size as u128 * data.count as u128;
                }
            }
            trace.line(*at, text);
            runs.extend(trace.runs.closed.drain(..));
        }
        trace.stop_waiting();
        trace.runs.close_all();
        runs.extend(trace.runs.closed.drain(..));
        for (_, open) in &runs {
            let run = &open.run;
            assert!(
                run.count > 0 && run.count <= SUM_MAX && run.bytes <= SUM_MAX,
                "{run:?}"
            );
            assert!(run.start <= run.end && (1..OP_NAMES.len()).contains(&run.op.into()));
            assert!(open
                .file
                .as_ref()
                .is_none_or(|f| f.path.starts_with(b"/") && f.id == run.file));
        }
        // Replies only say that less was done.
        assert_eq!(
            runs.iter().map(|(_, o)| o.run.count as u128).sum::<u128>(),
            asked
        );
        assert!(runs.iter().map(|(_, o)| o.run.bytes as u128).sum::<u128>() <= bytes);
        assert!(trace.oldest_waiting().is_none());

        let bad = understood < lines.len();
        let merged = runs.iter().any(|(_, o)| o.run.count > 1);
        let named = runs.iter().any(|(_, o)| o.file.is_some());
        reached([understood > 0, bad, merged, named, longest < log.len()])
    }
}
