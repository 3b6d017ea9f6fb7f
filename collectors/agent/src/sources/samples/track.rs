//! One instance from read to read: what it last was, and what it did since. The spool keeps it, so that an agent's restart loses nothing.

mod base;

use self::base::Base;
use super::reading::{Range, Reading, Step, Value, What};
use crate::clock::Now;
use crate::counters::Counters;
use crate::event;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use std::collections::{BTreeMap, BTreeSet};

/// Values of an instance, each part's by itself.
const VALUES_MAX: usize = 4096;
/// What a number on the wire can be at most, either way: 2^53.
const NUMBER_MAX: u64 = 1 << 53;
/// An instance that stands still is told once in this time.
pub const QUIET_MAX_NS: i64 = 60_000_000_000;
/// By how much UTC may run ahead of or behind the machine's own clock between two reads before it counts as set, ns.
const CLOCK_SET_NS: i64 = 100_000_000;

/// An instant on both clocks: how long an interval was says the one that nobody sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Since the machine's start.
    pub boot_ns: i64,
    pub utc_ns: i64,
}

impl At {
    pub fn of(now: &Now) -> At {
        At {
            boot_ns: now.utc_ns() - now.boot_utc_ns,
            utc_ns: now.utc_ns(),
        }
    }

    /// An earlier instant, of which only the UTC is known.
    pub fn before(self, utc_ns: i64) -> At {
        let boot_ns = self
            .boot_ns
            .saturating_sub(self.utc_ns.saturating_sub(utc_ns));
        At { boot_ns, utc_ns }
    }

    /// An instant that a log tells: there is one clock only.
    pub fn told(utc_ns: i64) -> At {
        At {
            boot_ns: utc_ns,
            utc_ns,
        }
    }

    /// The machine's start. `None`: there is no clock since then.
    pub fn boot(self) -> Option<At> {
        (self.boot_ns != self.utc_ns).then(|| At {
            boot_ns: 0,
            utc_ns: self.utc_ns.saturating_sub(self.boot_ns),
        })
    }

    /// When an interval began that ends here, in the UTC of its end: never later than that.
    fn start_ns(&self, since: At) -> i64 {
        let length = self.boot_ns.saturating_sub(since.boot_ns).max(0);
        let start = self.utc_ns.saturating_sub(length);
        match start.saturating_sub(since.utc_ns).saturating_abs() <= CLOCK_SET_NS {
            true => since.utc_ns.min(self.utc_ns),
            false => start,
        }
    }
}

/// What became of an instance since the last read.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Of each value of the reading: what a counter moved. `None`: a gauge, or a counter that was not there before, or of which it is not known.
    moved: Vec<Option<u64>>,
    /// Parts that began anew.
    reset: Vec<u32>,
    pub is_none: bool,
}

/// Owned by its source; bounded by VALUES_MAX. What is in it at a kill the spool has, as of the last sample.
pub struct Track {
    /// End of the last sample, or the first read.
    pub told: At,
    /// The last read.
    pub seen: At,
    /// In which look of the source that was.
    pub look: u64,
    base: Base,
    /// The spool does not have it so.
    pub has_changed: bool,
}

impl Track {
    /// The first read: only what comes after it counts.
    pub fn begin(reading: &Reading, at: At) -> Track {
        let mut track = Track::born(at);
        track.rebase(reading, &[], &[]);
        track
    }

    /// One that did not exist yet: all that it has counted is told.
    pub fn born(at: At) -> Track {
        Track {
            told: at,
            seen: at,
            look: 0,
            base: Base::new(&[]),
            has_changed: true,
        }
    }

    /// The bits of a value when it was last told.
    pub fn bits(&self, key: u64) -> Option<u64> {
        bits_of(&self.base.values(), usize::MAX, key)
    }

    /// Takes the next reading, and tells what there is to tell. False: the batch has no room, and the reading is to be given again.
    pub fn go_on(&mut self, reading: &Reading, at: At, is_whole: bool, to: To) -> bool {
        let mut change = self.compare(reading);
        let length_ns = at.boot_ns.saturating_sub(self.seen.boot_ns);
        let is_possible = reading.can_have_moved(&change.moved, length_ns);
        if !is_possible {
            change.moved.fill(None);
        }
        let is_quiet = at.boot_ns.saturating_sub(self.told.boot_ns) >= QUIET_MAX_NS;
        if change.is_none && !is_quiet {
            self.seen = at;
            return true;
        }
        let component = to.component;
        let mut push = |tell: &mut dyn FnMut(Fields)| {
            let is_pushed = to
                .batch
                .push("sample", |out| tell(Fields { out, component }));
            to.counters.records.add(is_pushed as u64);
            is_pushed
        };
        if !change.is_none
            && self.seen.boot_ns > self.told.boot_ns
            && !push(&mut |fields| self.tell_quiet(reading, fields))
        {
            return false;
        }
        let is_told = push(&mut |fields| self.tell(reading, &change, at, is_whole, fields));
        let is_failed = is_told && !is_possible;
        to.counters.failed_reads.add(is_failed as u64);
        is_told
    }

