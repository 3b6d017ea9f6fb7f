//! What tests share: a seeded random source, directories, ring files written as a program would.
#![cfg_attr(not(test), allow(dead_code))] // the fuzz targets need a part of it

use crate::clock::{Now, Pair};
pub use crate::random::Random;
use crate::scratch;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Instant;
use tracepack::first_pass::{Limits, Segment};
use tracepack::record::{Operation, LATENCY_BOUNDS_NS};
use tracepack::ring::*;

/// A new, empty directory below the build's.
pub fn temp_dir(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    scratch::folder(&exe.parent().unwrap().join("tmp"), name)
}

/// A new directory for rings, and the tests' own user's in it.
pub fn rings_dir(name: &str) -> (PathBuf, PathBuf) {
    let rings = temp_dir(name);
    let own = rings.join(own_uid().to_string());
    fs::create_dir(&own).unwrap();
    (rings, own)
}

/// A new, empty directory in memory where there is such: for tests that write much.
pub fn memory_dir(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = PathBuf::from(format!(
        "/dev/shm/bellrock-test-{name}-{}-{number}",
        std::process::id()
    ));
    match fs::create_dir(&dir) {
        Ok(()) => dir,
        Err(_) => temp_dir(name),
    }
}

/// The user that owns what the tests make.
pub fn own_uid() -> u32 {
    let dir = temp_dir("uid");
    let uid = fs::metadata(&dir).unwrap().uid();
    fs::remove_dir(&dir).unwrap();
    uid
}

fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: only used for plain structs without padding that matters.
    unsafe { std::slice::from_raw_parts((value as *const T).cast(), std::mem::size_of::<T>()) }
}

/// What a program compares durations with, whose ticks are ns.
pub fn limits(window: u64) -> Limits {
    let limits = Limits::new();
    limits.set(1_000_000_000, window);
    limits
}

/// A ring file, and the segments of its program in memory. `store` copies them into the file, but for `tail`.
pub struct RingFile {
    pub path: PathBuf,
    pub name: String,
    file: File,
    memory: Vec<*mut u8>,
    names_taken: Cell<u64>,
}

const LAYOUT: Layout = match Layout::from_size_align(SEGMENT_SIZE, 64) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};

impl RingFile {
    /// A ring of process `pid` with one segment, in `<dir>`.
    pub fn new(dir: &Path, pid: u32, start_ticks: u64) -> RingFile {
        Self::with_header(dir, pid, start_ticks, |_| ())
    }

    pub fn with_header(
        dir: &Path,
        pid: u32,
        start_ticks: u64,
        change: impl FnOnce(&mut Header),
    ) -> RingFile {
        static NONCE: AtomicU64 = AtomicU64::new(1);
        let name = format!(
            "{pid}-{start_ticks}-{:x}.ring",
            NONCE.fetch_add(1, Ordering::Relaxed)
        );
        let path = dir.join(&name);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(segment_at(1) as u64).unwrap();
        // SAFETY: all zeroes are a valid header.
        let mut header: Header = unsafe { std::mem::zeroed() };
        header.magic = MAGIC;
        header.version = VERSION;
        header.clock = CLOCK_MONOTONIC;
        header.pid = pid;
        header.uid = own_uid();
        header.rank = -1;
        header.segments = 1.into();
        header.pid_start_ticks = start_ticks;
        header.names_ready = (NAMES_CAPACITY as u64).into();
        header.latency_bounds = LATENCY_BOUNDS_NS;
        header.job[..3].copy_from_slice(b"j-1");
        header.program[..8].copy_from_slice(b"/bin/cat");
        change(&mut header);
        file.write_all_at(bytes_of(&header), 0).unwrap();
        // SAFETY: the layout has a size.
        let memory = vec![unsafe { alloc_zeroed(LAYOUT) }];
        RingFile {
            path,
            name,
            file,
            memory,
            names_taken: Cell::new(0),
        }
    }

    pub fn reader(&self) -> File {
        File::open(&self.path).unwrap()
    }

