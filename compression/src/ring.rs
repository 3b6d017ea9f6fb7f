//! The ring file: what a watched process leaves for the agent, one file a process image, on tmpfs.
//!
//! ```text
//! 0            Header (one page)
//! NAMES_AT     names: file id -> path, appended by all threads, reserved as NAMES_CAPACITY, grown as needed
//! SEGMENTS_AT  segments of SEGMENT_SIZE, one for each thread that does I/O (more when a ring is full)
//!              SegmentHeader | SLOTS slots (open runs) | RING_RUNS closed runs
//! ```
//! One thread at a time owns a segment and writes it. The agent reads, and writes only `tail`.
//! Numbers are in the machine's byte order: the file never leaves the node.

use crate::record::{Run, LATENCY_BOUNDS_NS, LATENCY_BUCKETS};
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u64 = 0x314b_5252_4c4c_4542; // "BELLRRK1"
/// Of the layout; the test at this file's end holds the two together.
pub const VERSION: u32 = 3;

pub const HEADER_SIZE: usize = 4096;
pub const NAMES_AT: usize = HEADER_SIZE;
/// Bound of the names of one process, bytes; sparse until used.
pub const NAMES_CAPACITY: usize = 16 << 20;
/// By how much the names area grows.
pub const NAMES_STEP: usize = 64 << 10;
pub const SEGMENTS_AT: usize = NAMES_AT + NAMES_CAPACITY;
pub const SEGMENT_SIZE: usize = 128 << 10;
/// Bound of the threads of one process that do I/O at once.
pub const SEGMENTS_MAX: usize = 1024;
/// Segments that full rings may take beyond one a thread.
pub const SEGMENTS_SPARE: usize = 128;

/// Slots for reads and writes: two for a descriptor, by its number modulo half of these.
pub const DATA_SLOTS: usize = 64;
/// All slots: after the data slots 16 for the other operations, by their number, then twice 16 (succeeded, failed) for
/// what a full ring leaves without a place: one run for all files of an operation.
pub const SLOTS: usize = DATA_SLOTS + 48;
pub const RING_RUNS: usize =
    (SEGMENT_SIZE - size_of::<SegmentHeader>() - SLOTS * size_of::<Slot>()) / size_of::<Run>();

/// Longest path that is kept, bytes.
pub const PATH_MAX: usize = 4096;

/// `Header::clock`: ticks are CLOCK_MONOTONIC nanoseconds.
pub const CLOCK_MONOTONIC: u32 = 0;
/// `Header::clock`: ticks are the invariant time-stamp counter.
pub const CLOCK_TSC: u32 = 1;

#[repr(C)]
pub struct Header {
    pub magic: u64,
    pub version: u32,
    pub clock: u32,
    pub pid: u32,
    pub uid: u32,
    /// -1: none.
    pub rank: i32,
    /// Segments that exist, at most SEGMENTS_MAX.
    pub segments: AtomicU32,
    /// Process start, clock ticks since boot (/proc/PID/stat, field 22).
    pub pid_start_ticks: u64,
    /// One instant on both clocks.
    pub anchor_ticks: u64,
    pub anchor_monotonic_ns: u64,
    /// Names: bytes that exist in the file, bytes that are taken.
    pub names_ready: AtomicU64,
    pub names_taken: AtomicU64,
    /// Operations that could not be recorded.
    pub lost_operations: AtomicU64,
    /// Names that found no room; their files are known by id only.
    pub lost_names: AtomicU64,
    /// 0: not known.
    pub parent_pid: u32,
    pub reserved_32: u32,
    /// Inode of /proc/self/ns/pid: the namespace in which `pid` is a process's number. 0: not known.
    pub pid_namespace: u64,
    /// LATENCY_BOUNDS_NS in ticks, as this process reckons them.
    pub latency_bounds: [u64; LATENCY_BUCKETS - 1],
    /// Claimed job id, NUL-terminated.
    pub job: [u8; 128],
    /// Path of the executable, NUL-terminated, perhaps cut.
    pub program: [u8; 1024],
}

/// In the names area, 8-byte aligned, followed by `length` bytes of path. `file` is written last; 0: not complete yet.
#[repr(C)]
pub struct NameEntry {
    pub file: AtomicU64,
    pub length: u32,
    pub reserved: u32,
}

/// Bytes that the entry of a name of `length` bytes takes.
pub const fn name_entry_size(length: usize) -> usize {
    (size_of::<NameEntry>() + length + 7) & !7
}

#[repr(C, align(64))]
pub struct SegmentHeader {
    /// 0 free, 1 owned by a thread.
    pub owned: AtomicU32,
    pub reserved: u32,
    /// Runs pushed since the segment was made; run i lies at i % RING_RUNS.
    pub head: AtomicU64,
    /// Operations that were folded because the ring was full.
    pub folded: AtomicU64,
    pub pad_producer: [u64; 5],
    /// Runs that the agent has safely spooled. Written by the agent.
    pub tail: AtomicU64,
    pub pad_consumer: [u64; 7],
}

