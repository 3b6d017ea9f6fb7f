//! From ticks to UTC.
//!
//! A ring's header bears one instant on both clocks, the agent takes a second: between these ticks are interpolated to
//! CLOCK_MONOTONIC, and the present offset of CLOCK_REALTIME makes UTC of it.

use crate::sys;
use std::time::{Duration, Instant};
use tracepack::ring::{CLOCK_MONOTONIC, CLOCK_TSC};

/// Two instants nearer than this give no rate.
const BASELINE_MIN_NS: i64 = 1_000_000;
/// How long the agent measures at its start for a first rate.
const FIRST_MEASURE: Duration = Duration::from_millis(5);
/// By how much (a fraction) a ring's own rate may differ from the agent's.
const RATE_TOLERANCE: f64 = 0.01;
/// How far ahead of now a time may lie, ns.
const AHEAD_MAX_NS: i64 = 1_000_000_000;

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub ticks: u64,
    pub monotonic_ns: i64,
}

#[cfg(target_arch = "x86_64")]
fn read_ticks() -> u64 {
    // SAFETY: every x86_64 has the time-stamp counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
#[cfg(not(target_arch = "x86_64"))]
fn read_ticks() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC) as u64
}

/// What another clock shows, and CLOCK_MONOTONIC at that instant, ns. The best of three tries, the one that took least: whoever is put aside by
/// the system between the two readings would take that long for an offset of the clocks.
fn beside_monotonic<T>(read: impl Fn() -> T) -> (T, i64) {
    let once = || {
        let before = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let found = read();
        let took = sys::clock_ns(libc::CLOCK_MONOTONIC) - before;
        (took, found, before + took / 2)
    };
    let mut best = once();
    for _ in 0..2 {
        let again = once();
        if again.0 < best.0 {
            best = again;
        }
    }
    (best.1, best.2)
}

fn pair() -> Pair {
    let (ticks, monotonic_ns) = beside_monotonic(read_ticks);
    Pair {
        ticks,
        monotonic_ns,
    }
}

/// A clock less CLOCK_MONOTONIC, ns.
fn offset_ns(clock: libc::clockid_t) -> i64 {
    let (time_ns, monotonic_ns) = beside_monotonic(|| sys::clock_ns(clock));
    time_ns - monotonic_ns
}

/// The present, on every clock.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub pair: Pair,
    /// UTC less CLOCK_MONOTONIC.
    pub utc_offset_ns: i64,
    /// The agent's own measure of the time-stamp counter.
    pub ns_per_tick: f64,
    /// UTC less CLOCK_BOOTTIME.
    pub boot_utc_ns: i64,
    /// By which is told what is due.
    pub instant: Instant,
    /// Time stands still until it is told anew.
    pub stands: bool,
}

impl Now {
    pub fn utc_ns(&self) -> i64 {
        self.pair.monotonic_ns + self.utc_offset_ns
    }

    /// The same with another UTC, at which time stands still, and beside which there is no clock since a boot.
    pub fn told(self, utc_ns: i64) -> Now {
        Now {
            utc_offset_ns: utc_ns.saturating_sub(self.pair.monotonic_ns),
            boot_utc_ns: 0,
            stands: true,
            ..self
        }
    }

    /// By which is told what is due, once something took its time.
    pub fn later(&self) -> Instant {
        match self.stands {
            true => self.instant,
            false => Instant::now(),
        }
    }

    /// UTC of a process's start, given in clock ticks since boot. The flag: it made no sense and was moved.
    pub fn process_start_ns(&self, start_ticks: u64) -> (i64, bool) {
        let since_boot = start_ticks as i128 * 1_000_000_000 / sys::ticks_per_second() as i128;
        let utc = self.boot_utc_ns as i128 + since_boot;
        let inside = utc.clamp(self.boot_utc_ns as i128, self.utc_ns() as i128);
        (inside as i64, inside != utc)
    }
}

/// Measures the time-stamp counter for as long as the agent lives.
pub struct Clock {
    first: Pair,
    told: Option<Told>,
}

/// UTC as it was told, first and last.
struct Told {
    began: Instant,
    first_ns: i64,
    utc_ns: i64,
}

