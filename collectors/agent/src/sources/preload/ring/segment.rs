//! The closed runs of a segment, and how far they were read.
//!
//! A segment is read in this order: a copy of its slots, then how far its ring has got, then the closed runs up to there,
//! then the copy. A run of the copy that was closed meanwhile is then known to be.

use super::super::cursor::SegmentCursor;
use super::super::life::Life;
use super::fields::is_sane;
use super::slots::{any_open, SLOT_BYTES};
use super::{claimed, Context, Flow, Ring};
use crate::clock::Scale;
use crate::ship::batch::Batch;
use crate::sys;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use tracepack::record::Run;
use tracepack::ring::{
    read, run_at, segment_at, slot_at, SegmentHeader, RING_RUNS, SEGMENT_SIZE, SLOTS,
};

pub(super) const RUN_BYTES: usize = size_of::<Run>();
/// Runs read at a time.
const CHUNK_RUNS: u64 = 128;

impl Ring {
    /// How many segments from here on have never been written, up to the last one: a header may claim many over nothing.
    pub(super) fn holes(&self, index: usize) -> usize {
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

    pub(super) fn read_segment(
        &mut self,
        index: usize,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        let at = segment_at(index) as u64;
        let want_slots = self.wants_slots(c);
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
        let open = want_slots && any_open(&c.buffers.slots);
        let Some(place) = self.place(index, head > 0 || open, tail, c) else {
            return Flow::Done;
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
        let mut closed = [0u16; SLOTS];
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

    /// The place of a segment's cursor, which is made if there is something to read and room for it. `tail`: where to begin.
    fn place(&mut self, index: usize, is_used: bool, tail: u64, c: &mut Context) -> Option<usize> {
        let place = match self.cursor.find(index) {
            Ok(place) => return Some(place),
            Err(place) => place,
        };
        // Without room its runs stay where they are until there is some, or its process has ended.
        if !is_used || (self.life != Life::Ended && !c.grow(SegmentCursor::BYTES)) {
            return None;
        }
        let new = SegmentCursor {
            index: index as u32,
            position: tail,
            ..SegmentCursor::default()
        };
        self.cursor.segments.insert(place, new);
        Some(place)
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
            self.move_to(place, position);
        }
    }

    fn move_to(&mut self, place: usize, position: u64) {
        let seen = &mut self.cursor.segments[place];
        (seen.position, seen.changed) = (position, true);
        self.dirty = true;
    }

    /// Reads one chunk of closed runs.
    fn read_runs(
        &mut self,
        place: usize,
        head: u64,
        closed: &mut [u16; SLOTS],
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
            self.move_to(place, position + count);
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
            match self.rest(place, run) {
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
        self.move_to(place, self.cursor.segments[place].position + 1);
        let seen = &mut self.cursor.segments[place];
        seen.forget(run.slot);
        (seen.last_slot, seen.last_generation) = (run.slot, run.generation);
        c.steps = c.steps.saturating_sub(1);
        Flow::Done
    }
}
