//! From a log's local time to UTC.

use crate::warn;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// How far a line may lie before the one before it in a log that several threads write, seconds.
const STEP_BACK_MAX_S: i64 = 60;
/// Years whose instants are ns in an i64, after the epoch in every zone.
const YEARS: std::ops::RangeInclusive<i16> = 1971..=2261;

/// `YYYY-MM-DD HH:MM:SS`, not looked into.
pub type Stamp = [u8; 19];

/// The zone of a name such as `Asia/Shanghai`, which `setting` gives; "" is the node's own, or UTC where the node has none that can be read.
pub fn zone(name: &str, setting: &str) -> Result<TimeZone, String> {
    if name.is_empty() {
        return Ok(TimeZone::try_system().unwrap_or_else(|e| {
            warn!(
                "time zone",
                "the node's own: {e}; UTC is taken; set {setting} if logs have another"
            );
            TimeZone::UTC
        }));
    }
    TimeZone::get(name).map_err(|e| {
        format!(
            "{setting}: {name:?}: {e}; give a name of the tz database, such as \"Asia/Shanghai\" or \"UTC\""
        )
    })
}

/// Converts a log's lines one after the other.
pub struct LocalTime {
    zone: TimeZone,
    /// The last stamp and its instant, ns since the epoch: many lines share one.
    stamp: Stamp,
    utc_ns: Option<u64>,
    /// Instant of the last line with a time, seconds since the epoch.
    last_s: i64,
}

impl LocalTime {
    /// `last_s`: the instant of the line before the first one to come, if there was one.
    pub fn new(zone: TimeZone, last_s: i64) -> LocalTime {
        LocalTime {
            zone,
            stamp: [0; 19],
            utc_ns: None,
            last_s,
        }
    }

    pub fn last_s(&self) -> i64 {
        self.last_s
    }

    /// Goes on after a line of this instant.
    pub fn resume(&mut self, last_s: i64) {
        *self = LocalTime::new(self.zone.clone(), last_s);
    }

    /// The instant of the next line, ns since the epoch. `None`: there is no such time.
    #[inline]
    pub fn utc_ns(&mut self, stamp: &Stamp) -> Option<u64> {
        if *stamp != self.stamp {
            self.convert(stamp);
        }
        self.utc_ns
    }

    #[cold]
    fn convert(&mut self, stamp: &Stamp) {
        self.stamp = *stamp;
        let found = civil(stamp).and_then(|local| self.choose(local));
        self.utc_ns = found.map(|s| s as u64 * 1_000_000_000);
        self.last_s = found.unwrap_or(self.last_s);
    }

    /// Where clocks were put back an hour has two instants, where they were put forward a log that should not have any time in that hour
    /// may go by the old offset or the new: the earlier is taken unless the log would step back to it.
    fn choose(&self, local: DateTime) -> Option<i64> {
        let at = |offset: Offset| offset.to_timestamp(local).ok().map(|t| t.as_second());
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
                let (a, b) = (at(before)?, at(after)?);
                let (earlier, later) = (a.min(b), a.max(b));
                let floor = self.last_s.saturating_sub(STEP_BACK_MAX_S);
                Some(if earlier < floor && later >= floor {
                    later
                } else {
                    earlier
                })
            }
        }
    }
}

/// What a stamp says. `None`: it is none.
pub fn civil(stamp: &Stamp) -> Option<DateTime> {
    let number = |from: usize, to: usize| {
        stamp[from..to].iter().try_fold(0i16, |value, b| {
            b.is_ascii_digit().then(|| value * 10 + (b - b'0') as i16)
        })
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| stamp[at] != mark) {
        return None;
    }
    let year = number(0, 4).filter(|year| YEARS.contains(year))?;
    let part = |from: usize| number(from, from + 2).map(|n| n as i8);
    let (month, day) = (part(5)?, part(8)?);
    DateTime::new(year, month, day, part(11)?, part(14)?, part(17)?, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(clock: &mut LocalTime, stamp: &str) -> Option<i64> {
        let ns = clock.utc_ns(stamp.as_bytes().try_into().unwrap());
        ns.map(|ns| (ns / 1_000_000_000) as i64)
    }

    fn clock(name: &str) -> LocalTime {
        LocalTime::new(zone(name, "zone").unwrap(), 0)
    }

    #[test]
    fn local_times_are_instants() {
        let mut utc = clock("UTC");
        assert_eq!(
            seconds(&mut utc, "2016-07-27 15:34:33"),
            Some(1_469_633_673)
        );
        assert_eq!(
            seconds(&mut utc, "2016-07-27 15:34:33"),
            Some(1_469_633_673)
        );
        let mut shanghai = clock("Asia/Shanghai");
        let local = seconds(&mut shanghai, "2016-07-27 15:34:33");
        assert_eq!(local, Some(1_469_633_673 - 8 * 3600));
        for bad in [
            "2016-13-27 15:34:33",
            "2016-02-30 15:34:33",
            "2016-07-27 24:00:00",
            "2016-07-27 15:34:60",
            "2016-07-27T15:34:33",
            "0000-07-27 15:34:33",
            "1970-07-27 15:34:33",
            "9999-07-27 15:34:33",
            "2016-07-2\u{7f} 15:34:33",
            "                   ",
        ] {
            assert_eq!(seconds(&mut utc, bad), None, "{bad}");
        }
        assert_eq!(
            seconds(&mut utc, "2016-07-27 15:34:34"),
            Some(1_469_633_674)
        );
        assert!(zone("Mars/Olympus", "zone").is_err());
    }

    /// 2026-10-25 in Berlin: 03:00 summer time became 02:00, 01:00 UTC.
    #[test]
    fn the_hour_that_comes_twice_does_not_step_back() {
        let mut berlin = clock("Europe/Berlin");
        let first = seconds(&mut berlin, "2026-10-25 02:00:00").unwrap();
        assert_eq!(first, 1_792_886_400); // 00:00 UTC
        assert_eq!(
            seconds(&mut berlin, "2026-10-25 02:59:59"),
            Some(first + 3599)
        );
        // A second before, from another thread, is no second time.
        assert_eq!(
            seconds(&mut berlin, "2026-10-25 02:59:58"),
            Some(first + 3598)
        );
        assert_eq!(
            seconds(&mut berlin, "2026-10-25 02:00:00"),
            Some(first + 3600)
        );
        assert_eq!(
            seconds(&mut berlin, "2026-10-25 02:30:00"),
            Some(first + 5400)
        );
        assert_eq!(
            seconds(&mut berlin, "2026-10-25 03:00:00"),
            Some(first + 7200)
        );
        // The same after a restart.
        let mut later = LocalTime::new(zone("Europe/Berlin", "zone").unwrap(), first + 3600);
        assert_eq!(
            seconds(&mut later, "2026-10-25 02:30:00"),
            Some(first + 5400)
        );
    }

    /// 2026-03-29 in Berlin: 02:00 became 03:00, 01:00 UTC.
    #[test]
    fn the_hour_that_never_was_does_not_step_back() {
        let mut berlin = clock("Europe/Berlin");
        let before = seconds(&mut berlin, "2026-03-29 01:59:59").unwrap();
        assert_eq!(
            seconds(&mut berlin, "2026-03-29 02:00:00"),
            Some(before + 1)
        );
        assert_eq!(
            seconds(&mut berlin, "2026-03-29 03:00:05"),
            Some(before + 6)
        );
    }
}
