//! One log: its file, what it told, and what goes into the batch.

use super::cursor;
use super::record;
use super::trace::Trace;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::log_file::lines::Next;
use crate::sources::log_file::local_time::LocalTime;
use crate::sources::log_file::place::Place;
use crate::sources::log_file::source::{self, Flow, How};
use crate::sources::log_file::{Follower, More, Owner};
use jiff::tz::TimeZone;
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

/// Owned by the source. What is in memory at a kill is read again from the cursor's place on.
pub struct Log {
    follower: Follower,
    trace: Trace,
    window: Duration,
    /// When a line last came.
    heard: Instant,
    /// It was not looked at since it was read to its end.
    is_due: bool,
    is_retired: bool,
    has_changed: bool,
}

impl Log {
    fn read_all(
        &mut self,
        budget: &mut u64,
        how: How,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        loop {
            if !self.take_lines(counters, batch) {
                return Flow::Full;
            }
            match self.follower.more(budget, how.last) {
                More::Read => {
                    self.heard = how.now.instant;
                    self.has_changed = true;
                }
                More::Other(unfinished) => self.came_to_other(unfinished),
                More::Spent => return Flow::Spent,
                More::Nothing => break,
            }
        }
        let silent = how.now.instant.saturating_duration_since(self.heard);
        if how.flush || self.is_retired || silent >= self.window {
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
    fn came_to_other(&mut self, unfinished: Option<u64>) {
        self.stop_waiting();
        if let Some(at) = unfinished {
            self.trace.tally_at(at).bad_lines += 1;
        }
        self.trace.counted_to = 0;
        self.has_changed = true;
    }

    fn stop_waiting(&mut self) {
        self.has_changed |= self.trace.oldest_waiting().is_some();
        self.trace.stop_waiting();
    }

    /// Takes the lines that were read. False: the batch is full.
    fn take_lines(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        loop {
            if !self.trace.runs.closed.is_empty() && !self.emit(counters, batch) {
                self.trace.counted(self.follower.lines.position().0);
                return false;
            }
            match self.follower.lines.next_line() {
                Next::Line(at, text) => self.trace.line(at, text),
                Next::TooLong(at) => self.trace.tally_at(at).bad_lines += 1,
                Next::Nothing => break,
            }
        }
        self.trace.counted(self.follower.lines.position().0);
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
        let read_to = self.follower.place();
        match self.trace.oldest_waiting() {
            Some(offset) => Place {
                offset,
                skipping: false,
                ..read_to
            },
            None => read_to,
        }
    }
}

impl source::Log for Log {
    type Settings = Settings;

    fn new(path: PathBuf, settings: &Settings) -> Log {
        Log {
            follower: Follower::new(path, settings.owner),
            trace: settings.trace(),
            window: settings.window,
            heard: Instant::now(),
            is_due: true,
            is_retired: false,
            has_changed: false,
        }
    }

    fn retired(path: PathBuf, settings: &Settings) -> Log {
        Log {
            is_retired: true,
            ..Self::new(path, settings)
        }
    }

    fn path(&self) -> &Path {
        self.follower.path()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }

    fn is_over(&self) -> bool {
        self.is_retired && !self.is_due && self.trace.runs.closed.is_empty()
    }

    fn read(&mut self, budget: &mut u64, how: How, counters: &Counters, batch: &mut Batch) -> Flow {
        if std::mem::take(&mut self.is_due) && !self.is_retired {
            if let More::Other(unfinished) = self.follower.look() {
                self.came_to_other(unfinished);
            }
        }
        // What was restored may be more than the bound is now.
        self.trace.runs.fit();
        let flow = self.read_all(budget, how, counters, batch);
        self.trace.tally.tell(counters);
        counters.lost_log_bytes.add(self.follower.take_lost());
        if flow == Flow::Done {
            self.is_due = !self.is_retired;
            self.follower.lines.shrink();
        }
        flow
    }

    // Runs that were closed without a line, too: the spool must know that they are not open any more.
    fn has_cursor(&self, all: bool) -> bool {
        let trace = &self.trace;
        let has_changed =
            self.has_changed || trace.handles.has_changed() || trace.runs.table.has_changed();
        has_changed || all && !self.follower.is_blank()
    }

    fn write_cursor(&self, all: bool, out: &mut Vec<u8>) {
        cursor::write(out, &self.place(), &self.trace, all);
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let place = cursor::state(cursor, &mut self.trace)?;
        self.follower.restore(place);
        source::Log::committed(self);
        Some(())
    }

    fn committed(&mut self) {
        self.trace.handles.settle();
        self.trace.runs.table.settle();
        self.has_changed = false;
    }
}
