//! What the members of one group last were, in a few dozen bytes each: a hash of the name, a mark of what was read, which columns are not 0, and
//! these, as numbers of as many bytes as they need.
//!
//! It is changed in place: a member whose numbers need as many bytes as before stays where it is, another one goes to the end. What that leaves
//! free is taken back at the end of a look.

use super::numbers::{put_number, take_bytes, take_number};
use super::shapes::Shapes;
use crate::sources::cursors::Reader;

/// Members of a group.
pub const MEMBERS_MAX: usize = 65_536;
/// Of a group: 40,000 jobs with 20 columns that count need 4 MiB.
const ARENA_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES: usize = 8 + 4 + 4 + 2;
/// Where in a head the length of what follows is; above it these flags.
const WORD: usize = 16;
const LENGTH: u16 = 0x1fff;
/// The look under way has found it.
const SEEN: u16 = 0x2000;
/// The spool does not have it so.
const CHANGED: u16 = 0x4000;
/// It is gone, or lies elsewhere now.
const FREE: u16 = 0x8000;
/// What the arena grows by at least.
const GROW_BYTES: usize = 1 << 10;

/// One member in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// Of its name.
    pub hash: u64,
    /// By which it can be seen that nothing has changed; 0: it cannot.
    pub mark: u32,
    /// In which look it was last told.
    pub told: u32,
}

/// Owned by its source; bounded by MEMBERS_MAX and ARENA_BYTES_MAX.
#[derive(Default)]
pub struct Table {
    /// A head, flags and the length of the rest, what its shape is, and the values of its columns; one member after the other.
    arena: Vec<u8>,
    shapes: Shapes,
    /// Where in `arena` a member begins, plus 1, at a place that its hash says or after; 0: free. Empty while the table is packed.
    index: Vec<u32>,
    members: usize,
    /// What they take in the spool.
    kept_bytes: usize,
    /// Of the member that is put in: its columns, and its rest.
    columns: Vec<u8>,
    rest: Vec<u8>,
    /// A member found no room since the look began.
    is_full: bool,
}