/// An open run, in two cache lines. `sequence` is odd while the owner writes; `run.count` 0: empty. `adding` is not 0 while an
/// operation is added that changes `run.latency`: what `Adding::of` makes.
#[repr(C, align(64))]
pub struct Slot {
    pub sequence: AtomicU32,
    pub adding: u32,
    pub run: Run,
}

/// Which operation a slot's owner is just adding. If it is killed before it is done, the reader sees by it whether `count` and
/// `latency` both have that operation: each grows by one, so its lowest bit tells.
pub struct Adding(pub u32);

impl Adding {
    /// An operation of this bucket is about to be added to `run`.
    #[inline]
    pub fn of(run: &Run, bucket: usize) -> Adding {
        let slow = run.latency.get(bucket.wrapping_sub(1));
        let slow = slow.map_or(0, |&n| n & 1);
        Adding(bucket as u32 | ((run.count as u32 & 1) << 3) | (slow << 4))
    }

    /// Makes the latency of a run, found as its owner was killed, agree with its count.
    pub fn settle(&self, run: &mut Run) {
        let counted = (run.count as u32 ^ (self.0 >> 3)) & 1;
        let Some(slow) = run.latency.get_mut(((self.0 & 7) as usize).wrapping_sub(1)) else {
            return;
        };
        let has_slow = (*slow ^ (self.0 >> 4)) & 1;
        // A full count stays as it is.
        if *slow != u32::MAX {
            *slow = slow.wrapping_add(counted).wrapping_sub(has_slow);
        }
    }
}

/// Offset of a segment in the file.
pub const fn segment_at(index: usize) -> usize {
    SEGMENTS_AT + index * SEGMENT_SIZE
}
/// Offset of a slot in its segment.
pub const fn slot_at(slot: usize) -> usize {
    size_of::<SegmentHeader>() + slot * size_of::<Slot>()
}
/// Offset of the ring's place for run number `position` in its segment.
pub const fn run_at(position: u64) -> usize {
    size_of::<SegmentHeader>()
        + SLOTS * size_of::<Slot>()
        + (position % RING_RUNS as u64) as usize * size_of::<Run>()
}

const _: () = assert!(size_of::<Header>() <= HEADER_SIZE);
const _: () = assert!(size_of::<Run>() == 120);
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<SegmentHeader>() == 128);

/// File id of a path: FNV-1a, 64 bits, never 0.
pub fn file_id(path: &[u8]) -> u64 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for &b in path {
        h = (h ^ b as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }
    if h == 0 {
        1
    } else {
        h
    }
}

pub mod read;

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    /// The library and the agent may be of two ages: whoever changes a figure here gives the layout a new VERSION.
    #[test]
    fn a_layout_has_one_version() {
        let files = [SEGMENTS_AT, SEGMENT_SIZE, SEGMENTS_MAX, NAMES_AT];
        assert_eq!((VERSION, files), (3, [16_781_312, 131_072, 1024, 4096]));
        let header = [
            size_of::<Header>(),
            offset_of!(Header, rank),
            offset_of!(Header, segments),
            offset_of!(Header, pid_start_ticks),
            offset_of!(Header, anchor_ticks),
            offset_of!(Header, names_ready),
            offset_of!(Header, lost_operations),
            offset_of!(Header, lost_names),
            offset_of!(Header, parent_pid),
            offset_of!(Header, pid_namespace),
            offset_of!(Header, latency_bounds),
            offset_of!(Header, job),
            offset_of!(Header, program),
        ];
        let expected = [1312, 24, 28, 32, 40, 56, 72, 80, 88, 96, 104, 160, 288];
        assert_eq!((VERSION, header), (3, expected));
        let segment = [
            slot_at(0),
            slot_at(1) - slot_at(0),
            SLOTS,
            DATA_SLOTS,
            run_at(0),
            RING_RUNS,
            offset_of!(SegmentHeader, owned),
            offset_of!(SegmentHeader, head),
            offset_of!(SegmentHeader, folded),
            offset_of!(SegmentHeader, tail),
            offset_of!(Slot, sequence),
            offset_of!(Slot, adding),
            offset_of!(Slot, run),
        ];
        let expected = [128, 128, 112, 64, 14_464, 971, 0, 8, 16, 64, 0, 4, 8];
        assert_eq!((VERSION, segment), (3, expected));
        let run = [
            size_of::<Run>(),
            offset_of!(Run, file),
            offset_of!(Run, offset),
            offset_of!(Run, stride),
            offset_of!(Run, size),
            offset_of!(Run, count),
            offset_of!(Run, bytes),
            offset_of!(Run, start),
            offset_of!(Run, end),
            offset_of!(Run, busy),
            offset_of!(Run, slowest),
            offset_of!(Run, handle),
            offset_of!(Run, errno),
            offset_of!(Run, flags),
            offset_of!(Run, op),
            offset_of!(Run, slot),
            offset_of!(Run, generation),
            offset_of!(Run, latency),
        ];
        let expected = [
            120, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 84, 86, 88, 89, 90, 92,
        ];
        assert_eq!((VERSION, run), (3, expected));
        let name = [size_of::<NameEntry>(), offset_of!(NameEntry, length)];
        assert_eq!((VERSION, name), (3, [16, 8]));
    }
}
