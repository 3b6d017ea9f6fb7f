//! The first pass against its definition: what comes out, expanded again, is what went in.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tracepack::first_pass::{Limits, Outcome, Segment};
use tracepack::record::{Operation, Run, FLAG_FOLDED};
use tracepack::ring::{self, read, Adding};

/// A clock that ticks once a nanosecond.
fn limits(window: u64) -> Limits {
    let limits = Limits::new();
    limits.set(1_000_000_000, window);
    limits
}

/// A segment on the heap, and what a reader finds in it.
struct Fixture {
    memory: Vec<u64>,
    consumed: u64,
}

impl Fixture {
    fn new() -> Fixture {
        // 64-byte alignment by hand: the vector is longer than it need be.
        Fixture {
            memory: vec![0; ring::SEGMENT_SIZE / 8 + 8],
            consumed: 0,
        }
    }
    fn base(&mut self) -> *mut u8 {
        let at = self.memory.as_mut_ptr() as usize;
        ((at + 63) & !63) as *mut u8
    }
    fn segment(&mut self) -> Segment {
        let base = self.base();
        unsafe { Segment::new(base) }
    }
    fn bytes(&mut self) -> &mut [u8] {
        let base = self.base();
        unsafe { std::slice::from_raw_parts_mut(base, ring::SEGMENT_SIZE) }
    }
    /// Reads the closed runs and, as the agent does, makes room.
    fn drain(&mut self) -> Vec<Run> {
        let consumed = self.consumed;
        let bytes = self.bytes();
        let (_, head, _, _) = read::segment_header(bytes).unwrap();
        let runs = (consumed..head)
            .map(|i| read::run(&bytes[ring::run_at(i)..]).unwrap())
            .collect();
        let tail = core::mem::offset_of!(ring::SegmentHeader, tail);
        bytes[tail..tail + 8].copy_from_slice(&head.to_ne_bytes());
        self.consumed = head;
        runs
    }
    fn open_runs(&mut self) -> Vec<Run> {
        let bytes = self.bytes();
        (0..ring::SLOTS)
            .map(|i| read::slot(&bytes[ring::slot_at(i)..]).unwrap().1)
            .filter(|r| r.count > 0)
            .collect()
    }
}

type Stream = (u64, i32, u8, u16);

fn stream_of_run(r: &Run) -> Stream {
    (r.file, r.handle, r.op, r.errno)
}

/// (offset, size) of every operation, by stream, in order.
fn expand(runs: &[Run]) -> BTreeMap<Stream, Vec<(u64, u64)>> {
    let mut all: BTreeMap<Stream, Vec<(u64, u64)>> = BTreeMap::new();
    for r in runs {
        assert_eq!(r.bytes, r.size * r.count);
        assert_eq!(r.flags & FLAG_FOLDED, 0);
        let ops = all.entry(stream_of_run(r)).or_default();
        for i in 0..r.count {
            ops.push((
                r.offset.wrapping_add((r.stride as u64).wrapping_mul(i)),
                r.size,
            ));
        }
    }
    all
}

fn operation() -> impl Strategy<Value = Operation> {
    let offset = prop_oneof![4 => (0u64..40).prop_map(|n| n * 4096), 1 => any::<u64>()];
    let size =
        prop_oneof![6 => Just(4096u64), 2 => 0u64..10, 1 => any::<u32>().prop_map(u64::from)];
    (
        0u64..4,
        -1i32..70,
        1u8..16,
        offset,
        size,
        prop_oneof![9 => Just(0u16), 1 => 1u16..40],
        prop_oneof![6 => 0u64..50, 1 => 9_000u64..11_000, 1 => any::<u32>().prop_map(|n| 1u64 << (n % 38))],
    )
        .prop_map(|(file, handle, op, offset, size, errno, took)| Operation {
            file: file + 1,
            offset,
            size: if errno == 0 { size } else { 0 },
            start: 0,
            end: took,
            handle,
            errno,
            op,
            flags: 0,
        })
}

