//! The open runs of a segment: what stands in its slots.

use super::super::cursor::Shipped;
use super::super::life::Life;
use super::fields::is_sane;
use super::segment::RUN_BYTES;
use super::{Context, Flow, Ring};
use crate::clock::Scale;
use crate::ship::batch::Batch;
use std::mem::size_of;
use std::os::unix::fs::FileExt;
use tracepack::record::{Run, FLAG_FOLDED};
use tracepack::ring::{read, run_at, slot_at, Slot, SLOTS};

pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
/// Tries to read a slot that is being written.
const SLOT_TRIES: u32 = 4;

/// Whether a run stands in any of these slots.
pub(super) fn any_open(slots: &[u8]) -> bool {
    slots
        .chunks_exact(SLOT_BYTES)
        .any(|slot| read::slot(slot).is_some_and(|(_, run)| run.count != 0))
}

impl Ring {
    /// Ships what is new in the copy of the slots and old enough.
    pub(super) fn read_slots(
        &mut self,
        place: usize,
        closed: &[u16; SLOTS],
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        let window = scale.ticks_of_ms(c.window_ms);
        let mut names_fresh = false;
        for (slot, &closed) in closed.iter().enumerate() {
            let Some((sequence, run)) = read::slot(c.buffers.slot(slot)) else {
                continue;
            };
            let seen = &self.cursor.segments[place];
            if run.count == 0 {
                continue;
            }
            let known = seen.shipped_of(slot as u8, run.generation);
            let since = known.map_or(run.start, |s| s.end);
            if known.is_some_and(|s| s.count == run.count) && sequence & 1 == 0 {
                continue;
            }
            let run = if self.life != Life::Lives {
                self.final_run(place, slot, c)
            } else if c.ship_open || scale.age_ticks(since) > window {
                c.steps = c.steps.saturating_sub(1);
                self.steady_run(place, slot, c)
            } else {
                None
            };
            let Some(run) = run else { continue };
            // Closed, and read above; or its thread is just about to begin the slot's next run.
            let seen = &self.cursor.segments[place];
            let was_closed = closed != 0 && (closed.wrapping_sub(run.generation) as i16) >= 0;
            if was_closed
                || (seen.last_slot as usize == slot && seen.last_generation == run.generation)
            {
                continue;
            }
            if run.slot as usize != slot || !is_sane(&run) {
                self.bad(c, "an open run makes no sense");
                continue;
            }
            // Its user has no room for what was shipped of one more: it is shipped when it has closed.
            let grows = !seen.has_shipped(slot);
            if grows && self.life != Life::Ended && !c.grow(Shipped::BYTES) {
                continue;
            }
            match self.rest(place, &run) {
                Ok(Some(rest)) => match self.emit(&rest, &mut names_fresh, scale, c, batch) {
                    Flow::Done => {}
                    other => return other,
                },
                Ok(None) => continue,
                Err(()) => {
                    self.bad(c, "an open run has shrunk");
                    continue;
                }
            }
            self.cursor.segments[place].ship(&run);
            self.dirty = true;
        }
        Flow::Done
    }

    /// The run in a slot of a living process, if it stands still between two reads. It is the copy's run or a later state of
    /// it: a slot that meanwhile began its next run is left alone, since what closed is not read yet.
    fn steady_run(&self, place: usize, slot: usize, c: &Context) -> Option<Run> {
        let (_, before) = read::slot(c.buffers.slot(slot))?;
        let at = (self.segment_at(place) + slot_at(slot)) as u64;
        let file = self.file.as_ref()?;
        let (mut first, mut second) = ([0u8; SLOT_BYTES], [0u8; SLOT_BYTES]);
        for _ in 0..SLOT_TRIES {
            file.read_exact_at(&mut first, at).ok()?;
            file.read_exact_at(&mut second, at).ok()?;
            let (sequence, run) = read::slot(&second)?;
            if sequence & 1 == 0 && first == second {
                return (run.generation == before.generation).then_some(run);
            }
        }
        None
    }

    /// The run in a slot of an ended process, which may have been killed while it wrote.
    fn final_run(&self, place: usize, slot: usize, c: &Context) -> Option<Run> {
        let bytes = c.buffers.slot(slot);
        let (sequence, mut run) = read::slot(bytes)?;
        if sequence & 1 == 0 {
            return Some(run);
        }
        // Killed while it replaced a run that it had pushed: parts of that one may stand here still.
        let seen = &self.cursor.segments[place];
        if seen.position > 0 && seen.last_slot as usize == slot {
            let mut bytes = [0u8; RUN_BYTES];
            let at = (self.segment_at(place) + run_at(seen.position - 1)) as u64;
            self.file.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
            let pushed = read::run(&bytes)?;
            if run.start == pushed.start {
                return None;
            }
        }
        read::adding(bytes)?.settle(&mut run);
        // These may lack the last operation, which took as long as its bucket says at the least.
        let top = run.latency.iter().rposition(|&n| n > 0);
        let bounds = self.facts.as_ref().map(|f| f.latency_bounds)?;
        run.slowest = run.slowest.max(top.map_or(0, |i| bounds[i]));
        run.busy = run.busy.max(run.slowest);
        if run.flags & FLAG_FOLDED == 0 {
            run.bytes = run.count.saturating_mul(run.size);
            run.slot = slot as u8;
        }
        Some(run)
    }
}
