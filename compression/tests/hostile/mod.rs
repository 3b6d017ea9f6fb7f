//! Hostile blocks, and what must hold of them: for the tests, which make a million, and for libFuzzer (fuzz/).

pub mod parts;
pub mod room;

use crate::records::{plan, records, replayed, table, Record, T0};
use parts::{change, sign, Parts, FIXED};
use room::room;
use tracepack::second_pass::block::{decode, decode_some, encode, find, Frame, Primer};
use tracepack::second_pass::table::{Number, Text, Wanted};

/// What reading a block and its primer may take, beside the two themselves: see docs/format.md, Bounds.
pub const READ_BYTES_MAX: usize = 384 << 20;

pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }
    /// A number at an edge.
    pub fn edge(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            4 => self.number() % 300,
            _ => self.number(),
        }
    }
}

pub struct Seed {
    pub block: Vec<u8>,
    pub parts: Parts,
}

pub struct Known {
    pub block: Vec<u8>,
    pub primer: Primer,
}

pub struct Seeds {
    pub all: Vec<Seed>,
    pub primers: [Known; 2],
}

pub fn seeds() -> Seeds {
    let of = |records: &[Record]| encode(&table(records), &plan(None, 0, false)).unwrap();
    let job = replayed(12, 4);
    let mut many = replayed(3, 5);
    for (row, record) in many.iter_mut().enumerate() {
        let row = row as i64;
        let op = ["open", "stat", "write", "close", "read"][row as usize % 5];
        record.say(Text::Op, op);
        record.say(
            Text::File,
            &format!("/{}/out.{:03}", row % 12, row * 7 % 40),
        );
        record.set(Number::FileId, row.wrapping_mul(0x7f4a_7c15_9e37_79b9));
        record.set(Number::Count, row % 3);
        record.set(Number::Start, T0 + row * row * 1_000_003);
        record.latency = (row % 4 == 0).then_some([row; 8]);
        if row % 7 == 0 {
            record.numbers[Number::Uid as usize] = None;
            record.texts[Text::Job as usize] = None;
        }
        if row % 9 == 0 {
            record.texts[Text::File as usize] = None;
            record.numbers[Number::FileId as usize] = None;
        }
    }
    // Two generations of an archive, which differ in little.
    let mut again = job.clone();
    again[3].set(Number::Size, 8192);
    let primers = [&job, &again].map(|job| {
        let block = encode(&table(&job[..32]), &plan(None, 0, true)).unwrap();
        let primer = Primer::read(&block).unwrap();
        Known { block, primer }
    });
    let behind = |known: &Known| {
        let block = encode(&table(&job[32..]), &plan(Some(&known.primer), 4, false)).unwrap();
        assert!(Frame::read(&block).unwrap().is_primed);
        block
    };
    let mut blocks = vec![of(&job), of(&many), of(&many[..1]), of(&[])];
    blocks.extend(primers.iter().map(|known| known.block.clone()));
    blocks.extend(primers.iter().map(behind));
    let old = Parts::of(&blocks[1]).first_version();
    blocks.push(old.block(&mut Random(1), None));
    let all = blocks
        .into_iter()
        .map(|block| Seed {
            parts: Parts::of(&block),
            block,
        })
        .collect();
    Seeds { all, primers }
}

/// A block that is changed somewhere. parts: its own, where it can be taken apart; other: another one.
pub fn changed(random: &mut Random, block: &[u8], parts: Option<&Parts>, other: &Seed) -> Vec<u8> {
    let mut block = block.to_vec();
    match (random.below(8), parts) {
        // As damage does it.
        (0, _) => change(random, &mut block, &other.block),
        (2, _) if block.len() >= FIXED => {
            let at = random.below(3) * 4 + 8;
            let edge = random.edge() as u32;
            block[at..at + 4].copy_from_slice(&edge.to_le_bytes());
            sign(&mut block);
        }
        (1, _) | (_, None) => {
            change(random, &mut block, &other.block);
            if block.len() >= FIXED {
                sign(&mut block);
            }
        }
        (3, Some(parts)) => {
            let edge = random.edge();
            block = parts.block(random, Some(edge));
        }
        (_, Some(parts)) => {
            let mut parts = parts.clone();
            (0..=random.below(3)).for_each(|_| parts.change(random, &other.parts));
            block = parts.block(random, None);
        }
    }
    block
}

/// Reads a block in all ways. Answers how far that went: to its beginning, its head, its records. packs_again: what was read is packed and read once more.
pub fn check(block: &[u8], [own, other]: &[Known; 2], packs_again: bool) -> usize {
    let (told, bytes) = room(|| {
        let _ = Primer::read(block);
        let found = find(block, 0);
        let frame = Frame::read(block);
        let head = frame
            .as_ref()
            .map_err(|damage| *damage)
            .and_then(|frame| frame.head(block));
        let read = decode(block, Some(&own.primer));
        (found, frame.is_ok(), head, read)
    });
    assert!(
        bytes <= READ_BYTES_MAX,
        "{bytes} bytes were taken to read {} bytes",
        block.len()
    );
    let (found, is_block, head, read) = told;
    assert!(!is_block || found == Some(0));
    let Ok(head) = head else {
        assert!(read.is_err());
        return usize::from(is_block);
    };
    if let Some(behind) = head.behind {
        let names = |known: &Known| known.block[FIXED - 4..FIXED] == behind.primer.to_le_bytes();
        assert!(read.is_err() || names(own));
        assert!(decode(block, Some(&other.primer)).is_err() || names(other));
    }
    let Ok(read) = read else {
        return 2;
    };
    assert_eq!(read.rows, head.rows);
    if packs_again {
        let rows = records(&read);
        let path = |record: &Record| record.texts[Text::File as usize].clone();
        if let Some(file) = rows.iter().rev().find_map(path) {
            let wanted = Wanted {
                file: Some(&file),
                ..Wanted::ALL
            };
            let found = records(&decode_some(block, Some(&own.primer), &wanted).unwrap());
            let of_file = rows.iter().filter(|row| path(row).as_ref() == Some(&file));
            assert!(found.iter().eq(of_file));
        }
        let again = encode(&read, &plan(None, 0, false)).unwrap();
        assert!(records(&decode(&again, None).unwrap()) == rows);
    }
    3
}
