//! When something that is done every so often is due.

use std::time::{Duration, Instant};

/// On a grid, so that a wait which lasted too long does not move those after it.
pub struct Schedule {
    period: Duration,
    next: Instant,
}

impl Schedule {
    /// First due at once.
    pub fn every(period: Duration) -> Schedule {
        Schedule {
            period,
            next: Instant::now(),
        }
    }

    pub fn next(&self) -> Instant {
        self.next
    }

    pub fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    /// It is done now. What was missed is not made up for.
    pub fn done(&mut self) {
        let now = Instant::now();
        self.next += self.period;
        if self.next <= now {
            self.next = now + self.period;
        }
    }

    /// It is done now, and not again before this time is over.
    pub fn rest(&mut self, time: Duration) {
        self.next = Instant::now() + time.max(self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_looks_stay_on_the_grid_and_missed_ones_are_left_out() {
        let period = Duration::from_secs(1000);
        let mut schedule = Schedule::every(period);
        let first = schedule.next();
        assert!(schedule.is_due());
        schedule.done();
        assert_eq!(schedule.next(), first + period);
        assert!(!schedule.is_due());
        // One that was due ten periods ago.
        schedule.next = Instant::now().checked_sub(10 * period).unwrap_or(first);
        schedule.done();
        assert!(schedule.next() > Instant::now());
        schedule.rest(3 * period);
        assert!(schedule.next() > Instant::now() + 2 * period);
    }
}
