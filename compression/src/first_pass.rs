//! The first pass: merges operations into runs, for each stream (file, handle, operation, outcome) on its own, so that
//! interleaved files and mixed directions still merge.
//!
//! Beacon (NSDI'19, §3.2) merges adjacent trace lines of one operation, descriptor and size that touch contiguous areas.
//! Here any constant stride merges, lines need not be adjacent, and offsets are compared in 64 bits. A run closes when an
//! operation breaks its pattern, when another stream needs its slot, or when it has lasted for the window.
//!
//! A segment may live in shared memory that another process reads at any time and outlives its writer, killed at any
//! instruction: a slot is written under an odd `sequence`, and a closed run is pushed before its slot is used again.

use crate::record::{Operation, Run};
use crate::ring::{run_at, slot_at, SegmentHeader, Slot, DATA_SLOTS, RING_RUNS, SLOTS};
use core::sync::atomic::{compiler_fence, fence, Ordering};

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It is in the segment.
    Recorded = 0,
    /// It is in the segment, and a run was closed because its window was over.
    WindowOver = 1,
    /// It is not recorded: the ring is full. Take another segment, or `record_folding` it.
    Full = 2,
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
    fn begin(slot: &mut Slot, index: usize, o: &Operation) {
        let sequence = slot.sequence.load(Ordering::Relaxed);
        let run = Run {
            generation: slot.run.generation.wrapping_add(1),
            slot: index as u32,
            ..Run::of(o)
        };
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

    /// Records one operation. Operations of one stream come in the order of their ends. `window`: ticks.
    #[inline(always)]
    pub fn record(&self, o: &Operation, window: u64) -> Outcome {
        let index = slot_of(o.op, o.handle);
        let slot = self.slot(index);
        let mut outcome = Outcome::Recorded;
        // An empty slot's run belongs to no stream: its operation is none.
        if slot.run.same_stream(o) && slot.run.continues(o) {
            if o.end.wrapping_sub(slot.run.start) <= window {
                Self::change(slot, |run| run.extend(o));
                return Outcome::Recorded;
            }
            outcome = Outcome::WindowOver;
        }
        self.next_run(index, o, outcome)
    }

    /// Closes the run in slot `index`, if there is one, and begins another. Out of line: what merges must stay short.
    #[cold]
    #[inline(never)]
    fn next_run(&self, index: usize, o: &Operation, outcome: Outcome) -> Outcome {
        let slot = self.slot(index);
        if slot.run.count != 0 {
            if !self.has_room() {
                return Outcome::Full;
            }
            self.push(&slot.run);
        }
        Self::begin(slot, index, o);
        outcome
    }

    /// Records one operation although the ring is full: it goes into the open run of its stream, or else into one for all
    /// files of that operation. Counts, bytes and busy time stay exact.
    pub fn record_folding(&self, o: &Operation) {
        let h = self.header();
        let index = slot_of(o.op, o.handle);
        let slot = self.slot(index);
        if slot.run.count == 0 {
            return Self::begin(slot, index, o);
        }
        if !slot.run.same_stream(o) {
            return self.fold_rest(o);
        }
        h.folded.store(
            h.folded.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        Self::change(slot, |run| run.fold(o));
    }

    fn fold_rest(&self, o: &Operation) {
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
            return Self::begin(slot, index, o);
        }
        Self::change(slot, |run| run.fold(o));
    }
}