impl Clock {
    /// Takes a few milliseconds.
    pub fn start() -> Clock {
        let first = pair();
        std::thread::sleep(FIRST_MEASURE);
        Clock { first, told: None }
    }

    /// From now on it stands at a UTC until the next is told, which is no earlier.
    pub fn tell(&mut self, utc_ns: i64) {
        let told = self.told.get_or_insert_with(|| Told {
            began: Instant::now(),
            first_ns: utc_ns,
            utc_ns,
        });
        told.utc_ns = told.utc_ns.max(utc_ns);
    }

    pub fn now(&self) -> Now {
        match &self.told {
            None => self.real(),
            Some(told) => Now {
                instant: told.began + Duration::from_nanos((told.utc_ns - told.first_ns) as u64),
                ..self.real().told(told.utc_ns)
            },
        }
    }

    fn real(&self) -> Now {
        let pair = pair();
        let ticks = pair.ticks.wrapping_sub(self.first.ticks).max(1);
        let utc_offset_ns = offset_ns(libc::CLOCK_REALTIME);
        Now {
            pair,
            utc_offset_ns,
            ns_per_tick: (pair.monotonic_ns - self.first.monotonic_ns) as f64 / ticks as f64,
            boot_utc_ns: utc_offset_ns - offset_ns(libc::CLOCK_BOOTTIME),
            instant: Instant::now(),
            stands: false,
        }
    }
}

/// How one ring's ticks become times.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    base: Pair,
    rate: f64,
    now: Now,
    now_ticks: u64,
}

impl Scale {
    /// `clock`, `anchor_ticks` and `anchor_monotonic_ns` come from a ring's header: nobody vouches for them.
    pub fn new(
        clock: u32,
        anchor_ticks: u64,
        anchor_monotonic_ns: u64,
        now: &Now,
    ) -> Option<Scale> {
        let zero = Pair {
            ticks: 0,
            monotonic_ns: 0,
        };
        if clock == CLOCK_MONOTONIC {
            return Some(Scale {
                base: zero,
                rate: 1.0,
                now: *now,
                now_ticks: now.pair.monotonic_ns as u64,
            });
        }
        if clock != CLOCK_TSC {
            return None;
        }
        let ticks = now.pair.ticks.wrapping_sub(anchor_ticks) as i64;
        let time_ns = now
            .pair
            .monotonic_ns
            .wrapping_sub(anchor_monotonic_ns as i64);
        let rate = time_ns as f64 / ticks as f64;
        let own = Scale {
            base: now.pair,
            rate: now.ns_per_tick,
            now: *now,
            now_ticks: now.pair.ticks,
        };
        // Too near or not plausible: the agent's own instant and rate serve instead.
        if ticks <= 0
            || time_ns < BASELINE_MIN_NS
            || (rate / now.ns_per_tick - 1.0).abs() > RATE_TOLERANCE
        {
            return Some(own);
        }
        let base = Pair {
            ticks: anchor_ticks,
            monotonic_ns: anchor_monotonic_ns as i64,
        };
        Some(Scale { base, rate, ..own })
    }

    /// UTC of an instant in ticks. The flag: it lay before boot or ahead of now, and was moved.
    pub fn utc_ns(&self, ticks: u64) -> (i64, bool) {
        let since_base = ticks.wrapping_sub(self.base.ticks) as i64;
        let monotonic = self
            .base
            .monotonic_ns
            .saturating_add((since_base as f64 * self.rate) as i64);
        let inside = monotonic.clamp(0, self.now.pair.monotonic_ns + AHEAD_MAX_NS);
        (inside + self.now.utc_offset_ns, inside != monotonic)
    }

    /// A span of ticks, in ns; never negative.
    pub fn span_ns(&self, ticks: u64) -> i64 {
        (ticks as f64 * self.rate) as i64
    }

    /// Ticks since an instant; negative if it is to come.
    pub fn age_ticks(&self, ticks: u64) -> i64 {
        self.now_ticks.wrapping_sub(ticks) as i64
    }

