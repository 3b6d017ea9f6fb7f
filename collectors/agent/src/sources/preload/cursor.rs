//! How far a ring file has been read, and what of its open runs was shipped. Kept in the spool beside what was read.

mod spooled;

use tracepack::record::{latency_bucket, Run, FLAG_FOLDED, FLAG_PIECE, LATENCY_BUCKETS};
use tracepack::ring::SLOTS;

/// What was shipped of a run that was still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    pub slot: u8,
    pub generation: u16,
    pub count: u64,
    pub bytes: u64,
    pub busy: u64,
    pub end: u64,
    pub latency: [u32; LATENCY_BUCKETS - 1],
}

/// Of a segment of which something was read; reading any other begins at its `tail`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCursor {
    /// Its place in the file.
    pub index: u32,
    /// Runs read.
    pub position: u64,
    /// Folded operations counted.
    pub folded: u64,
    /// Slot and generation of the last run read: that run may still stand in its slot. Generation 0: none.
    pub last_slot: u8,
    pub last_generation: u16,
    /// Bounded by SLOTS.
    pub shipped: Vec<Shipped>,
    /// `tail` as it stands in the file, once it was read. Not in the spool.
    pub tail: Option<u64>,
    /// It differs from what the spool has.
    pub changed: bool,
}

impl SegmentCursor {
    /// Nothing was read.
    pub fn is_blank(&self) -> bool {
        self.position == 0 && self.folded == 0 && self.shipped.is_empty()
    }

    /// What was shipped of the run of this generation in this slot.
    pub fn shipped_of(&self, slot: u8, generation: u16) -> Option<&Shipped> {
        let mut shipped = self.shipped.iter();
        shipped.find(|s| s.slot == slot && s.generation == generation)
    }

    pub fn has_shipped(&self, slot: usize) -> bool {
        self.shipped.iter().any(|s| s.slot as usize == slot)
    }

    /// What remains of `run` after what was shipped of it. `None`: nothing. `Err`: it has shrunk, which an honest run cannot.
    /// `bounds`: those of the latency histogram, ticks.
    pub fn rest(&self, run: &Run, bounds: &[u64; LATENCY_BUCKETS - 1]) -> Result<Option<Run>, ()> {
        let Some(s) = self.shipped_of(run.slot, run.generation) else {
            return Ok(Some(*run));
        };
        let count = run.count.checked_sub(s.count).ok_or(())?;
        if count == 0 {
            return Ok(None);
        }
        let bytes = run.bytes.checked_sub(s.bytes).ok_or(())?;
        let busy = run.busy.checked_sub(s.busy).ok_or(())?;
        let mut latency = [0; LATENCY_BUCKETS - 1];
        for (i, rest) in latency.iter_mut().enumerate() {
            *rest = run.latency[i].checked_sub(s.latency[i]).ok_or(())?;
        }
        let exact = run.flags & FLAG_FOLDED == 0;
        let skipped = (run.stride as u64).wrapping_mul(s.count);
        let rest = Run {
            offset: if exact {
                run.offset.wrapping_add(skipped)
            } else {
                run.offset
            },
            stride: if count == 1 { 0 } else { run.stride },
            count,
            bytes,
            start: s.end,
            busy,
            flags: run.flags | FLAG_PIECE,
            latency,
            ..*run
        };
        if rest.slow_count() > count {
            return Err(());
        }
        // The slowest may have been shipped already: then none of the rest took longer than its bucket says, of whose bound the
        // program and we have a slightly different notion.
        let top = rest.latency.iter().rposition(|&n| n > 0);
        let top = top.map_or(0, |i| i + 1);
        let slowest = match bounds.get(top) {
            Some(bound) if latency_bucket(run.slowest, bounds) > top => bound - bound / 256,
            _ => run.slowest,
        };
        Ok(Some(Run {
            slowest: slowest.min(busy),
            ..rest
        }))
    }

    /// All of an open run, as it stands, is shipped.
    pub fn ship(&mut self, run: &Run) {
        self.changed = true;
        self.forget(run.slot);
        if self.shipped.len() < SLOTS {
            self.shipped.push(Shipped {
                slot: run.slot,
                generation: run.generation,
                count: run.count,
                bytes: run.bytes,
                busy: run.busy,
                end: run.end,
                latency: run.latency,
            });
        }
    }

    /// The run in this slot is closed.
    pub fn forget(&mut self, slot: u8) {
        self.shipped.retain(|s| s.slot != slot);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The `start` record was made.
    pub started: bool,
    /// Losses counted.
    pub lost_operations: u64,
    pub lost_names: u64,
    /// So many segments were read to their end after their process's: they need no cursor any more.
    pub ended: u32,
    /// By place in the file. Bounded by what the source grants its user.
    pub segments: Vec<SegmentCursor>,
}

impl Cursor {
    /// Nothing was read of the ring; such a cursor is not kept in the spool.
    pub fn is_blank(&self) -> bool {
        *self == Cursor::default()
    }

    /// The place of a segment's cursor among all, or where it would be.
    pub fn find(&self, index: usize) -> Result<usize, usize> {
        self.segments
            .binary_search_by_key(&(index as u32), |s| s.index)
    }

    /// The segment was read to its end, and so were those before it.
    pub fn end_segment(&mut self, index: usize) {
        if let Ok(place) = self.find(index) {
            self.segments.remove(place);
        }
        self.ended = index as u32 + 1;
    }

    /// Takes in what a later entry of the spool says.
    pub fn merge(&mut self, later: Cursor) {
        let mut segments = std::mem::take(&mut self.segments);
        segments.retain(|s| s.index >= later.ended && later.find(s.index as usize).is_err());
        segments.extend_from_slice(&later.segments);
        segments.sort_unstable_by_key(|s| s.index);
        *self = Cursor { segments, ..later };
    }
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
