//! A log that is a file: its lines, and where reading has come to.

use super::clock::Clock;
use super::line::parse;
use super::message::Origin;
use super::teller::{Said, Teller, Wanted};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::log_file::lines::Next;
use crate::sources::log_file::place::Place;
use crate::sources::log_file::source::{Flow, How};
use crate::sources::log_file::{Follower, More, Owner};
use std::path::{Path, PathBuf};

/// Owned by the source. What is in memory at a kill is read again from the cursor's place on.
pub struct File {
    follower: Follower,
    /// What messages say of where they stood.
    name: String,
    clock: Clock,
    pub teller: Teller,
    bad_lines: u64,
    /// It was not looked at since it was read to its end.
    is_due: bool,
    pub has_changed: bool,
}

impl File {
    pub fn new(path: PathBuf, name: String, clock: Clock) -> File {
        File {
            // Distributions give the log to a user of the logging daemon's. What it says is not believed anyway.
            follower: Follower::new(path, Owner::Anyone),
            name,
            clock,
            teller: Teller::default(),
            bad_lines: 0,
            is_due: true,
            has_changed: false,
        }
    }

    pub fn path(&self) -> &Path {
        self.follower.path()
    }

    pub fn is_blank(&self) -> bool {
        self.follower.is_blank()
    }

    pub fn read(
        &mut self,
        budget: &mut u64,
        how: How,
        now_ns: i64,
        wanted: &Wanted,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        if std::mem::take(&mut self.is_due) {
            self.clock.look(now_ns);
            self.teller.look(now_ns, wanted);
            if let More::Other(unfinished) = self.follower.look() {
                self.bad_lines += unfinished.is_some() as u64;
                self.has_changed = true;
            }
        }
        let flow = loop {
            if !self.take_lines(wanted, counters, batch) {
                break Flow::Full;
            }
            match self.follower.more(budget, how.last) {
                More::Read => self.has_changed = true,
                More::Other(unfinished) => {
                    self.bad_lines += unfinished.is_some() as u64;
                    self.has_changed = true;
                }
                More::Spent => break Flow::Spent,
                More::Nothing => break self.rest(now_ns, how.last, counters, batch),
            }
        };
        counters.bad_lines.add(std::mem::take(&mut self.bad_lines));
        counters.lost_log_bytes.add(self.follower.take_lost());
        if flow == Flow::Done {
            self.is_due = true;
            self.follower.lines.shrink();
        }
        flow
    }

    /// Tells what is left to be told once all was read.
    pub fn rest(&mut self, now_ns: i64, all: bool, counters: &Counters, batch: &mut Batch) -> Flow {
        self.teller.rest(now_ns, all);
        match self.tell(counters, batch) {
            true => Flow::Done,
            false => Flow::Full,
        }
    }

    /// Takes the lines that were read. False: the batch is full.
    fn take_lines(&mut self, wanted: &Wanted, counters: &Counters, batch: &mut Batch) -> bool {
        loop {
            if !self.tell(counters, batch) {
                return false;
            }
            let line = match self.follower.lines.next_line() {
                Next::Nothing => return true,
                Next::TooLong(_) => None,
                Next::Line(_, text) => parse(text),
            };
            let timed = line.and_then(|line| Some((self.clock.utc_ns(&line.when)?, line)));
            let Some((time, line)) = timed else {
                self.bad_lines += 1;
                continue;
            };
            let said = Said {
                time,
                severity: line.severity,
                facility: line.facility,
                program: line.program,
                text: line.text,
                origin: Origin::Claimed,
                count: line.count,
            };
            self.teller.take(&said, wanted, counters);
        }
    }

    fn tell(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        self.has_changed |= self.teller.waits();
        self.teller.tell(&self.name, counters, batch)
    }

    pub fn write_cursor(&self, out: &mut Vec<u8>) {
        self.follower.place().write(out);
        out.extend_from_slice(&self.clock.last_s().to_le_bytes());
        self.teller.write_cursor(out);
    }

    pub fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let place = Place::read(cursor)?;
        let last_s = cursor.u64()? as i64;
        let teller = Teller::read_cursor(cursor)?;
        self.follower.restore(place);
        self.clock.resume(last_s);
        (self.teller, self.has_changed) = (teller, false);
        Some(())
    }
}
