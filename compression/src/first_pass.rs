//! The first pass: merges operations into runs, for each stream (file, handle, operation, outcome) on its own, so that
//! interleaved files and mixed directions still merge.
//!
//! Beacon (NSDI'19, §3.2) merges adjacent trace lines of one operation, descriptor and size that touch contiguous areas.
//! Here any constant stride merges, lines need not be adjacent, and offsets are compared in 64 bits. A run closes when an
//! operation breaks its pattern, when another stream needs its slot, or when it has lasted for the window.
//!
//! A segment may live in shared memory that another process reads at any time and outlives its writer, killed at any
//! instruction: a slot is written under an odd `sequence`, and a closed run is pushed before its slot is used again.

use crate::record::{latency_bucket, Operation, Run, LATENCY_BOUNDS_NS, LATENCY_BUCKETS};
use crate::ring::{run_at, slot_at, Adding, SegmentHeader, Slot, DATA_SLOTS, RING_RUNS, SLOTS};
use core::sync::atomic::{compiler_fence, fence, AtomicU64, Ordering};

/// What the first pass compares durations with, in ticks; a cache line. All threads write the same into it.
#[repr(C, align(64))]
pub struct Limits {
    /// Longest duration of a run.
    window: AtomicU64,
    /// LATENCY_BOUNDS_NS.
    latency_bounds: [AtomicU64; LATENCY_BUCKETS - 1],
}

impl Limits {
    pub const fn new() -> Limits {
        Limits {
            window: AtomicU64::new(0),
            latency_bounds: [const { AtomicU64::new(0) }; LATENCY_BUCKETS - 1],
        }
    }

    /// Sets them for a clock of so many ticks a second, of which the window comes last: it is 0 until the others are set.
    pub fn set(&self, ticks_per_s: u64, window_ns: u64) {
        for (to, ns) in self.latency_bounds.iter().zip(LATENCY_BOUNDS_NS) {
            to.store(ticks_of(ns, ticks_per_s), Ordering::Relaxed);
        }
        let window = ticks_of(window_ns, ticks_per_s).max(1);
        self.window.store(window, Ordering::Relaxed);
    }

    pub fn latency_bounds(&self) -> [u64; LATENCY_BUCKETS - 1] {
        core::array::from_fn(|i| self.latency_bounds[i].load(Ordering::Relaxed))
    }

    /// Whether an operation is not in the first bucket of the latency histogram.
    #[inline(always)]
    fn is_slow(&self, o: &Operation) -> bool {
        let [first, ..] = &self.latency_bounds;
        o.took() >= first.load(Ordering::Relaxed)
    }

    #[inline]
    fn bucket(&self, o: &Operation) -> usize {
        latency_bucket(o.took(), &self.latency_bounds())
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::new()
    }
}

fn ticks_of(ns: u64, ticks_per_s: u64) -> u64 {
    (ns as f64 * 1e-9 * ticks_per_s as f64 + 0.5) as u64
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It is in the segment.
    Recorded = 0,
    /// It is not recorded: the ring is full. Take another segment, or `record_folding` it.
    Full = 1,
}

/// A segment of a ring file, in memory.
#[derive(Clone, Copy)]
pub struct Segment {
    base: *mut u8,
}

/// The slot in which runs of this operation and handle live.
#[inline]
fn slot_of(op: u8, handle: i32) -> usize {
    match op {
        1 | 2 => {
            (handle as u32 as usize)
                .wrapping_mul(2)
                .wrapping_add(op as usize & 1)
                % DATA_SLOTS
        }
        _ => DATA_SLOTS + (op as usize & 15),
    }
}

/// The slot for what a full ring leaves without a place: all files of one operation together.
#[inline]
fn slot_of_rest(op: u8, failed: bool) -> usize {
    DATA_SLOTS + 16 + 16 * (failed as usize) + (op as usize & 15)
}

impl Segment {
    /// # Safety
    /// `base` must point at SEGMENT_SIZE writable bytes, 64-byte aligned, zeroed when first used, that live as long as
    /// the segment and that no other thread writes (but for the agent's `tail`).
    pub unsafe fn new(base: *mut u8) -> Segment {
        Segment { base }
    }

    #[inline]
    fn header(&self) -> &SegmentHeader {
        // SAFETY: `new` asks for a whole segment; the header is made of atomics and padding.
        unsafe { &*(self.base as *const SegmentHeader) }
    }

    #[inline]
    #[allow(clippy::mut_from_ref)] // the memory is not behind `self`, and every caller holds one slot at a time
    fn slot(&self, index: usize) -> &mut Slot {
        debug_assert!(index < SLOTS);
        // SAFETY: inside the segment, and the caller is its only writer (`new`).
        unsafe { &mut *(self.base.add(slot_at(index)) as *mut Slot) }
    }

    /// Whether the ring has room for one more run.
    #[inline]
    pub fn has_room(&self) -> bool {
        let h = self.header();
        h.head
            .load(Ordering::Relaxed)
            .wrapping_sub(h.tail.load(Ordering::Acquire))
            < RING_RUNS as u64
    }

