//! Reading a ring file, from bytes that nobody vouches for.

use super::*;

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        b.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}
fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        b.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}
fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        b.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}
/// Numbers one after the other, each read by `get`.
fn array_at<T: Copy + Default, const N: usize>(
    b: &[u8],
    at: usize,
    get: fn(&[u8], usize) -> Option<T>,
) -> Option<[T; N]> {
    let mut all = [T::default(); N];
    for (i, to) in all.iter_mut().enumerate() {
        *to = get(b, at.checked_add(i * size_of::<T>())?)?;
    }
    Some(all)
}
/// The text before the first NUL.
fn text(b: &[u8]) -> &[u8] {
    b.split(|&c| c == 0).next().unwrap_or(b)
}

/// The header as read from the file.
pub struct HeaderView<'a> {
    bytes: &'a [u8],
}

macro_rules! fields {
    ($($name:ident: $get:ident as $type:ty),* $(,)?) => {$(
        pub fn $name(&self) -> $type {
            $get(self.bytes, core::mem::offset_of!(Header, $name)).unwrap_or(0) as $type
        }
    )*};
}

impl<'a> HeaderView<'a> {
    /// `None` unless `bytes` hold a whole header of this version.
    pub fn new(bytes: &'a [u8]) -> Option<HeaderView<'a>> {
        if bytes.len() < size_of::<Header>()
            || u64_at(bytes, 0)? != MAGIC
            || u32_at(bytes, 8)? != VERSION
        {
            return None;
        }
        Some(HeaderView { bytes })
    }
    fields! {
        clock: u32_at as u32, pid: u32_at as u32, parent_pid: u32_at as u32, uid: u32_at as u32, rank: u32_at as i32, segments: u32_at as u32,
        pid_start_ticks: u64_at as u64, anchor_ticks: u64_at as u64, anchor_monotonic_ns: u64_at as u64,
        names_ready: u64_at as u64, names_taken: u64_at as u64, lost_operations: u64_at as u64, lost_names: u64_at as u64,
        pid_namespace: u64_at as u64,
    }
    pub fn latency_bounds(&self) -> [u64; LATENCY_BUCKETS - 1] {
        let at = core::mem::offset_of!(Header, latency_bounds);
        array_at(self.bytes, at, u64_at).unwrap_or(LATENCY_BOUNDS_NS)
    }
    pub fn job(&self) -> &'a [u8] {
        let at = core::mem::offset_of!(Header, job);
        text(self.bytes.get(at..at + 128).unwrap_or(&[]))
    }
    pub fn program(&self) -> &'a [u8] {
        let at = core::mem::offset_of!(Header, program);
        text(self.bytes.get(at..at + 1024).unwrap_or(&[]))
    }
}

/// (owned, head, folded, tail) of a segment header.
pub fn segment_header(b: &[u8]) -> Option<(u32, u64, u64, u64)> {
    Some((
        u32_at(b, core::mem::offset_of!(SegmentHeader, owned))?,
        u64_at(b, core::mem::offset_of!(SegmentHeader, head))?,
        u64_at(b, core::mem::offset_of!(SegmentHeader, folded))?,
        u64_at(b, core::mem::offset_of!(SegmentHeader, tail))?,
    ))
}

/// The run that starts at `b[0]`.
pub fn run(b: &[u8]) -> Option<Run> {
    Some(Run {
        file: u64_at(b, core::mem::offset_of!(Run, file))?,
        offset: u64_at(b, core::mem::offset_of!(Run, offset))?,
        stride: u64_at(b, core::mem::offset_of!(Run, stride))? as i64,
        size: u64_at(b, core::mem::offset_of!(Run, size))?,
        count: u64_at(b, core::mem::offset_of!(Run, count))?,
        bytes: u64_at(b, core::mem::offset_of!(Run, bytes))?,
        start: u64_at(b, core::mem::offset_of!(Run, start))?,
        end: u64_at(b, core::mem::offset_of!(Run, end))?,
        busy: u64_at(b, core::mem::offset_of!(Run, busy))?,
        slowest: u64_at(b, core::mem::offset_of!(Run, slowest))?,
        handle: u32_at(b, core::mem::offset_of!(Run, handle))? as i32,
        errno: u16_at(b, core::mem::offset_of!(Run, errno))?,
        flags: u16_at(b, core::mem::offset_of!(Run, flags))?,
        op: *b.get(core::mem::offset_of!(Run, op))?,
        slot: *b.get(core::mem::offset_of!(Run, slot))?,
        generation: u16_at(b, core::mem::offset_of!(Run, generation))?,
        latency: array_at(b, core::mem::offset_of!(Run, latency), u32_at)?,
    })
}

/// (sequence, run) of the slot that starts at `b[0]`.
pub fn slot(b: &[u8]) -> Option<(u32, Run)> {
    Some((
        u32_at(b, 0)?,
        run(b.get(core::mem::offset_of!(Slot, run)..)?)?,
    ))
}

/// What the owner of the slot that starts at `b[0]` was adding; 0: nothing that changes a latency.
pub fn adding(b: &[u8]) -> Option<Adding> {
    u32_at(b, core::mem::offset_of!(Slot, adding)).map(Adding)
}

/// The name entry that starts at `b[0]`: (file id, path, bytes to the next entry). `None`: not complete (yet).
pub fn name(b: &[u8]) -> Option<(u64, &[u8], usize)> {
    let file = u64_at(b, 0)?;
    let length = u32_at(b, 8)? as usize;
    if file == 0 || length > PATH_MAX {
        return None;
    }
    let path = b.get(size_of::<NameEntry>()..size_of::<NameEntry>() + length)?;
    Some((file, path, name_entry_size(length)))
}