    pub fn compare(&self, reading: &Reading) -> Change {
        let base = self.base.values();
        let based: Vec<Option<u64>> = (reading.values.iter().enumerate())
            .map(|(place, value)| bits_of(&base, place, value.key()))
            .collect();
        let step = |value: &Value, base: Option<u64>| match (value.what, base) {
            (What::Counter { raw, range, .. }, Some(base)) => Some(range.step(base, raw)),
            _ => None,
        };
        let pairs = || reading.values.iter().zip(&based);
        let reset: Vec<u32> = pairs()
            .filter(|(value, base)| step(value, **base) == Some(Step::Reset))
            .map(|(value, _)| value.part)
            .collect();
        let moved: Vec<Option<u64>> = pairs()
            .map(|(value, base)| match (value.what, step(value, *base)) {
                (What::Counter { raw, .. }, None) if reading.since.is_some() => Some(raw),
                (_, None) | (_, Some(Step::Unknown)) => None,
                (What::Counter { raw, .. }, _) if reset.contains(&value.part) => Some(raw),
                (_, Some(Step::Moved(by))) => Some(by),
                _ => Some(0),
            })
            .collect();
        let is_same =
            |((value, base), moved): ((&Value, &Option<u64>), &Option<u64>)| match value.what {
                What::Counter { .. } if moved.is_some() => *moved == Some(0),
                _ => *base == Some(value.what.bits()),
            };
        Change {
            is_none: reading.values.len() == base.len() && pairs().zip(&moved).all(is_same),
            moved,
            reset,
        }
    }

    /// Writes the sample of what changed until `at`, and goes on from there. `is_whole`: a value that is missing is gone, not unread.
    pub fn tell(
        &mut self,
        reading: &Reading,
        change: &Change,
        at: At,
        is_whole: bool,
        fields: Fields,
    ) {
        let now = |value: &Value, moved: Option<u64>| match value.what {
            What::Counter { scale, .. } => moved.map(|by| Number::whole(by, scale)),
            What::Gauge(value) => Some(Number::Float(value)),
        };
        let values = reading.values.iter().zip(&change.moved);
        let values = values.filter_map(|(value, moved)| Some((&*value.name, now(value, *moved)?)));
        self.write(fields, reading, at, values);
        let unread = match is_whole {
            true => Vec::new(),
            false => self.unread(reading, &change.reset),
        };
        self.rebase(reading, &change.reset, &unread);
        (self.told, self.seen, self.has_changed) = (at, at, true);
    }

    /// Writes the sample of the stretch until the last read, in which nothing changed. `reading` says the values' names.
    pub fn tell_quiet(&mut self, reading: &Reading, fields: Fields) {
        let base = self.base.values();
        let before = |place: usize, value: &Value| {
            let base = bits_of(&base, place, value.key())?;
            Some(match value.what {
                What::Counter { range, .. } if range == Range::UpTo(base) => return None,
                What::Counter { .. } => Number::Whole(0),
                What::Gauge(_) => Number::Float(f64::from_bits(base)),
            })
        };
        let values = reading.values.iter().enumerate();
        let values =
            values.filter_map(|(place, value)| Some((&*value.name, before(place, value)?)));
        self.write(fields, reading, self.seen, values);
        (self.told, self.has_changed) = (self.seen, true);
    }

    fn write<'a>(
        &self,
        Fields { out, component }: Fields,
        reading: &Reading,
        end: At,
        values: impl Iterator<Item = (&'a str, Number)>,
    ) {
        write_head(out, component, reading.instance.as_bytes(), self.told, end);
        let mut sums: BTreeMap<&str, Number> = BTreeMap::new();
        for (name, number) in values {
            sums.entry(name)
                .and_modify(|sum| sum.add(number))
                .or_insert(number);
        }
        out.extend_from_slice(b",\"values\":{");
        let begin = out.len();
        for (name, number) in sums {
            number.write(out, name);
        }
        if out.len() > begin {
            out.remove(begin); // the first comma
        }
        out.push(b'}');
    }

