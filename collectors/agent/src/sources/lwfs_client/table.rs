//! A map of bounded size that knows which of its entries was used longest ago, and which have changed since they were last spooled.
//!
//! Entries live in numbered places, so that the spool can be told of one alone.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::Hash;

/// No place.
const NONE: u32 = u32::MAX;

/// What an entry takes beside what it points to, bytes: more than it does in memory or in the spool.
const ENTRY_BYTES: usize = 256;

/// No table has more places, however large its bound.
pub const PLACES_MAX: usize = super::TABLE_BYTES_MAX as usize / ENTRY_BYTES + 1;

pub trait Weigh {
    /// Bytes that it points to.
    fn weigh(&self) -> usize;
}

struct Place<K, V> {
    content: Option<(K, V)>,
    newer: u32,
    older: u32,
    changed: bool,
}

/// Owned by one log. Bounded: whoever inserts takes entries out until it is not `over` any more.
pub struct Table<K, V> {
    places: Vec<Place<K, V>>,
    index: HashMap<K, u32, RandomState>,
    free: Vec<u32>,
    /// Places that changed since the last `settle`.
    changed: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq + Copy, V: Weigh> Table<K, V> {
    pub fn new(bytes_max: usize) -> Table<K, V> {
        Table {
            places: Vec::new(),
            index: HashMap::default(),
            free: Vec::new(),
            changed: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            bytes_max,
        }
    }

    pub fn count(&self) -> usize {
        self.index.len()
    }

    /// Whether it holds more than it may.
    pub fn is_over(&self) -> bool {
        self.bytes > self.bytes_max && self.count() > 1
    }

    /// An entry to look at.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.find(key)?;
        self.places[at as usize].content.as_ref().map(|c| &c.1)
    }

    /// An entry to change; it is then the one that was used last.
    #[inline]
    pub fn use_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key)?;
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        self.mark(at);
        self.places[at as usize].content.as_mut().map(|c| &mut c.1)
    }

    /// Puts an entry in as the one that was used last; the one that had its key comes back.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.remove(&key);
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                content: None,
                newer: NONE,
                older: NONE,
                changed: false,
            });
            (self.places.len() - 1) as u32
        });
        self.fill(at, key, value);
        before
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key)?;
        self.take(at).map(|(_, value)| value)
    }

    /// Takes out what was used longest ago.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        match self.oldest {
            NONE => None,
            at => self.take(at),
        }
    }

    /// Takes out an entry of which `is_wanted` is true, looking from place `from` on, and says where the next look begins.
    pub fn take_next(
        &mut self,
        from: usize,
        mut is_wanted: impl FnMut(&K, &V) -> bool,
    ) -> Option<(usize, K, V)> {
        let places = self.places.iter().enumerate().skip(from);
        let wanted = |p: &Place<K, V>| p.content.as_ref().is_some_and(|(k, v)| is_wanted(k, v));
        let mut wanted = wanted;
        let at = places.into_iter().find(|(_, p)| wanted(p))?.0;
        let (key, value) = self.take(at as u32)?;
        Some((at + 1, key, value))
    }

    #[inline]
    fn find(&self, key: &K) -> Option<u32> {
        // Most often it is the one before, or the one that was used longest ago where all take turns.
        for at in [self.newest, self.oldest] {
            let place = self.places.get(at as usize);
            if place.is_some_and(|p| p.content.as_ref().is_some_and(|c| c.0 == *key)) {
                return Some(at);
            }
        }
        self.index.get(key).copied()
    }

    #[inline]
    fn mark(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if !place.changed {
            place.changed = true;
            self.changed.push(at);
        }
    }

    fn fill(&mut self, at: u32, key: K, value: V) {
        self.bytes += ENTRY_BYTES + value.weigh();
        self.index.insert(key, at);
        self.places[at as usize].content = Some((key, value));
        self.link(at);
        self.mark(at);
    }

    fn take(&mut self, at: u32) -> Option<(K, V)> {
        let (key, value) = self.places.get_mut(at as usize)?.content.take()?;
        self.index.remove(&key);
        self.bytes -= ENTRY_BYTES + value.weigh();
        self.unlink(at);
        self.mark(at);
        self.free.push(at);
        Some((key, value))
    }

    #[inline]
    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let place = &mut self.places[at as usize];
        (place.newer, place.older) = (NONE, newest);
        match self.places.get_mut(newest as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    #[inline]
    fn unlink(&mut self, at: u32) {
        let (newer, older) = (
            self.places[at as usize].newer,
            self.places[at as usize].older,
        );
        match self.places.get_mut(newer as usize) {
            Some(place) => place.older = older,
            None => self.newest = older,
        }
        match self.places.get_mut(older as usize) {
            Some(place) => place.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Places and what they hold now: all that hold something, or those that changed.
    pub fn spoolable(&self, all: bool) -> impl Iterator<Item = (u32, Option<(&K, &V)>)> {
        let every = (0..self.places.len() as u32).filter(move |_| all);
        let changed = self.changed.iter().copied().filter(move |_| !all);
        every.chain(changed).filter_map(move |at| {
            let content = &self.places[at as usize].content;
            let content = content.as_ref().map(|(k, v)| (k, v));
            (!all || content.is_some()).then_some((at, content))
        })
    }

    /// The spool has what changed.
    pub fn settle(&mut self) {
        for at in self.changed.drain(..) {
            self.places[at as usize].changed = false;
        }
    }

    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Makes a place, PLACES_MAX at most, hold what the spool says; the table may then be over, since its bound may have been larger.
    pub fn restore(&mut self, at: u32, content: Option<(K, V)>) {
        while self.places.len() <= at as usize {
            self.free.push(self.places.len() as u32);
            self.places.push(Place {
                content: None,
                newer: NONE,
                older: NONE,
                changed: false,
            });
        }
        self.take(at);
        if let Some((key, value)) = content {
            self.remove(&key);
            self.free.retain(|&free| free != at);
            self.fill(at, key, value);
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
