//! What the reading of rings needs beside the rings, and how it ends.

use super::super::paths::PathCache;
use super::slots::SLOT_BYTES;
use crate::clock::Now;
use crate::counters::Counters;

/// One for all rings.
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
    pub(super) runs: Vec<u8>,
    /// A copy of a segment's slots.
    pub(super) slots: Vec<u8>,
    pub(super) path: Vec<u8>,
}

impl Buffers {
    /// The copy of one slot.
    pub(super) fn slot(&self, slot: usize) -> &[u8] {
        &self.slots[slot * SLOT_BYTES..(slot + 1) * SLOT_BYTES]
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
