use super::super::paths::PathCache;
use super::slots::SLOT_BYTES;
use super::*;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::ship::batch::open_window;
use crate::testing::{limits, own_uid, temp_dir, Random, RingFile};
use serde_json::Value;
use std::fs::OpenOptions;
use std::time::Duration;
use tracepack::first_pass::Outcome;
use tracepack::record::{latency_bucket, Operation, Run, LATENCY_BOUNDS_NS, OP_NAMES};
use tracepack::ring::{file_id, read, slot_at, Adding, Slot, SEGMENT_SIZE, SLOTS};

#[path = "ring_hostile_tests.rs"]
mod hostile;

/// Reads one ring as the source does, without a spool.
struct Reader {
    ring: Ring,
    counters: Counters,
    paths: PathCache,
    buffers: Buffers,
    batch: Batch,
    clock: Clock,
    /// Take the events apart.
    decode: bool,
    /// What a pass may take.
    steps: u64,
    room: usize,
    /// Events of the last pass.
    shipped: u64,
}

impl Reader {
    fn with_cursor(file: &RingFile, cursor: Cursor) -> Reader {
        let mut ring = Ring::new(own_uid(), file.name.clone(), 1, cursor).unwrap();
        ring.file = Some(
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(&file.path)
                .unwrap(),
        );
        Reader {
            ring,
            counters: Counters::default(),
            paths: PathCache::new(),
            buffers: Buffers::default(),
            batch: Batch::new("n", 1, 1, 50, 1 << 20),
            clock: Clock::start(),
            decode: true,
            steps: 1 << 20,
            room: 1 << 20,
            shipped: 0,
        }
    }

    /// Reads the file anew, from its beginning.
    fn again(&mut self, file: &RingFile) {
        let open = self.ring.file.take();
        self.ring = Ring::new(own_uid(), file.name.clone(), 1, Cursor::default()).unwrap();
        self.ring.file = open;
    }

    fn new(file: &RingFile) -> Reader {
        Self::with_cursor(file, Cursor::default())
    }

    /// One pass. `slots`: look at open runs; `all`: whatever their age. The events but `start`.
    fn pass(&mut self, slots: bool, all: bool) -> (Flow, Vec<Value>) {
        let mut events = Vec::new();
        self.shipped = 0;
        let mut c = Context {
            now: self.clock.now(),
            counters: &self.counters,
            paths: &mut self.paths,
            buffers: &mut self.buffers,
            window_ms: 1000,
            slots_due: slots,
            ship_open: all,
            fill: 0.0,
            steps: self.steps,
            room: self.room,
            short: false,
        };
        if self
            .ring
            .identify(&c.now, None)
            .and_then(|()| self.ring.begin(&c))
            .is_err()
        {
            return (Flow::Done, events);
        }
        loop {
            let flow = self.ring.read(&mut c, &mut self.batch);
            let window = self.batch.finish().unwrap();
            self.shipped += window.events as u64;
            if window.events > 0 && self.decode {
                events.extend(open_window(window.payload));
            }
            self.batch.restart(1);
            self.ring.committed();
            if flow != Flow::Full {
                events.retain(|e| e["op"] != "start");
                return (flow, events);
            }
        }
    }
}

fn now_ns() -> u64 {
    crate::sys::clock_ns(libc::CLOCK_MONOTONIC) as u64
}

fn operation(op: u8, handle: i32, file: u64, offset: u64, size: u64) -> Operation {
    let end = now_ns();
    Operation {
        file,
        offset,
        size,
        start: end - 100,
        end,
        handle,
        errno: 0,
        op,
        flags: 0,
    }
}

/// (op, file id) → (count, bytes) of events.
fn sums(events: &[Value]) -> std::collections::BTreeMap<(String, String), (u64, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for e in events {
        let key = (
            e["op"].as_str().unwrap().into(),
            e["file_id"].as_str().unwrap_or("").into(),
        );
        let sum: &mut (u64, u64) = sums.entry(key).or_default();
        sum.0 += e["count"].as_u64().unwrap();
        sum.1 += e["bytes"].as_u64().unwrap();
    }
    sums
}

