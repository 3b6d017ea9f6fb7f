//! Paths as they go into events, kept for the runs to come.

use crate::event;

/// Paths as JSON, by ring and id; a run's file is most often the last one's. Bounded by its size and ENTRY_BYTES_MAX.
pub struct PathCache {
    entries: Vec<(u64, u64, Vec<u8>)>,
}

impl PathCache {
    const ENTRIES: usize = 64;
    const ENTRY_BYTES_MAX: usize = 1024;

    pub fn new() -> PathCache {
        PathCache {
            entries: (0..Self::ENTRIES).map(|_| (0, 0, Vec::new())).collect(),
        }
    }
    fn place(ring: u64, id: u64) -> usize {
        ((id ^ ring).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % Self::ENTRIES
    }
    pub fn get(&self, ring: u64, id: u64) -> Option<&[u8]> {
        let (r, i, json) = &self.entries[Self::place(ring, id)];
        (*r == ring && *i == id && !json.is_empty()).then_some(json)
    }
    pub fn put(&mut self, ring: u64, id: u64, path: &[u8]) {
        let entry = &mut self.entries[Self::place(ring, id)];
        (entry.0, entry.1) = (ring, id);
        entry.2.clear();
        if entry.2.capacity() > Self::ENTRY_BYTES_MAX {
            entry.2 = Vec::new();
        }
        event::string(&mut entry.2, path);
    }
}