    /// Values that are not in the reading stay where they were, or count from 0 where their part began anew.
    fn unread(&self, reading: &Reading, reset: &[u32]) -> Vec<(u64, u64)> {
        let read: BTreeSet<u64> = reading.values.iter().map(Value::key).collect();
        let mut unread = self.base.values();
        unread.retain(|(key, _)| !read.contains(key));
        for (key, bits) in &mut unread {
            if reset.contains(&((*key >> 32) as u32)) {
                *bits = 0;
            }
        }
        unread
    }

    /// What is read next is compared with this. A counter that went back by itself stays where it was, as does one that was told wider than the end
    /// at which it stands now; not one whose part began anew (`reset`). What was `unread` stays behind.
    fn rebase(&mut self, reading: &Reading, reset: &[u32], unread: &[(u64, u64)]) {
        let base = self.base.values();
        let values = reading.values.iter().take(VALUES_MAX).enumerate();
        let bits = |(place, value): (usize, &Value)| {
            let (key, bits) = (value.key(), value.what.bits());
            let back = match (value.what, bits_of(&base, place, key)) {
                (What::Counter { range, .. }, Some(base)) if !reset.contains(&value.part) => {
                    let is_kept = match range.step(base, bits) {
                        Step::Back => true,
                        Step::Unknown => base > bits,
                        _ => false,
                    };
                    is_kept.then_some(base)
                }
                _ => None,
            };
            (key, back.unwrap_or(bits))
        };
        let values = values.map(bits).chain(unread.iter().copied());
        self.base = Base::new(&values.take(VALUES_MAX).collect::<Vec<_>>());
    }

    pub fn write_cursor(&self, out: &mut Vec<u8>) {
        for number in [self.told.boot_ns, self.told.utc_ns] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.base.len() as u16).to_le_bytes());
        for (key, bits) in self.base.values() {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }

    /// `None`: it breaks off or makes no sense.
    pub fn read_cursor(cursor: &mut Reader) -> Option<Track> {
        let [boot_ns, utc_ns] = cursor.u64s()?.map(|number| number as i64);
        let told = At { boot_ns, utc_ns };
        let count = cursor.u16()? as usize;
        if count > VALUES_MAX {
            return None;
        }
        let mut base = Vec::new();
        for _ in 0..count {
            base.push((cursor.u64()?, cursor.u64()?));
        }
        Some(Track {
            told,
            seen: told,
            look: 0,
            base: Base::new(&base),
            has_changed: false,
        })
    }
}

/// The bits of a value; `place`: its place in the reading, where it mostly is here, too.
fn bits_of(base: &[(u64, u64)], place: usize, key: u64) -> Option<u64> {
    let here = base.get(place).filter(|(own, _)| *own == key);
    here.or_else(|| base.iter().find(|(own, _)| *own == key))
        .map(|(_, bits)| *bits)
}

/// Writes of what a sample is, and of which interval.
pub fn write_head(out: &mut Vec<u8>, component: &str, instance: &[u8], since: At, end: At) {
    event::text(out, "component", Some(component.as_bytes()));
    event::text(out, "instance", Some(instance));
    event::integer(out, "start", end.start_ns(since));
    event::integer(out, "end", end.utc_ns);
}

/// Where samples go, and of what component they are.
pub struct To<'a> {
    pub component: &'static str,
    pub counters: &'a Counters,
    pub batch: &'a mut Batch,
}

/// Where a sample's fields go, and of what component it is.
pub struct Fields<'a> {
    pub out: &'a mut Vec<u8>,
    pub component: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Whole(u64),
    Float(f64),
}

impl Number {
    pub fn whole(moved: u64, scale: u32) -> Number {
        Number::Whole(moved.saturating_mul(scale as u64).min(NUMBER_MAX))
    }

    fn add(&mut self, other: Number) {
        *self = match (*self, other) {
            (Number::Whole(a), Number::Whole(b)) => {
                Number::Whole(a.saturating_add(b).min(NUMBER_MAX))
            }
            (Number::Float(a), Number::Float(b)) => Number::Float(a + b),
            (own, _) => own,
        }
    }

    /// A gauge that is no number the wire can bear is left out.
    pub fn write(self, out: &mut Vec<u8>, name: &str) {
        match self {
            Number::Whole(value) => event::integer(out, name, value as i64),
            Number::Float(value) if value.abs() > NUMBER_MAX as f64 || value.is_nan() => {}
            Number::Float(value) if value.fract() == 0.0 => event::integer(out, name, value as i64),
            Number::Float(value) => event::float(out, name, value),
        }
    }
}

#[cfg(test)]
#[path = "track_tests.rs"]
mod tests;
