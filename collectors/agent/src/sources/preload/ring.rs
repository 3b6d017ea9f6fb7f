//! One ring file: what it holds becomes events. Nothing in it is trusted.
//!
//! A segment is read in this order: a copy of its slots, then how far its ring has got, then the closed runs up to there,
//! then the copy. A run of the copy that was closed meanwhile is then known to be.

use super::cursor::{Cursor, SegmentCursor};
use super::fields::{is_sane, write_run, Times};
use super::identity::Facts;
pub use super::identity::Life;
use super::names::{Names, SCAN_BYTES_MAX};
use super::paths::PathCache;
use super::process;
use super::slots::any_open;
use crate::clock::{Now, Scale};
use crate::counters::Counters;
use crate::event;
use crate::ship::batch::Batch;
use crate::{sys, warn};
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tracepack::record::{Op, Run};
use tracepack::ring::{
    read, run_at, segment_at, slot_at, Header, SegmentHeader, Slot, RING_RUNS, SEGMENTS_MAX,
    SEGMENT_SIZE, SLOTS,
};

pub(super) const RUN_BYTES: usize = size_of::<Run>();
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
/// Runs read at a time.
const CHUNK_RUNS: u64 = 128;
/// Bytes of names that are looked through in one step.
const STEP_NAMES_BYTES: usize = 4 << 10;
/// How long a run waits for its file's name, where another thread is just writing one.
const NAME_WAIT: Duration = Duration::from_secs(1);
/// Largest ring file.
pub const FILE_BYTES_MAX: u64 = segment_at(SEGMENTS_MAX) as u64;

/// What a ring's reading needs beside the ring; one for all rings.
pub struct Context<'a> {
    pub now: Now,
    pub counters: &'a Counters,
    pub paths: &'a mut PathCache,
    pub buffers: &'a mut Buffers,
    pub window_ms: u64,
    /// Look at the open runs, too.
    pub slots_due: bool,
    /// Ship open runs whatever their age.
    pub ship_open: bool,
    pub fill: f64,
    /// What may still be done for this ring's user in this pass.
    pub steps: u64,
    /// By how many bytes the user's cursors may still grow; the flag: more was needed.
    pub room: usize,
    pub short: bool,
}

impl Context<'_> {
    /// Takes room for a cursor, if there is enough.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.short |= left.is_none();
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }
}

#[derive(Default)]
pub struct Buffers {
    runs: Vec<u8>,
    pub(super) slots: Vec<u8>,
    path: Vec<u8>,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Done,
    /// The batch is full; call again.
    Full,
    /// The rest is for the next pass.
    Later,
}

