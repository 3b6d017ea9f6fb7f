//! What of a row has to be alike for two rows to stand at the same place: its operation, and how its file is told.

use std::collections::HashMap;

use super::wire::Damage;
use crate::record::{Op, OP_NAMES};

/// Files of a process that are told by how recently it used them.
pub const RECENT: usize = 8;

/// How a row's file is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// By how many other files came since it was used last.
    Recent(u8),
    /// By its number in the process.
    Slot,
    /// It is named for the first time in the process.
    New,
    /// The row has none.
    None,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Shape(pub u16);

const OP_BITS: u32 = 5;
const PLACE_BITS: u32 = 4;
const SLOT: u16 = 13;
const NEW: u16 = 14;
const NONE: u16 = 15;
const SAME_HANDLE: u16 = 1 << (OP_BITS + PLACE_BITS);
const LATENCY: u16 = SAME_HANDLE << 1;
const CHANGES: u16 = SAME_HANDLE << 2;
const END: u16 = SAME_HANDLE << 3;

impl Shape {
    pub fn new(op: u8, place: Place, same_handle: bool, has_latency: bool, changes: bool) -> Self {
        let place = match place {
            Place::Recent(at) => at as u16,
            Place::Slot => SLOT,
            Place::New => NEW,
            Place::None => NONE,
        };
        let flag = |is: bool, bit: u16| if is { bit } else { 0 };
        Self(
            op as u16
                | place << OP_BITS
                | flag(same_handle, SAME_HANDLE)
                | flag(has_latency, LATENCY)
                | flag(changes, CHANGES),
        )
    }

    /// The shape of a number that was read.
    pub fn read(number: u64) -> Result<Self, Damage> {
        let shape = u16::try_from(number)
            .ok()
            .filter(|&shape| shape < END)
            .map(Shape);
        let known = |shape: &Shape| {
            let place = shape.0 >> OP_BITS & ((1 << PLACE_BITS) - 1);
            (shape.op() as usize) < OP_NAMES.len() && !(RECENT as u16..SLOT).contains(&place)
        };
        shape
            .filter(known)
            .ok_or(Damage("a row has a shape that there is not"))
    }

    #[inline(always)]
    pub fn op(self) -> u8 {
        (self.0 & ((1 << OP_BITS) - 1)) as u8
    }

    #[inline(always)]
    pub fn place(self) -> Place {
        match self.0 >> OP_BITS & ((1 << PLACE_BITS) - 1) {
            SLOT => Place::Slot,
            NEW => Place::New,
            NONE => Place::None,
            at => Place::Recent(at as u8),
        }
    }

    /// The handle is the one by which the file was used last.
    #[inline(always)]
    pub fn same_handle(self) -> bool {
        self.0 & SAME_HANDLE != 0
    }

    #[inline(always)]
    pub fn has_latency(self) -> bool {
        self.0 & LATENCY != 0
    }

    /// The process says something else of itself than in the row before, or this is its first row.
    #[inline(always)]
    pub fn changes(self) -> bool {
        self.0 & CHANGES != 0
    }

    /// The operation moves on in the file.
    #[inline(always)]
    pub fn moves(self) -> bool {
        matches!(self.op(), op if op == Op::Read as u8 || op == Op::Write as u8)
    }
}

/// A file of a process.
#[derive(Clone, Copy, Default)]
pub struct File {
    /// What its packer or reader knows it by.
    pub key: u32,
    pub handle: i64,
    /// Where the operations that follow the rule go on, and those that came last.
    pub line: i64,
    pub last: i64,
}

/// The files of one process. The first one stands for none.
pub struct Files {
    all: Vec<File>,
    /// The most recently used ones, the last one first.
    recent: [u32; RECENT],
    /// In packing: by key, for those that were not used recently.
    slots: HashMap<u32, u32>,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            all: vec![File::default()],
            recent: [0; RECENT],
            slots: HashMap::new(),
        }
    }
}

