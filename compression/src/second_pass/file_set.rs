//! Which files a block's records are about, as a set of hashes: small enough for a head, and sure of what is not there.
//!
//! A Golomb-coded set (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007): n paths fall on n × 256 numbers, which are told in order by their
//! differences, so that a path takes less than 10 bits, and one that is not there is taken for one that is in one of 256 cases.

use super::table::{Table, Text, NO_CODE};
use super::wire::{mix, put, put_bytes, BitReader, BitWriter, Damage, Reader};

/// Of a difference so many bits are told as they are, the rest by as many ones.
const REST_BITS: u32 = 8;

/// In order; one for each path, below `values.len() << REST_BITS`.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct FileSet {
    values: Vec<u32>,
}

impl FileSet {
    /// The paths that any record of a table has.
    pub fn of(table: &Table) -> Self {
        let column = table.text(Text::File);
        let mut is_used = vec![false; column.texts.len()];
        for &code in column.codes.iter().filter(|&&code| code != NO_CODE) {
            is_used[code as usize] = true;
        }
        let count = is_used.iter().filter(|used| **used).count();
        let used = column.texts.iter().zip(is_used).filter(|(_, used)| *used);
        let mut values: Vec<u32> = used.map(|(path, _)| place(hash(path), count)).collect();
        values.sort_unstable();
        Self { values }
    }

    /// Whether a record may have a path. False: none has.
    pub fn may_have(&self, path: &[u8]) -> bool {
        let sought = place(hash(path), self.values.len());
        self.values.binary_search(&sought).is_ok()
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        put(out, self.values.len() as u64);
        let mut bits = BitWriter::default();
        let mut last = 0;
        for value in &self.values {
            let by = value - std::mem::replace(&mut last, *value);
            (0..by >> REST_BITS).for_each(|_| bits.put(1, 1));
            bits.put(0, 1);
            bits.put(u64::from(by), REST_BITS);
        }
        put_bytes(out, &bits.finish());
    }

    /// most: paths that there may be.
    pub fn read(from: &mut Reader, most: usize) -> Result<Self, Damage> {
        let count = from.size(most, "it has more files than records")?;
        let mut bits = BitReader::new(from.bytes()?);
        let (mut values, mut last) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            let mut by = 0;
            while bits.take(1)? == 1 {
                by += 1 << REST_BITS;
                if by >= count << REST_BITS {
                    return Err(BEYOND);
                }
            }
            last += by + bits.take(REST_BITS)? as usize;
            if last >= count << REST_BITS {
                return Err(BEYOND);
            }
            values.push(last as u32);
        }
        Ok(Self { values })
    }
}

const BEYOND: Damage = Damage("its files are beyond where they can be");

/// Where a hash falls among count × 2^REST_BITS numbers.
fn place(hash: u64, count: usize) -> u32 {
    let numbers = (count as u128) << REST_BITS;
    ((u128::from(hash) * numbers) >> 64) as u32
}

/// Eight bytes at a time, the last ones with zeros behind them.
fn hash(path: &[u8]) -> u64 {
    let (mut mixed, mut rest) = (path.len() as u64, path);
    while let Some((word, behind)) = rest.split_first_chunk() {
        mixed = mix(mixed, u64::from_le_bytes(*word));
        rest = behind;
    }
    if !rest.is_empty() {
        let last = rest.iter().rev();
        mixed = mix(
            mixed,
            last.fold(0, |word, &byte| word << 8 | u64::from(byte)),
        );
    }
    mix(mixed ^ mixed >> 32, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::second_pass::table::Texts;

    fn set(paths: &[String], codes: Vec<i32>) -> FileSet {
        let mut table = Table {
            rows: codes.len(),
            ..Table::default()
        };
        table.texts[Text::File as usize] = Texts {
            codes: codes.into(),
            texts: paths.iter().collect(),
        };
        FileSet::of(&table)
    }

    fn told(set: &FileSet) -> Vec<u8> {
        let mut out = Vec::new();
        set.write(&mut out);
        let mut reader = Reader::new(&out);
        let count = set.values.len();
        assert_eq!(FileSet::read(&mut reader, count).as_ref(), Ok(set));
        assert!(reader.is_empty());
        assert!(count == 0 || FileSet::read(&mut Reader::new(&out), count - 1).is_err());
        out
    }

    fn paths(count: usize) -> Vec<String> {
        let path = |at| format!("/scratch/job/out.{at:06}");
        (0..count).map(path).collect()
    }

    #[test]
    fn all_paths_are_there_and_few_others() {
        for count in [1, 2, 7, 300, 20_000] {
            let (all, others) = (paths(count), paths(count + 20_000));
            let set = set(&all, (0..count as i32).collect());
            let size = told(&set).len();
            assert!(all.iter().all(|path| set.may_have(path.as_bytes())));
            let others = others[count..].iter();
            let wrong = others.filter(|path| set.may_have(path.as_bytes())).count();
            assert!(wrong < 20_000 / 256 * 2, "{wrong} of {count}");
            assert!(size <= 8 + count * 10 / 8, "{size} bytes for {count}");
        }
    }

    #[test]
    fn paths_that_no_record_has_do_not_count() {
        let all = paths(3);
        let some = set(&all, vec![NO_CODE, 1, 1]);
        assert_eq!(some, set(&all[1..2], vec![0]));
        // A text that stands twice among those of a column.
        let twice = set(&[all[1].clone(), all[1].clone()], vec![0, 1]);
        assert!(twice.may_have(all[1].as_bytes()) && twice.values.len() == 2);
        told(&twice);
        let none = set(&all, vec![NO_CODE; 2]);
        assert!(!none.may_have(b"") && !none.may_have(all[0].as_bytes()));
        told(&none);
        assert!(set(&[String::new()], vec![0]).may_have(b""));
    }

    #[test]
    fn hashes_are_those_that_blocks_have() {
        // As docs/format.md tells it, worked out by another program.
        for (path, hashed) in [
            ("", 0x0),
            ("/a", 0x2ae04a1d2cd075b9),
            ("/scratch", 0x74d1f94ae8ec1c91),
            ("/scratch/job/out.0001", 0x2daa0815f8d5abfe),
        ] {
            assert_eq!(hash(path.as_bytes()), hashed, "{path}");
        }
    }

    #[test]
    fn paths_that_differ_in_zeros_at_their_end_are_told_apart() {
        assert_ne!(hash(b"/a"), hash(b"/a\0"));
        assert_ne!(hash(b""), hash(&[0; 8]));
    }

    #[test]
    fn what_is_no_set_is_damage() {
        let read = |told: &[u8]| FileSet::read(&mut Reader::new(told), 4);
        // One path, on one of 256 numbers: eight bits behind a zero.
        assert_eq!(read(&[1, 2, 0xfe, 1]).unwrap().values, [255]);
        for wrong in [
            &[][..],
            &[5, 0],
            &[1, 0],
            &[1, 1, 0],
            &[1, 2, 1, 0],
            &[1, 1, 0xff],
            &[2, 3, 1],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&[&[1, 60][..], &[0xff; 60]].concat()).is_err());
    }
}
