//! Whether more will come of a ring.

use super::ring::Ring;
use crate::clock::Now;

/// A process in another pid namespace can often not be asked after. When its ring has not changed for this long, it is taken for
/// ended; should it change again, it is read on.
pub const SILENT_AFTER_NS: i64 = 15 * 60 * 1_000_000_000;
/// When its ring has not changed for this long, it is removed.
pub const REMOVE_AFTER_NS: i64 = 24 * 3600 * 1_000_000_000;

/// What is known of a ring's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Lives,
    /// It is in another pid namespace, and its ring has not changed for long: what stands there is taken for final.
    Silent,
    /// Nothing more will come.
    Ended,
}

impl Ring {
    /// Judges the life of a process that cannot be asked after.
    pub fn judge_silence(&mut self, now: &Now) {
        self.life = match now.pair.monotonic_ns - self.changed_ns {
            REMOVE_AFTER_NS.. => Life::Ended,
            SILENT_AFTER_NS.. => Life::Silent,
            _ => Life::Lives,
        };
    }
}