#[test]
fn runs_become_events_with_names_and_times() {
    let file = RingFile::with_header(&temp_dir("runs"), 7, 8, |h| (h.rank, h.parent_pid) = (3, 5));
    let id = file.add_name(b"/data/a");
    let before = crate::sys::clock_ns(libc::CLOCK_REALTIME);
    for i in 0..5 {
        file.record(0, &operation(1, 4, id, i * 10, 10));
    }
    file.record(0, &operation(3, 4, 99, 0, 0));
    let mut reader = Reader::new(&file);
    assert!(
        reader.pass(false, false).1.is_empty(),
        "open runs wait for the window"
    );
    let (flow, events) = reader.pass(true, true);
    assert_eq!((flow, events.len()), (Flow::Done, 2));
    let e = &events[0];
    assert_eq!(
        (e["op"].as_str(), e["file"].as_str()),
        (Some("read"), Some("/data/a"))
    );
    assert_eq!(e["file_id"].as_str().unwrap(), format!("{id:016x}"));
    assert_eq!(
        (
            e["count"].as_u64(),
            e["bytes"].as_u64(),
            e["stride"].as_i64()
        ),
        (Some(5), Some(50), Some(10))
    );
    assert_eq!(
        (e["process"].as_str(), e["program"].as_str()),
        (Some("7.8"), Some("cat"))
    );
    assert_eq!(
        (e["job"].as_str(), e["rank"].as_i64(), e["flags"].as_u64()),
        (Some("j-1"), Some(3), Some(0))
    );
    assert_eq!(e["parent"].as_u64(), Some(5));
    assert!((e["start"].as_i64().unwrap() - before).abs() < 1_000_000_000);
    assert_eq!(e["busy_ns"].as_u64(), Some(500));
    assert_eq!(events[1]["file"], Value::Null, "a name that is nowhere");
    assert_eq!(reader.counters.unknown_names.get(), 1);
    assert_eq!(
        (reader.counters.seen.get(), reader.counters.merged.get()),
        (6, 4)
    );
    // What was shipped while open is not shipped again; what comes later is, as a piece.
    assert!(reader.pass(true, true).1.is_empty());
    file.record(0, &operation(1, 4, id, 50, 10));
    file.record(0, &operation(1, 4, id, 7000, 10));
    let (_, events) = reader.pass(true, true);
    assert_eq!(events.len(), 2);
    assert_eq!(
        (events[0]["offset"].as_u64(), events[0]["count"].as_u64()),
        (Some(50), Some(1))
    );
    assert_eq!(events[0]["flags"], 16);
    assert_eq!(events[1]["offset"], 7000);
    assert_eq!(reader.counters.bad_runs.get(), 0);
}

#[derive(Debug, Default, PartialEq)]
struct Sum {
    count: u64,
    bytes: u64,
    latency: [u64; 8],
}

/// An event's latency histogram: without one, all operations are in the slowest one's bucket.
fn histogram(event: &Value) -> [u64; 8] {
    let (count, slow) = (event["count"].as_u64(), event["slow_ns"].as_u64());
    let slowest = latency_bucket(slow.unwrap(), &LATENCY_BOUNDS_NS);
    let mut counts = [0; 8];
    let Some(list) = event.get("latency") else {
        counts[slowest] = count.unwrap();
        return counts;
    };
    counts = serde_json::from_value(list.clone()).unwrap();
    assert_eq!(Some(counts.iter().sum()), count, "{event}");
    assert!(counts.iter().filter(|&&n| n > 0).count() > 1, "{event}");
    let top = counts.iter().rposition(|&n| n > 0);
    assert_eq!(top, Some(slowest), "{event}");
    counts
}

