//! The ring reader: ring files that a watched program, or whoever has its user, wrote over.
//!
//! Input: flags (two bytes), then what a ring file has at three places: its header, the first names, the first segment with the first closed
//! runs. Lengths never change, so a field stays at its place.

use super::{mutator, reached, stage, Stage, Target};
use crate::counters::Counters;
use crate::fuzz::schema::Schema;
use crate::ship::batch::{open_window, Batch};
use crate::sources::cursors::Reader;
use crate::sources::preload::cursor::Cursor;
use crate::sources::preload::life::Life;
use crate::sources::preload::paths::PathCache;
use crate::sources::preload::ring::{Buffers, Context, Flow, Ring};
use crate::testing::{memory_dir, now, own_uid, Random, RingFile};
use std::fs::{self, File, OpenOptions};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tracepack::record::{latency_bucket, Operation, Run, LATENCY_BOUNDS_NS};
use tracepack::ring::*;

const FLAGS: usize = 2;
const HEADER: usize = FLAGS;
const NAMES: usize = HEADER + size_of::<Header>();
const NAMES_BYTES: usize = 512;
const SEGMENT: usize = NAMES + NAMES_BYTES;
/// Closed runs in an input.
const RUNS: usize = 10;
const SEGMENT_BYTES: usize = run_at(0) + RUNS * size_of::<Run>();
const INPUT_BYTES: usize = SEGMENT + SEGMENT_BYTES;

/// The ring was read undamaged before: both bits, since it costs as much as all the rest.
const READ_BEFORE: u8 = 1 | 128;
const ENDED: u8 = 2;
const SILENT: u8 = 4;
/// Open runs are looked at; whatever their age.
const SLOTS_DUE: u8 = 8;
const SHIP_OPEN: u8 = 16;
/// The file is cut short.
const CUT: u8 = 32;
/// There is little room in the spool, few steps may be taken.
const SHORT: u8 = 64;

/// What a pass may do: far more than the few runs of an input take, unless a forged number were believed.
const STEPS: u64 = 200_000;
const ROOM: usize = 1 << 20;
/// Events that a pass over an input can give: a start, RING_RUNS closed runs, SLOTS open ones.
const EVENTS_MAX: u64 = (2 + RING_RUNS + SLOTS) as u64;
const CALLS_MAX: u64 = 2 * EVENTS_MAX;
const BATCH_EVENTS: u32 = 100;
const JUDGED_EVERY: u8 = 16;

pub struct RingFuzz {
    dir: PathBuf,
    file: File,
    name: String,
    seeds: Vec<Vec<u8>>,
    schema: Schema,
    batch: Batch,
    buffers: Buffers,
    paths: PathCache,
    /// Rings so far: the path cache tells them apart.
    serial: u64,
}

impl Drop for RingFuzz {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir); // it is only in the way
    }
}

/// A ring as a program leaves it: `count` operations on three files.
fn written(dir: &std::path::Path, clock: u32, count: u64) -> Vec<u8> {
    let file = RingFile::with_header(dir, 7, 8, |h| {
        (h.clock, h.rank, h.parent_pid) = (clock, 3, 5);
        (h.anchor_ticks, h.anchor_monotonic_ns) = (900_000_000_000, 450_000_000_000);
    });
    let names: Vec<u64> = [&b"/data/a"[..], b"/data/b\xff\"\n", &[b'x'; 255]]
        .map(|path| file.add_name(path))
        .to_vec();
    file.add_incomplete_name(b"/late");
    for i in 0..count {
        let start = match clock {
            CLOCK_MONOTONIC => 490_000_000_000 + i * 1_000_000,
            _ => 980_000_000_000 + i * 2_000_000,
        };
        file.record(
            0,
            &Operation {
                file: names[i as usize % 3],
                offset: i * i * 512,
                size: 512 * (i % 4),
                start,
                end: start + 1000 * i,
                handle: 3 + (i % 3) as i32,
                errno: 2 * (i % 5 == 4) as u16,
                op: 1 + (i % 5) as u8,
                flags: 0,
            },
        );
    }
    let mut out = vec![0; INPUT_BYTES];
    let read = |bytes: &mut [u8], at: usize| file.reader().read_exact_at(bytes, at as u64).unwrap();
    read(&mut out[HEADER..NAMES], 0);
    read(&mut out[NAMES..SEGMENT], NAMES_AT);
    read(&mut out[SEGMENT..], segment_at(0));
    fs::remove_file(&file.path).unwrap();
    out
}

