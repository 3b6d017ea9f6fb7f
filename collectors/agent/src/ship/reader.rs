//! Reads the spool's windows in order, for the shipper.

use super::entry::{self, ReadAt};
use super::shared::{segment_path, Segment, Shared};
use crate::counters::Counters;
use crate::warn;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A place in the spool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    segment: u64,
    offset: u64,
}

/// A window to be sent.
pub struct Sendable {
    pub number: u64,
    pub events: u32,
    /// Where the next one begins.
    pub after: Position,
}

/// Where the segments' bytes are.
pub trait Segments {
    type Bytes: ReadAt;
    /// `None`: somebody removed it.
    fn open(&self, path: &Path, id: u64) -> io::Result<Option<Self::Bytes>>;
}

pub struct OnDisk;

impl Segments for OnDisk {
    type Bytes = File;
    fn open(&self, path: &Path, _: u64) -> io::Result<Option<File>> {
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Reads windows in order. Owned by the shipper.
pub struct Reader<S: Segments = OnDisk> {
    shared: Arc<Shared>,
    segments: S,
    open: Option<(u64, S::Bytes)>,
    at: Position,
    /// The last entry that was read or passed over.
    pub passed: u64,
    /// The last undamaged entry so far, and the number of the event after it; what comes again is not looked at again.
    seen: Option<(u64, u64)>,
    /// What the server had when this reader was made: not lost, whatever becomes of it.
    delivered: u64,
}

impl Reader {
    pub fn new(shared: Arc<Shared>) -> Reader {
        Reader::of(OnDisk, shared)
    }
}

impl<S: Segments> Reader<S> {
    pub fn of(segments: S, shared: Arc<Shared>) -> Reader<S> {
        let delivered = shared.lock().acked;
        Reader {
            shared,
            segments,
            open: None,
            at: Position::default(),
            passed: 0,
            seen: None,
            delivered,
        }
    }

    /// Counts the events between the last undamaged entry and this one. A boot's first event has number 1: no gap.
    fn count_lost(&mut self, header: &entry::Header, counters: &Counters) {
        let (number, seq) = self.seen.unwrap_or((0, u64::MAX));
        if header.number <= number {
            return;
        }
        if header.number > self.delivered + 1 {
            let lost = header.first_seq.saturating_sub(seq);
            counters.lost_records.add(lost);
        }
        self.seen = Some((header.number, header.first_seq + header.events as u64));
    }

    /// Goes back, to send again what was not acknowledged.
    pub fn seek(&mut self, position: Position) {
        self.at = position;
    }

    /// The segment to read from, and the last acknowledged entry; moves on where a segment is over.
    fn segment(&mut self) -> Option<(Segment, u64)> {
        let state = self.shared.lock();
        let here = state.segments.iter().find(|s| s.id >= self.at.segment)?;
        if here.id != self.at.segment {
            self.at = Position {
                segment: here.id,
                offset: 0,
            };
        }
        if self.at.offset < here.bytes {
            return Some((here.clone(), state.acked));
        }
        let next = state.segments.iter().find(|s| s.id > here.id)?;
        self.at = Position {
            segment: next.id,
            offset: 0,
        };
        Some((next.clone(), state.acked))
    }

    /// The segment's bytes; `None`: somebody removed it.
    fn bytes(&mut self, id: u64) -> io::Result<Option<&S::Bytes>> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != id) {
            let path = segment_path(&self.shared.dir, id);
            self.open = self.segments.open(&path, id)?.map(|bytes| (id, bytes));
        }
        Ok(self.open.as_ref().map(|(_, bytes)| bytes))
    }

    /// The next window that has not been acknowledged; its bytes go into `body`.
    pub fn next(
        &mut self,
        body: &mut Vec<u8>,
        counters: &Counters,
    ) -> io::Result<Option<Sendable>> {
        while let Some((segment, acked)) = self.segment() {
            let at = self.at.offset;
            let header = match self.bytes(segment.id)? {
                Some(file) => match entry::peek(file, at, segment.bytes)? {
                    Some(header) if header.events == 0 || header.number <= acked => {
                        self.count_lost(&header, counters);
                        self.passed = self.passed.max(header.number);
                        self.at.offset += header.total_bytes();
                        continue;
                    }
                    Some(_) => entry::read_payload(file, at, segment.bytes, body)?,
                    None => None,
                },
                None => None,
            };
            let Some(header) = header else {
                counters.torn_entries.add(1);
                warn!(
                    "damaged segment",
                    "{}: damaged at byte {at}; what follows in it is lost; check the disk",
                    segment_path(&self.shared.dir, segment.id).display()
                );
                self.at.offset = segment.bytes;
                self.passed = self.passed.max(segment.last_number);
                continue;
            };
            self.count_lost(&header, counters);
            self.at.offset += header.total_bytes();
            self.passed = self.passed.max(header.number);
            let sendable = Sendable {
                number: header.number,
                events: header.events,
                after: self.at,
            };
            return Ok(Some(sendable));
        }
        Ok(None)
    }
}
