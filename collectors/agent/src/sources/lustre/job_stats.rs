//! Component `lustre_job`: what each job did on each target, from the targets' `job_stats`. A job is what the site's `jobid_var` calls one.
//!
//! The text, of tens of MiB where jobs are many, is read piece by piece; of a job that has done nothing since the last look no more than the head.

use super::super::samples::crowd::members::{Column, Members};
use super::super::samples::reading::Found;
use super::super::samples::text::{lines, number, quote};
use super::look::folders;
use super::operations::{columns, Counts, TARGET_COLUMNS};
use super::params::{lctl, Params};
use super::stats::Stat;
use memchr::memmem::Finder;
use std::io::{ErrorKind, Read};

const DIRS: [&str; 2] = ["obdfilter", "mdt"];
/// What is read at once.
const PIECE_BYTES: usize = 16 << 10;
/// Of one job's entry, which has 2 or 3 KiB, with histograms more.
const ENTRY_BYTES_MAX: usize = 64 << 10;
/// How an entry begins.
const ENTRY: &[u8] = b"- job_id:";
const NEXT_ENTRY: &[u8] = b"\n- job_id:";
/// Until an entry's time is so old more may be counted that bears the same, seconds: it is told in whole seconds until 2.14 or so.
const SETTLED_S: i64 = 2;

/// Owned by its source; bounded by ENTRY_BYTES_MAX and PIECE_BYTES.
pub struct JobStats {
    params: Params,
    next_entry: Finder<'static>,
    /// Which parameter is being read.
    param: String,
    file: Option<Box<dyn Read>>,
    text: Vec<u8>,
    /// Where in `text` the entry that was read begins and ends.
    entry: (usize, usize),
    name: Vec<u8>,
    mark: u32,
    /// Operations of the entry before: all have the same.
    operations: usize,
}

impl JobStats {
    pub fn new(params: &Params) -> JobStats {
        JobStats {
            params: params.clone(),
            next_entry: Finder::new(NEXT_ENTRY),
            param: String::new(),
            file: None,
            text: Vec::new(),
            entry: (0, 0),
            name: Vec::new(),
            mark: 0,
            operations: 0,
        }
    }

    /// Begins to read a text from anywhere.
    pub fn begin(&mut self, param: &str, file: Box<dyn Read>) {
        self.param = param.into();
        self.file = Some(file);
        self.text.clear();
        (self.entry, self.operations) = ((0, 0), 0);
    }

    fn error(&self, found: &mut Found, what: &str) {
        let param = &self.param;
        found.error(|| {
            format!(
                "{param}: {what}; look at it with: lctl get_param {}",
                lctl(param)
            )
        });
    }

