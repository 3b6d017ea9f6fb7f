//! What a server's log told so far, and when: statements in, readings out. Knows no files.
//!
//! Times are to the second: a reading is of all that was said in one, and stands at its end.

use super::line::{Said, What, BUCKETS, KINDS};
use crate::sources::cursors::Reader;
use crate::sources::log_file::local_time::LocalTime;
use crate::sources::samples::reading::{Range, Reading};

pub const NS_PER_S: i64 = 1_000_000_000;

/// Of each kind, by bucket, as far as it was told.
pub type Counts = [Option<[u64; BUCKETS]>; KINDS.len()];

/// From where on the log is to be read again: where that begins, and what was doubted there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    pub at: u64,
    pub doubted: Counts,
}

/// Whether a server that counted so much before may count so much now.
fn is_after(now: &[u64; BUCKETS], before: &[u64; BUCKETS]) -> bool {
    now.iter().zip(before).all(|(now, before)| now >= before)
}

impl Since {
    /// Appends it, but for where it is.
    pub fn write(&self, out: &mut Vec<u8>) {
        for counts in &self.doubted {
            out.push(counts.is_some() as u8);
            for count in counts.iter().flatten() {
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
    }

    /// What was doubted. `None`: it breaks off.
    pub fn read(cursor: &mut Reader) -> Option<Counts> {
        let mut doubted = [None; KINDS.len()];
        for counts in &mut doubted {
            if cursor.u8()? != 0 {
                *counts = Some(cursor.u64s()?);
            }
        }
        Some(doubted)
    }
}

/// Owned by the log's reader; of fixed size.
pub struct Told {
    pub clock: LocalTime,
    names: [[String; BUCKETS]; KINDS.len()],
    /// As last believed.
    counts: Counts,
    /// What fell, and is believed only if what comes next agrees: a server that began anew, or numbers that were cut.
    doubted: Counts,
    /// Counts that were believed in the second that is open.
    untold: [bool; KINDS.len()],
    queue_length: Option<u64>,
    /// The second that is being told, since the epoch, and since where.
    open: Option<(i64, Since)>,
}

impl Told {
    /// `bounds`: of the buckets but the last.
    pub fn new(clock: LocalTime, bounds: &[u64]) -> Told {
        let name = |kind: &str, bucket: usize| match bounds.get(bucket) {
            Some(bound) => format!("{kind}_to_{bound}"),
            None => format!("{kind}_to_inf"),
        };
        Told {
            clock,
            names: KINDS.map(|kind| std::array::from_fn(|bucket| name(kind, bucket))),
            counts: [None; KINDS.len()],
            doubted: [None; KINDS.len()],
            untold: [false; KINDS.len()],
            queue_length: None,
            open: None,
        }
    }

    /// Since where the log is to be read again, if it was read as far as `at` and the second that is open not told.
    pub fn since(&self, at: u64) -> Since {
        let doubted = self.doubted;
        self.open.map_or(Since { at, doubted }, |(_, since)| since)
    }

    pub fn open_second(&self) -> Option<i64> {
        self.open.map(|(second, _)| second)
    }

    /// The second of a statement, s since the epoch. `None`: there is no such time.
    pub fn second(&mut self, said: &Said) -> Option<i64> {
        let utc_ns = self.clock.utc_ns(said.stamp)?;
        Some((utc_ns / NS_PER_S as u64) as i64)
    }

    /// Whether a statement of this second ends the one that is open, or tells of a server that began anew: what it did before is told first.
    pub fn ends(&self, second: i64, what: &What) -> bool {
        let is_untold = |what: &What| match what {
            What::Counts { kind, .. } => self.untold[*kind],
            What::QueueLength(_) => false,
        };
        let ends = |open: i64| open != second || is_untold(what) && self.begins_anew(what);
        self.open_second().is_some_and(ends)
    }

    /// Whether counts fell, and did so in the statement before, too.
    fn begins_anew(&self, what: &What) -> bool {
        let What::Counts { kind, counts } = what else {
            return false;
        };
        let fell = self.counts[*kind].is_some_and(|before| !is_after(counts, &before));
        fell && self.doubted[*kind].is_some_and(|doubted| is_after(counts, &doubted))
    }

    /// Takes a statement of the second that is open, or that opens now; `at`: where its line begins. Answers how many were not to be believed.
    pub fn take(&mut self, second: i64, at: u64, what: What) -> u64 {
        let doubted = self.doubted;
        self.open.get_or_insert((second, Since { at, doubted }));
        match what {
            What::QueueLength(length) => {
                self.queue_length = Some(length);
                0
            }
            What::Counts { kind, counts } => self.take_counts(kind, counts),
        }
    }

    fn take_counts(&mut self, kind: usize, counts: [u64; BUCKETS]) -> u64 {
        let goes_on = self.counts[kind].is_none_or(|before| is_after(&counts, &before));
        let is_new = self.begins_anew(&What::Counts { kind, counts });
        let doubted = self.doubted[kind].take();
        if goes_on || is_new {
            self.counts[kind] = Some(counts);
            self.untold[kind] = true;
        } else {
            self.doubted[kind] = Some(counts);
        }
        // What was doubted before, and is not told again, was garbled.
        (doubted.is_some() && !is_new) as u64
    }

    /// Reading goes on in another file, from its beginning.
    pub fn moved_on(&mut self) {
        if let Some((_, since)) = &mut self.open {
            since.at = 0;
        }
    }

    /// The second that is open was told.
    pub fn close(&mut self) {
        self.open = None;
        self.untold = [false; KINDS.len()];
    }

    /// What was told until the end of this second. `None`: nothing yet.
    pub fn reading(&self, instance: &str, end_s: i64) -> Option<Reading> {
        let mut reading = self.reading_of(instance, &self.counts, self.queue_length);
        reading.time_ns = end_s.checked_mul(NS_PER_S);
        (!reading.values.is_empty()).then_some(reading)
    }

    fn reading_of(&self, instance: &str, counts: &Counts, queue_length: Option<u64>) -> Reading {
        let mut reading = Reading::new(instance);
        for ((kind, names), counts) in KINDS.iter().zip(&self.names).zip(counts) {
            // A second may end between two lines of a server that began anew.
            reading.part(kind);
            for (name, count) in names.iter().zip(counts.iter().flatten()) {
                reading.counter(name.clone(), *count, Range::Bits64, 1);
            }
        }
        reading.part("");
        if let Some(length) = queue_length {
            reading.gauge("queue_length", length as f64);
        }
        reading
    }

    /// Takes back what an earlier agent told and doubted; `bits`: of a value by its key.
    pub fn restore(&mut self, doubted: Counts, bits: impl Fn(u64) -> Option<u64>) {
        let all = self.reading_of("", &[Some([0; BUCKETS]); KINDS.len()], Some(0));
        let mut told = all.values.iter().map(|value| bits(value.key()));
        for counts in &mut self.counts {
            let of_kind: Vec<Option<u64>> = told.by_ref().take(BUCKETS).collect();
            let of_kind: Option<Vec<u64>> = of_kind.into_iter().collect();
            *counts = of_kind.and_then(|counts| counts.try_into().ok());
        }
        let queue = told.next().flatten();
        self.queue_length = queue.map(|bits| f64::from_bits(bits) as u64);
        self.doubted = doubted;
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::log_file::local_time::zone;

    fn told() -> Told {
        let clock = LocalTime::new(zone("UTC", "zone").unwrap(), 0);
        Told::new(
            clock,
            &[10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000],
        )
    }

    fn take(told: &mut Told, counts: [u64; BUCKETS]) -> u64 {
        told.take(5, 0, What::Counts { kind: 0, counts })
    }

    #[test]
    fn what_falls_is_believed_when_it_is_said_twice() {
        let (high, low) = ([50; BUCKETS], [3; BUCKETS]);
        let higher = [51; BUCKETS];
        let mut cut = high;
        cut[7] = 5;
        // A number that was cut: the next line says so.
        let mut one = told();
        assert_eq!([high, cut, higher].map(|c| take(&mut one, c)), [0, 0, 1]);
        assert_eq!(one.counts[0], Some(higher));
        // A server that began anew.
        let mut one = told();
        assert_eq!([high, low, low].map(|c| take(&mut one, c)), [0, 0, 0]);
        assert_eq!(one.counts[0], Some(low));
        // Cut twice, not alike.
        let mut one = told();
        let mut other = high;
        (other[0], other[7]) = (1, 50);
        assert_eq!(
            [high, cut, other, higher].map(|c| take(&mut one, c)),
            [0, 0, 1, 1]
        );
        assert_eq!(one.counts[0], Some(higher));
    }

    #[test]
    fn what_was_told_is_known_again_by_another_agent() {
        let mut one = told();
        take(&mut one, [7; BUCKETS]);
        one.take(5, 9, What::QueueLength(12));
        let cut = [6; BUCKETS];
        take(&mut one, cut);
        let queue = What::QueueLength(3);
        assert_eq!((one.ends(5, &queue), one.ends(6, &queue)), (false, true));
        assert_eq!(one.since(99), Since::default());
        one.close();
        let since = one.since(99);
        assert_eq!((since.at, since.doubted[0]), (99, Some(cut)));
        let mut bytes = Vec::new();
        since.write(&mut bytes);
        let doubted = Since::read(&mut Reader(&bytes)).unwrap();
        assert!(Since::read(&mut Reader(&bytes[1..])).is_none());
        let reading = one.reading("x", 6).unwrap();
        let mut other = told();
        other.restore(doubted, |key| {
            let mut values = reading.values.iter();
            values.find(|v| v.key() == key).map(|v| v.what.bits())
        });
        assert_eq!(other.reading("x", 6), Some(reading));
        assert_eq!(other.since(99), since);
        let kinds = other.counts.iter().filter(|c| c.is_some()).count();
        assert_eq!(kinds, 1);
    }
}
