//! Samples of instances that may be tens of thousands, such as each job on each target: read one after the other, compared with a compact table,
//! and told at once, so that no look's readings lie in memory together.
//!
//! Members of a group (a target) are known by a hash. Only those are told of which something changed; when one changes that had stood still, a sample
//! of the quiet stretch comes before it. The spool keeps the tables, so that members go on from what was told.

mod cursor;
mod looks;
pub mod members;
pub mod numbers;
mod shapes;
mod table;
mod tell;

use self::looks::Looks;
use self::members::{Column, Members, COLUMNS_MAX};
use self::table::Table;
use super::reading::Found;
use super::said::Said;
use super::schedule::Schedule;
use super::track::At;
use super::LOOK_AGAIN;
use crate::clock::Now;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::{Pieces, Reader};
use crate::sources::{Pass, Progress, Source};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One group between looks, or as far as it was read.
#[derive(Default)]
struct Group {
    table: Table,
    /// The last look that read all of it, or saw that it was not there. What is new since counts from 0.
    whole: Option<u32>,
    /// Hashes of members that went.
    gone: Vec<u64>,
    /// The spool does not have it so.
    has_changed: bool,
}

/// A look under way.
struct Look {
    number: u32,
    at: At,
    groups: std::vec::IntoIter<String>,
    now: Option<Reading>,
    found: Found,
    members: u64,
}

/// A group that is being read.
struct Reading {
    name: String,
    group: Group,
    /// There is something to read.
    is_there: bool,
    /// Errors before it was read, and those since that hide no other member.
    errors: u64,
    /// A member was read that is not dealt with: the batch was full.
    is_waiting: bool,
}

/// Owned by the agent's thread. Bounded by the groups and by what a table may hold; at a kill the spool has it as of the last sample, unless
/// that is more than `cursors_bytes_max`.
pub struct Crowd {
    members: Box<dyn Members>,
    tag: u8,
    counters: Arc<Counters>,
    columns: Vec<Column>,
    schedule: Schedule,
    kernel_boot: u64,
    /// Nobody else knows it: names whose hashes are the same cannot be made.
    key: [u64; 2],
    groups: BTreeMap<String, Group>,
    looks: Looks,
    /// The last look that found all groups. Those that are new since count from 0.
    listed: Option<u32>,
    look: Option<Look>,
    said: Said,
    /// How a member stands, and how it stood: each column, and its identity behind them.
    values: Vec<u64>,
    base: Vec<u64>,
    /// `from_zero` was asked for.
    from_zero: bool,
    /// What the spool keeps of it at most, and whether it keeps it.
    cursors_bytes_max: usize,
    is_kept: bool,
    /// The spool does not have it as it is.
    has_changed: bool,
    /// Groups that went.
    gone: Vec<String>,
    /// What the spool had was of another start of the machine.
    was_rebooted: bool,
    /// What the spool had made no sense; how many groups it had.
    is_bad: bool,
    restored: Option<usize>,
}

impl Crowd {
    /// `tag`: of its cursors in the spool, its alone for ever; `kernel_boot`: names this start of the machine.
    pub fn new(
        members: Box<dyn Members>,
        tag: u8,
        period_s: u64,
        (kernel_boot, cursors_bytes_max): (u64, usize),
        counters: &Arc<Counters>,
    ) -> Crowd {
        let columns = members.columns();
        assert!(columns.len() <= COLUMNS_MAX);
        let random = RandomState::new();
        Crowd {
            tag,
            counters: counters.clone(),
            schedule: Schedule::every(Duration::from_secs(period_s)),
            kernel_boot,
            key: [0, 1].map(|number| random.hash_one(number)),
            groups: BTreeMap::new(),
            looks: Looks::default(),
            listed: None,
            look: None,
            said: Said::default(),
            values: vec![0; columns.len() + 1],
            base: vec![0; columns.len() + 1],
            columns,
            members,
            from_zero: false,
            cursors_bytes_max,
            is_kept: true,
            has_changed: false,
            gone: Vec::new(),
            was_rebooted: false,
            is_bad: false,
            restored: None,
        }
    }

    /// The first look tells all, as if it had counted from 0 then: of a capture there may be no other.
    pub fn from_zero(mut self) -> Crowd {
        self.from_zero = true;
        self
    }

    /// What members take between looks.
    #[cfg(test)]
    pub fn table_bytes(&self) -> usize {
        let groups = self.groups.values();
        groups.map(|group| group.table.capacity()).sum()
    }

