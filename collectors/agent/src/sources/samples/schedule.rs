//! When something that is done every so often is due.

use std::time::{Duration, Instant};

/// On a grid, so that a wait which lasted too long does not move those after it.
pub struct Schedule {
    period: Duration,
    /// `None`: at once.
    next: Option<Instant>,
    /// When it was last asked.
    now: Instant,
}

impl Schedule {
    /// First due at once.
    pub fn every(period: Duration) -> Schedule {
        Schedule {
            period,
            next: None,
            now: Instant::now(),
        }
    }

    pub fn next(&self) -> Instant {
        self.next.unwrap_or(self.now)
    }

    /// Whether it is due at an instant. If it is, what is done then ends with `done` or `rest`, which are told when that was.
    pub fn is_due(&mut self, now: Instant) -> bool {
        self.now = now;
        self.next.is_none_or(|next| next <= now)
    }

    /// It is done now. What was missed is not made up for, be it that doing it took longer than the period.
    pub fn done(&mut self, now: Instant) {
        let next = self.next() + self.period;
        self.next = Some(match next <= now {
            true => now + self.period,
            false => next,
        });
    }

    /// It is done now, and not again before this time is over.
    pub fn rest(&mut self, now: Instant, time: Duration) {
        self.next = Some(now + time.max(self.period));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_looks_stay_on_the_grid_and_missed_ones_are_left_out() {
        let period = Duration::from_secs(1000);
        let mut schedule = Schedule::every(period);
        let first = Instant::now() + 7 * period;
        assert!(schedule.is_due(first));
        schedule.done(first);
        assert_eq!(schedule.next(), first + period);
        assert!(!schedule.is_due(first + period / 2));
        assert!(schedule.is_due(first + period + period / 4));
        schedule.done(first + period + period / 2);
        assert_eq!(schedule.next(), first + 2 * period);
        // One that was due ten periods ago.
        let late = first + 12 * period;
        assert!(schedule.is_due(late));
        schedule.done(late);
        assert_eq!(schedule.next(), late + period);
        schedule.rest(late, 3 * period);
        assert_eq!(schedule.next(), late + 3 * period);
    }

    #[test]
    fn what_takes_longer_than_its_period_rests_for_one() {
        let period = Duration::from_secs(10);
        let mut schedule = Schedule::every(period);
        let begin = Instant::now();
        assert!(schedule.is_due(begin));
        let end = begin + 25 * period / 10;
        schedule.done(end);
        assert!(!schedule.is_due(end));
        assert_eq!(schedule.next(), end + period);
    }
}
