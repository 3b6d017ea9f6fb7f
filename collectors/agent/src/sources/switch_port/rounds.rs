//! When the fabric is looked at, when its switches are asked, and which is next.

use crate::sources::back_off::BackOff;
use std::time::{Duration, Instant};

/// A look at the fabric that failed, or that a switch which does not answer makes us take, is no sooner than this after the last, and later each time.
pub const DISCOVER_AGAIN: Duration = Duration::from_secs(30);

/// What a look at the fabric found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// Nothing to go by, or no switch to ask.
    Nothing,
    /// The switches that were known, where they were.
    Same,
    /// Others, or others' places.
    New,
}

/// Owned by its source.
pub struct Rounds {
    discover: Duration,
    pub discovery: BackOff,
    /// When the fabric was looked at last.
    discovered: Instant,
    /// Rounds in which nothing answered come later each time.
    pub round: BackOff,
    is_under_way: bool,
    /// Nothing more is asked in this one.
    is_cut: bool,
    /// With which switch it began, and how many it has asked.
    first: usize,
    count: usize,
    answers: u32,
    /// A switch did not answer since the fabric was looked at.
    is_silent: bool,
}

impl Rounds {
    pub fn new(period: Duration, discover: Duration) -> Rounds {
        Rounds {
            discover,
            discovery: BackOff::new(discover.min(DISCOVER_AGAIN), discover),
            discovered: Instant::now(),
            round: BackOff::every(period),
            is_under_way: false,
            is_cut: false,
            first: 0,
            count: 0,
            answers: 0,
            is_silent: false,
        }
    }

    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Begins a round. True: a look at the fabric comes first.
    pub fn begin(&mut self, now: Instant) -> bool {
        (self.is_under_way, self.is_cut) = (true, false);
        (self.count, self.answers) = (0, 0);
        self.discovery.is_due(now)
    }

    /// The fabric was looked at.
    pub fn looked(&mut self, found: Looked, now: Instant) {
        self.discovered = now;
        let was_silent = std::mem::take(&mut self.is_silent);
        if found == Looked::New || found == Looked::Same && !was_silent {
            self.discovery.worked();
        } else {
            // It did not help.
            self.discovery.failed(now);
        }
        if found != Looked::Nothing {
            self.discovery.next = now + self.discover;
        }
    }

    /// The place of the switch that is asked next, of so many.
    pub fn switch(&mut self, switches: usize) -> Option<usize> {
        if self.is_cut || self.count >= switches {
            return None;
        }
        self.count += 1;
        Some((self.first + self.count - 1) % switches)
    }

    /// A switch was asked. `has_told`: anything; `is_silent`: not all that it should.
    pub fn asked(&mut self, has_told: bool, is_silent: bool) {
        self.answers += has_told as u32;
        self.is_silent |= is_silent;
    }

    /// Asks nothing more in this round; `go_on`: the next begins with the switch that is next.
    pub fn cut(&mut self, go_on: bool) {
        self.is_cut = true;
        self.first += if go_on { self.count } else { 0 };
    }

    /// Ends the round, of so many switches.
    pub fn end(&mut self, switches: usize, has_errors: bool, now: Instant) {
        self.is_under_way = false;
        self.first %= switches.max(1);
        match self.answers == 0 && has_errors {
            true => self.round.failed(now),
            false => self.round.worked(),
        }
        if self.is_silent {
            // It may have gone, or have another LID.
            let soon = self.discovered + self.discovery.pause();
            self.discovery.next = self.discovery.next.min(soon);
        }
        if switches == 0 {
            // There is nothing to ask before.
            self.round.next = self.round.next.max(self.discovery.next);
        }
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
