//! One ring file: what it holds becomes events. Nothing in it is trusted.

mod context;
mod emit;
pub mod fields;
mod identity;
mod names;
mod segment;
mod slots;

pub use self::context::{Buffers, Context, Flow};
use self::identity::Facts;
use self::names::{Names, SCAN_BYTES_MAX};
use super::cursor::Cursor;
use super::io_uring::IoUring;
use super::life::Life;
use super::process;
use crate::ship::batch::Batch;
use crate::warn;
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::time::Instant;
use tracepack::record::{Run, LATENCY_BOUNDS_NS};
use tracepack::ring::{segment_at, Header, SegmentHeader, SEGMENTS_MAX, SEGMENT_SIZE};

/// Largest ring file.
pub const FILE_BYTES_MAX: u64 = segment_at(SEGMENTS_MAX) as u64;

/// Owned by the source; it lives until the file is gone.
pub struct Ring {
    pub uid: u32,
    pub name: String,
    pub pid: u32,
    pub start_ticks: u64,
    /// Tells rings apart in the path cache; from 1.
    serial: u64,
    pub file: Option<File>,
    facts: Option<Facts>,
    pub cursor: Cursor,
    /// The cursor changed since the last commit.
    pub dirty: bool,
    names: Names,
    waiting_since: Option<Instant>,
    pub life: Life,
    pub io_uring: IoUring,
    /// All that it holds was read, and its process has ended.
    pub finished: bool,
    pub told_bad: bool,
    /// It was counted among those that wait for room.
    pub told_short: bool,
    /// The segment to begin with: the one at which a pass had to stop.
    first: usize,
    pass: PassState,
    /// CLOCK_MONOTONIC when its content was last seen to differ from before, and its checksum then.
    pub changed_ns: i64,
    checksum: u32,
}

/// Where in the ring a pass is.
#[derive(Default)]
struct PassState {
    /// Segments in the file.
    segments: usize,
    first: usize,
    /// How many are to be read, from `first` on and round; how many were.
    wanted: usize,
    done: usize,
    scan_budget: usize,
    checksum: crc32fast::Hasher,
}

/// By how much a counter in the ring grew. No honest one grows as much between two looks: one forged number must not drown
/// what others count.
fn claimed(before: u64, now: u64) -> u64 {
    now.saturating_sub(before).min(u32::MAX.into())
}

impl Ring {
    pub fn new(uid: u32, name: String, serial: u64, cursor: Cursor) -> Option<Ring> {
        let (pid, start_ticks) = process::of_file_name(&name)?;
        Some(Ring {
            uid,
            name,
            pid,
            start_ticks,
            serial,
            file: None,
            facts: None,
            cursor,
            dirty: false,
            names: Names::default(),
            waiting_since: None,
            life: Life::Lives,
            io_uring: IoUring::default(),
            finished: false,
            told_bad: false,
            told_short: false,
            first: 0,
            pass: PassState::default(),
            changed_ns: 0,
            checksum: 0,
        })
    }

