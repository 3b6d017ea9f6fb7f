//! How long what failed is left alone: twice as long after each failure in a row, within bounds.

use std::time::{Duration, Instant};

/// So often a pause is doubled.
const DOUBLINGS_MAX: u32 = 7;
/// The longest pause of what is done every so often, unless it is done more seldom.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Owned by its source.
pub struct BackOff {
    base: Duration,
    longest: Duration,
    failures: u32,
    /// No sooner than this. Its owner may set it, too.
    pub next: Instant,
}

impl BackOff {
    /// Pauses of `base`, twice that, and so on, up to `longest`. The first try is due at once.
    pub fn new(base: Duration, longest: Duration) -> BackOff {
        BackOff {
            base,
            longest,
            failures: 0,
            next: Instant::now(),
        }
    }

    /// Of what is done every `period`: after a failure at twice that first.
    pub fn every(period: Duration) -> BackOff {
        BackOff::new(2 * period, PAUSE_MAX.max(period))
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// The pause that one more failure makes.
    pub fn pause(&self) -> Duration {
        (self.base * (1 << self.failures)).min(self.longest)
    }

    pub fn failed(&mut self, now: Instant) {
        self.next = now + self.pause();
        self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
    }

    pub fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after so many failures in a row, s.
    fn pauses(mut back_off: BackOff, count: usize) -> Vec<u64> {
        let now = Instant::now();
        let mut pause = || {
            back_off.failed(now);
            (back_off.next - now).as_secs()
        };
        (0..count).map(|_| pause()).collect()
    }

    #[test]
    fn each_failure_doubles_the_pause_within_bounds() {
        let every = |period: u64| BackOff::every(Duration::from_secs(period));
        assert_eq!(
            pauses(every(1), 10),
            [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
        );
        assert_eq!(pauses(every(100), 4), [200, 400, 600, 600]);
        // What is done once an hour is not done more often since it fails.
        assert_eq!(pauses(every(3600), 70), [3600; 70]);
        let [base, longest] = [30, 3600].map(Duration::from_secs);
        let pauses = pauses(BackOff::new(base, longest), 9);
        assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
    }

    #[test]
    fn what_works_again_begins_anew() {
        let now = Instant::now();
        let mut back_off = BackOff::every(Duration::from_secs(10));
        assert!(back_off.is_due(Instant::now()));
        (0..5).for_each(|_| back_off.failed(now));
        assert!(!back_off.is_due(now + Duration::from_secs(319)));
        assert!(back_off.is_due(now + Duration::from_secs(320)));
        back_off.worked();
        assert_eq!(back_off.pause(), Duration::from_secs(20));
    }
}