impl Files {
    pub fn clear(&mut self) {
        self.all.clear();
        self.all.push(File::default());
        self.recent = [0; RECENT];
        self.slots.clear();
    }

    #[inline(always)]
    pub fn get(&mut self, slot: usize) -> &mut File {
        &mut self.all[slot]
    }

    #[inline(always)]
    pub fn none(&mut self) -> usize {
        0
    }

    /// Takes another file in, and returns its slot.
    pub fn open(&mut self) -> usize {
        let slot = self.all.len();
        self.all.push(File::default());
        self.recent.copy_within(..RECENT - 1, 1);
        self.recent[0] = slot as u32;
        slot
    }

    /// The file that was used `at` other files ago.
    #[inline(always)]
    pub fn recent(&mut self, at: u8) -> Result<usize, Damage> {
        let at = at as usize;
        let slot = self.recent[at];
        if slot == 0 {
            return Err(Damage(
                "a row is about a file that its process has not named",
            ));
        }
        if at > 0 {
            self.recent.copy_within(..at, 1);
            self.recent[0] = slot;
        }
        Ok(slot as usize)
    }

    /// The file with a number.
    pub fn told(&mut self, slot: i64) -> Result<usize, Damage> {
        if slot < 1 || slot >= self.all.len() as i64 {
            return Err(Damage(
                "a row is about a file that its process has not named",
            ));
        }
        // It may be among the recent ones in a block that was made up: then it is there twice, which does no harm.
        self.recent.copy_within(..RECENT - 1, 1);
        self.recent[0] = slot as u32;
        Ok(slot as usize)
    }

    /// In packing: where the file with a key is, as the row tells it, and its slot.
    #[inline]
    pub fn find(&mut self, key: u32) -> (Place, usize) {
        for at in 0..RECENT {
            let slot = self.recent[at] as usize;
            if slot != 0 && self.all[slot].key == key {
                self.recent.copy_within(..at, 1);
                self.recent[0] = slot as u32;
                return (Place::Recent(at as u8), slot);
            }
        }
        if let Some(&slot) = self.slots.get(&key) {
            self.recent.copy_within(..RECENT - 1, 1);
            self.recent[0] = slot;
            return (Place::Slot, slot as usize);
        }
        let slot = self.open();
        self.all[slot].key = key;
        self.slots.insert(key, slot as u32);
        (Place::New, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are() {
        let places =
            (0..RECENT as u8)
                .map(Place::Recent)
                .chain([Place::Slot, Place::New, Place::None]);
        let mut seen = std::collections::HashSet::new();
        for place in places {
            for op in 0..OP_NAMES.len() as u8 {
                for bits in 0..8 {
                    let shape = Shape::new(op, place, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                    let read = Shape::read(u64::from(shape.0)).unwrap();
                    assert!((read.op(), read.place()) == (op, place) && seen.insert(shape.0));
                    assert_eq!(
                        [read.same_handle(), read.has_latency(), read.changes()],
                        [1, 2, 4].map(|bit| bits & bit != 0)
                    );
                }
            }
        }
        assert_eq!(
            (0..1 << 20)
                .filter(|&number| Shape::read(number).is_ok())
                .count(),
            seen.len()
        );
        assert!(Shape::read(u64::MAX).is_err());
    }

    #[test]
    fn files_are_found_again_as_they_are_told() {
        let (mut packing, mut reading) = (Files::default(), Files::default());
        for row in 0..500u32 {
            let key = row * row % 23 % 17;
            let (place, slot) = packing.find(key);
            let found = match place {
                Place::New => reading.open(),
                Place::Recent(at) => reading.recent(at).unwrap(),
                _ => reading.told(slot as i64).unwrap(),
            };
            assert_eq!(found, slot);
            if place == Place::New {
                reading.get(slot).key = key;
            }
            assert_eq!(reading.get(slot).key, key);
        }
        for slot in [i64::MIN, 0, 1000] {
            assert!(reading.told(slot).is_err());
        }
        reading.clear();
        assert!(reading.recent(0).is_err() && reading.told(1).is_err());
    }
}
