//! The run: operations that the first pass merged into one entry.

/// What a call did. The numbers are part of the ring file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// A process was first seen; not an operation of the program.
    Start = 0,
    Read = 1,
    Write = 2,
    Open = 3,
    Close = 4,
    Stat = 5,
    Access = 6,
    Unlink = 7,
    Rename = 8,
    Mkdir = 9,
    Rmdir = 10,
    Readdir = 11,
    Link = 12,
    Truncate = 13,
    Sync = 14,
    /// A mapping was made; what passes through it is not seen.
    Mmap = 15,
    /// The process runs a program whose calls cannot be seen: `file` is its path and `handle` says why, as the record's flag.
    Unseen = 16,
}

/// Names of the operations, by their number.
pub const OP_NAMES: [&str; 17] = [
    "start", "read", "write", "open", "close", "stat", "access", "unlink", "rename", "mkdir",
    "rmdir", "readdir", "link", "truncate", "sync", "mmap", "unseen",
];

impl Op {
    /// The name on the wire, or `None` for a number that is no operation.
    pub fn name(number: u8) -> Option<&'static str> {
        OP_NAMES.get(number as usize).copied()
    }
}

/// The run merged operations of unlike size or offset because its ring was full: sums are exact, details are not.
pub const FLAG_FOLDED: u16 = 1;
/// Counted at the stdio call, not at the system call below it.
pub const FLAG_STDIO: u16 = 2;
/// Only part of the traffic is seen (a memory mapping).
pub const FLAG_PARTLY_SEEN: u16 = 4;
/// The offset is a guess (append mode, inherited descriptor).
pub const FLAG_OFFSET_UNSURE: u16 = 8;
/// A directory, not a file.
pub const FLAG_DIRECTORY: u16 = 32;
/// Times are known to the second only.
pub const FLAG_SECONDS: u16 = 64;
/// Part of a run of which an earlier part was shipped while it was still open.
pub const FLAG_PIECE: u16 = 16;

/// Bounds of the latency histogram, ns: of eight buckets, a decade each, the first lies below the first bound, the last from the last one on.
pub const LATENCY_BOUNDS_NS: [u64; 7] = [
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];
/// Buckets of the latency histogram.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

/// The bucket of a duration, 0 for the fastest. `bounds` ascend, in the duration's unit.
#[inline]
pub fn latency_bucket(took: u64, bounds: &[u64; 7]) -> usize {
    bounds.iter().filter(|&&bound| took >= bound).count()
}

/// Why a program's calls cannot be seen: it is static.
pub const UNSEEN_STATIC: i32 = 128;
/// It has set up an io_uring.
pub const UNSEEN_IO_URING: i32 = 256;
/// It gets rights that its caller has not, so the loader drops the library.
pub const UNSEEN_PRIVILEGED: i32 = 512;
/// It is of another C library or architecture.
pub const UNSEEN_FOREIGN: i32 = 1024;
pub const UNSEEN_WHY: i32 = UNSEEN_STATIC | UNSEEN_IO_URING | UNSEEN_PRIVILEGED | UNSEEN_FOREIGN;

/// One operation as a source saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    /// File id: hash of the absolute path; 0 where the operation has no file.
    pub file: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes that the call returned; 0 for metadata operations and failed calls.
    pub size: u64,
    /// Start and end, ticks.
    pub start: u64,
    pub end: u64,
    /// Descriptor, -1 where there is none.
    pub handle: i32,
    /// 0, or the errno of a failed call.
    pub errno: u16,
    pub op: u8,
    pub flags: u8,
}

impl Operation {
    /// Its duration, ticks.
    #[inline(always)]
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Operations merged: `count` operations of `size` bytes each, the i-th at `offset + i * stride`.
/// Where `flags` has `FLAG_FOLDED`, only `count`, `bytes`, `busy`, `slowest`, `latency`, `start` and `end` are exact and `size` is the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Run {
    pub file: u64,
    pub offset: u64,
    /// Bytes between the offsets of neighbours; 0 while `count` is 1.
    pub stride: i64,
    pub size: u64,
    pub count: u64,
    pub bytes: u64,
    /// First operation's start, last operation's end, ticks.
    pub start: u64,
    pub end: u64,
    /// Sum and largest of the operations' durations, ticks.
    pub busy: u64,
    pub slowest: u64,
    pub handle: i32,
    pub errno: u16,
    pub flags: u16,
    pub op: u8,
    /// Which slot the run lived in, and the slot's how-manieth run it is (from 1, and round): the reader tells by these what it has shipped already.
    pub slot: u8,
    pub generation: u16,
    /// How many operations fell into the buckets but the first of the latency histogram; all others are in that one. Each stops at
    /// its largest value: what comes after 2^32 operations of 10 us, half a day, counts as fast.
    pub latency: [u32; LATENCY_BUCKETS - 1],
}