/// Random programs, random looks, restarts from the cursor at any time: the sums are exact.
#[test]
fn counts_bytes_and_latencies_are_exact_whatever_the_interleaving() {
    let dir = temp_dir("exact");
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let file = RingFile::new(&dir, 1, 1);
        let ids: Vec<u64> = (0..4)
            .map(|i| file.add_name(format!("/f{i}").as_bytes()))
            .collect();
        let mut reader = Reader::new(&file);
        let mut truth = std::collections::BTreeMap::new();
        let mut events = Vec::new();
        let limits = limits([50, 1_000_000, u64::MAX / 2][random.below(3) as usize]);
        for _ in 0..random.below(4000) {
            let which = random.below(4) as usize;
            let op = 1 + random.below(5) as u8;
            let size = if op < 3 {
                1 + random.below(3) * 4096
            } else {
                0
            };
            let mut o = operation(op, which as i32, ids[which], random.below(3) * 4096, size);
            if random.below(4) == 0 {
                o.start = o.end - (1 << random.below(35));
            }
            if file.segment(0).record(&o, &limits) == Outcome::Full {
                file.segment(0).record_folding(&o, &limits);
            }
            let sum: &mut Sum = truth.entry(op).or_default();
            sum.count += 1;
            sum.bytes += size;
            sum.latency[latency_bucket(o.took(), &LATENCY_BOUNDS_NS)] += 1;
            if random.below(200) == 0 {
                file.store(0);
                events.extend(reader.pass(random.below(2) == 0, random.below(2) == 0).1);
                file.store(0); // takes the new tail over
            }
            if random.below(1500) == 0 {
                let mut bytes = Vec::new();
                reader.ring.cursor.write(true, 0, "1-1-1.ring", &mut bytes);
                let cursor = Cursor::read(&mut crate::sources::cursors::Reader(&bytes))
                    .unwrap()
                    .2;
                let bad = reader.counters.bad_runs.get();
                reader = Reader::with_cursor(&file, cursor);
                reader.counters.bad_runs.add(bad);
            }
        }
        file.store(0);
        reader.ring.life = Life::Ended;
        events.extend(reader.pass(false, false).1);
        assert!(reader.ring.finished);
        assert_eq!(reader.counters.bad_runs.get(), 0);
        let mut found = std::collections::BTreeMap::new();
        for e in &events {
            let number = OP_NAMES.iter().position(|n| e["op"] == *n).unwrap() as u8;
            let total: &mut Sum = found.entry(number).or_default();
            total.count += e["count"].as_u64().unwrap();
            total.bytes += e["bytes"].as_u64().unwrap();
            for (to, n) in total.latency.iter_mut().zip(histogram(e)) {
                *to += n;
            }
        }
        assert_eq!(found, truth, "seed {seed}");
    }
}

#[test]
fn a_ring_of_an_ended_process_gives_all_that_it_has_even_from_a_half_written_slot() {
    let mut file = RingFile::new(&temp_dir("killed"), 1, 1);
    let id = file.add_name(b"/a");
    for i in 0..3 {
        file.record(0, &operation(2, 3, id, i * 8, 8));
    }
    file.record(0, &operation(1, 3, id, 0, 5));
    // Killed within an `extend` by a slow operation: the sequence is odd and the count is ahead of bytes and latency.
    let slot = (0..SLOTS).find(|&s| {
        read::slot(&file.segment_bytes(0)[slot_at(s)..])
            .is_some_and(|(_, run)| run.op == 2 && run.count == 3)
    });
    let at = slot_at(slot.unwrap());
    let bytes = file.segment_bytes(0);
    let run = read::slot(&bytes[at..]).unwrap().1;
    bytes[at] |= 1;
    bytes[at + offset_of!(Slot, adding)] = Adding::of(&run, 4).0 as u8;
    bytes[at + 8 + offset_of!(Run, count)] += 1;
    file.store(0);
    let mut reader = Reader::new(&file);
    assert_eq!(
        reader.pass(true, true).1.len(),
        1,
        "a living process's half-written slot is left alone"
    );
    reader.ring.life = Life::Ended;
    let (_, events) = reader.pass(false, false);
    assert_eq!(
        sums(&events).values().copied().collect::<Vec<_>>(),
        [(4, 32)]
    );
    assert_eq!(
        (&events[0]["latency"][4], &events[0]["slow_ns"]),
        (&1.into(), &10_000_000.into())
    );
    assert!(reader.ring.finished);
}

#[test]
fn a_run_that_was_pushed_while_its_slot_still_stands_counts_once() {
    for odd in [0, 1] {
        let mut file = RingFile::new(&temp_dir("pushed"), 1, 1);
        let id = file.add_name(b"/a");
        file.record(0, &operation(1, 3, id, 0, 5));
        let slot = 3 * 2 + 1;
        let before = file.segment_bytes(0)[slot_at(slot)..slot_at(slot) + SLOT_BYTES].to_vec();
        file.record(0, &operation(1, 3, id, 0, 6)); // another size: pushes the first run
        let bytes = file.segment_bytes(0);
        bytes[slot_at(slot)..slot_at(slot) + SLOT_BYTES].copy_from_slice(&before);
        bytes[slot_at(slot)] |= odd;
        file.store(0);
        let mut reader = Reader::new(&file);
        assert_eq!(
            sums(&reader.pass(true, true).1)
                .values()
                .copied()
                .collect::<Vec<_>>(),
            [(1, 5)]
        );
        reader.ring.life = Life::Ended;
        assert!(reader.pass(true, true).1.is_empty());
    }
}