    pub fn segment(&self, index: usize) -> Segment {
        // SAFETY: zeroed memory of a segment's size and alignment, which lives as long as `self`.
        unsafe { Segment::new(self.memory[index]) }
    }

    pub fn segment_bytes(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory[index], SEGMENT_SIZE) }
    }

    /// Records an operation and lets the agent see it.
    pub fn record(&self, index: usize, o: &Operation) {
        let _ = self.segment(index).record(o, &limits(u64::MAX / 4));
        self.store(index);
    }

    pub fn store(&self, index: usize) {
        let at = segment_at(index) as u64;
        let tail = std::mem::offset_of!(SegmentHeader, tail);
        // SAFETY: as above.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.memory[index], SEGMENT_SIZE) };
        let mut from_agent = [0; 8];
        self.file
            .read_exact_at(&mut from_agent, at + tail as u64)
            .unwrap();
        memory[tail..tail + 8].copy_from_slice(&from_agent);
        self.file.write_all_at(memory, at).unwrap();
    }

    /// Makes the file longer, with holes: so many segments, which the header says exist.
    pub fn grow(&self, segments: usize) {
        self.file.set_len(segment_at(segments) as u64).unwrap();
        let at = std::mem::offset_of!(Header, segments) as u64;
        self.file
            .write_all_at(&(segments as u32).to_ne_bytes(), at)
            .unwrap();
    }

    /// Writes what the first segment holds into another one.
    pub fn copy_segment(&mut self, to: usize) {
        let bytes = self.segment_bytes(0).to_vec();
        self.file
            .write_all_at(&bytes, segment_at(to) as u64)
            .unwrap();
    }

    /// Says that a segment has had so many runs.
    pub fn set_head(&self, index: usize, head: u64) {
        let at = segment_at(index) + std::mem::offset_of!(SegmentHeader, head);
        self.file
            .write_all_at(&head.to_ne_bytes(), at as u64)
            .unwrap();
    }

    /// What the agent says it has spooled.
    pub fn tail(&self, index: usize) -> u64 {
        let mut tail = [0; 8];
        let at = segment_at(index) + std::mem::offset_of!(SegmentHeader, tail);
        self.file.read_exact_at(&mut tail, at as u64).unwrap();
        u64::from_ne_bytes(tail)
    }

    fn set_names_taken(&self, taken: u64) {
        self.names_taken.set(taken);
        let at = std::mem::offset_of!(Header, names_taken) as u64;
        self.file.write_all_at(&taken.to_ne_bytes(), at).unwrap();
    }

    /// Writes an entry whose id is still missing; answers its place.
    pub fn add_incomplete_name(&self, path: &[u8]) -> u64 {
        let place = self.names_taken.get();
        let at = NAMES_AT as u64 + place;
        self.file
            .write_all_at(&(path.len() as u32).to_ne_bytes(), at + 8)
            .unwrap();
        self.file.write_all_at(path, at + 16).unwrap();
        self.set_names_taken(place + name_entry_size(path.len()) as u64);
        place
    }

    pub fn complete_name(&self, place: u64, path: &[u8]) -> u64 {
        let id = file_id(path);
        self.file
            .write_all_at(&id.to_ne_bytes(), NAMES_AT as u64 + place)
            .unwrap();
        id
    }

    pub fn add_name(&self, path: &[u8]) -> u64 {
        let place = self.add_incomplete_name(path);
        self.complete_name(place, path)
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        for memory in &self.memory {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(*memory, LAYOUT) };
        }
    }
}

/// An instant that is always the same. A tick is half a nanosecond.
pub fn now() -> Now {
    static INSTANT: OnceLock<Instant> = OnceLock::new();
    Now {
        pair: Pair {
            ticks: 1_000_000_000_000,
            monotonic_ns: 500_000_000_000,
        },
        utc_offset_ns: 1_700_000_000_000_000_000,
        ns_per_tick: 0.5,
        boot_utc_ns: 1_700_000_000_000_000_000,
        instant: *INSTANT.get_or_init(Instant::now),
        stands: true,
    }
}