impl RingFuzz {
    pub fn new() -> RingFuzz {
        let dir = memory_dir("ring-fuzz");
        let seeds = [
            (CLOCK_MONOTONIC, 3),
            (CLOCK_TSC, 9),
            (CLOCK_MONOTONIC, 12),
            (CLOCK_TSC, 0),
        ]
        .map(|(clock, count)| written(&dir, clock, count));
        let name = "7-8-1.ring".to_string();
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(&name))
            .unwrap();
        file.set_len(segment_at(1) as u64).unwrap();
        RingFuzz {
            dir,
            file,
            name,
            seeds: seeds.to_vec(),
            schema: Schema::of("run"),
            batch: Batch::new("n", 1, 1, BATCH_EVENTS, 1 << 20),
            buffers: Buffers::default(),
            paths: PathCache::new(),
            serial: 0,
        }
    }

    fn place(&self, input: &[u8]) {
        let file = &self.file;
        file.write_all_at(&input[HEADER..NAMES], 0).unwrap();
        file.write_all_at(&input[NAMES..SEGMENT], NAMES_AT as u64)
            .unwrap();
        file.write_all_at(&input[SEGMENT..], segment_at(0) as u64)
            .unwrap();
    }

    /// Reads the ring as it stands; answers how many operations came of it, and how reading ended. `None`: it was refused.
    fn pass(
        &mut self,
        ring: &mut Ring,
        flags: u8,
        judged: bool,
        counters: &Counters,
    ) -> Option<(u64, Flow)> {
        let short = flags & SHORT != 0;
        let mut c = Context {
            now: now(),
            counters,
            paths: &mut self.paths,
            buffers: &mut self.buffers,
            window_ms: 1000,
            slots_due: flags & SLOTS_DUE != 0,
            ship_open: flags & SHIP_OPEN != 0,
            fill: 0.0,
            steps: if short { 5 } else { STEPS },
            room: if short { 100 } else { ROOM },
            short: false,
        };
        let identified = ring.identify(&c.now, None);
        identified.and_then(|()| ring.begin(&c)).ok()?;
        let (before, seen) = (counters.records.get(), counters.seen.get());
        if judged {
            self.batch.restart(1);
        }
        let mut calls = 0;
        let end = loop {
            let flow = ring.read(&mut c, &mut self.batch);
            if judged || flow == Flow::Full {
                let window = self.batch.finish().unwrap();
                if judged && window.events > 0 {
                    let events = open_window(window.payload);
                    events.iter().for_each(|e| judge(&self.schema, e));
                }
                self.batch.restart(1);
            }
            ring.committed();
            calls += 1;
            let events = counters.records.get() - before;
            assert!(calls < CALLS_MAX && events < EVENTS_MAX, "it has no end");
            if flow != Flow::Full {
                break flow;
            }
        };
        assert!(c.fill <= 1.0, "fuller than full: {}", c.fill);
        self.judge_cursor(&ring.cursor);
        Some((counters.seen.get() - seen, end))
    }

    /// A cursor is bounded, and the spool gives it back.
    fn judge_cursor(&self, cursor: &Cursor) {
        assert!(cursor.segments.len() <= 1 && cursor.ended <= 1);
        let mut bytes = Vec::new();
        cursor.write(true, 0, &self.name, &mut bytes);
        let (_, _, mut again) = Cursor::read(&mut Reader(&bytes)).expect("a cursor");
        for (segment, own) in again.segments.iter_mut().zip(&cursor.segments) {
            assert!(own.shipped.len() <= SLOTS);
            (segment.tail, segment.changed) = (own.tail, own.changed);
        }
        assert_eq!(again, *cursor);
    }
}

/// Panics unless an event is what the schema says of a run, and what it does not say.
fn judge(schema: &Schema, event: &serde_json::Value) {
    schema.check(event);
    let number = |name: &str| event[name].as_i64().unwrap();
    assert!(number("count") >= 1, "{event}");
    assert!(number("end") >= number("start"), "{event}");
    assert!(number("slow_ns") <= number("busy_ns"), "{event}");
    if let Some(counts) = event["latency"].as_array() {
        let counts: Vec<u64> = counts.iter().map(|v| v.as_u64().unwrap()).collect();
        assert_eq!(
            counts.iter().sum::<u64>(),
            number("count") as u64,
            "{event}"
        );
        let slowest = latency_bucket(number("slow_ns") as u64, &LATENCY_BOUNDS_NS);
        let top = counts.iter().rposition(|&n| n > 0);
        assert_eq!(top, Some(slowest), "{event}");
    }
    let now = now();
    assert!(number("start") >= now.boot_utc_ns, "before boot: {event}");
    assert!(number("end") <= now.utc_ns() + 1_000_000_000, "{event}");
}