    /// Begins a pass, after `identify`. `Err`: why the file is no ring.
    pub fn begin(&mut self, c: &Context) -> Result<(), &'static str> {
        let mut bytes = [0u8; size_of::<Header>()];
        let view = self.header(&mut bytes)?;
        let facts = self.facts.as_ref().ok_or("it has no header")?;
        facts.scale(&c.now).ok_or("its clock is unknown")?;
        let claimed_segments = view.segments() as usize;
        let length = self.file.as_ref().and_then(|f| f.metadata().ok());
        let length = length.map_or(0, |m| m.len());
        let there = length.saturating_sub(segment_at(0) as u64) / SEGMENT_SIZE as u64;
        let segments = claimed_segments.min(there as usize).min(SEGMENTS_MAX);
        if segments < claimed_segments {
            self.bad(c, "it has fewer segments than its header says");
        }
        // Segments that are ended lie first, and are not looked at again.
        let ended = (self.cursor.ended as usize).min(segments);
        let linear = ended > 0 || self.life == Life::Ended || self.first >= segments;
        self.pass = PassState {
            segments,
            first: if linear { ended } else { self.first },
            wanted: segments - ended,
            done: 0,
            scan_budget: SCAN_BYTES_MAX,
            checksum: crc32fast::Hasher::new(),
        };
        for (now, seen, counter) in [
            (
                view.lost_operations(),
                &mut self.cursor.lost_operations,
                &c.counters.lost,
            ),
            (
                view.lost_names(),
                &mut self.cursor.lost_names,
                &c.counters.lost_names,
            ),
        ] {
            if now != *seen {
                counter.add(claimed(*seen, now));
                *seen = now;
                self.dirty = true;
            }
        }
        self.pass.checksum.update(&bytes);
        Ok(())
    }

    /// Reads on, after `begin`.
    pub fn read(&mut self, c: &mut Context, batch: &mut Batch) -> Flow {
        // Anew at each call: the one before may have waited long for the spool.
        let Some(scale) = self.facts.as_ref().and_then(|f| f.scale(&c.now)) else {
            return Flow::Done;
        };
        if !self.cursor.started && !self.emit_start(c, batch) {
            return Flow::Full;
        }
        if !self.emit_io_uring(c, batch) {
            return Flow::Full;
        }
        while self.pass.done < self.pass.wanted {
            let index = (self.pass.first + self.pass.done) % self.pass.segments;
            let holes = self.holes(index);
            if holes > 0 {
                if self.life == Life::Ended {
                    self.cursor.end_segment(index + holes - 1);
                    self.dirty = true;
                }
                self.pass.done += holes;
                continue;
            }
            let flow = match c.steps {
                0 => Flow::Later,
                _ => self.read_segment(index, &scale, c, batch),
            };
            if flow == Flow::Later {
                self.first = index;
                self.changed_ns = c.now.pair.monotonic_ns;
            }
            if flow != Flow::Done {
                return flow;
            }
            if self.life == Life::Ended {
                self.cursor.end_segment(index);
                self.dirty = true;
            }
            self.pass.done += 1;
        }
        self.first = 0;
        self.waiting_since = None;
        self.finished = self.life == Life::Ended;
        if self.wants_slots(c) {
            let checksum = self.pass.checksum.clone().finalize();
            if std::mem::replace(&mut self.checksum, checksum) != checksum {
                self.changed_ns = c.now.pair.monotonic_ns;
            }
        }
        Flow::Done
    }

    /// Whether to look at the open runs.
    fn wants_slots(&self, c: &Context) -> bool {
        c.slots_due || self.life != Life::Lives
    }

    /// What remains to be shipped of a run; see `SegmentCursor::rest`.
    fn rest(&self, place: usize, run: &Run) -> Result<Option<Run>, ()> {
        let bounds = self.facts.as_ref().map(|f| &f.latency_bounds);
        self.cursor.segments[place].rest(run, bounds.unwrap_or(&LATENCY_BOUNDS_NS))
    }

    /// Says once in a while that the ring holds nonsense.
    fn bad(&self, c: &Context, what: &str) {
        c.counters.bad_runs.add(1);
        warn!(
            "bad ring",
            "ring {}/{}: {what}; it is damaged or forged", self.uid, self.name
        );
    }

    /// What was read is in the spool: the program may write over it.
    pub fn committed(&mut self) {
        self.dirty = false;
        let segments = self.cursor.segments.iter_mut();
        segments.for_each(|s| s.changed = false);
        let Some(file) = &self.file else { return };
        for seen in &mut self.cursor.segments {
            if seen.tail.is_none_or(|tail| tail == seen.position) {
                continue;
            }
            let at = segment_at(seen.index as usize) + offset_of!(SegmentHeader, tail);
            if let Err(e) = file.write_all_at(&seen.position.to_ne_bytes(), at as u64) {
                warn!(
                    "tail",
                    "ring {}/{}: {e}; the program will fold its operations", self.uid, self.name
                );
                return;
            }
            seen.tail = Some(seen.position);
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
