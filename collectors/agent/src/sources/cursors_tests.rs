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

    fn cursors(&self, _: bool, out: &mut Vec<u8>) {
        for (key, value) in &*self.kept.lock().unwrap() {
            block(out, |out| {
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

fn written() -> Vec<u8> {
    let mut out = Vec::new();
    write(&site(SITE).0, true, &mut out);
    out
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
        assert!(counts >= most && counts < vec![3, 0, 2]);
        most = counts;
    }
    assert_eq!(most, [3, 0, 1]);
    // An entry whose records moved no cursor.
    assert_eq!(restored(false, b""), (vec![0; 3], 0));
    let longer = [&bytes[..], b"\0"].concat();
    assert_eq!(restored(true, &longer), (vec![3, 0, 2], 1));
}

#[test]
fn a_bad_block_takes_no_other_along() {
    // Of the first source the second cursor: one byte too few, and one too many.
    for (length, size) in [(11, 11), (13, 13)] {
        let mut out = vec![FORM, 1];
        section(&mut out, 5, |out| {
            for (key, bytes) in [(0u32, 12), (1, size), (2, 12)] {
                block(out, |out| {
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
    let mut out = Vec::new();
    write(&site(&[(5, 0)]).0, false, &mut out);
    assert!(out.is_empty());
    write(&site(&[(5, 0)]).0, true, &mut out);
    assert_eq!(restored(true, &out), (vec![0, 0, 0], 0));
}
