//! What a source reads of one instance at one instant: counters as they stand, and gauges.

use super::track::At;
use std::borrow::Cow;
use std::time::Instant;
use tracepack::ring::file_id;

pub type Name = Cow<'static, str>;

/// How far a counter goes before it begins anew at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    Bits64,
    /// It is printed as 32 bits, by some kernels or all.
    Bits32,
    /// To this number; it goes round often, so that a fall is no reset, unless others of its part tell of one.
    To(u64),
    /// To this number, where it stays until somebody clears it.
    UpTo(u64),
    /// It never begins anew, but may go back a little by itself; it counts again once it is beyond where it was.
    Unsteady,
}

/// What became of a counter from one read to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Moved(u64),
    /// It began anew.
    Reset,
    /// It went back, and that means nothing.
    Back,
    /// It stands at its end: nobody knows by how much it moved.
    Unknown,
}

impl Range {
    /// From `base` to `raw`. A counter that falls from its highest quarter to its lowest went round; any other fall is a reset.
    pub fn step(self, base: u64, raw: u64) -> Step {
        if self == Range::UpTo(raw) {
            return Step::Unknown;
        }
        if raw >= base {
            return Step::Moved(raw - base);
        }
        let end = match self {
            Range::Unsteady => return Step::Back,
            Range::UpTo(_) => return Step::Reset,
            Range::To(max) => return Step::Moved(max.saturating_sub(base) + raw + 1),
            Range::Bits32 => u32::MAX as u64,
            Range::Bits64 => u64::MAX,
        };
        let quarter = end / 4;
        match base <= end && base >= end - quarter && raw <= quarter {
            true => Step::Moved(end - base + raw + 1),
            false => Step::Reset,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// `scale`: what one of it is in the value's unit.
    Counter {
        raw: u64,
        range: Range,
        scale: u32,
    },
    Gauge(f64),
}

impl What {
    /// Whether it is the same, and as the spool keeps it.
    pub fn bits(&self) -> u64 {
        match self {
            What::Counter { raw, .. } => *raw,
            What::Gauge(value) => value.to_bits(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub name: Name,
    /// Of what part of the instance: counters of the same name and other parts are added up. 0 where it has no parts.
    pub part: u32,
    pub what: What,
}

impl Value {
    /// By which it is known again in the spool: its part, and its name's hash.
    pub fn key(&self) -> u64 {
        (self.part as u64) << 32 | file_id(self.name.as_bytes()) & 0xffff_ffff
    }
}

/// One instance at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub instance: String,
    pub values: Vec<Value>,
    /// When, UTC in ns, if the source knows better than when it looked. Where it is the same again, nothing new was read.
    pub time_ns: Option<i64>,
    /// All that there was is known from then: what is new has counted from 0 since. `None`: what is new may be old, and only what comes counts.
    pub since: Option<At>,
    /// More than this each of its counters of bytes cannot move in a second: where one did, what counters moved is not known.
    pub bytes_per_s_max: Option<f64>,
    part: u32,
}

impl Reading {
    pub fn new(instance: impl Into<String>) -> Reading {
        Reading {
            instance: instance.into(),
            values: Vec::new(),
            time_ns: None,
            since: None,
            bytes_per_s_max: None,
            part: 0,
        }
    }

    /// What is added next belongs to this part. A part's counters begin anew together, and only they.
    pub fn part(&mut self, name: &str) {
        self.part = file_id(name.as_bytes()) as u32;
    }

    pub fn counter(&mut self, name: impl Into<Name>, raw: u64, range: Range, scale: u32) {
        self.push(name.into(), What::Counter { raw, range, scale });
    }

    pub fn gauge(&mut self, name: impl Into<Name>, value: f64) {
        self.push(name.into(), What::Gauge(value));
    }

    /// Whether a link can have moved so much, of each value, in `length_ns`. Else these are another port's counters.
    pub fn can_have_moved(&self, moved: &[Option<u64>], length_ns: i64) -> bool {
        let Some(bytes_per_s) = self.bytes_per_s_max else {
            return true;
        };
        let bytes_max = bytes_per_s * (length_ns as f64 / 1e9).max(1.0);
        (self.values.iter().zip(moved)).all(|(value, moved)| match (value.what, moved) {
            (What::Counter { scale, .. }, Some(by)) if value.name.ends_with("_bytes") => {
                *by as f64 * scale as f64 <= bytes_max
            }
            _ => true,
        })
    }

    fn push(&mut self, name: Name, what: What) {
        let part = self.part;
        self.values.push(Value { name, part, what });
    }
}

/// What one look found.
#[derive(Debug)]
pub struct Found {
    /// When that was, for what is not done at each look.
    pub now: Instant,
    pub readings: Vec<Reading>,
    /// What could not be read, as far as it is told.
    pub first_error: Option<String>,
    pub errors: u64,
    /// The rest of this look comes with the next ones: what is missing here may be there.
    pub more: bool,
}

/// For what tells no time: an agent's looks do.
#[cfg(any(test, feature = "fuzz"))]
impl Default for Found {
    fn default() -> Found {
        Found::at(Instant::now())
    }
}

impl Found {
    pub fn at(now: Instant) -> Found {
        Found {
            now,
            readings: Vec::new(),
            first_error: None,
            errors: 0,
            more: false,
        }
    }

    /// Something could not be read or understood. Says what, where and what to run.
    pub fn error(&mut self, text: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn a_counter_that_goes_round_has_moved_and_one_that_falls_otherwise_began_anew() {
        let top = u32::MAX as u64;
        for (range, base, raw, expected) in [
            (Range::Bits64, 5, 5, Step::Moved(0)),
            (Range::Bits64, 5, 4, Step::Reset),
            (Range::Bits64, u64::MAX, 2, Step::Moved(3)),
            (Range::Bits64, top, 2, Step::Reset),
            (Range::Bits32, top, 0, Step::Moved(1)),
            (Range::Bits32, top - 9, 90, Step::Moved(100)),
            (Range::Bits32, top / 2, 90, Step::Reset),
            (Range::Bits32, top, top / 2, Step::Reset),
            // This kernel prints more than 32 bits.
            (Range::Bits32, top + 1, 90, Step::Reset),
            (Range::Bits32, top, top + 7, Step::Moved(7)),
            (Range::To(999), 990, 5, Step::Moved(15)),
            (Range::To(999), 5, 4, Step::Moved(999)),
            (Range::To(9), 20, 5, Step::Moved(6)),
            (Range::Unsteady, 7, 6, Step::Back),
            (Range::UpTo(255), 7, 254, Step::Moved(247)),
            (Range::UpTo(255), 7, 255, Step::Unknown),
            (Range::UpTo(255), 255, 255, Step::Unknown),
            (Range::UpTo(255), 255, 3, Step::Reset),
            // It is wider than it was thought to be.
            (Range::UpTo(255), 250, 260, Step::Moved(10)),
        ] {
            assert_eq!(range.step(base, raw), expected, "{range:?} {base} {raw}");
        }
    }

    /// However often it goes round, as long as less than half of its range lies between two reads from its highest quarter to its lowest.
    #[test]
    fn what_a_wrapping_counter_moved_adds_up() {
        let mut random = Random::new(7);
        for (range, end) in [
            (Range::Bits32, u32::MAX as u64),
            (Range::To(65_532_610_987), 65_532_610_987),
        ] {
            let (mut raw, mut moved, mut counted) = (random.number() % end, 0u128, 0u128);
            for _ in 0..10_000 {
                let step = random.below(end / 4);
                let next = ((raw as u128 + step as u128) % (end as u128 + 1)) as u64;
                match range.step(raw, next) {
                    Step::Moved(by) => counted += by as u128,
                    other => panic!("{other:?} from {raw} to {next}"),
                }
                moved += step as u128;
                raw = next;
            }
            assert_eq!(counted, moved);
        }
    }
}
