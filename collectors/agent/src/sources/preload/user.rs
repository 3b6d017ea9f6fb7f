//! One user's rings, and how much of a pass and of the spool they may take: nobody's rings keep the others' waiting.

use super::life::Life;
use super::ring::Ring;
use std::collections::VecDeque;

/// Steps that are made for one user in one pass, each a few microseconds at most: a look at a ring, at a segment, at its slots,
/// a run, 4 KiB of names. The rest waits for the next pass; the last pass gives all users turns until everything is read.
pub const TURN_STEPS_MAX: u64 = 1 << 16;
/// Where a user's turn in a pass is.
pub struct Turn {
    /// Rings to read, by their places.
    pub order: VecDeque<usize>,
    /// The first of them has begun.
    pub begun: bool,
    pub steps: u64,
}

#[derive(Default)]
pub struct User {
    /// Bounded by `rings_per_user_max`.
    pub rings: Vec<Ring>,
    /// There are more than the bound lets in.
    pub cut: bool,
    /// What its cursors take in the spool, bytes.
    pub cursor_bytes: usize,
    /// It was said that there is no room for more.
    pub told_short: bool,
    pub turn: Option<Turn>,
    /// The living ring that the next pass begins with: the first that the last one did not come to.
    next: usize,
}

impl User {
    /// Begins its turn: first the rings that a job's end may wait for, then the others, from where the last pass stopped.
    pub fn begin_turn(&mut self) {
        let count = self.rings.len();
        let from = if self.next < count { self.next } else { 0 };
        let (later, mut first): (Vec<usize>, Vec<usize>) = (from..count)
            .chain(0..from)
            .filter(|&at| !self.rings[at].finished)
            .partition(|&at| self.rings[at].is_identified() && self.rings[at].life == Life::Lives);
        // Half read ones before others: each holds more of the spool than a whole one.
        first.sort_by_key(|&at| (self.rings[at].cursor.segments.is_empty(), at));
        self.turn = Some(Turn {
            order: first.into_iter().chain(later).collect(),
            begun: false,
            steps: TURN_STEPS_MAX,
        });
    }

    /// Ends a turn whose steps are used up. Answers whether what it leaves may be an ended process's.
    pub fn stop_turn(&mut self) -> bool {
        let Some(turn) = self.turn.take() else {
            return false;
        };
        let lives = |at: &usize| {
            let ring = &self.rings[*at];
            ring.is_identified() && ring.life == Life::Lives
        };
        // The ring at which it stopped goes on from there when the others have had their turn.
        let next = turn.order.get(turn.begun as usize);
        let next = next.or(turn.order.front()).filter(|at| lives(at));
        let owes = !turn.order.iter().all(lives);
        self.next = next.copied().unwrap_or(self.next);
        owes
    }
}