/// Owned by the source; it lives until the file is gone.
pub struct Ring {
    pub uid: u32,
    pub name: String,
    pub pid: u32,
    pub start_ticks: u64,
    /// Tells rings apart in the path cache; from 1.
    serial: u64,
    pub file: Option<File>,
    pub(super) facts: Option<Facts>,
    pub cursor: Cursor,
    /// The cursor changed since the last commit.
    pub dirty: bool,
    names: Names,
    waiting_since: Option<Instant>,
    pub life: Life,
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
        if c.slots_due || self.life != Life::Lives {
            let checksum = self.pass.checksum.clone().finalize();
            if std::mem::replace(&mut self.checksum, checksum) != checksum {
                self.changed_ns = c.now.pair.monotonic_ns;
            }
        }
        Flow::Done
    }

    fn emit_start(&mut self, c: &Context, batch: &mut Batch) -> bool {
        let Some(facts) = &self.facts else {
            return true;
        };
        let (start, moved) = c.now.process_start_ns(self.start_ticks);
        let run = Run {
            op: Op::Start as u8,
            count: 1,
            handle: -1,
            ..Run::default()
        };
        let path = Some(&facts.program[..]).filter(|p| !p.is_empty()).map(|p| {
            let mut json = Vec::new();
            event::string(&mut json, p);
            json
        });
        let times = Times {
            start,
            end: start,
            busy: 0,
            slow: 0,
        };
        if !batch.push("run", |out| {
            write_run(out, &facts.claims, &run, path.as_deref(), &times)
        }) {
            return false;
        }
        c.counters.clamped_times.add(moved as u64);
        c.counters.records.add(1);
        self.cursor.started = true;
        self.dirty = true;
        true
    }

    /// Says once in a while that the ring holds nonsense.
    pub(super) fn bad(&self, c: &Context, what: &str) {
        c.counters.bad_runs.add(1);
        warn!(
            "bad ring",
            "ring {}/{}: {what}; it is damaged or forged", self.uid, self.name
        );
    }

    /// How many segments from here on have never been written, up to the last one: a header may claim many over nothing.
    fn holes(&self, index: usize) -> usize {
        let rest = self.pass.segments - index;
        let from = segment_at(index) as u64;
        self.file.as_ref().map_or(0, |file| {
            sys::next_data(file, from).map_or(rest, |data| {
                rest.min((data.saturating_sub(from) / SEGMENT_SIZE as u64) as usize)
            })
        })
    }

    /// Where in the file the segment of this cursor begins.
    pub(super) fn segment_at(&self, place: usize) -> usize {
        segment_at(self.cursor.segments[place].index as usize)
    }

    fn read_segment(
        &mut self,
        index: usize,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        let at = segment_at(index) as u64;
        let want_slots = c.slots_due || self.life != Life::Lives;
        c.steps = c.steps.saturating_sub(1 + want_slots as u64);
        let Some(file) = &self.file else {
            return Flow::Later;
        };
        let mut header = [0u8; size_of::<SegmentHeader>()];
        let mut whole = true;
        if want_slots {
            c.buffers.slots.resize(SLOTS * SLOT_BYTES, 0);
            let slots_at = at + slot_at(0) as u64;
            whole = file.read_exact_at(&mut c.buffers.slots, slots_at).is_ok();
            self.pass.checksum.update(&c.buffers.slots);
        }
        whole &= file.read_exact_at(&mut header, at).is_ok();
        let Some((_, head, folded, tail)) = read::segment_header(&header).filter(|_| whole) else {
            self.bad(c, "a segment lies beyond its end");
            return Flow::Done;
        };
        // The rest of it is the agent's own.
        self.pass
            .checksum
            .update(&header[..offset_of!(SegmentHeader, tail)]);
        let place = match self.cursor.find(index) {
            Ok(place) => place,
            Err(_) if head == 0 && !(want_slots && any_open(&c.buffers.slots)) => {
                return Flow::Done
            }
            // Its runs stay where they are until there is room, or its process has ended.
            Err(_) if self.life != Life::Ended && !c.grow(SegmentCursor::BYTES) => {
                return Flow::Done
            }
            Err(place) => {
                let new = SegmentCursor {
                    index: index as u32,
                    position: tail,
                    ..SegmentCursor::default()
                };
                self.cursor.segments.insert(place, new);
                place
            }
        };
        self.cursor.segments[place].tail = Some(tail);
        self.find_position(place, head, c);
        let seen = &mut self.cursor.segments[place];
        if folded != seen.folded {
            c.counters.folded.add(claimed(seen.folded, folded));
            (seen.folded, seen.changed) = (folded, true);
            self.dirty = true;
        }
        c.fill = c.fill.max((head - seen.position) as f64 / RING_RUNS as f64);
        let mut closed = [0u32; SLOTS];
        while self.cursor.segments[place].position < head {
            match self.read_runs(place, head, &mut closed, scale, c, batch) {
                Flow::Done => {}
                other => return other,
            }
        }
        let mut flow = Flow::Done;
        if want_slots {
            flow = self.read_slots(place, &closed, scale, c, batch);
        }
        if self.cursor.segments[place].is_blank() {
            self.cursor.segments.remove(place);
        }
        flow
    }

    /// Settles where to read on, whatever the ring claims: between `head - RING_RUNS` and `head`.
    fn find_position(&mut self, place: usize, head: u64, c: &Context) {
        let before = self.cursor.segments[place].position;
        let oldest = head.saturating_sub(RING_RUNS as u64);
        let mut position = before;
        if position > head {
            self.bad(c, "fewer runs than were read already");
            position = head;
        }
        if position < oldest {
            self.bad(c, "runs were overwritten before they were read");
            c.counters.lost_runs.add(claimed(position, oldest));
            position = oldest;
        }
        if position != before {
            let seen = &mut self.cursor.segments[place];
            (seen.position, seen.changed) = (position, true);
            self.dirty = true;
        }
    }

    /// Reads one chunk of closed runs.
    fn read_runs(
        &mut self,
        place: usize,
        head: u64,
        closed: &mut [u32; SLOTS],
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if c.steps == 0 {
            return Flow::Later;
        }
        let position = self.cursor.segments[place].position;
        let until_wrap = RING_RUNS as u64 - position % RING_RUNS as u64;
        let count = (head - position).min(CHUNK_RUNS).min(until_wrap);
        let at = (self.segment_at(place) + run_at(position)) as u64;
        let mut bytes = std::mem::take(&mut c.buffers.runs);
        bytes.resize(count as usize * RUN_BYTES, 0);
        let whole = self
            .file
            .as_ref()
            .is_some_and(|f| f.read_exact_at(&mut bytes, at).is_ok());
        let mut flow = Flow::Done;
        if whole {
            let mut names_fresh = false;
            for run in bytes.chunks_exact(RUN_BYTES).filter_map(read::run) {
                flow = self.closed_run(place, &run, &mut names_fresh, scale, c, batch);
                if flow != Flow::Done {
                    break;
                }
                if let Some(generation) = closed.get_mut(run.slot as usize) {
                    *generation = run.generation;
                }
            }
        } else {
            self.bad(c, "a segment lies beyond its end");
            c.counters.lost_runs.add(count);
            let seen = &mut self.cursor.segments[place];
            (seen.position, seen.changed) = (position + count, true);
            self.dirty = true;
        }
        c.buffers.runs = bytes;
        flow
    }

    fn closed_run(
        &mut self,
        place: usize,
        run: &Run,
        names_fresh: &mut bool,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if is_sane(run) {
            match self.cursor.segments[place].rest(run) {
                Ok(Some(rest)) => match self.emit(&rest, names_fresh, scale, c, batch) {
                    Flow::Done => {}
                    other => return other,
                },
                Ok(None) => {}
                Err(()) => self.bad(c, "a run has shrunk"),
            }
        } else {
            self.bad(c, "a run makes no sense");
        }
        let seen = &mut self.cursor.segments[place];
        (seen.position, seen.changed) = (seen.position + 1, true);
        seen.forget(run.slot);
        (seen.last_slot, seen.last_generation) = (run.slot, run.generation);
        c.steps = c.steps.saturating_sub(1);
        self.dirty = true;
        Flow::Done
    }

    /// Writes a run to the batch.
    pub(super) fn emit(
        &mut self,
        run: &Run,
        names_fresh: &mut bool,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if !batch.has_room() {
            return Flow::Full;
        }
        if run.file != 0 && c.paths.get(self.serial, run.file).is_none() {
            match self.find_path(run.file, names_fresh, c) {
                Flow::Done => {}
                other => return other,
            }
        }
        let path = if run.file == 0 {
            None
        } else {
            c.paths.get(self.serial, run.file)
        };
        c.counters
            .unknown_names
            .add((path.is_none() && run.file != 0) as u64);
        let (start, start_moved) = scale.utc_ns(run.start);
        let (end, end_moved) = scale.utc_ns(run.end);
        c.counters
            .clamped_times
            .add((start_moved || end_moved || end < start) as u64);
        let busy = scale.span_ns(run.busy);
        let times = Times {
            start,
            end: end.max(start),
            busy,
            slow: scale.span_ns(run.slowest).min(busy),
        };
        let Some(facts) = &self.facts else {
            return Flow::Done;
        };
        if !batch.push("run", |out| {
            write_run(out, &facts.claims, run, path, &times)
        }) {
            return Flow::Full;
        }
        c.counters.seen.add(run.count);
        c.counters.merged.add(run.count - 1);
        c.counters.records.add(1);
        Flow::Done
    }

    /// Brings a file's path into the cache, if it can be found. A name is complete before its first run can be seen, so the
    /// names are looked through again after a run with an unknown one was read.
    fn find_path(&mut self, id: u64, names_fresh: &mut bool, c: &mut Context) -> Flow {
        let Some(file) = &self.file else {
            return Flow::Done;
        };
        loop {
            if let Some(path) = self.names.path(file, id, &mut c.buffers.path) {
                c.paths.put(self.serial, id, path);
                self.waiting_since = None;
                return Flow::Done;
            }
            if *names_fresh {
                break;
            }
            let budget = self.pass.scan_budget;
            let is_final = self.life != Life::Lives;
            let whole = self.names.scan(file, is_final, &mut self.pass.scan_budget);
            let read = budget - self.pass.scan_budget;
            c.steps = c.steps.saturating_sub((read / STEP_NAMES_BYTES) as u64);
            if !whole {
                return Flow::Later;
            }
            *names_fresh = true;
        }
        if self.names.has_hole
            && self
                .waiting_since
                .get_or_insert_with(Instant::now)
                .elapsed()
                < NAME_WAIT
        {
            return Flow::Later;
        }
        Flow::Done
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
