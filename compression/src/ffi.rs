//! The C interface for the preload library (`collectors/preload/tracepack.h`).
//!
//! Every pointer that comes in must be what `tracepack.h` says; nothing here allocates, locks, panics or calls the system.

use crate::first_pass::{Limits, Segment};
use crate::record::Operation;
use crate::ring::{self, Header, NameEntry, SegmentHeader};
use core::sync::atomic::Ordering;

extern "C" {
    /// Defined nowhere: if any path could panic, the preload library does not link.
    fn bellrock_first_pass_must_not_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: never reached, or the library would not exist.
    unsafe { bellrock_first_pass_must_not_panic() }
}

#[no_mangle]
pub static TP_NAMES_AT: usize = ring::NAMES_AT;
#[no_mangle]
pub static TP_NAMES_CAPACITY: usize = ring::NAMES_CAPACITY;
#[no_mangle]
pub static TP_NAMES_STEP: usize = ring::NAMES_STEP;
#[no_mangle]
pub static TP_SEGMENTS_AT: usize = ring::SEGMENTS_AT;
#[no_mangle]
pub static TP_SEGMENT_SIZE: usize = ring::SEGMENT_SIZE;
#[no_mangle]
pub static TP_SEGMENTS_MAX: u32 = ring::SEGMENTS_MAX as u32;
#[no_mangle]
pub static TP_SEGMENTS_SPARE: u32 = ring::SEGMENTS_SPARE as u32;

/// What a process says of itself.
#[repr(C)]
pub struct Identity {
    pub clock: u32,
    pub pid: u32,
    pub parent_pid: u32,
    pub uid: u32,
    pub rank: i32,
    pub pid_start_ticks: u64,
    pub anchor_ticks: u64,
    pub anchor_monotonic_ns: u64,
    pub pid_namespace: u64,
    pub job: *const u8,
    pub job_length: usize,
    pub program: *const u8,
    pub program_length: usize,
}

/// Copies at most `room - 1` bytes, so that a NUL stays.
unsafe fn copy_text(to: *mut u8, room: usize, from: *const u8, length: usize) {
    let n = if length < room { length } else { room - 1 };
    core::ptr::copy_nonoverlapping(from, to, n);
}

/// Writes the header page at `base` (zeroed, HEADER_SIZE bytes). The magic comes last: before it the file is not complete.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_header_init(
    base: *mut Header,
    identity: *const Identity,
    limits: *const Limits,
    names_ready: u64,
) {
    let (h, i) = (&mut *base, &*identity);
    h.version = ring::VERSION;
    h.clock = i.clock;
    h.pid = i.pid;
    h.parent_pid = i.parent_pid;
    h.uid = i.uid;
    h.rank = i.rank;
    h.pid_start_ticks = i.pid_start_ticks;
    h.anchor_ticks = i.anchor_ticks;
    h.anchor_monotonic_ns = i.anchor_monotonic_ns;
    h.pid_namespace = i.pid_namespace;
    h.latency_bounds = (*limits).latency_bounds();
    h.names_ready.store(names_ready, Ordering::Relaxed);
    copy_text(h.job.as_mut_ptr(), h.job.len(), i.job, i.job_length);
    copy_text(
        h.program.as_mut_ptr(),
        h.program.len(),
        i.program,
        i.program_length,
    );
    core::sync::atomic::fence(Ordering::Release);
    core::ptr::write_volatile(&mut h.magic, ring::MAGIC);
}

/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_file_id(path: *const u8, length: usize) -> u64 {
    ring::file_id(core::slice::from_raw_parts(path, length))
}

/// Segments that exist.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_segments(header: *const Header) -> u32 {
    (*header).segments.load(Ordering::Acquire)
}

/// Makes segment `index`, for which the file has room now, exist. 0: another thread was first.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_segment_publish(header: *const Header, index: u32) -> i32 {
    let r = (*header).segments.compare_exchange(
        index,
        index.wrapping_add(1),
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    r.is_ok() as i32
}

/// Takes the segment if it is free and its ring has room. 0: it is not to be had.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_segment_take(segment: *mut u8) -> i32 {
    let h = &*(segment as *const SegmentHeader);
    let free = h.owned.load(Ordering::Relaxed) == 0 && Segment::new(segment).has_room();
    (free
        && h.owned
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()) as i32
}

/// Gives the segment back for another thread to go on with.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_segment_release(segment: *mut u8) {
    (*(segment as *const SegmentHeader))
        .owned
        .store(0, Ordering::Release);
}

/// Sets what operations are compared with, for a clock of so many ticks a second.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_limits_set(limits: *const Limits, ticks_per_s: u64, window_ns: u64) {
    (*limits).set(ticks_per_s, window_ns)
}

/// Records one operation; answers an `Outcome`.
///
/// # Safety
/// See the module; the calling thread owns the segment.
#[no_mangle]
// Beside the wrappers that call it: after a system call the instruction cache is cold, and every line counts.
#[cfg_attr(target_os = "linux", link_section = ".text.hot.tp_record")]
pub unsafe extern "C" fn tp_record(
    segment: *mut u8,
    operation: *const Operation,
    limits: *const Limits,
) -> u32 {
    Segment::new(segment).record(&*operation, &*limits) as u32
}

/// Records one operation although the ring is full.
///
/// # Safety
/// See the module; the calling thread owns the segment.
#[no_mangle]
pub unsafe extern "C" fn tp_record_folding(
    segment: *mut u8,
    operation: *const Operation,
    limits: *const Limits,
) {
    Segment::new(segment).record_folding(&*operation, &*limits)
}

/// Counts operations that found no place at all.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_lost_operations(header: *const Header, count: u64) {
    (*header)
        .lost_operations
        .fetch_add(count, Ordering::Relaxed);
}

/// Adds a name (`names` is the mapped names area, of which `ready` bytes exist in the file). Answers where its path lies; null where
/// there is no room: `*need` is then the size to which the area must grow first, or 0 where it may not grow. Whatever others
/// have written into the file, nothing outside the area is touched.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_name_add(
    header: *const Header,
    names: *mut u8,
    ready: u64,
    file: u64,
    path: *const u8,
    length: usize,
    need: *mut u64,
) -> *const u8 {
    let h = &*header;
    let size = ring::name_entry_size(length) as u64;
    let mut taken = h.names_taken.load(Ordering::Relaxed);
    loop {
        let end = taken.saturating_add(size);
        if end > ring::NAMES_CAPACITY as u64 || length > ring::PATH_MAX || taken % 8 != 0 {
            *need = 0;
            return core::ptr::null();
        }
        if end > ready {
            *need = end;
            return core::ptr::null();
        }
        match h
            .names_taken
            .compare_exchange_weak(taken, end, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => taken = now,
        }
    }
    let entry = names.add(taken as usize) as *mut NameEntry;
    let text = (entry as *mut u8).add(core::mem::size_of::<NameEntry>());
    core::ptr::copy_nonoverlapping(path, text, length);
    (*entry).length = length as u32;
    (*entry).file.store(file, Ordering::Release);
    text
}

/// The names area now has `ready` bytes.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_names_grown(header: *const Header, ready: u64) {
    (*header).names_ready.fetch_max(ready, Ordering::AcqRel);
}

/// Counts a name that found no room.
///
/// # Safety
/// See the module.
#[no_mangle]
pub unsafe extern "C" fn tp_lost_name(header: *const Header) {
    (*header).lost_names.fetch_add(1, Ordering::Relaxed);
}
