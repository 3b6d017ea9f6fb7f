//! Samples of instances that may be tens of thousands, such as each job on each target: read one after the other, compared with a compact table,
//! and told at once, so that no look's readings lie in memory together.
//!
//! Members of a group (a target) are known by a hash. Only those are told of which something changed; when one changes that had stood still, a sample
//! of the quiet stretch comes before it. The table is not in the spool: what members did while no agent ran is not told.

pub mod members;
mod table;

use self::members::{settle, write_values, Column, Members, ABSENT, COLUMNS_MAX};
use self::table::{Head, Table, MEMBERS_MAX};
use super::reading::Found;
use super::said::Said;
use super::schedule::Schedule;
use super::track::{write_head, At};
use super::{INSTANCE_BYTES_MAX, LOOK_AGAIN};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::{Pass, Progress, Source};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A member that stands still for so many looks is told.
const LOOKS_MAX: usize = 4096;

/// One group between looks.
#[derive(Default)]
struct Group {
    table: Table,
    /// The last look that read all of it.
    whole: Option<u32>,
}

/// A look under way.
struct Look {
    at: At,
    groups: std::vec::IntoIter<String>,
    now: Option<Reading>,
    found: Found,
    members: u64,
}

/// A group that is being read.
struct Reading {
    name: String,
    before: Group,
    table: Table,
    errors_before: u64,
    /// A member was read that is not dealt with: the batch was full.
    is_waiting: bool,
    /// Of that one, that it stood still is told.
    is_quiet_told: bool,
}

/// Owned by the agent's thread. Bounded by the groups and by what a table may hold.
pub struct Crowd {
    members: Box<dyn Members>,
    tag: u8,
    counters: Arc<Counters>,
    columns: Vec<Column>,
    schedule: Schedule,
    /// Nobody knows it: names whose hashes are the same cannot be made.
    hasher: RandomState,
    groups: BTreeMap<String, Group>,
    /// When the last looks were, and the number of the first of them.
    looks: VecDeque<At>,
    first_look: u32,
    look: Option<Look>,
    said: Said,
    values: Vec<u64>,
    base: Vec<u64>,
    /// `from_zero` was asked for.
    from_zero: bool,
}

