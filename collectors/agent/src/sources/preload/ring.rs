//! One ring file: what it holds becomes events. Nothing in it is trusted.
//!
//! A segment is read in this order: a copy of its slots, then how far its ring has got, then the closed runs up to there,
//! then the copy. A run of the copy that was closed meanwhile is then known to be.

use super::cursor::{Cursor, SegmentCursor};
use super::fields::{claims, is_sane, write_run, Times};
use super::names::{Names, SCAN_BYTES_MAX};
use super::paths::PathCache;
use super::process;
use crate::clock::{Now, Scale};
use crate::counters::Counters;
use crate::event;
use crate::ship::batch::Batch;
use crate::warn;
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tracepack::record::{Op, Run};
use tracepack::ring::{
    read, run_at, segment_at, slot_at, Header, SegmentHeader, Slot, RING_RUNS, SEGMENTS_MAX, SLOTS,
};

pub(super) const RUN_BYTES: usize = size_of::<Run>();
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
/// Runs read at a time.
const CHUNK_RUNS: u64 = 128;
/// Runs read of one ring in one pass: the rest waits, so that one program does not keep the others waiting.
const PASS_RUNS_MAX: u64 = 1 << 17;
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
}

#[derive(Default)]
pub struct Buffers {
    runs: Vec<u8>,
    pub(super) slots: Vec<u8>,
    path: Vec<u8>,
}

/// What the header said when it was first read.
struct Facts {
    clock: u32,
    anchor_ticks: u64,
    anchor_monotonic_ns: u64,
    /// The fields that all its events share.
    claims: Vec<u8>,
    program: Vec<u8>,
}

impl Facts {
    fn scale(&self, now: &Now) -> Option<Scale> {
        Scale::new(self.clock, self.anchor_ticks, self.anchor_monotonic_ns, now)
    }
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
    facts: Option<Facts>,
    pub cursor: Cursor,
    /// The cursor changed since the last commit.
    pub dirty: bool,
    /// `tail` of each segment as it stands in the file.
    tails: Vec<u64>,
    names: Names,
    waiting_since: Option<Instant>,
    /// Its process has ended.
    pub dead: bool,
    /// All that it holds was read, and its process has ended.
    pub finished: bool,
    pub told_bad: bool,
    pass: PassState,
}

/// Where in the ring a pass is.
struct PassState {
    segments: usize,
    segment: usize,
    runs: u64,
    scan_budget: usize,
}

