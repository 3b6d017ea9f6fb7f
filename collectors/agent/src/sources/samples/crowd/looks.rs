//! When looks were: a table says of its members the numbers of looks, which take less room than instants.

use super::super::track::At;
use super::numbers::{put_number, take_number};
use crate::sources::cursors::Reader;
use std::collections::VecDeque;

/// Looks whose instants are known: a member that stands still for so many is told.
pub const LOOKS_MAX: usize = 1024;
/// A look's number is below: so many are none that an agent made.
const NUMBER_MAX: u32 = 1 << 31;

/// Bounded by LOOKS_MAX.
#[derive(Default)]
pub struct Looks {
    at: VecDeque<At>,
    /// The number of the first of them.
    first: u32,
    /// The spool has those with lower numbers.
    pub committed: u32,
}

impl Looks {
    /// A look begins; answers its number.
    pub fn begin(&mut self, at: At) -> u32 {
        if self.at.len() == LOOKS_MAX {
            self.at.pop_front();
            self.first += 1;
        }
        self.at.push_back(at);
        self.end() - 1
    }

    /// The number of the look to come.
    fn end(&self) -> u32 {
        self.first + self.at.len() as u32
    }

    /// When a look was, or the first that is known.
    pub fn at(&self, look: u32) -> At {
        let place = look.saturating_sub(self.first) as usize;
        self.at.get(place).copied().unwrap_or_default()
    }

    /// The look that comes after `number` forgets when this one was, or it is forgotten.
    pub fn is_oldest(&self, look: u32) -> bool {
        self.at.len() == LOOKS_MAX && look <= self.first
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// What they take in the spool, at most.
    pub fn bytes(&self) -> usize {
        20 * self.at.len() + 16
    }

    /// Appends those from a number on: the first one's number, and each one's instant as what it is beyond the one before.
    pub fn write(&self, from: u32, out: &mut Vec<u8>) {
        let from = from.max(self.first);
        out.extend_from_slice(&from.to_le_bytes());
        let (mut boot_ns, mut ahead_ns) = (0, 0);
        for at in (from..self.end()).map(|look| self.at(look)) {
            // The two clocks go together mostly.
            let ahead = at.utc_ns.wrapping_sub(at.boot_ns);
            put_number(out, zigzag(at.boot_ns.wrapping_sub(boot_ns)));
            put_number(out, zigzag(ahead.wrapping_sub(ahead_ns)));
            (boot_ns, ahead_ns) = (at.boot_ns, ahead);
        }
    }

    pub fn committed(&mut self) {
        self.committed = self.end();
    }

    /// Takes back what was written; those that are there already are passed over. `None`: it breaks off or makes no sense.
    pub fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let from = cursor.u32().filter(|from| *from < NUMBER_MAX)?;
        let mut bytes = std::mem::take(&mut cursor.0);
        let mut all = Vec::new();
        let (mut boot_ns, mut ahead_ns) = (0i64, 0i64);
        while !bytes.is_empty() && all.len() < LOOKS_MAX {
            boot_ns = boot_ns.wrapping_add(unzigzag(take_number(&mut bytes)?));
            ahead_ns = ahead_ns.wrapping_add(unzigzag(take_number(&mut bytes)?));
            all.push(At {
                boot_ns,
                utc_ns: boot_ns.wrapping_add(ahead_ns),
            });
        }
        bytes.is_empty().then_some(())?;
        if self.at.is_empty() || from > self.end() {
            // Those between were forgotten before they were written.
            (self.at, self.first) = (VecDeque::new(), from);
        }
        let known = (self.end() - from.min(self.end())) as usize;
        for at in all.into_iter().skip(known) {
            self.begin(at);
        }
        self.committed();
        Some(())
    }
}

/// Small ones, whether above 0 or below, take few bytes.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
