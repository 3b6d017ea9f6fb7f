//! From what a line says of its time to UTC.

use super::line::When;
use super::teller::AHEAD_MAX_NS;
use crate::sources::log_file::local_time::{civil, LocalTime, Stamp};
use crate::sources::samples::text;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use std::path::{Path, PathBuf};

const NS_PER_S: i64 = 1_000_000_000;
/// Of `/proc/stat`, which has a line for each processor and a number for each interrupt.
const STAT_BYTES_MAX: usize = 4 << 20;
/// The 29th of February comes once in so many years at least.
const YEARS_BACK: i16 = 8;

/// Owned by a log's reader.
pub struct Clock {
    zone: TimeZone,
    local: LocalTime,
    /// Tells when the machine was started: `/proc/stat`.
    stat: PathBuf,
    /// When that was, ns since the epoch, as this look has it: it moves when the clock is set. `None`: it was not asked for yet.
    boot_ns: Option<Option<i64>>,
    /// The last time without a year, and its instant: many lines share one.
    last: Option<(u8, [u8; 12])>,
    last_ns: Option<i64>,
    /// A line without a year is of the latest year in which it is not later than this, in local time.
    latest: DateTime,
}

impl Clock {
    pub fn new(zone: TimeZone, stat: PathBuf) -> Clock {
        Clock {
            local: LocalTime::new(zone.clone(), 0),
            zone,
            stat,
            boot_ns: None,
            last: None,
            last_ns: None,
            latest: DateTime::MIN,
        }
    }

    /// A look begins, at this time.
    pub fn look(&mut self, now_ns: i64) {
        (self.last, self.boot_ns) = (None, None);
        if let Ok(latest) = Timestamp::from_second((now_ns + AHEAD_MAX_NS) / NS_PER_S) {
            self.latest = self.zone.to_datetime(latest);
        }
    }

    /// Goes on after a line of this instant, s since the epoch.
    pub fn resume(&mut self, last_s: i64) {
        self.local.resume(last_s);
    }

    pub fn last_s(&self) -> i64 {
        self.local.last_s()
    }

    /// ns since the epoch. `None`: there is no such time.
    pub fn utc_ns(&mut self, when: &When) -> Option<i64> {
        match *when {
            When::Utc(ns) => Some(ns),
            When::Uptime(ns) => {
                let boot_ns = *self.boot_ns.get_or_insert_with(|| boot_ns(&self.stat));
                boot_ns?.checked_add(ns)
            }
            When::Local { stamp, ns } => {
                let found = self.local.utc_ns(&stamp)?;
                Some(found as i64 + i64::from(ns))
            }
            When::Yearless { month, rest } => {
                if self.last != Some((month, rest)) {
                    self.last = Some((month, rest));
                    self.last_ns = self.with_year(month, rest);
                }
                self.last_ns
            }
        }
    }

    fn with_year(&mut self, month: u8, rest: [u8; 12]) -> Option<i64> {
        let latest = self.latest;
        let stamp = (0..=YEARS_BACK).find_map(|back| {
            let stamp = stamp(latest.year() - back, month, &rest);
            civil(&stamp).filter(|at| *at <= latest).map(|_| stamp)
        })?;
        self.local.utc_ns(&stamp).map(|ns| ns as i64)
    }
}

/// When the machine was started, to the second; `None`: its kernel does not tell.
fn boot_ns(stat: &Path) -> Option<i64> {
    let mut text = Vec::new();
    text::read(stat, STAT_BYTES_MAX, &mut text).ok()?;
    let line = text::lines(&text).find_map(|(_, line, _)| line.strip_prefix(b"btime "))?;
    let seconds = i64::try_from(text::number(line.trim_ascii())?).ok()?;
    seconds.checked_mul(NS_PER_S)
}

