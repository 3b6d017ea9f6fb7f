//! Cursors that break off, wherever: what is whole comes back, and the rest is told.

use super::*;
use crate::ship::batch::Batch;
use crate::sources::{Pass, Progress};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Kept = Arc<Mutex<BTreeMap<u32, u64>>>;

/// Its cursors are numbers under numbers.
struct Numbers {
    tag: u8,
    kept: Kept,
}

impl Source for Numbers {
    fn tag(&self) -> u8 {
        self.tag
    }

    fn begin(&mut self, _: &mut Pass) {}

    fn read(&mut self, _: &mut Pass, _: &mut Batch) -> Progress {
        Progress::Done
    }

    fn cursors(&self, _: bool, out: &mut Pieces) {
        for (key, value) in &*self.kept.lock().unwrap() {
            out.block(|out| {
                out.extend(key.to_le_bytes());
                out.extend(value.to_le_bytes());
            });
        }
    }

    fn forget(&mut self) {
        self.kept.lock().unwrap().clear();
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let (key, value) = (cursor.u32()?, cursor.u64()?);
        self.kept.lock().unwrap().insert(key, value);
        Some(())
    }

    fn committed(&mut self) {}
}

/// Sources with these tags, each with so many cursors.
fn site(of: &[(u8, u32)]) -> (Vec<Box<dyn Source>>, Vec<Kept>) {
    let kept: Vec<Kept> = of
        .iter()
        .map(|&(tag, count)| {
            let numbers = (0..count).map(|key| (key, 1000 * tag as u64 + key as u64));
            Arc::new(Mutex::new(numbers.collect()))
        })
        .collect();
    let numbers = of.iter().zip(&kept).map(|(&(tag, _), kept)| {
        let kept = kept.clone();
        Box::new(Numbers { tag, kept }) as Box<dyn Source>
    });
    (numbers.collect(), kept)
}

const SITE: &[(u8, u32)] = &[(5, 3), (2, 0), (4, 2)];

/// The pieces that are handed over.
fn pieces(sources: &[Box<dyn Source>], all: bool) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    write(sources, all, &mut |piece| pieces.push(piece.to_vec()));
    pieces
}

fn written() -> Vec<u8> {
    pieces(&site(SITE).0, true).concat()
}

/// How many cursors of each source come back, all of them as they were, and how many places are told as bad.
fn restored(all: bool, bytes: &[u8]) -> (Vec<usize>, u64) {
    let counters = Counters::default();
    let (mut sources, kept) = site(SITE);
    let before: Vec<_> = kept.iter().map(|k| k.lock().unwrap().clone()).collect();
    sources.iter_mut().for_each(|s| s.forget());
    restore(&mut sources, all, bytes, &counters);
    let count = |(kept, before): (&Kept, &BTreeMap<u32, u64>)| {
        let kept = kept.lock().unwrap();
        assert!(kept
            .iter()
            .all(|(key, value)| before.get(key) == Some(value)));
        kept.len()
    };
    let counts = kept.iter().zip(&before).map(count).collect();
    (counts, counters.bad_cursors.get())
}

#[test]
fn a_state_that_is_cut_anywhere_is_told() {
    let bytes = written();
    assert_eq!(restored(true, &bytes), (vec![3, 0, 2], 0));
    let mut most = vec![0; 3];
    for cut in 1..bytes.len() {
        let (counts, bad) = restored(true, &bytes[..cut]);
        assert!(bad > 0, "cut at byte {cut}");
        // What is whole comes back.
        assert!(counts >= most);
        most = counts;
    }
    assert_eq!(most, [3, 0, 2], "all but the end");
    // An entry whose records moved no cursor.
    assert_eq!(restored(false, b""), (vec![0; 3], 0));
    let longer = [&bytes[..], b"\0"].concat();
    assert_eq!(restored(true, &longer), (vec![3, 0, 2], 1));
}

#[test]
fn a_bad_block_takes_no_other_along() {
    // Of the first source the second cursor: one byte too few, and one too many.
    for (length, size) in [(11, 11), (13, 13)] {
        let out = write_one(5, |out| {
            for (key, bytes) in [(0u32, 12), (1, size), (2, 12)] {
                out.block(|out| {
                    out.extend(key.to_le_bytes());
                    out.extend((5000 + key as u64).to_le_bytes());
                    out.push(0);
                    out.truncate(out.len() - 13 + bytes);
                });
            }
        });
        let (counts, bad) = restored(true, &out);
        assert_eq!(bad, 1, "{length} bytes");
        assert!(counts[0] >= 2 && counts[2] == 0);
    }
}

#[test]
fn sections_that_were_counted_are_taken_back_too() {
    let now = written();
    let counted = [&[COUNTED, 2][..], &now[1..now.len() - 1]].concat();
    assert_eq!(restored(true, &counted), (vec![3, 0, 2], 0));
    for cut in 1..counted.len() {
        assert!(restored(true, &counted[..cut]).1 > 0, "cut at byte {cut}");
    }
    let longer = [&counted[..], b"\0"].concat();
    assert_eq!(restored(true, &longer), (vec![3, 0, 2], 1));
}

#[test]
fn what_an_earlier_agent_left_is_taken_back_too() {
    let mut old = Vec::new();
    for (tag, count) in SITE.iter().filter(|s| s.1 > 0) {
        old.push(*tag);
        old.extend((12 * count).to_le_bytes());
        for key in 0..*count {
            old.extend(key.to_le_bytes());
            old.extend((1000 * *tag as u64 + key as u64).to_le_bytes());
        }
    }
    assert_eq!(restored(true, &old), (vec![3, 0, 2], 0));
    // What it left where no source had any.
    assert_eq!(restored(true, b""), (vec![0; 3], 0));
    // Only a cut between two sections cannot be seen in it.
    let first = 5 + 3 * 12;
    for cut in (1..old.len()).filter(|&cut| cut != first) {
        assert!(restored(true, &old[..cut]).1 > 0, "cut at byte {cut}");
    }
}

#[test]
fn nothing_that_changed_takes_no_bytes() {
    let none = site(&[(5, 0)]).0;
    assert!(pieces(&none, false).is_empty());
    assert_eq!(
        restored(true, &pieces(&none, true).concat()),
        (vec![0, 0, 0], 0)
    );
}

/// However many there are, little lies in memory, and all come back.
#[test]
fn many_cursors_are_handed_over_in_pieces() {
    const MANY: &[(u8, u32)] = &[(5, 3), (2, 20_000), (4, 2)];
    let pieces = pieces(&site(MANY).0, true);
    assert!(pieces.len() > 3);
    assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 99));
    let (mut sources, kept) = site(&[(5, 0), (2, 0), (4, 0)]);
    let counters = Counters::default();
    restore(&mut sources, true, &pieces.concat(), &counters);
    assert_eq!(counters.bad_cursors.get(), 0);
    for (kept, before) in kept.iter().zip(site(MANY).1) {
        assert_eq!(*kept.lock().unwrap(), *before.lock().unwrap());
    }
}