    #[inline]
    fn push(&self, run: &Run) {
        let h = self.header();
        let head = h.head.load(Ordering::Relaxed);
        // SAFETY: `run_at` stays inside the segment.
        unsafe { core::ptr::write(self.base.add(run_at(head)) as *mut Run, *run) };
        h.head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Puts a run of `o` alone into `slot`.
    fn begin(slot: &mut Slot, index: usize, o: &Operation, limits: &Limits) {
        let sequence = slot.sequence.load(Ordering::Relaxed);
        let mut run = Run {
            // 0 means none to the reader.
            generation: slot.run.generation.wrapping_add(1).max(1),
            slot: index as u8,
            ..Run::of(o)
        };
        run.add_latency(limits.bucket(o));
        slot.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        // Killed on the way, the slot must hold the old run, which is pushed already, or none: never parts of both.
        let count = &raw mut slot.run.count;
        // SAFETY: `count` points into `slot`, which is ours.
        unsafe { count.write_volatile(0) };
        compiler_fence(Ordering::SeqCst);
        slot.run = Run { count: 0, ..run };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { count.write_volatile(run.count) };
        slot.sequence
            .store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Changes the run in `slot`.
    #[inline(always)]
    fn change(slot: &mut Slot, change: impl FnOnce(&mut Run)) {
        let sequence = slot.sequence.load(Ordering::Relaxed);
        slot.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change(&mut slot.run);
        slot.sequence
            .store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// The same for a change that adds an operation, and counts that in its bucket of the latency histogram.
    fn change_counting(
        slot: &mut Slot,
        o: &Operation,
        limits: &Limits,
        change: impl FnOnce(&mut Run),
    ) {
        let bucket = limits.bucket(o);
        let adding = &raw mut slot.adding;
        let mark = Adding::of(&slot.run, bucket).0;
        Self::change(slot, |run| {
            // SAFETY: `adding` points into `slot`, which is ours.
            unsafe { adding.write_volatile(mark) };
            compiler_fence(Ordering::SeqCst);
            change(run);
            run.add_latency(bucket);
            compiler_fence(Ordering::SeqCst);
            // SAFETY: as above.
            unsafe { adding.write_volatile(0) };
        });
    }

    /// Records one operation. Operations of one stream come in the order of their ends.
    #[inline(always)]
    pub fn record(&self, o: &Operation, limits: &Limits) -> Outcome {
        let index = slot_of(o.op, o.handle);
        let slot = self.slot(index);
        // An empty slot's run belongs to no stream: its operation is none.
        let window = limits.window.load(Ordering::Relaxed);
        if slot.run.takes(o, window) && !limits.is_slow(o) {
            Self::change(slot, |run| run.extend(o));
            return Outcome::Recorded;
        }
        self.record_otherwise(index, o, limits)
    }

    /// Adds a slow operation to the run in slot `index`, or closes that and begins another. Out of line: what merges fast must stay short.
    /// `self` by value: a reference would have to lie on the fast path's stack.
    #[cold]
    #[inline(never)]
    fn record_otherwise(self, index: usize, o: &Operation, limits: &Limits) -> Outcome {
        let slot = self.slot(index);
        let window = limits.window.load(Ordering::Relaxed);
        if slot.run.takes(o, window) {
            Self::change_counting(slot, o, limits, |run| run.extend(o));
            return Outcome::Recorded;
        }
        if slot.run.count != 0 {
            if !self.has_room() {
                return Outcome::Full;
            }
            self.push(&slot.run);
        }
        Self::begin(slot, index, o, limits);
        Outcome::Recorded
    }

    /// Records one operation although the ring is full: it goes into the open run of its stream, or else into one for all
    /// files of that operation. Counts, bytes, busy time and latencies stay exact.
    pub fn record_folding(&self, o: &Operation, limits: &Limits) {
        let h = self.header();
        let index = slot_of(o.op, o.handle);
        let slot = self.slot(index);
        if slot.run.count == 0 {
            return Self::begin(slot, index, o, limits);
        }
        if !slot.run.same_stream(o) {
            return self.fold_rest(o, limits);
        }
        h.folded.store(
            h.folded.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        Self::change_counting(slot, o, limits, |run| run.fold(o));
    }

    fn fold_rest(&self, o: &Operation, limits: &Limits) {
        let h = self.header();
        let index = slot_of_rest(o.op, o.errno != 0);
        let slot = self.slot(index);
        // Failures of all kinds share a slot: the errno then says only "some".
        let errno = if o.errno == 0 { 0 } else { u16::MAX };
        let o = &Operation {
            file: 0,
            handle: -1,
            errno,
            ..*o
        };
        h.folded.store(
            h.folded.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        if slot.run.count == 0 {
            return Self::begin(slot, index, o, limits);
        }
        Self::change_counting(slot, o, limits, |run| run.fold(o));
    }
}
