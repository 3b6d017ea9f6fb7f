//! What the members of one group last were, in a few dozen bytes each: a hash of the name, a mark of what was read, and those columns that are
//! not 0, as numbers of as many bytes as they need.
//!
//! A look makes a table anew, in the order in which members are read; what the last look's table says is looked up there.

/// Members of a group.
pub const MEMBERS_MAX: usize = 65_536;
/// Of a group: 40,000 jobs with 20 columns that count need 4 MiB.
const ARENA_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES: usize = 8 + 4 + 4 + 2;

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
    /// A head, the length of the rest, and pairs of a column's number and its value; one member after the other.
    arena: Vec<u8>,
    /// Where in `arena` a member begins, plus 1, at a place that its hash says or after; 0: free. Empty while the table is packed.
    index: Vec<u32>,
    members: usize,
}

impl Table {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.members
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.arena.capacity() + 4 * self.index.capacity()
    }

    /// With room for as many as another one has.
    pub fn like(other: &Table) -> Table {
        Table {
            arena: Vec::with_capacity(other.arena.len() + other.arena.len() / 8),
            index: vec![0; other.index.len()],
            members: 0,
        }
    }

    /// Until the next look nothing is looked up: takes no more memory than the members need.
    pub fn pack(&mut self) {
        self.arena.shrink_to_fit();
        self.index = Vec::new();
    }

    pub fn unpack(&mut self) {
        // At least a quarter stays free.
        let slots = (self.members * 4 / 3 + 1).next_power_of_two().max(16);
        self.index = vec![0; slots];
        let places: Vec<usize> = self.places().collect();
        places.into_iter().for_each(|at| self.enter(at));
    }

    fn slot(&self, hash: u64) -> Option<usize> {
        let mask = self.index.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        while self.index[slot] != 0 && self.head(self.index[slot] as usize - 1).hash != hash {
            slot = (slot + 1) & mask;
        }
        Some(slot)
    }

    /// Where a member is.
    pub fn find(&self, hash: u64) -> Option<usize> {
        let at = self.index[self.slot(hash)?];
        (at as usize).checked_sub(1)
    }

    pub fn head(&self, at: usize) -> Head {
        let bytes = &self.arena[at..at + HEAD_BYTES];
        let four =
            |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap_or_default());
        Head {
            hash: four(0) as u64 | (four(4) as u64) << 32,
            mark: four(8),
            told: four(12),
        }
    }

    fn rest(&self, at: usize) -> &[u8] {
        let length = u16::from_le_bytes([self.arena[at + 16], self.arena[at + 17]]);
        &self.arena[at + HEAD_BYTES..at + HEAD_BYTES + length as usize]
    }

    /// The member's columns; those that are 0 are set to that.
    pub fn values(&self, at: usize, out: &mut [u64]) {
        out.fill(0);
        let mut rest = self.rest(at);
        while let Some((&column, behind)) = rest.split_first() {
            rest = behind;
            if let Some(value) = out.get_mut(column as usize) {
                *value = take_number(&mut rest);
            }
        }
    }

    /// Where the members are, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.arena.len()).then(|| {
                let place = at;
                at += HEAD_BYTES + self.rest(at).len();
                place
            })
        })
    }

    /// Adds a member that is not in it. False: there is no room.
    pub fn add(&mut self, head: Head, values: &[u64]) -> bool {
        let from = self.arena.len();
        self.begin(head);
        for (column, value) in values.iter().enumerate().filter(|(_, value)| **value != 0) {
            self.arena.push(column as u8);
            put_number(&mut self.arena, *value);
        }
        self.end(from)
    }

    /// Adds a member of another table as it was, but for its head.
    pub fn copy(&mut self, head: Head, other: &Table, at: usize) -> bool {
        let from = self.arena.len();
        self.begin(head);
        self.arena.extend_from_slice(other.rest(at));
        self.end(from)
    }

    fn begin(&mut self, head: Head) {
        self.arena.extend_from_slice(&head.hash.to_le_bytes());
        self.arena.extend_from_slice(&head.mark.to_le_bytes());
        self.arena.extend_from_slice(&head.told.to_le_bytes());
        self.arena.extend_from_slice(&[0; 2]);
    }

    fn end(&mut self, from: usize) -> bool {
        if self.members >= MEMBERS_MAX || self.arena.len() > ARENA_BYTES_MAX {
            self.arena.truncate(from);
            return false;
        }
        let length = (self.arena.len() - from - HEAD_BYTES) as u16;
        self.arena[from + 16..from + 18].copy_from_slice(&length.to_le_bytes());
        self.members += 1;
        match 4 * self.members > 3 * self.index.len() {
            true => self.unpack(),
            false => self.enter(from),
        }
        true
    }

    fn enter(&mut self, at: usize) {
        if let Some(slot) = self.slot(self.head(at).hash) {
            self.index[slot] = at as u32 + 1;
        }
    }
}

/// Seven bits a byte, the lowest first.
fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else {
            break;
        };
        *bytes = rest;
        value |= ((byte & 0x7f) as u64) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_put_in_is_found_again_by_its_hash() {
        let mut random = Random::new(3);
        let mut before = Table::default();
        let mut naive: BTreeMap<u64, (Head, Vec<u64>)> = BTreeMap::new();
        for look in 0..20 {
            let mut table = Table::like(&before);
            let mut next = BTreeMap::new();
            for _ in 0..random.below(500) {
                // Few different ones in the low bits, by which they are placed.
                let hash = random.below(1000) << 32 | random.below(4);
                let head = Head {
                    hash,
                    mark: look,
                    told: random.below(9) as u32,
                };
                if next.contains_key(&hash) {
                    assert!(table.find(hash).is_some());
                    continue;
                }
                assert_eq!(before.find(hash).is_some(), naive.contains_key(&hash));
                if let Some(at) = before.find(hash).filter(|_| random.below(2) == 0) {
                    assert!(table.copy(head, &before, at));
                    next.insert(hash, (head, naive[&hash].1.clone()));
                } else {
                    let number = |random: &mut Random| random.number() >> random.below(64);
                    let values: Vec<u64> = (0..7)
                        .map(|_| number(&mut random) * random.below(2))
                        .collect();
                    assert!(table.add(head, &values));
                    next.insert(hash, (head, values));
                }
            }
            table.pack();
            assert_eq!(table.find(0), None);
            table.unpack();
            (before, naive) = (table, next);
            assert_eq!(before.len(), naive.len());
            assert_eq!(before.places().count(), naive.len());
            for (hash, (head, values)) in &naive {
                let at = before.find(*hash).unwrap();
                let mut found = vec![9; 7];
                before.values(at, &mut found);
                assert_eq!((before.head(at), &found), (*head, values));
            }
        }
        assert_eq!(Table::default().find(7), None);
    }

    #[test]
    fn there_is_no_room_beyond_the_bound() {
        let mut table = Table::default();
        let head = |hash| Head {
            hash,
            mark: 0,
            told: 0,
        };
        for hash in 0..MEMBERS_MAX as u64 {
            assert!(table.add(head(hash), &[hash]));
        }
        assert!(!table.add(head(u64::MAX), &[1]));
        assert_eq!((table.len(), table.find(u64::MAX)), (MEMBERS_MAX, None));
        assert!(table.find(77).is_some());
    }
}
