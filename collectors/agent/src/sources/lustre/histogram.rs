//! The tables of `brw_stats` and `rpc_stats`: rows `LABEL: READS % % | WRITES % %` under a title, and lines `NAME: NUMBER` before them.

use super::super::samples::crowd::members::{settle, ABSENT};
use super::super::samples::reading::{Range, Reading};
use super::super::samples::text::{lines, number, quote, words};
use super::stats::{Faults, TIMES};

/// One line that says something.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    Title(&'a [u8]),
    /// `write` is `None` in a table with one column.
    Row {
        label: u64,
        read: u64,
        write: Option<u64>,
    },
    Figure(&'a [u8], u64),
    Fault,
}

/// Hands each line over; one that makes no sense is a fault, and so is a text without a time at its head: its beginning is missing.
pub fn parse<'a>(text: &'a [u8], mut take: impl FnMut(Line<'a>)) -> Faults {
    let mut faults = Faults::default();
    let mut has_head = false;
    for (row, line, is_whole) in lines(text) {
        let trimmed = line.trim_ascii();
        let is_time = TIMES.iter().any(|time| trimmed.starts_with(time));
        match line_of(trimmed).filter(|_| is_whole) {
            _ if is_time && is_whole => has_head = true,
            // Nothing, or which column is which.
            _ if is_whole && (trimmed.is_empty() || is_columns(trimmed)) => {}
            Some(line) => take(line),
            None => {
                faults.add(|| {
                    format!(
                        "line {row}: expected LABEL: NUMBER % % | NUMBER % %, found {}",
                        quote(line)
                    )
                });
                take(Line::Fault);
            }
        }
    }
    if !has_head {
        faults.add(|| "line 1: expected `snapshot_time`".into());
    }
    faults
}

fn is_columns(line: &[u8]) -> bool {
    words(line).all(|word| [&b"read"[..], b"write", b"modify", b"|"].contains(&word))
}

fn line_of(line: &[u8]) -> Option<Line<'_>> {
    let Some(colon) = line.iter().position(|b| *b == b':') else {
        // A title names what each column counts, and ends with what share that is.
        return line.ends_with(b"cum %").then_some(Line::Title(line));
    };
    let (head, rest) = (&line[..colon], &line[colon + 1..]);
    let mut words = words(rest);
    let first = number(words.next()?)?;
    let Some(label) = label(head) else {
        return words.next().is_none().then_some(Line::Figure(head, first));
    };
    let (share, sum, bar) = (words.next()?, words.next()?, words.next());
    (number(share).is_some() && number(sum).is_some()).then_some(())?;
    let write = match bar {
        None => None,
        Some(b"|") => {
            let write = number(words.next()?)?;
            (number(words.next()?).is_some() && number(words.next()?).is_some()).then_some(())?;
            Some(write)
        }
        Some(_) => return None,
    };
    let read = first;
    words
        .next()
        .is_none()
        .then_some(Line::Row { label, read, write })
}