impl Table {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.members
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.arena.capacity() + 4 * self.index.capacity()
    }

    /// What its members take in the spool.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// A look begins: nothing is seen yet.
    pub fn begin(&mut self) {
        self.clear(SEEN);
        self.is_full = false;
        self.unpack();
    }

    fn clear(&mut self, flag: u16) {
        let mut at = 0;
        while at < self.arena.len() {
            self.set_word(at, self.word(at) & !flag);
            at += self.length(at);
        }
    }

    /// A look ends: drops those that it has not seen if it saw all, and hands their hashes over. Answers false if it dropped some without
    /// knowing that they are gone, since others found no room.
    pub fn end(&mut self, is_whole: bool, mut gone: impl FnMut(u64)) -> bool {
        if is_whole || self.is_full {
            let mut at = 0;
            while at < self.arena.len() {
                if self.word(at) & (SEEN | FREE) == 0 {
                    gone(self.hash(at));
                    self.free(at);
                }
                at += self.length(at);
            }
        }
        self.compact();
        // Until the next look nothing is looked up.
        self.index = Vec::new();
        is_whole || !self.is_full
    }

    fn free(&mut self, at: usize) {
        self.members -= 1;
        self.leave(at);
        self.set_word(at, self.word(at) | FREE);
    }

    /// What is at `at` is none of the members any more.
    fn leave(&mut self, at: usize) {
        self.kept_bytes -= self.kept_length(at);
        let rest = at + HEAD_BYTES..at + self.length(at);
        self.shapes.leave(&self.arena[rest]);
    }

    /// Columns that are not 0, and their values.
    fn parts(&self, at: usize) -> (&[u8], &[u8]) {
        let rest = &self.arena[at + HEAD_BYTES..at + self.length(at)];
        self.shapes.columns(rest)
    }

    /// Bytes of the member at `at` in the spool, where each column stands before its value.
    fn kept_length(&self, at: usize) -> usize {
        let (columns, values) = self.parts(at);
        HEAD_BYTES + columns.len() + values.len()
    }

    /// Moves members together.
    fn compact(&mut self) {
        let (mut at, mut end) = (0, 0);
        while at < self.arena.len() {
            let (word, length) = (self.word(at), self.length(at));
            if word & FREE == 0 {
                self.arena.copy_within(at..at + length, end);
                end += length;
            }
            at += length;
        }
        self.arena.truncate(end);
        if self.arena.capacity() > end + end / 8 + GROW_BYTES {
            self.arena.shrink_to(end + end / 16);
        }
    }

    fn unpack(&mut self) {
        // At least a quarter stays free.
        let slots = (self.members * 4 / 3 + 1).next_power_of_two().max(16);
        self.index.clear();
        self.index.resize(slots, 0);
        let mut at = 0;
        while at < self.arena.len() {
            if self.word(at) & FREE == 0 {
                self.enter(at);
            }
            at += self.length(at);
        }
    }

    fn slot(&self, hash: u64) -> Option<usize> {
        let mask = self.index.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        while self.index[slot] != 0 && self.hash(self.index[slot] as usize - 1) != hash {
            slot = (slot + 1) & mask;
        }
        Some(slot)
    }

    /// Where a member is, while the table is not packed.
    pub fn find(&self, hash: u64) -> Option<usize> {
        let at = self.index[self.slot(hash)?];
        (at as usize).checked_sub(1)
    }

    fn four(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.arena[at..at + 4].try_into().unwrap_or_default())
    }

    fn hash(&self, at: usize) -> u64 {
        self.four(at) as u64 | (self.four(at + 4) as u64) << 32
    }

    pub fn head(&self, at: usize) -> Head {
        Head {
            hash: self.hash(at),
            mark: self.four(at + 8),
            told: self.four(at + 12),
        }
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.arena[at + WORD], self.arena[at + WORD + 1]])
    }

    fn set_word(&mut self, at: usize, word: u16) {
        self.arena[at + WORD..at + WORD + 2].copy_from_slice(&word.to_le_bytes());
    }

    /// Bytes of the member at `at`.
    fn length(&self, at: usize) -> usize {
        HEAD_BYTES + (self.word(at) & LENGTH) as usize
    }

    /// The member's columns; those that are 0 are set to that.
    pub fn values(&self, at: usize, out: &mut [u64]) {
        out.fill(0);
        let (columns, mut values) = self.parts(at);
        for &column in columns {
            if let (Some(own), Some(value)) =
                (out.get_mut(column as usize), take_number(&mut values))
            {
                *own = value;
            }
        }
    }

    /// Where the members are, in order, from a place on.
    fn places(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            while at < self.arena.len() {
                let place = at;
                at += self.length(at);
                if self.word(place) & FREE == 0 {
                    return Some(place);
                }
            }
            None
        })
    }

    pub fn is_seen(&self, at: usize) -> bool {
        self.word(at) & SEEN != 0
    }

    /// It is there, as it was.
    pub fn see(&mut self, at: usize) {
        self.set_word(at, self.word(at) | SEEN);
    }

    /// It was told until a look.
    pub fn set_told(&mut self, at: usize, told: u32) {
        self.arena[at + 12..at + 16].copy_from_slice(&told.to_le_bytes());
        self.set_word(at, self.word(at) | CHANGED);
    }

    /// Nothing but its mark has changed.
    pub fn set_mark(&mut self, at: usize, mark: u32) {
        self.arena[at + 8..at + 12].copy_from_slice(&mark.to_le_bytes());
    }

    /// Whether a member may be put in; `at`: where it is.
    pub fn has_room(&mut self, at: Option<usize>) -> bool {
        let has_room = self.arena.len() + HEAD_BYTES + LENGTH as usize <= ARENA_BYTES_MAX
            && (at.is_some() || self.members < MEMBERS_MAX);
        self.is_full |= !has_room;
        has_room
    }

    /// Puts in how a member is now, which the look has seen.
    pub fn put(&mut self, at: Option<usize>, head: Head, values: &[u64]) {
        self.columns.clear();
        let columns = values.iter().enumerate().filter(|(_, value)| **value != 0);
        self.columns.extend(columns.map(|(column, _)| column as u8));
        self.put_columns(at, head, SEEN | CHANGED, |out| {
            let values = values.iter().filter(|value| **value != 0);
            values.for_each(|value| put_number(out, *value));
        });
    }

    /// Puts in a member whose columns are `columns`; `write` appends their values.
    fn put_columns(
        &mut self,
        at: Option<usize>,
        head: Head,
        flags: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(at) = at {
            self.leave(at);
        }
        self.rest.clear();
        self.shapes.put(&self.columns, &mut self.rest);
        write(&mut self.rest);
        let length = HEAD_BYTES + self.rest.len();
        let to = match at {
            Some(at) if self.length(at) == length => at,
            _ => {
                let end = self.arena.len();
                if self.arena.capacity() < end + length {
                    self.arena.reserve_exact(length + GROW_BYTES.max(end / 16));
                }
                self.arena.resize(end + length, 0);
                end
            }
        };
        let out = &mut self.arena[to..to + length];
        out[..8].copy_from_slice(&head.hash.to_le_bytes());
        out[8..12].copy_from_slice(&head.mark.to_le_bytes());
        out[12..WORD].copy_from_slice(&head.told.to_le_bytes());
        out[HEAD_BYTES..].copy_from_slice(&self.rest);
        self.set_word(to, self.rest.len() as u16 | flags);
        self.kept_bytes += self.kept_length(to);
        self.members += at.is_none() as usize;
        match at {
            Some(at) if at == to => {}
            // The hash's place in the index is the same.
            Some(at) => {
                self.enter(to);
                self.set_word(at, FREE | self.word(at));
            }
            None if 4 * self.members > 3 * self.index.len() => self.unpack(),
            None => self.enter(to),
        }
    }

    /// Puts in a member as `write` wrote it.
    fn put_kept(&mut self, at: Option<usize>, head: Head, mut pairs: &[u8]) {
        self.columns.clear();
        let mut values = Vec::new();
        while let Some((&column, behind)) = pairs.split_first() {
            pairs = behind;
            self.columns.push(column);
            values.extend_from_slice(take_bytes(&mut pairs));
        }
        self.put_columns(at, head, 0, |out| out.extend_from_slice(&values));
    }

    fn enter(&mut self, at: usize) {
        if let Some(slot) = self.slot(self.hash(at)) {
            self.index[slot] = at as u32 + 1;
        }
    }

    /// Appends members from the place `from` on as the spool keeps them, all or those that changed, until they are `bytes` or more. Answers where to
    /// go on; `None`: that was all.
    pub fn write(&self, all: bool, from: usize, bytes: usize, out: &mut Vec<u8>) -> Option<usize> {
        let begin = out.len();
        for at in self.places(from) {
            if out.len() - begin >= bytes {
                return Some(at);
            }
            let word = self.word(at);
            if all || word & CHANGED != 0 {
                let (columns, mut values) = self.parts(at);
                let length = (columns.len() + values.len()) as u16;
                out.extend_from_slice(&self.arena[at..at + WORD]);
                out.extend_from_slice(&length.to_le_bytes());
                for &column in columns {
                    out.push(column);
                    out.extend_from_slice(take_bytes(&mut values));
                }
            }
        }
        None
    }

    /// The spool has all of it.
    pub fn committed(&mut self) {
        self.clear(CHANGED);
    }

    /// Takes back what the spool kept. False: there is no room.
    pub fn restore(&mut self, gone: &[u64], members: &[(Head, &[u8])]) -> bool {
        self.unpack();
        for hash in gone {
            if let Some(at) = self.find(*hash) {
                self.free(at);
            }
        }
        self.compact();
        self.unpack();
        let mut has_room = true;
        for (head, rest) in members {
            let at = self.find(head.hash);
            has_room &= self.has_room(at);
            if has_room {
                self.put_kept(at, *head, rest);
            }
        }
        self.compact();
        self.index = Vec::new();
        has_room
    }
}

/// Reads members as `write` writes them, of so many columns. `None`: they break off or make no sense.
pub fn read_members<'a>(cursor: &mut Reader<'a>, columns: usize) -> Option<Vec<(Head, &'a [u8])>> {
    let mut members = Vec::new();
    while !cursor.is_empty() {
        let head = Head {
            hash: cursor.u64()?,
            mark: cursor.u32()?,
            told: cursor.u32()?,
        };
        let length = cursor.u16().filter(|length| *length <= LENGTH)?;
        let rest = cursor.take(length as usize)?;
        let (mut numbers, mut least) = (rest, 0);
        while let Some((&column, behind)) = numbers.split_first() {
            numbers = behind;
            let value = take_number(&mut numbers)?;
            let is_good = (least..columns).contains(&(column as usize)) && value != 0;
            is_good.then_some(())?;
            least = column as usize + 1;
        }
        members.push((head, rest));
    }
    Some(members)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
