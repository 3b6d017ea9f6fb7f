//! From file ids to paths, in a ring file's names area.
//!
//! An index of 8 bytes a name: the entry's place and the upper bits of the id. The entry itself says whether it is the one.

use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use tracepack::ring::{
    name_entry_size, read, Header, NameEntry, NAMES_AT, NAMES_CAPACITY, PATH_MAX,
};

const ENTRY_BYTES: usize = size_of::<NameEntry>();
/// Places in the index of one process; three quarters are used at most.
const INDEX_MAX: usize = 1 << 19;
/// How far from its own place in the index a name may lie.
const PROBES_MAX: usize = 64;
/// Bits of an index entry that bear the place, counted in 8 bytes from 1; the others are the id's.
const PLACE_BITS: u32 = 22;
const _: () = assert!(NAMES_CAPACITY / 8 < 1 << PLACE_BITS);
/// How much is read at a time: more than the longest entry.
const CHUNK_BYTES: usize = 8 << 10;
const _: () = assert!(CHUNK_BYTES > ENTRY_BYTES + PATH_MAX);
/// What one pass may read while it looks for names: the whole area, twice.
pub const SCAN_BYTES_MAX: usize = 2 * NAMES_CAPACITY;

/// Owned by one ring; bounded by INDEX_MAX; forgotten with the ring, and made again from the file.
#[derive(Default)]
pub struct Names {
    /// Open addressing; 0: empty. Its length is 0 or a power of two.
    index: Vec<u64>,
    used: usize,
    /// Every name before this place is in the index.
    scanned: usize,
    /// An entry was not complete at the last scan; it may have hidden others.
    pub has_hole: bool,
}