impl PassState {
    fn new() -> PassState {
        PassState {
            segments: 0,
            segment: 0,
            runs: 0,
            scan_budget: SCAN_BYTES_MAX,
        }
    }
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
            tails: Vec::new(),
            names: Names::default(),
            waiting_since: None,
            dead: false,
            finished: false,
            told_bad: false,
            pass: PassState::new(),
        })
    }

    /// Begins a pass: reads the header. `Err`: why the file is no ring (yet).
    pub fn begin(&mut self, c: &Context) -> Result<(), &'static str> {
        self.pass = PassState::new();
        let mut bytes = [0u8; size_of::<Header>()];
        let file = self.file.as_ref().ok_or("it is not open")?;
        file.read_exact_at(&mut bytes, 0)
            .map_err(|_| "it has no whole header")?;
        let view = read::HeaderView::new(&bytes).ok_or("it has no header of this version")?;
        if (view.pid(), view.pid_start_ticks(), view.uid())
            != (self.pid, self.start_ticks, self.uid)
        {
            return Err("its header names another process or user than its path");
        }
        if self.facts.is_none() {
            let process = format!("{}.{}", self.pid, self.start_ticks);
            self.facts = Some(Facts {
                clock: view.clock(),
                anchor_ticks: view.anchor_ticks(),
                anchor_monotonic_ns: view.anchor_monotonic_ns(),
                claims: claims(&view, self.uid, &process),
                program: view.program().to_vec(),
            });
        }
        let facts = self.facts.as_ref().ok_or("it has no header")?;
        facts.scale(&c.now).ok_or("its clock is unknown")?;
        self.pass.segments = (view.segments() as usize).min(SEGMENTS_MAX);
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
        while self.pass.segment < self.pass.segments {
            let index = self.pass.segment;
            if self.cursor.segments.len() <= index {
                self.cursor.segments.push(SegmentCursor::default());
                self.tails.push(0);
            }
            self.tails.resize(self.cursor.segments.len(), u64::MAX);
            match self.read_segment(index, &scale, c, batch) {
                Flow::Done => self.pass.segment += 1,
                other => return other,
            }
        }
        self.waiting_since = None;
        self.finished = self.dead;
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

    /// The file ends before this segment does, and so before the next ones.
    fn cut_short(&mut self, index: usize, c: &Context) -> Flow {
        self.bad(c, "a segment lies beyond its end");
        self.pass.segments = index + 1;
        Flow::Done
    }

    fn read_segment(
        &mut self,
        index: usize,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        let at = segment_at(index) as u64;
        let want_slots = c.slots_due || self.dead;
        let Some(file) = &self.file else {
            return Flow::Done;
        };
        let mut header = [0u8; size_of::<SegmentHeader>()];
        if want_slots {
            c.buffers.slots.resize(SLOTS * SLOT_BYTES, 0);
            if file
                .read_exact_at(&mut c.buffers.slots, at + slot_at(0) as u64)
                .is_err()
            {
                return self.cut_short(index, c);
            }
        }
        if file.read_exact_at(&mut header, at).is_err() {
            return self.cut_short(index, c);
        }
        let Some((_, head, folded, tail)) = read::segment_header(&header) else {
            return Flow::Done;
        };
        self.tails[index] = tail;
        self.find_position(index, head, tail, c);
        let seen = &mut self.cursor.segments[index];
        if folded != seen.folded {
            c.counters.folded.add(claimed(seen.folded, folded));
            seen.folded = folded;
            self.dirty = true;
        }
        c.fill = c.fill.max((head - seen.position) as f64 / RING_RUNS as f64);
        let mut closed = [0u32; SLOTS];
        while self.cursor.segments[index].position < head {
            match self.read_runs(index, head, &mut closed, scale, c, batch) {
                Flow::Done => {}
                other => return other,
            }
        }
        if want_slots {
            return self.read_slots(index, &closed, scale, c, batch);
        }
        Flow::Done
    }

    /// Settles where to read on, whatever the ring claims: between `head - RING_RUNS` and `head`.
    fn find_position(&mut self, index: usize, head: u64, tail: u64, c: &Context) {
        let seen = &self.cursor.segments[index];
        let oldest = head.saturating_sub(RING_RUNS as u64);
        let mut position = if seen.known { seen.position } else { tail };
        if position > head {
            self.bad(c, "fewer runs than were read already");
            position = head;
        }
        if position < oldest {
            self.bad(c, "runs were overwritten before they were read");
            c.counters.lost_runs.add(claimed(position, oldest));
            position = oldest;
        }
        let seen = &mut self.cursor.segments[index];
        if !seen.known || seen.position != position {
            seen.known = true;
            seen.position = position;
            self.dirty = true;
        }
    }

    /// Reads one chunk of closed runs.
    fn read_runs(
        &mut self,
        index: usize,
        head: u64,
        closed: &mut [u32; SLOTS],
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if self.pass.runs >= PASS_RUNS_MAX {
            return Flow::Later;
        }
        let position = self.cursor.segments[index].position;
        let until_wrap = RING_RUNS as u64 - position % RING_RUNS as u64;
        let count = (head - position).min(CHUNK_RUNS).min(until_wrap);
        let at = (segment_at(index) + run_at(position)) as u64;
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
                flow = self.closed_run(index, &run, &mut names_fresh, scale, c, batch);
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
            self.cursor.segments[index].position += count;
            self.dirty = true;
        }
        c.buffers.runs = bytes;
        flow
    }

    fn closed_run(
        &mut self,
        index: usize,
        run: &Run,
        names_fresh: &mut bool,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if is_sane(run) {
            match self.cursor.segments[index].rest(run) {
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
        let seen = &mut self.cursor.segments[index];
        seen.position += 1;
        seen.forget(run.slot);
        (seen.last_slot, seen.last_generation) = (run.slot, run.generation);
        self.pass.runs += 1;
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
            if !self.names.scan(file, self.dead, &mut self.pass.scan_budget) {
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
        let Some(file) = &self.file else { return };
        for (index, (seen, tail)) in self.cursor.segments.iter().zip(&mut self.tails).enumerate() {
            if seen.known && *tail != u64::MAX && *tail != seen.position {
                let at = (segment_at(index) + offset_of!(SegmentHeader, tail)) as u64;
                if let Err(e) = file.write_all_at(&seen.position.to_ne_bytes(), at) {
                    warn!(
                        "tail",
                        "ring {}/{}: {e}; the program will fold its operations",
                        self.uid,
                        self.name
                    );
                    return;
                }
                *tail = seen.position;
            }
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