#[test]
fn a_run_waits_for_a_name_that_is_being_written() {
    let file = RingFile::new(&temp_dir("late-name"), 1, 1);
    let place = file.add_incomplete_name(b"/late");
    file.record(0, &operation(3, -1, file_id(b"/late"), 0, 0));
    let mut reader = Reader::new(&file);
    assert_eq!(reader.pass(true, true), (Flow::Later, vec![]));
    file.complete_name(place, b"/late");
    assert_eq!(reader.pass(true, true).1[0]["file"], "/late");
    // An ended process will never write it.
    file.add_incomplete_name(b"/never");
    file.record(0, &operation(3, -1, file_id(b"/never"), 0, 0));
    reader.ring.life = Life::Ended;
    let (flow, events) = reader.pass(true, true);
    assert_eq!((flow, &events[0]["file"]), (Flow::Done, &Value::Null));
}

#[test]
fn losses_are_counted_once() {
    let file = RingFile::with_header(&temp_dir("losses"), 1, 1, |h| {
        h.lost_operations = 5.into();
        h.lost_names = 2.into();
    });
    let mut reader = Reader::new(&file);
    for _ in 0..2 {
        reader.pass(true, true);
        assert_eq!(
            (reader.counters.lost.get(), reader.counters.lost_names.get()),
            (5, 2)
        );
    }
    let mut again = Reader::with_cursor(&file, reader.ring.cursor);
    again.pass(true, true);
    assert_eq!(again.counters.lost.get(), 0);
}

#[test]
fn a_program_whose_calls_cannot_be_seen_is_told_once_with_the_reason() {
    let file = RingFile::new(&temp_dir("unseen"), 1, 1);
    let id = file.add_name(b"/opt/a \"b\"/prog\xff");
    let mut reader = Reader::new(&file);
    for _ in 0..3 {
        file.record(0, &operation(16, 128, id, 0, 0));
    }
    file.record(0, &operation(16, 512 | 1, id, 0, 0)); // 1 is no reason
    file.record(0, &operation(16, -1, 0, 0, 0)); // as folded
    reader.ring.life = Life::Ended;
    let (_, events) = reader.pass(true, true);
    let flags: Vec<_> = events.iter().map(|e| e["flags"].as_i64()).collect();
    assert_eq!(flags, [Some(128), Some(512), Some(0)]);
    assert_eq!(
        (&events[2]["file"], &events[2]["program"]),
        (&Value::Null, &"".into())
    );
    for e in &events[..2] {
        assert_eq!(
            (&e["op"], &e["program"]),
            (&"unseen".into(), &"prog\\xff".into())
        );
        assert_eq!(e["file"], "/opt/a \"b\"/prog\\xff");
        assert_eq!((&e["count"], &e["handle"]), (&1.into(), &(-1).into()));
        assert_eq!(e["start"], e["end"]);
    }
    assert_eq!(reader.counters.seen.get(), 0);
}

#[test]
fn an_io_uring_is_told_once() {
    let file = RingFile::new(&temp_dir("io_uring"), 1, 1);
    let mut reader = Reader::new(&file);
    assert!(reader.pass(false, false).1.is_empty());
    reader.ring.io_uring = IoUring::Found;
    let (_, events) = reader.pass(false, false);
    assert_eq!(events.len(), 1);
    let e = &events[0];
    assert_eq!((&e["op"], &e["flags"]), (&"unseen".into(), &256.into()));
    assert_eq!(
        (&e["file"], &e["program"]),
        (&"/bin/cat".into(), &"cat".into())
    );
    assert!(reader.pass(false, false).1.is_empty());
    // Found by the program itself: the agent has nothing to add.
    let mut reader = Reader::new(&file);
    file.record(0, &operation(16, 256, 0, 0, 0));
    assert_eq!(reader.pass(true, true).1.len(), 1);
    assert_eq!(reader.ring.io_uring, IoUring::Told);
}