    fn begin(&mut self, now: &Now) {
        let at = At::of(now);
        let restored = self.restored.take();
        if self.is_bad || restored.is_some_and(|count| count != self.groups.len()) {
            // Else what is missing would be new.
            self.forget();
        }
        if std::mem::take(&mut self.was_rebooted) {
            // Since then all counts, from 0. Where nobody knows when that was, only what comes does.
            self.listed = at.boot().map(|boot| self.looks.begin(boot));
        }
        let mut found = Found::at(now.instant);
        let groups = self.members.groups(&mut found);
        let number = self.looks.begin(at);
        if found.errors == 0 {
            let old = self.groups.keys().filter(|name| !groups.contains(name));
            let old: Vec<String> = old.cloned().collect();
            for name in old {
                self.groups.remove(&name);
                self.gone.push(name);
                self.has_changed = true;
            }
            for name in &groups {
                let whole = self.listed;
                self.groups.entry(name.clone()).or_insert_with(|| Group {
                    whole,
                    has_changed: true,
                    ..Group::default()
                });
            }
            self.listed = Some(number);
        }
        self.look = Some(Look {
            number,
            at,
            groups: groups.into_iter(),
            now: None,
            found,
            members: 0,
        });
    }

    fn end(&mut self, look: Look, now: Instant) {
        let is_empty = look.members == 0 && self.groups.is_empty();
        match is_empty && look.found.errors == 0 {
            true => self.schedule.rest(now, LOOK_AGAIN),
            false => self.schedule.done(now),
        }
        self.counters.failed_reads.add(look.found.errors);
        let members = &self.members;
        self.said.say(
            members.component(),
            || members.place(),
            &look.found,
            is_empty,
        );
    }

    /// Goes on with the look until the batch is full (false) or it ends.
    fn go_on(&mut self, look: &mut Look, batch: &mut Batch) -> bool {
        loop {
            let Some(mut reading) = look.now.take() else {
                let Some(name) = look.groups.next() else {
                    return true;
                };
                let mut group = self.groups.remove(&name).unwrap_or_default();
                group.table.begin();
                let errors = look.found.errors;
                look.now = Some(Reading {
                    is_there: self.members.open(&name, &mut look.found),
                    name,
                    group,
                    errors,
                    is_waiting: false,
                });
                continue;
            };
            while reading.is_waiting || self.members.next(look.at.utc_ns, &mut look.found) {
                reading.is_waiting = !self.member(&mut reading, look, batch);
                if reading.is_waiting {
                    look.now = Some(reading);
                    return false;
                }
            }
            self.close(reading, look);
        }
    }

    /// Ends a group. Of one that could not be read whole the members that are missing stay as they were.
    fn close(&mut self, reading: Reading, look: &Look) {
        let Reading {
            name, mut group, ..
        } = reading;
        let is_whole = reading.is_there && look.found.errors == reading.errors;
        let gone = group.gone.len();
        let is_known = group.table.end(is_whole, |hash| group.gone.push(hash));
        match (is_whole, is_known) {
            (true, _) => group.whole = Some(look.number),
            (false, true) => {}
            // What comes back is not new.
            (false, false) => group.whole = None,
        }
        group.has_changed |= group.gone.len() > gone;
        self.has_changed |= group.has_changed;
        self.groups.insert(name, group);
    }
}

impl Source for Crowd {
    fn tag(&self) -> u8 {
        self.tag
    }

    fn begin(&mut self, _pass: &mut Pass) {}

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        if self.look.is_none() && self.schedule.is_due(pass.now.instant) {
            self.begin(&pass.now);
        }
        let Some(mut look) = self.look.take() else {
            return Progress::Done;
        };
        match self.go_on(&mut look, batch) {
            true => {
                self.end(look, pass.now.later());
                Progress::Done
            }
            false => {
                self.look = Some(look);
                Progress::More
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.schedule.next())
    }

    fn cursors(&self, all: bool, out: &mut Pieces) {
        self.write_cursors(all, out);
    }

    fn forget(&mut self) {
        self.groups.clear();
        (self.looks, self.listed) = (Looks::default(), None);
        (self.was_rebooted, self.is_bad, self.restored) = (false, false, None);
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let restored = self.read_cursor(cursor);
        self.is_bad |= restored.is_none();
        restored
    }

    fn committed(&mut self) {
        self.has_committed();
    }
}

#[cfg(test)]
#[path = "crowd_kill_tests.rs"]
mod kill_tests;
#[cfg(test)]
#[path = "crowd_tests.rs"]
pub mod tests;
