//! One log: its file, what it told, and what goes into the batch.

use super::cursor;
use super::lines::{Lines, Next};
use super::local_time::LocalTime;
use super::owner::Owner;
use super::place::Place;
use super::record;
use super::tail::{Look, Tail};
use super::trace::Trace;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::warn;
use jiff::tz::TimeZone;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracepack::record::Op;

pub struct Settings {
    pub owner: Owner,
    pub zone: TimeZone,
    /// How long operations go into one run, and how long they wait for their reply.
    pub window: Duration,
    pub table_bytes_max: usize,
}

impl Settings {
    fn trace(&self) -> Trace {
        let clock = LocalTime::new(self.zone.clone(), 0);
        Trace::new(clock, self.window.as_nanos() as u64, self.table_bytes_max)
    }
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// All that was there is read.
    Done,
    /// The batch is full.
    Full,
    /// As much was read as might be.
    Spent,
}

/// Owned by the source. What is in memory at a kill is read again from the cursor's place on.
pub struct Log {
    tail: Tail,
    lines: Lines,
    trace: Trace,
    window: Duration,
    /// When a line last came.
    heard: Instant,
    /// It was not looked at since it was read to its end.
    is_due: bool,
    /// It is not among the settings any more: what the spool has of it is written, and that is all.
    is_retired: bool,
    has_changed: bool,
}

impl Log {
    pub fn new(path: PathBuf, settings: &Settings) -> Log {
        Log {
            tail: Tail::new(path, settings.owner),
            lines: Lines::default(),
            trace: settings.trace(),
            window: settings.window,
            heard: Instant::now(),
            is_due: true,
            is_retired: false,
            has_changed: false,
        }
    }

    pub fn retired(path: PathBuf, settings: &Settings) -> Log {
        Log {
            is_retired: true,
            ..Self::new(path, settings)
        }
    }

    pub fn path(&self) -> &Path {
        &self.tail.path
    }

    pub fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// Whether it is retired and has nothing more to write.
    pub fn is_over(&self) -> bool {
        self.is_retired && !self.is_due && self.trace.runs.closed.is_empty()
    }

    /// Reads what is there, `budget` bytes at most. `flush`: nothing stays open. `last`: no other look comes.
    pub fn read(
        &mut self,
        budget: &mut u64,
        flush: bool,
        last: bool,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        if std::mem::take(&mut self.is_due) && !self.is_retired {
            let looked = self.tail.look(self.lines.end());
            self.tail.tell_missing(looked == Look::Nothing);
            self.came_to(looked);
        }
        // What was restored may be more than the bound is now.
        self.trace.runs.fit();
        let flow = self.read_all(budget, flush, last, counters, batch);
        self.trace.tally.tell(counters);
        counters
            .lost_log_bytes
            .add(std::mem::take(&mut self.tail.lost));
        if flow == Flow::Done {
            self.is_due = !self.is_retired;
            self.lines.shrink();
        }
        flow
    }

    fn read_all(
        &mut self,
        budget: &mut u64,
        flush: bool,
        last: bool,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        loop {
            if !self.take_lines(counters, batch) {
                return Flow::Full;
            }
            if *budget == 0 {
                return Flow::Spent;
            }
            let read_to = self.lines.end();
            let read = self.tail.read(read_to, self.lines.room());
            // Begun anew since the last look, or just now: what was read is not what follows.
            if !self.tail.is_intact(read_to) {
                let found = self.tail.find_from(read_to);
                self.came_to(found);
                if found == Look::Nothing {
                    break;
                }
                continue;
            }
            match read {
                Ok(0) => match self.tail.follow(last) {
                    Look::Nothing => break,
                    other => self.came_to(other),
                },
                Ok(bytes) => {
                    self.lines.filled(bytes);
                    *budget = budget.saturating_sub(bytes as u64);
                    self.heard = Instant::now();
                    self.has_changed = true;
                }
                Err(e) => {
                    warn!(
                        "log not read",
                        "{}: {e}; it is tried again",
                        self.path().display()
                    );
                    break;
                }
            }
        }
        if flush || self.is_retired || self.heard.elapsed() >= self.window {
            self.stop_waiting();
            self.trace.runs.close_all();
        } else {
            self.trace.runs.close_over();
        }
        match self.emit(counters, batch) {
            true => Flow::Done,
            false => Flow::Full,
        }
    }

    /// Reading goes on in another file, or in the same begun anew: what the one before left unfinished stays so.
    fn came_to(&mut self, looked: Look) {
        if looked == Look::Other {
            self.stop_waiting();
            let (at, _) = self.lines.position();
            self.trace.tally_at(at).bad_lines += self.lines.has_part() as u64;
            self.trace.counted_to = 0;
            self.lines.reset(0, false);
            self.has_changed = true;
        }
    }

    fn stop_waiting(&mut self) {
        self.has_changed |= self.trace.oldest_waiting().is_some();
        self.trace.stop_waiting();
    }

    /// Takes the lines that were read. False: the batch is full.
    fn take_lines(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        loop {
            if !self.trace.runs.closed.is_empty() && !self.emit(counters, batch) {
                self.trace.counted(self.lines.position().0);
                return false;
            }
            match self.lines.next_line() {
                Next::Line(at, text) => self.trace.line(at, text),
                Next::TooLong(at) => self.trace.tally_at(at).bad_lines += 1,
                Next::Nothing => break,
            }
        }
        self.trace.counted(self.lines.position().0);
        true
    }

    /// Writes closed runs to the batch. False: it is full.
    fn emit(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        while let Some((stream, open)) = self.trace.runs.closed.front() {
            if !batch.push("run", |out| record::write(out, stream, open)) {
                return false;
            }
            let is_data = [Op::Read as u8, Op::Write as u8].contains(&stream.op);
            counters
                .unknown_names
                .add((is_data && open.file.is_none()) as u64);
            counters.seen.add(open.run.count);
            counters.merged.add(open.run.count - 1);
            counters.records.add(1);
            self.trace.runs.closed.pop_front();
            self.has_changed = true;
        }
        true
    }

    /// Where the next agent is to go on.
    fn place(&self) -> Place {
        let (offset, skipping) = match self.trace.oldest_waiting() {
            Some(at) => (at, false),
            None => self.lines.position(),
        };
        Place {
            offset,
            skipping,
            ..self.tail.place
        }
    }

    /// Whether the spool should have its cursor: it changed, or all are asked for.
    pub fn has_cursor(&self, all: bool) -> bool {
        let is_blank = self.tail.place.inode == 0;
        // Runs that were closed without a line, too: the spool must know that they are not open any more.
        let trace = &self.trace;
        let has_changed =
            self.has_changed || trace.handles.has_changed() || trace.runs.table.has_changed();
        has_changed || all && !is_blank
    }

    pub fn write_cursor(&self, all: bool, out: &mut Vec<u8>) {
        let path = self.path().as_os_str().as_bytes();
        cursor::write(out, path, &self.place(), &self.trace, all);
    }

    pub fn committed(&mut self) {
        self.trace.handles.settle();
        self.trace.runs.table.settle();
        self.has_changed = false;
    }

    /// Takes back what the spool has of it.
    pub fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let place = cursor::state(cursor, &mut self.trace)?;
        self.lines.reset(place.offset, place.skipping);
        self.tail.place = place;
        self.committed();
        Some(())
    }

    /// Forgets what was restored.
    pub fn forget(&mut self, settings: &Settings) {
        *self = Self::new(std::mem::take(&mut self.tail.path), settings);
    }
}