/// `YYYY-MM-DD HH:MM:SS` of a year, a month and ` D HH:MM:SS`.
fn stamp(year: i16, month: u8, rest: &[u8; 12]) -> Stamp {
    let mut stamp = [b'-'; 19];
    stamp[..4].copy_from_slice(format!("{:04}", year.clamp(0, 9999)).as_bytes());
    stamp[5..7].copy_from_slice(&[b'0' + month / 10, b'0' + month % 10]);
    // A day below 10 has a blank in place of its first digit.
    stamp[8] = if rest[1] == b' ' { b'0' } else { rest[1] };
    stamp[9..].copy_from_slice(&rest[2..]);
    if rest[0] != b' ' {
        stamp[10] = b'?';
    }
    stamp
}

#[cfg(test)]
mod tests {
    use super::super::line::parse;
    use super::*;
    use crate::testing::temp_dir;

    /// The instant of a line that begins so, read at `now`.
    fn read(zone: &str, now: &str, stamp: &str) -> Option<String> {
        let mut clock = Clock::new(TimeZone::get(zone).unwrap(), PathBuf::new());
        clock.look(now.parse::<Timestamp>().unwrap().as_nanosecond() as i64);
        let line = format!("{stamp} oss1 kernel: said");
        let ns = clock.utc_ns(&parse(line.as_bytes())?.when)?;
        Some(Timestamp::from_nanosecond(ns.into()).unwrap().to_string())
    }

    #[test]
    fn a_time_without_a_year_is_of_the_latest_that_it_can_be() {
        for (zone, now, stamp, expected) in [
            (
                "UTC",
                "2026-11-23T00:31:17Z",
                "Nov 23 00:31:16",
                "2026-11-23T00:31:16Z",
            ),
            // Read in the new year, and written by a clock that is ahead.
            (
                "UTC",
                "2027-01-01T00:00:02Z",
                "Dec 31 23:59:59",
                "2026-12-31T23:59:59Z",
            ),
            (
                "UTC",
                "2026-12-31T23:59:59Z",
                "Jan  1 00:00:02",
                "2027-01-01T00:00:02Z",
            ),
            (
                "Asia/Tokyo",
                "2026-12-31T15:00:02Z",
                "Dec 31 23:59:59",
                "2026-12-31T14:59:59Z",
            ),
            (
                "UTC",
                "2026-11-23T00:00:00Z",
                "Nov 25 00:00:00",
                "2025-11-25T00:00:00Z",
            ),
            (
                "UTC",
                "2027-03-01T00:00:00Z",
                "Feb 29 12:00:00",
                "2024-02-29T12:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-07-01T00:00:00Z",
                "Jun 30 12:00:00",
                "2026-06-30T10:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-07-01T00:00:00Z",
                "2026-06-30T12:00:00.5",
                "2026-06-30T10:00:00.5Z",
            ),
        ] {
            let found = read(zone, now, stamp);
            assert_eq!(found.as_deref(), Some(expected), "{now} {stamp}");
        }
        for bad in [
            "Feb 30 12:00:00",
            "Nov 23 24:00:00",
            "Nov 2x 00:00:00",
            "Nov223 00:00:00",
        ] {
            assert_eq!(read("UTC", "2026-11-23T00:00:00Z", bad), None, "{bad}");
        }
    }

    #[test]
    fn the_kernels_time_counts_from_the_machines_start() {
        let stat = temp_dir("clock").join("stat");
        let mut clock = Clock::new(TimeZone::UTC, stat.clone());
        assert_eq!(clock.utc_ns(&When::Uptime(5)), None);
        std::fs::write(&stat, "cpu  1 2\nbtime 1000\nprocesses 3\n").unwrap();
        clock.look(0);
        assert_eq!(clock.utc_ns(&When::Uptime(5)), Some(1_000 * NS_PER_S + 5));
        // The clock was set.
        std::fs::write(&stat, "btime 2000\n").unwrap();
        assert_eq!(clock.utc_ns(&When::Uptime(5)), Some(1_000 * NS_PER_S + 5));
        clock.look(0);
        assert_eq!(clock.utc_ns(&When::Uptime(5)), Some(2_000 * NS_PER_S + 5));
        for garbled in ["", "btime\n", "btime -1\n", "btime 99999999999999\n"] {
            std::fs::write(&stat, garbled).unwrap();
            clock.look(0);
            assert_eq!(clock.utc_ns(&When::Uptime(5)), None, "{garbled}");
        }
    }
}
