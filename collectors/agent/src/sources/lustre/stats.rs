//! The text of `stats`, `md_stats` and services' `stats`: lines `NAME COUNT samples [UNIT] MIN MAX SUM SUMSQ`, of which versions leave off the end.

use super::super::samples::reading::Found;
use super::super::samples::text::{lines, number, quote, words};
use super::params::lctl;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Lines that tell when it was, and since when it counts; the last two since 2.15.
pub const TIMES: [&[u8]; 3] = [b"snapshot_time", b"start_time", b"elapsed_time"];

/// What stands before the unit in each line.
static SAMPLES: LazyLock<Finder> = LazyLock::new(|| Finder::new(b" samples ["));

/// What was counted of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat<'a> {
    pub name: &'a [u8],
    pub count: u64,
    pub unit: &'a [u8],
    /// Of what was counted, in the unit; `None` where it is not told, or has gone below 0.
    pub sum: Option<u64>,
}

impl Stat<'_> {
    /// In microseconds.
    pub fn is_time(&self) -> bool {
        is_time(self.unit)
    }
}

/// `usec` until 2.13 or so.
pub fn is_time(unit: &[u8]) -> bool {
    matches!(unit, b"usecs" | b"usec")
}

/// What is wrong with a text: how often, and the first time.
#[derive(Debug, Default, PartialEq)]
pub struct Faults {
    pub count: u64,
    pub first: Option<String>,
}

impl Faults {
    pub fn one(text: String) -> Faults {
        Faults {
            count: 1,
            first: Some(text),
        }
    }

    pub fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(text);
    }

    /// Says of which parameter they are.
    pub fn tell(self, param: &str, found: &mut Found) {
        let Some(first) = self.first else { return };
        found.error(|| {
            format!(
                "{param}: {first}; look at it with: lctl get_param {}",
                lctl(param)
            )
        });
        found.errors += self.count - 1;
    }
}

/// Hands each line's figures over; a line that makes no sense is a fault, and so is a text without a time at its head: its beginning is missing.
pub fn parse<'a>(text: &'a [u8], mut take: impl FnMut(Stat<'a>)) -> Faults {
    let mut faults = Faults::default();
    let mut has_head = false;
    for (row, line, is_whole) in lines(text) {
        let first = words(line).next();
        match (first, stat(line).filter(|_| is_whole)) {
            (None, _) if is_whole => {}
            (Some(name), _) if is_whole && is_head(name) => has_head = true,
            (_, Some(stat)) => take(stat),
            _ => faults.add(|| {
                format!(
                    "line {row}: expected NAME NUMBER samples [UNIT], found {}",
                    quote(line)
                )
            }),
        }
    }
    if !has_head {
        faults.add(|| "line 1: expected `snapshot_time`".into());
    }
    faults
}

fn is_head(word: &[u8]) -> bool {
    TIMES.contains(&word.strip_suffix(b":").unwrap_or(word))
}

fn stat(line: &[u8]) -> Option<Stat<'_>> {
    let at = SAMPLES.find(line)?;
    // Until 2.11 or so some names of mounts' read-ahead hold blanks.
    let head = line[..at].trim_ascii();
    let blank = head.iter().rposition(u8::is_ascii_whitespace)?;
    let (name, count) = (head[..blank].trim_ascii_end(), number(&head[blank + 1..])?);
    let mut words = words(&line[at + SAMPLES.needle().len()..]);
    let unit = words.next()?.strip_suffix(b"]")?;
    unit.iter().all(u8::is_ascii_alphanumeric).then_some(())?;
    let (min, max, sum) = (words.next(), words.next(), words.next());
    // A sum that does not fit is printed as a negative number.
    let is_number = |word: &[u8]| number(word.strip_prefix(b"-").unwrap_or(word)).is_some();
    let rest = [min, max, sum];
    if rest.iter().flatten().any(|word| !is_number(word)) || (min.is_some() && sum.is_none()) {
        return None;
    }
    Some(Stat {
        name,
        count,
        unit,
        sum: sum.and_then(number),
    })
}