    /// Reads one more piece; what lies before the entry goes. False: there is none.
    fn more(&mut self, found: &mut Found) -> bool {
        self.text.drain(..self.entry.0);
        self.entry = (0, self.entry.1 - self.entry.0);
        let Some(file) = &mut self.file else {
            return false;
        };
        let length = self.text.len();
        self.text.resize(length + PIECE_BYTES, 0);
        let read = loop {
            match file.read(&mut self.text[length..]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = *read.as_ref().unwrap_or(&0);
        self.text.truncate(length + count);
        if let Err(e) = read {
            self.error(found, &e.to_string());
        }
        if count == 0 {
            self.file = None;
        }
        count > 0
    }

    /// Goes on to what lies before the next entry's head: the text's own head, then an entry each. False: there is no more.
    fn find(&mut self, found: &mut Found) -> bool {
        self.entry.0 = self.entry.1;
        let mut searched = 0;
        loop {
            let rest = &self.text[self.entry.0..];
            if let Some(at) = self.next_entry.find(&rest[searched..]) {
                self.entry.1 = self.entry.0 + searched + at + 1;
                return true;
            }
            searched = rest.len().saturating_sub(NEXT_ENTRY.len() - 1);
            if rest.len() > ENTRY_BYTES_MAX {
                self.entry.0 += searched;
                searched = 0;
                let text = format!("an entry has more than {ENTRY_BYTES_MAX} bytes");
                self.error(found, &text);
            }
            self.entry.1 = self.entry.0;
            if !self.more(found) {
                self.entry = (0, self.text.len());
                return !self.text.is_empty();
            }
        }
    }

    /// Takes the name and the time of the entry that was found. `None`: they are not there.
    fn head(&mut self, now_utc_ns: i64) -> Option<()> {
        let entry = &self.text[self.entry.0..self.entry.1];
        let mut lines = entry.split(|b| *b == b'\n');
        let name = lines.next()?.strip_prefix(ENTRY)?.trim_ascii();
        // Newer versions put unusual ones in quotes.
        let bare = name.strip_prefix(b"\"").and_then(|n| n.strip_suffix(b"\""));
        let name = bare.unwrap_or(name);
        let time = lines
            .next()?
            .trim_ascii()
            .strip_prefix(b"snapshot_time:")?
            .trim_ascii();
        let digits = time.iter().take_while(|b| b.is_ascii_digit()).count();
        let seconds = number(&time[..digits])?;
        (!name.is_empty()).then_some(())?;
        let is_settled =
            now_utc_ns / 1_000_000_000 - seconds.min(u32::MAX as u64) as i64 >= SETTLED_S;
        self.mark = if is_settled { seconds as u32 } else { 0 };
        self.name.clear();
        self.name.extend_from_slice(name);
        Some(())
    }

    /// Takes the entry's operations. `Err`: which line cannot be.
    fn operations(&mut self, counts: &mut Counts) -> Result<(), String> {
        let entry = &self.text[self.entry.0..self.entry.1];
        let mut seen = 0;
        for (_, line, is_whole) in lines(entry).skip(1) {
            if !is_whole {
                return Err(format!("an entry breaks off at {}", quote(line)));
            }
            match operation(line) {
                Some(Some(stat)) => {
                    seen += 1;
                    counts.take(stat);
                }
                Some(None) => {}
                None => {
                    return Err(format!(
                        "expected NAME: {{ samples: NUMBER, unit: UNIT, … }}, found {}",
                        quote(line)
                    ))
                }
            }
        }
        let is_last = self.file.is_none() && self.entry.1 == self.text.len();
        if is_last && seen < self.operations {
            return Err(format!(
                "the last entry has {seen} operations, those before {}",
                self.operations
            ));
        }
        self.operations = seen;
        Ok(())
    }
}

/// `NAME: { samples: 5, unit: bytes, min: 1, max: 2, sum: 9, sumsq: 19 }`. `Some(None)`: a line that tells something else; `None`: it makes no sense.
fn operation(line: &[u8]) -> Option<Option<Stat<'_>>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Some(None);
    }
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, rest) = (&line[..colon], line[colon + 1..].trim_ascii_start());
    let Some(fields) = rest.strip_prefix(b"{") else {
        return Some(None);
    };
    let (mut count, mut unit, mut sum) = (None, None, None);
    for field in fields.split(|b| matches!(b, b',' | b'}')) {
        let Some(colon) = field.iter().position(|b| *b == b':') else {
            continue;
        };
        let value = field[colon + 1..].trim_ascii();
        match field[..colon].trim_ascii() {
            b"samples" => count = Some(number(value)?),
            b"unit" => unit = Some(value),
            // One that does not fit is printed as a negative number.
            b"sum" => sum = number(value),
            // A histogram follows, of which the names are numbers.
            b"hist" => break,
            _ => {}
        }
    }
    let is_whole = line.ends_with(b"}");
    let (count, unit) = (count.filter(|_| is_whole)?, unit?);
    Some(Some(Stat {
        name,
        count,
        unit,
        sum,
    }))
}

impl Members for JobStats {
    fn component(&self) -> &'static str {
        "lustre_job"
    }

    fn place(&self) -> String {
        let all = DIRS.map(|dir| format!("{dir}/*/job_stats"));
        let hint = "is jobid_var set? see it with: lctl get_param jobid_var";
        self.params.place(&format!("{} ({hint})", all.join(", ")))
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn groups(&mut self, found: &mut Found) -> Vec<String> {
        let all = DIRS.map(|dir| folders(&self.params, dir, found));
        all.concat()
    }

    fn open(&mut self, group: &str, found: &mut Found) -> bool {
        self.file = None;
        for dir in DIRS {
            let param = format!("{dir}/{group}/job_stats");
            match self.params.open(&param) {
                Ok(None) => {}
                Ok(Some(file)) => {
                    self.begin(&param, file);
                    return true;
                }
                Err(e) => {
                    self.param = param;
                    self.error(found, &e.to_string());
                    return false;
                }
            }
        }
        false
    }

    fn next(&mut self, now_utc_ns: i64, found: &mut Found) -> bool {
        while self.find(found) {
            if self.head(now_utc_ns).is_some() {
                return true;
            }
            let piece = &self.text[self.entry.0..self.entry.1];
            if piece.trim_ascii() != b"job_stats:" {
                let text = format!(
                    "expected `- job_id:` and `snapshot_time:`, found {}",
                    quote(piece)
                );
                self.error(found, &text);
            }
        }
        self.text = Vec::new();
        self.entry = (0, 0);
        false
    }

    fn name(&self) -> &[u8] {
        &self.name
    }

    fn mark(&self) -> u32 {
        self.mark
    }

    fn values(&mut self, out: &mut [u64], found: &mut Found) -> bool {
        let mut counts = Counts::new();
        let taken = self.operations(&mut counts);
        if let Err(what) = &taken {
            let name = self.name.escape_ascii().to_string();
            self.error(found, &format!("job {name}: {what}"));
        }
        out.copy_from_slice(&counts.values[..TARGET_COLUMNS]);
        taken.is_ok()
    }
}

#[cfg(test)]
#[path = "job_stats_tests.rs"]
mod tests;