/// `4`, `4K`, `4M`.
fn label(word: &[u8]) -> Option<u64> {
    let (digits, shift) = match word.split_last()? {
        (b'K' | b'k', digits) => (digits, 10),
        (b'M' | b'm', digits) => (digits, 20),
        (b'G' | b'g', digits) => (digits, 30),
        _ => (word, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

/// Rows of a table; the last is of all that is beyond.
pub const ROWS: usize = 32;

/// A table that is told.
pub struct Histogram {
    /// How its title begins.
    pub title: &'static [u8],
    /// Its labels are powers of two, and what a row goes up to; else they are whole numbers, from 0 or 1.
    pub is_log: bool,
    /// Names of the values, reads' and writes', without `_to_…`.
    pub names: [&'static str; 2],
    /// Into which buckets rows are put together.
    pub bounds: &'static [u64],
}

impl Histogram {
    /// Which row a label is of. `None`: it cannot be one.
    fn row(&self, label: u64) -> Option<usize> {
        let row = match self.is_log {
            true => label.is_power_of_two().then(|| label.ilog2() as usize)?,
            false => label as usize,
        };
        (row < ROWS).then_some(row)
    }

    /// What each of its buckets goes up to; the last has no end.
    fn buckets(&self) -> impl Iterator<Item = u64> + 'static {
        self.bounds.iter().copied().chain([u64::MAX])
    }

    /// What a row goes up to; the last has no end.
    pub fn bound(&self, row: usize) -> u64 {
        match self.is_log {
            _ if row + 1 == ROWS => u64::MAX,
            true => 1 << row,
            false => row as u64,
        }
    }
}

/// Several histograms as they are read from one text: rows of reads and of writes, each as it stands, or ABSENT. Lustre adds them up while it writes
/// them, without holding them still, and stops at the sum: the last rows may be missing, which says nothing.
pub struct Tables {
    all: &'static [Histogram],
    pub rows: Vec<u64>,
    now: Option<usize>,
    /// Whether each table's title was there.
    seen: Vec<bool>,
}

impl Tables {
    pub fn of(all: &'static [Histogram]) -> Tables {
        Tables {
            all,
            rows: vec![ABSENT; all.len() * 2 * ROWS],
            now: None,
            seen: vec![false; all.len()],
        }
    }

    /// Takes a line.
    pub fn take(&mut self, line: &Line) {
        match *line {
            Line::Title(title) => {
                self.now = self.all.iter().position(|own| title.starts_with(own.title));
                if let Some(now) = self.now {
                    self.seen[now] = true;
                }
            }
            Line::Row { label, read, write } => {
                let Some(now) = self.now else { return };
                let Some(row) = self.all[now].row(label) else {
                    return;
                };
                for (way, count) in [(0, Some(read)), (1, write)] {
                    if let Some(count) = count {
                        let at = (2 * now + way) * ROWS + row;
                        self.rows[at] = count.min(ABSENT - 1);
                    }
                }
            }
            // It may have been the next table's title.
            Line::Figure(..) | Line::Fault => self.now = None,
        }
    }

    /// Goes on from the rows that were read `before`, which become those that are now. A table that has no row at the first look has counted nothing so far:
    /// what comes counts from 0.
    pub fn go_on(mut self, before: &mut Vec<u64>) {
        if before.is_empty() {
            let tables = self.rows.chunks_mut(2 * ROWS).zip(&self.seen);
            for (rows, _) in tables.filter(|(_, seen)| **seen) {
                if rows.iter().all(|count| *count == ABSENT) {
                    rows[0] = 0;
                }
            }
        }
        settle(&mut self.rows, before, |_| Some(0));
        *before = self.rows;
    }
}

/// What the buckets of all are called, in the order in which they are told.
pub fn bucket_names(all: &[Histogram]) -> Vec<String> {
    let name = |name: &str, bound: u64| match bound {
        u64::MAX => format!("{name}_to_inf"),
        bound => format!("{name}_to_{bound}"),
    };
    let ways = all.iter().flat_map(|own| own.names.map(|name| (name, own)));
    ways.flat_map(|(own, histogram)| histogram.buckets().map(move |bound| name(own, bound)))
        .collect()
}

/// Tells rows put together into buckets, which have these `names`: many targets share them.
pub fn tell(all: &[Histogram], mut names: &'static [String], rows: &[u64], reading: &mut Reading) {
    for (histogram, rows) in all.iter().zip(rows.chunks(2 * ROWS)) {
        let is_there = rows.iter().any(|count| *count != ABSENT);
        for rows in rows.chunks(ROWS) {
            let (own, others) = names.split_at(histogram.buckets().count());
            names = others;
            let mut rows = rows.iter().enumerate().peekable();
            for (name, bound) in own.iter().zip(histogram.buckets()).filter(|_| is_there) {
                let mut sum = 0u64;
                while let Some((_, count)) = rows.next_if(|(row, _)| histogram.bound(*row) <= bound)
                {
                    sum = sum.saturating_add(if *count == ABSENT { 0 } else { *count });
                }
                reading.counter(name.as_str(), sum, Range::Bits64, 1);
            }
        }
    }
}

/// Powers of two from 2^`from` on.
const fn powers<const N: usize>(from: u32) -> [u64; N] {
    let mut all = [0; N];
    let mut at = 0;
    while at < N {
        all[at] = 1 << (from + at as u32);
        at += 1;
    }
    all
}

/// Pages of an RPC: up to 4,096, which are 16 MiB.
pub static PAGES: [u64; 13] = powers(0);
/// Milliseconds: up to 65 s.
pub static MS: [u64; 17] = powers(0);
/// Of 4 KiB to 16 MiB.
pub static BYTES: [u64; 13] = powers(12);
/// The table goes no further than 30.
pub static IN_FLIGHT: [u64; 5] = powers(0);

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
