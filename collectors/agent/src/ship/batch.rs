//! Events on their way to the spool: one lumberjack v2 window, compressed, as it will go over the wire.
//!
//! `2 W count`, then `2 C length` and zlib of `count` times `2 J number length json`; numbers are big-endian u32.

use crate::event;
use flate2::write::ZlibEncoder;
use flate2::Compression;
use std::io::{self, Write};

/// JSON in one batch, bytes.
pub const RAW_BYTES_MAX: usize = 2 << 20;
/// What a window may have before the next event, compressed: it lies in memory here and once more where it is sent.
const PAYLOAD_BYTES: usize = 64 << 10;
/// `2 W count 2 C length`
const PREFIX_BYTES: usize = 12;

/// A window ready for the spool.
pub struct Window<'a> {
    pub first_seq: u64,
    pub events: u32,
    pub payload: &'a [u8],
}

/// Owned by the draining thread; bounded by `events_max`, `raw_max` and PAYLOAD_BYTES; what is in it at a kill is read from the rings again.
pub struct Batch {
    /// `None` while there is nothing to compress. Each window has its own: one that is used again clears 300 KiB, of which a new one touches half.
    encoder: Option<ZlibEncoder<Vec<u8>>>,
    /// The finished window, until `restart`.
    payload: Vec<u8>,
    scratch: Vec<u8>,
    identity: Vec<u8>,
    first_seq: u64,
    events: u32,
    raw: usize,
    events_max: u32,
    raw_max: usize,
}

impl Batch {
    /// `first_seq`: the number of the first event to come.
    pub fn new(node: &str, boot: u64, first_seq: u64, events_max: u32, raw_max: usize) -> Batch {
        let mut identity = Vec::new();
        event::text(&mut identity, "node", Some(node.as_bytes()));
        event::name(&mut identity, "boot");
        identity.push(b'"');
        event::hex(&mut identity, boot);
        identity.push(b'"');
        Batch {
            encoder: None,
            payload: Vec::new(),
            scratch: Vec::new(),
            identity,
            first_seq,
            events: 0,
            raw: 0,
            events_max,
            raw_max: raw_max.min(RAW_BYTES_MAX),
        }
    }

