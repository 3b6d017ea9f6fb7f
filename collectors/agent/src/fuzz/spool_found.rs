//! What came of a start over segments, and what ought to.

use super::spool_reference::{Entry, Held};
use crate::counters::Counters;
use crate::ship::entry::ReadAt;
use crate::ship::reader::{Reader, Segments};
use crate::ship::recovery::read_segment;
use crate::ship::shared::Segment;
use std::collections::VecDeque;
use std::io;
use std::path::Path;

/// What a start gave back.
pub type Restored = Vec<(bool, Vec<u8>)>;

impl ReadAt for &[u8] {
    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let from = self.get(at..at.saturating_add(out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Segments that are nowhere but here.
pub struct InMemory<'a>(pub &'a [Vec<u8>]);

impl<'a> Segments for InMemory<'a> {
    type Bytes = &'a [u8];
    fn open(&self, _: &Path, id: u64) -> io::Result<Option<&'a [u8]>> {
        Ok(Some(&self.0[id as usize - 1]))
    }
}

/// A window that the shipper would send: entry, events, bytes.
pub type Window = (u64, u32, Vec<u8>);

/// What came of a start.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    pub restored: Restored,
    /// How long each segment is then; 0: it is not kept.
    pub lengths: Vec<u64>,
    pub windows: Vec<Window>,
}

impl Found {
    /// As it ought to be.
    pub fn expected(held: &Held, acked: u64) -> Found {
        let kept = held.entries.iter().flatten();
        let of_segment = |entries: &Vec<Entry>| entries.iter().map(|e| e.bytes() as u64).sum();
        Found {
            restored: kept
                .clone()
                .map(|e| match e.kind {
                    1 => (true, e.cursors[16..].to_vec()),
                    _ => (false, e.cursors.to_vec()),
                })
                .collect(),
            lengths: held.entries.iter().map(of_segment).collect(),
            windows: kept
                .filter(|e| e.events > 0 && e.number > acked)
                .map(as_sent)
                .collect(),
        }
    }
}

/// Everything that the shipper would send.
pub fn sent<S: Segments>(mut reader: Reader<S>, counters: &Counters) -> Vec<Window> {
    let (mut body, mut found) = (Vec::new(), Vec::new());
    while let Some(window) = reader.next(&mut body, counters).unwrap() {
        found.push((window.number, window.events, body.clone()));
        assert!(found.len() < 10_000, "the spool has no end");
    }
    found
}

pub fn as_sent(e: &Entry) -> Window {
    (e.number, e.events, e.payload.to_vec())
}

/// A start over segments in memory: what it restores, and what is left of each.
pub fn started(segments: &[Vec<u8>]) -> (Restored, VecDeque<Segment>) {
    let (mut restored, mut kept, mut recovered) = (Vec::new(), VecDeque::new(), None);
    for (index, bytes) in segments.iter().enumerate() {
        let read = read_segment(
            &&bytes[..],
            bytes.len() as u64,
            &mut recovered,
            &mut |all, cursors: &[u8]| restored.push((all, cursors.to_vec())),
        );
        let (end, last_number) = read.expect("memory can be read");
        if end > 0 {
            kept.push_back(Segment {
                id: index as u64 + 1,
                bytes: end,
                last_number,
            });
        }
    }
    (restored, kept)
}
