//! What is told of one member: what its counters moved since it was last told, or since it was not there.

use super::super::track::write_head;
use super::super::{text, INSTANCE_BYTES_MAX};
use super::members::{settle, write_values, ABSENT};
use super::table::{Head, MEMBERS_MAX};
use super::{Crowd, Look, Reading};
use crate::ship::batch::Batch;
#[allow(deprecated)]
// The one that stays the same in all versions, so that what the spool keeps is found again.
use std::hash::{Hasher, SipHasher};

impl Crowd {
    #[allow(deprecated)]
    fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.key[0], self.key[1]);
        hasher.write(name);
        hasher.finish()
    }

    /// Deals with the member that was read. False: the batch has no room, and it is to be given again.
    pub(super) fn member(
        &mut self,
        reading: &mut Reading,
        look: &mut Look,
        batch: &mut Batch,
    ) -> bool {
        let Reading { name, group, .. } = reading;
        let own = self.members.name();
        let hash = self.hash(own);
        let known = group.table.find(hash);
        if name.len() + 1 + own.len() > INSTANCE_BYTES_MAX
            || known.is_some_and(|at| group.table.is_seen(at))
        {
            // It hides no other one.
            reading.errors += 1;
            look.found.error(|| {
                let own = text::quote(own);
                format!("{name}: {own} has a name that another has, or one of more than {INSTANCE_BYTES_MAX} bytes; it is not told")
            });
            return true;
        }
        look.members += 1;
        let (mark, number) = (self.members.mark(), look.number);
        let before = known.map(|at| (at, group.table.head(at)));
        if let Some((at, head)) = before {
            if mark != 0 && head.mark == mark && !self.looks.is_oldest(head.told) {
                group.table.see(at);
                return true;
            }
        }
        let (identity, columns) = (self.columns.len(), &self.columns);
        self.values.fill(ABSENT);
        self.values[identity] = self.members.identity();
        if !self
            .members
            .values(&mut self.values[..identity], &mut look.found)
        {
            known.into_iter().for_each(|at| group.table.see(at)); // and it stays as it was
            return true;
        }
        if !group.table.has_room(known) {
            known.into_iter().for_each(|at| group.table.see(at));
            look.found.error(|| format!("{name}: more than {MEMBERS_MAX} are there, or they count too much; the rest is not told"));
            return true;
        }
        match known {
            Some(at) => group.table.values(at, &mut self.base),
            None => self.base.fill(0),
        }
        let is_same = known.is_none() || self.values[identity] == self.base[identity];
        let reset = settle(&mut self.values, &self.base, |at| {
            columns
                .get(at)
                .filter(|column| column.scale.is_some())?
                .part
                .into()
        });
        // What is new in a group of which all was known has counted from 0 since. What is of other things than before has no base.
        let told = match before {
            Some((_, head)) => is_same.then_some(head.told),
            None => group.whole.or(self.from_zero.then_some(number)),
        };
        let is_changed = self.values[..identity] != self.base[..identity];
        let mut head = Head {
            hash,
            mark,
            told: number,
        };
        if let Some(told) = told {
            let is_old = self.looks.is_oldest(told);
            if let (Some(at), false) = (known, is_changed || is_old) {
                group.table.set_mark(at, mark);
                group.table.see(at);
                return true;
            }
            // It stood still until the last look that saw it.
            let seen = group.whole.filter(|seen| is_changed && *seen > told);
            if let Some((seen, at)) = seen.zip(known) {
                if !self.push(name, [told, seen], None, batch) {
                    return false;
                }
                group.table.set_told(at, seen);
                (group.has_changed, self.has_changed) = (true, true);
            }
            let since = known.and(seen).unwrap_or(told);
            if (is_changed || is_old) && !self.push(name, [since, number], Some(reset), batch) {
                return false;
            }
            if !is_changed && !is_old {
                head.told = told; // one that has counted nothing yet
            }
        }
        group.table.put(known, head, &self.values);
        (group.has_changed, self.has_changed) = (true, true);
        true
    }

    /// Tells what a member did from one look to another. `reset`: parts whose counters began anew, a bit each; `None`: it did nothing.
    fn push(&self, group: &str, looks: [u32; 2], reset: Option<u32>, batch: &mut Batch) -> bool {
        let [since, end] = looks.map(|look| self.looks.at(look));
        let mut instance = group.as_bytes().to_vec();
        if !group.is_empty() {
            instance.push(b' ');
        }
        instance.extend_from_slice(self.members.name());
        let values = self.values.iter().zip(&self.base);
        let is_pushed = batch.push("sample", |out| {
            write_head(out, self.members.component(), &instance, since, end);
            write_values(out, self.columns.iter().zip(values), reset);
        });
        self.counters.records.add(is_pushed as u64);
        is_pushed
    }
}