    pub fn ticks_of_ms(&self, ms: u64) -> i64 {
        (ms as f64 * 1e6 / self.rate.max(1e-6)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_between_two_clocks_is_no_offset_of_them() {
        let tries = std::cell::Cell::new(0);
        let interrupted = || {
            tries.set(tries.get() + 1);
            let found = sys::clock_ns(libc::CLOCK_MONOTONIC);
            if tries.get() != 2 {
                std::thread::sleep(Duration::from_millis(200));
            }
            found
        };
        let (found, monotonic_ns) = beside_monotonic(interrupted);
        assert_eq!(tries.get(), 3);
        assert!(
            (found - monotonic_ns).abs() < 90_000_000,
            "{}",
            found - monotonic_ns
        );
    }

    use crate::testing::now;

    #[test]
    fn ticks_are_interpolated_between_the_two_instants() {
        let now = now();
        // An anchor 100 s ago on a counter that is 0.1 % faster than the agent believes.
        let scale = Scale::new(
            CLOCK_TSC,
            1_000_000_000_000 - 200_200_000_000,
            400_000_000_000,
            &now,
        )
        .unwrap();
        let (utc, moved) = scale.utc_ns(1_000_000_000_000 - 100_100_000_000);
        assert!(!moved);
        assert!(
            (utc - (now.utc_offset_ns + 450_000_000_000)).abs() < 10,
            "{utc}"
        );
        assert!((scale.span_ns(2002) - 1000).abs() <= 1);
    }

    #[test]
    fn a_short_baseline_uses_the_agents_own_rate() {
        let now = now();
        let scale = Scale::new(
            CLOCK_TSC,
            now.pair.ticks - 10,
            now.pair.monotonic_ns as u64,
            &now,
        )
        .unwrap();
        assert_eq!(scale.utc_ns(now.pair.ticks - 2000).0, now.utc_ns() - 1000);
    }

    #[test]
    fn monotonic_ticks_are_taken_as_they_are() {
        let now = now();
        let scale = Scale::new(CLOCK_MONOTONIC, 3, 4, &now).unwrap();
        assert_eq!(
            scale.utc_ns(499_000_000_000),
            (now.utc_ns() - 1_000_000_000, false)
        );
        assert_eq!(scale.age_ticks(499_999_999_999), 1);
    }

    #[test]
    fn hostile_numbers_stay_inside_the_machines_life() {
        let now = now();
        assert!(Scale::new(7, 0, 0, &now).is_none());
        for anchor in [0, 1, u64::MAX, 1 << 63, now.pair.ticks] {
            for monotonic in [0, 1, u64::MAX, 1 << 63, 499_000_000_000] {
                let scale = Scale::new(CLOCK_TSC, anchor, monotonic, &now).unwrap();
                for ticks in [0, 1, u64::MAX, 1 << 63, now.pair.ticks, now.pair.ticks + 1] {
                    let utc = scale.utc_ns(ticks).0;
                    assert!(utc >= now.boot_utc_ns && utc <= now.utc_ns() + AHEAD_MAX_NS);
                    assert!(scale.span_ns(ticks) >= 0);
                }
            }
        }
        assert_eq!(now.process_start_ns(u64::MAX), (now.utc_ns(), true));
    }

    #[test]
    fn a_clock_that_is_told_the_time_stands_still_in_between() {
        let mut clock = Clock::start();
        clock.tell(5_000_000_000);
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        let again = clock.now();
        assert_eq!((first.utc_ns(), first.boot_utc_ns), (5_000_000_000, 0));
        assert_eq!(
            (again.utc_ns(), again.instant),
            (first.utc_ns(), first.instant)
        );
        assert_eq!(first.later(), first.instant);
        clock.tell(3_605_000_000_000);
        let later = clock.now();
        assert_eq!(later.utc_ns(), 3_605_000_000_000);
        assert_eq!(later.instant - first.instant, Duration::from_secs(3600));
    }

    #[test]
    fn the_real_clock_agrees_with_itself() {
        let clock = Clock::start();
        let now = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(now.later() >= now.instant + Duration::from_millis(2));
        assert!(
            now.ns_per_tick > 0.05 && now.ns_per_tick <= 1.5,
            "{}",
            now.ns_per_tick
        );
        let again = clock.now();
        let scale = Scale::new(
            if cfg!(target_arch = "x86_64") {
                CLOCK_TSC
            } else {
                CLOCK_MONOTONIC
            },
            0,
            0,
            &again,
        )
        .unwrap();
        assert!((scale.utc_ns(now.pair.ticks).0 - now.utc_ns()).abs() < 1_000_000);
    }
}