    /// Whether one more event fits. An event larger than the rest of the bound still goes in. A finished window that the
    /// spool has not taken yet has no room: it is the one that is tried again.
    pub fn has_room(&self) -> bool {
        let encoder = self.encoder.as_ref();
        self.payload.is_empty()
            && self.events < self.events_max
            && self.raw < self.raw_max
            && encoder.is_none_or(|encoder| encoder.get_ref().len() < PAYLOAD_BYTES)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Adds an event; `fields` writes what follows `seq`, each field with its comma. Answers false, and adds nothing, if
    /// there is no room.
    pub fn push(&mut self, kind: &str, fields: impl FnOnce(&mut Vec<u8>)) -> bool {
        if !self.has_room() {
            return false;
        }
        let out = &mut self.scratch;
        out.clear();
        out.extend_from_slice(b"2J\0\0\0\0\0\0\0\0{\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        out.extend_from_slice(&self.identity);
        event::integer(out, "seq", (self.first_seq + self.events as u64) as i64);
        fields(out);
        out.push(b'}');
        self.events += 1;
        let length = (out.len() - 10) as u32;
        out[2..6].copy_from_slice(&self.events.to_be_bytes());
        out[6..10].copy_from_slice(&length.to_be_bytes());
        self.raw += out.len();
        self.encoder
            .get_or_insert_with(|| ZlibEncoder::new(vec![0; PREFIX_BYTES], Compression::fast()))
            .write_all(out)
            .expect("writing to memory does not fail");
        true
    }

    /// Nothing comes for a while: gives memory back until something does. Answers whether there was any.
    pub fn rest(&mut self) -> bool {
        std::mem::take(&mut self.scratch).capacity() > 0
    }

    /// Finishes the window. Nothing may be pushed before `restart`; a second call gives the same window.
    pub fn finish(&mut self) -> io::Result<Window<'_>> {
        if let Some(encoder) = self.encoder.take() {
            self.payload = encoder.finish()?;
            let length = (self.payload.len() - PREFIX_BYTES) as u32;
            self.payload[..2].copy_from_slice(b"2W");
            self.payload[2..6].copy_from_slice(&self.events.to_be_bytes());
            self.payload[6..8].copy_from_slice(b"2C");
            self.payload[8..12].copy_from_slice(&length.to_be_bytes());
        }
        Ok(Window {
            first_seq: self.first_seq,
            events: self.events,
            payload: &self.payload,
        })
    }

    /// Begins the next batch.
    pub fn restart(&mut self, first_seq: u64) {
        self.encoder = None;
        self.payload = Vec::new();
        self.events = 0;
        self.raw = 0;
        self.first_seq = first_seq;
    }
}

/// Takes a window apart, as a server would: its events.
#[cfg(any(test, feature = "fuzz"))]
pub fn open_window(payload: &[u8]) -> Vec<serde_json::Value> {
    use std::io::Read;
    let u32_at = |b: &[u8], at: usize| u32::from_be_bytes(b[at..at + 4].try_into().unwrap());
    assert_eq!((&payload[..2], &payload[6..8]), (&b"2W"[..], &b"2C"[..]));
    let count = u32_at(payload, 2);
    assert_eq!(u32_at(payload, 8) as usize, payload.len() - PREFIX_BYTES);
    let mut raw = Vec::new();
    flate2::read::ZlibDecoder::new(&payload[PREFIX_BYTES..])
        .read_to_end(&mut raw)
        .unwrap();
    let mut events = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        assert_eq!(&raw[at..at + 2], b"2J");
        assert_eq!(u32_at(&raw, at + 2) as usize, events.len() + 1);
        let length = u32_at(&raw, at + 6) as usize;
        events.push(serde_json::from_slice(&raw[at + 10..at + 10 + length]).unwrap());
        at += 10 + length;
    }
    assert_eq!(events.len(), count as usize);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn batches_are_windows_and_can_be_reused() {
        let mut batch = Batch::new("n1", 0xab, 1, 3, RAW_BYTES_MAX);
        for round in 0..3u64 {
            let first = 1 + 3 * round;
            for i in 0..3 {
                assert!(batch.push("sample", |out| event::integer(out, "x", i)));
            }
            assert!(!batch.push("sample", |_| ()));
            let again = batch.finish().unwrap().payload.to_vec();
            let window = batch.finish().unwrap();
            assert_eq!(window.payload, again);
            assert_eq!((window.first_seq, window.events), (first, 3));
            let events = open_window(window.payload);
            assert_eq!(events[2]["seq"], first + 2);
            assert_eq!(events[2]["x"], 2);
            assert_eq!(events[0]["boot"], "00000000000000ab");
            assert_eq!(events[0]["kind"], "sample");
            batch.restart(first + 3);
            assert!(batch.is_empty());
            if round == 1 {
                assert!(batch.rest() && !batch.rest());
            }
        }
        assert!(batch.finish().unwrap().payload.is_empty());
    }

    /// The spool was full and the agent looks once more before it ends: what it finds must not go into the old window.
    #[test]
    fn a_finished_window_takes_nothing_more() {
        let mut batch = Batch::new("n1", 1, 1, 10, RAW_BYTES_MAX);
        let push = |batch: &mut Batch| batch.push("sample", |out| event::integer(out, "x", 1));
        assert!((0..3).all(|_| push(&mut batch)));
        let before = batch.finish().unwrap().payload.to_vec();
        assert!(!batch.has_room() && !push(&mut batch));
        let window = batch.finish().unwrap();
        assert_eq!((window.events, open_window(window.payload).len()), (3, 3));
        assert_eq!(window.payload, before);
        batch.restart(4);
        assert!(push(&mut batch));
        assert_eq!(open_window(batch.finish().unwrap().payload)[0]["seq"], 4);
    }

    /// Records that do not pack well fill a window sooner.
    #[test]
    fn a_window_is_bounded_in_bytes() {
        let mut random = Random::new(3);
        let mut batch = Batch::new("n1", 1, 1, 1 << 20, RAW_BYTES_MAX);
        while batch.push("run", |out| {
            let numbers = (0..200).map(|_| random.number() as i64);
            numbers.for_each(|number| event::integer(out, "x", number));
        }) {}
        let bytes = batch.finish().unwrap().payload.len();
        // What the encoder still held comes to it.
        assert!(
            (PAYLOAD_BYTES..3 * PAYLOAD_BYTES).contains(&bytes),
            "{bytes}"
        );
    }

    #[test]
    fn a_batch_is_bounded_in_bytes() {
        let mut batch = Batch::new("n1", 1, 1, 1000, 10_000);
        let mut pushed = 0;
        while batch.push("run", |out| event::text(out, "file", Some(&[b'a'; 4096]))) {
            pushed += 1;
        }
        assert_eq!(pushed, 3);
    }
}