/// Where the index keeps an entry.
fn home(entry: u64) -> usize {
    ((entry >> PLACE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

fn upper_bits(id: u64) -> u64 {
    id >> PLACE_BITS << PLACE_BITS
}

impl Names {
    /// `Some(true)`: it is in now; `Some(false)`: it was; `None`: no place near enough to its own.
    fn put(index: &mut [u64], entry: u64) -> Option<bool> {
        let mask = index.len().checked_sub(1)?;
        for probe in 0..PROBES_MAX.min(index.len()) {
            let place = &mut index[(home(entry) + probe) & mask];
            if *place == entry {
                return Some(false);
            }
            if *place == 0 {
                *place = entry;
                return Some(true);
            }
        }
        None
    }

    fn insert(&mut self, id: u64, place: usize) {
        let entry = upper_bits(id) | (place / 8 + 1) as u64;
        while self.used * 4 >= self.index.len() * 3 {
            if !self.grow() {
                return;
            }
        }
        loop {
            match Self::put(&mut self.index, entry) {
                Some(new) => return self.used += new as usize,
                None if !self.grow() => return,
                None => {}
            }
        }
    }

    fn grow(&mut self) -> bool {
        let places = (self.index.len() * 2).max(64);
        if places > INDEX_MAX {
            return false;
        }
        let mut larger = vec![0; places];
        let entries = self.index.iter().filter(|&&e| e != 0);
        self.used = entries
            .filter(|&&e| Self::put(&mut larger, e) == Some(true))
            .count();
        self.index = larger;
        true
    }

    /// The path of a file; it lies in `buffer`.
    pub fn path<'a>(&self, file: &File, id: u64, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let mask = self.index.len().checked_sub(1)?;
        let tag = upper_bits(id);
        for probe in 0..PROBES_MAX.min(self.index.len()) {
            let entry = self.index[(home(tag) + probe) & mask];
            if entry == 0 {
                return None;
            }
            if upper_bits(entry) != tag {
                continue;
            }
            let place = (entry - tag - 1) * 8;
            for length in [256, ENTRY_BYTES + PATH_MAX] {
                buffer.resize(length, 0);
                let got = file.read_at(buffer, NAMES_AT as u64 + place).unwrap_or(0);
                buffer.truncate(got);
                match read::name(buffer) {
                    Some((found, path, _)) if found == id => {
                        let length = path.len();
                        return buffer.get(ENTRY_BYTES..ENTRY_BYTES + length);
                    }
                    Some(_) => break,
                    None => {}
                }
            }
        }
        None
    }

    /// Indexes the names that came since the last scan. `final_`: nobody completes entries any more. `budget`: bytes that
    /// may be read. Answers false if the budget ended first.
    pub fn scan(&mut self, file: &File, final_: bool, budget: &mut usize) -> bool {
        let mut taken = [0; 8];
        if file
            .read_exact_at(&mut taken, offset_of!(Header, names_taken) as u64)
            .is_err()
        {
            return true;
        }
        let end = u64::from_ne_bytes(taken).min(NAMES_CAPACITY as u64) as usize;
        let mut buffer = [0u8; CHUNK_BYTES];
        let mut at = self.scanned;
        let mut hole = None;
        let mut whole = true;
        'chunks: while at < end {
            if *budget < CHUNK_BYTES {
                whole = false;
                break;
            }
            let length = CHUNK_BYTES.min(end - at);
            let got = file
                .read_at(&mut buffer[..length], (NAMES_AT + at) as u64)
                .unwrap_or(0);
            *budget -= CHUNK_BYTES;
            let chunk = &buffer[..got];
            let mut offset = 0;
            while let Some(entry) = chunk.get(offset..).filter(|e| e.len() >= ENTRY_BYTES) {
                if let Some((id, _, size)) = read::name(entry) {
                    self.insert(id, at + offset);
                    offset += size;
                    continue;
                }
                let id = u64::from_ne_bytes(entry[..8].try_into().unwrap_or_default());
                let length =
                    u32::from_ne_bytes(entry[8..12].try_into().unwrap_or_default()) as usize;
                if id == 0 && length <= PATH_MAX {
                    hole = hole.or(Some(at + offset));
                    if length == 0 {
                        break 'chunks; // its size is not known yet, so neither where the next one is
                    }
                    offset += name_entry_size(length);
                    continue;
                }
                if length > PATH_MAX || offset == 0 {
                    break 'chunks; // nonsense, or cut off by the end of the area
                }
                break; // cut off by the chunk's end: the next chunk begins with it
            }
            if offset == 0 {
                break;
            }
            at += offset;
        }
        self.has_hole = hole.is_some() && !final_;
        self.scanned = if final_ { at } else { hole.unwrap_or(at) };
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{temp_dir, RingFile};
    use tracepack::ring::file_id;

    #[test]
    fn names_are_found_across_chunks_and_growth() {
        let ring = RingFile::new(&temp_dir("names"), 1, 1);
        let paths: Vec<String> = (0..5000)
            .map(|i| format!("/data/{}/{i}", "x".repeat(i % 700)))
            .collect();
        let mut names = Names::default();
        let mut buffer = Vec::new();
        let file = ring.reader();
        for (i, path) in paths.iter().enumerate() {
            ring.add_name(path.as_bytes());
            if i % 1000 == 7 {
                assert!(names.scan(&file, false, &mut SCAN_BYTES_MAX.clone()));
            }
        }
        assert_eq!(
            names.path(&file, file_id(paths[4999].as_bytes()), &mut buffer),
            None
        );
        assert!(names.scan(&file, false, &mut SCAN_BYTES_MAX.clone()));
        assert!(!names.has_hole);
        for path in &paths {
            let found = names.path(&file, file_id(path.as_bytes()), &mut buffer);
            assert_eq!(found, Some(path.as_bytes()));
        }
        assert_eq!(names.path(&file, 12345, &mut buffer), None);
    }

    #[test]
    fn an_incomplete_name_is_waited_for_and_does_not_hide_others() {
        let ring = RingFile::new(&temp_dir("holes"), 1, 1);
        let file = ring.reader();
        let (mut names, mut buffer) = (Names::default(), Vec::new());
        let hole = ring.add_incomplete_name(b"/late");
        let after = ring.add_name(b"/after");
        assert!(names.scan(&file, false, &mut SCAN_BYTES_MAX.clone()));
        assert!(names.has_hole);
        assert_eq!(names.path(&file, after, &mut buffer), Some(&b"/after"[..]));
        let late = ring.complete_name(hole, b"/late");
        assert!(names.scan(&file, false, &mut SCAN_BYTES_MAX.clone()));
        assert!(!names.has_hole);
        assert_eq!(names.path(&file, late, &mut buffer), Some(&b"/late"[..]));
        assert_eq!(names.used, 2);
        assert!(!Names::default().scan(&file, false, &mut 0));
    }
}