/// (offset, bytes) of the places whose numbers decide most.
fn place(random: &mut Random) -> (usize, usize) {
    let slot = SEGMENT + slot_at(random.below(SLOTS as u64) as usize);
    let data_slot = SEGMENT + slot_at(random.below(16) as usize);
    let run = SEGMENT + run_at(0) + random.below(RUNS as u64) as usize * size_of::<Run>();
    match random.below(12) {
        0 => (HEADER, 16),
        1 => (HEADER + 16, offset_of!(Header, job) - 16),
        2 => (HEADER + offset_of!(Header, job), 300),
        3 => (NAMES, NAMES_BYTES),
        4 => (SEGMENT, size_of::<SegmentHeader>()),
        5 => (SEGMENT + offset_of!(SegmentHeader, head), 16),
        6 => (SEGMENT + offset_of!(SegmentHeader, tail), 8),
        7 => (slot, size_of::<Slot>()),
        8 | 9 => (data_slot, size_of::<Slot>()),
        _ => (run, size_of::<Run>()),
    }
}

const STAGES: [Stage; 6] = [
    stage("taken for a ring", 70.0),
    stage("runs became events", 30.0),
    stage("nonsense was told", 10.0),
    stage("read on after it had been read undamaged", 3.0),
    stage("read to its end after its process's", 10.0),
    stage("left for the next pass", 1.0),
];

impl Target for RingFuzz {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.seeds.clone()
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        if input.len() != INPUT_BYTES || other.len() != INPUT_BYTES {
            return input.clone_from(&self.seeds[random.below(4) as usize]);
        }
        for flag in &mut input[..FLAGS] {
            *flag = random.number() as u8;
        }
        if random.below(16) > 0 {
            input[0] &= !CUT;
        }
        for _ in 0..1 + random.below(5) {
            let (start, length) = place(random);
            let at = start + random.below(length as u64) as usize;
            match random.below(8) {
                0 => input[at] ^= 1 << random.below(8),
                1 => input[at] = random.number() as u8,
                2 => input[start..start + length].copy_from_slice(&other[start..start + length]),
                3 => {
                    let (from, _) = place(random);
                    let end = INPUT_BYTES.min(from + length);
                    let part = input[from..end].to_vec();
                    input[start..start + part.len()].copy_from_slice(&part);
                }
                _ => {
                    let width = 1 << random.below(4);
                    mutator::renumber(random, input, at & !(width - 1), width);
                }
            }
        }
        // All of the names area is looked through where it is said to be full: bounded, but thousands of times the work.
        let taken = HEADER + offset_of!(Header, names_taken);
        if random.below(256) > 0 {
            input[taken + 2..taken + 8].fill(0);
        }
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        if input.len() != INPUT_BYTES {
            return 0;
        }
        let flags = input[0];
        // Taking events apart costs more than all the rest.
        let judged = input[1] % JUDGED_EVERY == 0;
        let counters = Counters::default();
        self.serial += 1;
        let mut ring = Ring::new(
            own_uid_once(),
            self.name.clone(),
            self.serial,
            Cursor::default(),
        )
        .expect("its name is one");
        ring.file = Some(self.file.try_clone().unwrap());
        let before = flags & READ_BEFORE == READ_BEFORE;
        if before {
            self.place(&self.seeds[2]);
            let read = self.pass(&mut ring, SLOTS_DUE | SHIP_OPEN, false, &counters);
            assert!(read.is_some_and(|(seen, _)| seen > 5), "{read:?}");
            assert_eq!(counters.bad_runs.get(), 0);
        }
        self.place(input);
        if flags & CUT != 0 {
            let length = match input[1] {
                cut @ 0..128 => 16 * cut as u64,
                cut => segment_at(0) as u64 + 1024 * (cut as u64 - 128),
            };
            self.file.set_len(length).unwrap();
        }
        ring.life = match flags & (ENDED | SILENT) {
            0 => Life::Lives,
            SILENT => Life::Silent,
            _ => Life::Ended,
        };
        let read = self.pass(&mut ring, flags, judged, &counters);
        if flags & CUT != 0 {
            self.file.set_len(segment_at(1) as u64).unwrap();
        }
        if let Some((_, Flow::Done)) = read {
            assert_eq!(ring.finished, ring.life == Life::Ended);
        }
        let (seen, end) = read.unwrap_or((0, Flow::Done));
        reached([
            read.is_some(),
            seen > 0,
            counters.bad_runs.get() > 0,
            before && seen > 0,
            ring.finished,
            end == Flow::Later,
        ])
    }
}

fn own_uid_once() -> u32 {
    static UID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *UID.get_or_init(own_uid)
}