/// The latency histogram of all runs together, and what it should be.
fn histograms(runs: &[&Run], operations: &[&Operation]) -> ([u64; 8], [u64; 8]) {
    let (mut found, mut truth) = ([0; 8], [0; 8]);
    for r in runs {
        assert!(r.slow_count() <= r.count);
        for (to, n) in found.iter_mut().zip(r.histogram()) {
            *to += n;
        }
    }
    for o in operations {
        let decades = (o.end - o.start).checked_ilog10().unwrap_or(0);
        truth[(decades as usize).saturating_sub(3).min(7)] += 1;
    }
    (found, truth)
}

/// Times put one after the other.
fn in_time(mut operations: Vec<Operation>, gap: u64) -> Vec<Operation> {
    let mut now = 1000;
    for o in &mut operations {
        let took = o.end;
        o.start = now;
        o.end = now + took;
        now += took + gap;
    }
    operations
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_full_ring_keeps_the_sums(operations in prop::collection::vec(operation(), 3000..6000)) {
        let operations = in_time(operations, 3);
        let mut fixture = Fixture::new();
        let segment = fixture.segment();
        let limits = limits(1 << 40);
        for o in &operations {
            if segment.record(o, &limits) == Outcome::Full {
                segment.record_folding(o, &limits);
            }
        }
        let mut runs = fixture.drain();
        runs.extend(fixture.open_runs());
        for op in 1u8..16 {
            for failed in [false, true] {
                let seen: Vec<&Run> = runs.iter().filter(|r| r.op == op && (r.errno != 0) == failed).collect();
                let true_ones: Vec<&Operation> = operations.iter().filter(|o| o.op == op && (o.errno != 0) == failed).collect();
                prop_assert_eq!(seen.iter().map(|r| r.count).sum::<u64>(), true_ones.len() as u64);
                prop_assert_eq!(seen.iter().map(|r| r.bytes).sum::<u64>(), true_ones.iter().map(|o| o.size).sum::<u64>());
                prop_assert_eq!(
                    seen.iter().map(|r| r.busy).sum::<u64>(),
                    true_ones.iter().map(|o| o.end - o.start).sum::<u64>()
                );
                let (found, truth) = histograms(&seen, &true_ones);
                prop_assert_eq!(found, truth);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_comes_out_is_what_went_in(operations in prop::collection::vec(operation(), 0..600), gap in 0u64..100, window in prop_oneof![Just(5000u64), Just(1 << 50)]) {
        let operations = in_time(operations, gap);
        let limits = limits(window);
        let mut fixture = Fixture::new();
        let segment = fixture.segment();
        let mut runs = Vec::new();
        let mut truth: BTreeMap<Stream, Vec<(u64, u64)>> = BTreeMap::new();
        for o in &operations {
            truth.entry((o.file, o.handle, o.op, o.errno)).or_default().push((o.offset, o.size));
            prop_assert_ne!(segment.record(o, &limits), Outcome::Full);
            if runs.len() % 7 == 0 {
                runs.extend(fixture.drain());
            }
        }
        runs.extend(fixture.drain());
        runs.extend(fixture.open_runs());
        prop_assert_eq!(expand(&runs), truth);
        prop_assert_eq!(runs.iter().map(|r| r.busy).sum::<u64>(), operations.iter().map(|o| o.end - o.start).sum::<u64>());
        let (found, truth) = histograms(&runs.iter().collect::<Vec<_>>(), &operations.iter().collect::<Vec<_>>());
        prop_assert_eq!(found, truth);
        for r in &runs {
            let longest = operations.iter().map(|o| o.end - o.start).max().unwrap_or(0);
            prop_assert!(r.end - r.start <= window.max(longest), "a run outlasts its window");
        }
    }

    #[test]
    fn readers_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read::HeaderView::new(&bytes).map(|h| (h.job().len(), h.program().len(), h.segments()));
        let _ = (read::segment_header(&bytes), read::run(&bytes), read::slot(&bytes), read::adding(&bytes), read::name(&bytes));
    }
}

fn op(handle: i32, kind: u8, offset: u64, size: u64, at: u64) -> Operation {
    Operation {
        file: handle as u64 + 100,
        offset,
        size,
        start: at,
        end: at + 1,
        handle,
        errno: 0,
        op: kind,
        flags: 0,
    }
}

#[test]
fn interleaved_files_and_directions_merge() {
    let mut fixture = Fixture::new();
    let segment = fixture.segment();
    for i in 0..1000 {
        for handle in 0..16 {
            for kind in [1, 2] {
                segment.record(
                    &op(handle, kind, i * 4096, 4096, i * 100),
                    &limits(u64::MAX),
                );
            }
        }
    }
    assert!(fixture.drain().is_empty());
    let runs = fixture.open_runs();
    assert_eq!(runs.len(), 32);
    assert!(runs
        .iter()
        .all(|r| r.count == 1000 && r.stride == 4096 && r.bytes == 4096 * 1000));
}

#[test]
fn strides_merge_forwards_backwards_and_across_4_gib() {
    for stride in [1i64 << 20, -(1 << 20), 1 << 32, 0] {
        let mut fixture = Fixture::new();
        let segment = fixture.segment();
        for i in 0..100i64 {
            segment.record(
                &op(3, 2, ((1i64 << 40) + i * stride) as u64, 4096, i as u64),
                &limits(u64::MAX),
            );
        }
        assert!(fixture.drain().is_empty());
        assert_eq!(fixture.open_runs()[0].stride, stride);
    }
    // Offsets 4 GiB apart do not continue a contiguous run.
    let mut fixture = Fixture::new();
    let segment = fixture.segment();
    segment.record(&op(3, 2, 0, 4096, 0), &limits(u64::MAX));
    segment.record(&op(3, 2, 4096, 4096, 1), &limits(u64::MAX));
    segment.record(&op(3, 2, 8192 + (1 << 32), 4096, 2), &limits(u64::MAX));
    assert_eq!(fixture.drain().len(), 1);
}

#[test]
fn a_reader_tells_generations_apart() {
    let mut fixture = Fixture::new();
    let segment = fixture.segment();
    segment.record(&op(3, 2, 0, 10, 0), &limits(100));
    let first = fixture.open_runs()[0];
    segment.record(&op(3, 2, 10, 10, 500), &limits(100)); // the window is over
    let closed = fixture.drain()[0];
    let second = fixture.open_runs()[0];
    assert_eq!(
        (closed.slot, closed.generation),
        (first.slot, first.generation)
    );
    assert_eq!(
        (second.slot, second.generation),
        (first.slot, first.generation + 1)
    );
}

#[test]
fn a_slow_operation_shows_whichever_store_its_program_was_killed_at() {
    for (took, bucket) in [(9_999, 0), (10_000, 1), (999_999, 2), (1 << 40, 7)] {
        let limits = limits(u64::MAX);
        let mut fixture = Fixture::new();
        let segment = fixture.segment();
        for i in 0..3 {
            let o = op(3, 2, i * 10, 10, i);
            segment.record(
                &Operation {
                    end: o.start + took,
                    ..o
                },
                &limits,
            );
        }
        let at = ring::slot_at(2 * 3);
        let slot = fixture.bytes()[at..at + 128].to_vec();
        assert_eq!(read::adding(&slot).unwrap().0, 0, "nothing is under way");
        let before = read::slot(&slot).unwrap().1;
        let mut expected = [0; 8];
        expected[bucket] = 3;
        assert_eq!(before.histogram(), expected);
        let mark = Adding::of(&before, bucket).0;
        for (counted, latency) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut run = before;
            run.count += counted;
            if latency == 1 {
                run.add_latency(bucket);
            }
            Adding(mark).settle(&mut run);
            expected[bucket] = 3 + counted;
            assert_eq!(run.histogram(), expected);
        }
    }
}