impl Crowd {
    /// `tag`: of its cursors in the spool, its alone for ever.
    pub fn new(
        members: Box<dyn Members>,
        tag: u8,
        period_s: u64,
        counters: &Arc<Counters>,
    ) -> Crowd {
        let columns = members.columns();
        assert!(columns.len() <= COLUMNS_MAX);
        Crowd {
            tag,
            counters: counters.clone(),
            schedule: Schedule::every(Duration::from_secs(period_s)),
            hasher: RandomState::new(),
            groups: BTreeMap::new(),
            looks: VecDeque::new(),
            first_look: 0,
            look: None,
            said: Said::default(),
            values: vec![0; columns.len()],
            base: vec![0; columns.len()],
            columns,
            members,
            from_zero: false,
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
        self.groups.values().map(|group| group.table.bytes()).sum()
    }

    /// The number of the last look.
    fn number(&self) -> u32 {
        self.first_look
            .wrapping_add(self.looks.len() as u32)
            .wrapping_sub(1)
    }

    fn at(&self, look: u32) -> At {
        let place = look.wrapping_sub(self.first_look) as usize;
        self.looks
            .get(place)
            .or(self.looks.front())
            .copied()
            .unwrap_or_default()
    }

    fn begin(&mut self, at: At) {
        if self.looks.len() == LOOKS_MAX {
            self.looks.pop_front();
            self.first_look = self.first_look.wrapping_add(1);
        }
        self.looks.push_back(at);
        let mut found = Found::default();
        let groups = self.members.groups(&mut found);
        if found.errors == 0 {
            self.groups.retain(|name, _| groups.contains(name));
        }
        self.look = Some(Look {
            at,
            groups: groups.into_iter(),
            now: None,
            found,
            members: 0,
        });
    }

    fn end(&mut self, look: Look) {
        let is_empty = look.members == 0 && self.groups.is_empty();
        match is_empty && look.found.errors == 0 {
            true => self.schedule.rest(LOOK_AGAIN),
            false => self.schedule.done(),
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
            let Some(mut group) = look.now.take() else {
                let Some(name) = look.groups.next() else {
                    return true;
                };
                self.members.open(&name, &mut look.found);
                let mut before = self.groups.remove(&name).unwrap_or_default();
                before.table.unpack();
                look.now = Some(Reading {
                    table: Table::like(&before.table),
                    name,
                    before,
                    errors_before: look.found.errors,
                    is_waiting: false,
                    is_quiet_told: false,
                });
                continue;
            };
            while group.is_waiting || self.members.next(look.at.utc_ns, &mut look.found) {
                group.is_waiting = !self.member(&mut group, look, batch);
                if group.is_waiting {
                    look.now = Some(group);
                    return false;
                }
            }
            self.close(group, look);
        }
    }

    /// Ends a group. Of one that could not be read whole the members that are missing stay as they were.
    fn close(&mut self, group: Reading, look: &mut Look) {
        let Reading {
            name,
            mut before,
            mut table,
            errors_before,
            ..
        } = group;
        if look.found.errors == errors_before {
            before.whole = Some(self.number());
        } else {
            for at in before.table.places() {
                let head = before.table.head(at);
                if table.find(head.hash).is_none() && !table.copy(head, &before.table, at) {
                    break;
                }
            }
        }
        table.pack();
        before.table = table;
        self.groups.insert(name, before);
    }

    /// Deals with the member that was read. False: the batch has no room, and it is to be given again.
    fn member(&mut self, group: &mut Reading, look: &mut Look, batch: &mut Batch) -> bool {
        let name = self.members.name();
        let hash = self.hasher.hash_one(name);
        if group.name.len() + 1 + name.len() > INSTANCE_BYTES_MAX
            || group.table.find(hash).is_some()
        {
            look.found.error(|| {
                let name = super::text::quote(name);
                format!("{}: {name} has a name that another has, or one of more than {INSTANCE_BYTES_MAX} bytes; it is not told", group.name)
            });
            return true;
        }
        let (mark, number) = (self.members.mark(), self.number());
        let known = group.before.table.find(hash);
        let before = known.map(|at| (at, group.before.table.head(at)));
        // The next look forgets when that was.
        let oldest = (self.looks.len() == LOOKS_MAX).then_some(self.first_look);
        if let Some((at, head)) =
            before.filter(|(_, head)| mark != 0 && head.mark == mark && Some(head.told) != oldest)
        {
            look.members += 1;
            return Self::keep(group, look, |table, before| table.copy(head, before, at));
        }
        self.values.fill(ABSENT);
        if !self.members.values(&mut self.values, &mut look.found) {
            return true; // and stays as it was
        }
        look.members += 1;
        match known {
            Some(at) => group.before.table.values(at, &mut self.base),
            None => self.base.fill(0),
        }
        let columns = &self.columns;
        let is_reset = settle(&mut self.values, &self.base, |at| {
            columns[at].scale.is_some()
        });
        // What is new in a group of which all was known has counted from 0 since.
        let told = match (before, group.before.whole) {
            (Some((_, head)), _) => Some(head.told),
            (None, whole) => whole.or(self.from_zero.then_some(number)),
        };
        let is_changed = self.values != self.base;
        let is_old = told.is_some() && told == oldest;
        let is_told = told.is_some() && (is_changed || is_old);
        if let (Some(told), true) = (told, is_told) {
            // It stood still until the last look that saw it.
            let seen = group
                .before
                .whole
                .filter(|seen| is_changed && seen.wrapping_sub(told) as i32 > 0);
            let quiet = seen.filter(|_| known.is_some());
            if let Some(seen) = quiet.filter(|_| !group.is_quiet_told) {
                if !self.push(&group.name, [told, seen], None, batch) {
                    return false;
                }
                group.is_quiet_told = true;
            }
            if !self.push(
                &group.name,
                [quiet.unwrap_or(told), number],
                Some(is_reset),
                batch,
            ) {
                return false;
            }
            group.is_quiet_told = false;
        }
        let told = match (is_told, told) {
            (false, Some(told)) => told,
            _ => number,
        };
        let head = Head { hash, mark, told };
        let values = &self.values;
        Self::keep(group, look, |table, _| table.add(head, values))
    }

    /// Puts a member into the new table.
    fn keep(
        group: &mut Reading,
        look: &mut Look,
        put: impl FnOnce(&mut Table, &Table) -> bool,
    ) -> bool {
        if !put(&mut group.table, &group.before.table) {
            look.found.error(|| format!("{}: more than {MEMBERS_MAX} are there, or they count too much; the rest is not told", group.name));
        }
        true
    }

    /// Tells what a member did from one look to another. `is_reset`: its counters began anew; `None`: it did nothing.
    fn push(
        &self,
        group: &str,
        looks: [u32; 2],
        is_reset: Option<bool>,
        batch: &mut Batch,
    ) -> bool {
        let [since, end] = looks.map(|look| self.at(look));
        let mut instance = group.as_bytes().to_vec();
        if !group.is_empty() {
            instance.push(b' ');
        }
        instance.extend_from_slice(self.members.name());
        let values = self.values.iter().zip(&self.base);
        let is_pushed = batch.push("sample", |out| {
            write_head(out, self.members.component(), &instance, since, end);
            write_values(out, self.columns.iter().zip(values), is_reset);
        });
        self.counters.records.add(is_pushed as u64);
        is_pushed
    }
}

impl Source for Crowd {
    fn tag(&self) -> u8 {
        self.tag
    }

    fn begin(&mut self, _pass: &mut Pass) {}

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        if self.look.is_none() && self.schedule.is_due() {
            self.begin(At::of(&pass.now));
        }
        let Some(mut look) = self.look.take() else {
            return Progress::Done;
        };
        match self.go_on(&mut look, batch) {
            true => {
                self.end(look);
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

    fn cursors(&self, _all: bool, _out: &mut Vec<u8>) {}

    fn forget(&mut self) {}

    fn restore(&mut self, _cursor: &mut Reader) -> Option<()> {
        None
    }

    fn committed(&mut self) {}
}

#[cfg(test)]
#[path = "crowd_tests.rs"]
pub mod tests;