impl Run {
    /// A run of one operation.
    pub fn of(o: &Operation) -> Run {
        let took = o.took();
        Run {
            file: o.file,
            offset: o.offset,
            stride: 0,
            size: o.size,
            count: 1,
            bytes: o.size,
            start: o.start,
            end: o.end,
            busy: took,
            slowest: took,
            handle: o.handle,
            errno: o.errno,
            flags: o.flags.into(),
            op: o.op,
            slot: 0,
            generation: 0,
            latency: [0; LATENCY_BUCKETS - 1],
        }
    }

    /// Counts one operation in a bucket of the latency histogram.
    #[inline]
    pub fn add_latency(&mut self, bucket: usize) {
        // The first one's count follows from the others'.
        if let Some(count) = self.latency.get_mut(bucket.wrapping_sub(1)) {
            *count = count.saturating_add(1);
        }
    }

    /// Operations that are not in the first bucket of the latency histogram.
    pub fn slow_count(&self) -> u64 {
        self.latency.iter().map(|&n| n as u64).sum()
    }

    /// The latency histogram; its sum is `count` unless that is smaller than `slow_count`, which no honest run is.
    pub fn histogram(&self) -> [u64; LATENCY_BUCKETS] {
        let mut all = [self.count.saturating_sub(self.slow_count()); LATENCY_BUCKETS];
        for (to, &n) in all[1..].iter_mut().zip(&self.latency) {
            *to = n.into();
        }
        all
    }

    /// Offset of the operation that would continue the run, once the stride is known (`count` of 2 or more).
    #[inline]
    pub fn next_offset(&self) -> u64 {
        self.offset
            .wrapping_add((self.stride as u64).wrapping_mul(self.count))
    }

    /// Whether `o` is of this run's kind: same file, handle, operation and outcome.
    #[inline]
    pub fn same_stream(&self, o: &Operation) -> bool {
        self.file == o.file && self.handle == o.handle && self.op == o.op && self.errno == o.errno
    }

    /// Whether `o` continues the run without loss.
    #[inline]
    pub fn continues(&self, o: &Operation) -> bool {
        self.size == o.size
            && self.flags == o.flags as u16
            && (self.count == 1 || o.offset == self.next_offset())
    }

    /// The merge decision: whether `o` goes into this open run. `window`: how long a run may last, in the unit of the times.
    #[inline(always)]
    pub fn takes(&self, o: &Operation, window: u64) -> bool {
        self.same_stream(o)
            && self.continues(o)
            // An operation before the run's start is as far off as one can be.
            && o.end.wrapping_sub(self.start) <= window
    }

    /// Adds the times of `o`.
    #[inline(always)]
    fn add_times(&mut self, o: &Operation) {
        let took = o.took();
        self.busy = self.busy.wrapping_add(took);
        if took > self.slowest {
            self.slowest = took;
        }
        if o.end > self.end {
            self.end = o.end;
        }
    }

    /// Adds an operation that `continues` the run.
    #[inline(always)]
    pub fn extend(&mut self, o: &Operation) {
        if self.count == 1 {
            self.stride = o.offset.wrapping_sub(self.offset) as i64;
        }
        self.add_times(o);
        self.bytes = self.bytes.wrapping_add(o.size);
        self.count = self.count.wrapping_add(1);
    }

    /// Adds an operation of the same stream that does not continue the run: sums stay exact, details go.
    #[inline]
    pub fn fold(&mut self, o: &Operation) {
        self.flags |= o.flags as u16 | FLAG_FOLDED;
        self.stride = 0;
        if o.size > self.size {
            self.size = o.size;
        }
        if o.offset < self.offset {
            self.offset = o.offset;
        }
        self.add_times(o);
        self.bytes = self.bytes.wrapping_add(o.size);
        self.count = self.count.wrapping_add(1);
    }
}
