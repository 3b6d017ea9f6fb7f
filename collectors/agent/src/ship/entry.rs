//! One entry of a spool segment: a header, the sources' cursors, a lumberjack window.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub const HEADER_BYTES: usize = 40;
const MAGIC: u32 = 0x3145_5242; // "BRE1"
/// Bounds of what an entry holds, and of what one on disk may claim to hold.
pub const CURSORS_BYTES_MAX: u32 = 256 << 20;
pub const PAYLOAD_BYTES_MAX: u32 = 16 << 20;
/// What is read at once of cursors that are passed over.
const PIECE_BYTES: usize = 16 << 10;
/// Entries' and events' numbers lie below: none may be so high that counting on would wrap.
pub const NUMBER_END: u64 = 1 << 62;

/// Begins a segment: its cursors are all there are, after the boot id and the kernel's.
pub const SNAPSHOT: u32 = 1;
/// Goes on in a segment: its cursors are those that changed. The payload of either is a window, or nothing if only cursors moved.
pub const DATA: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: u32,
    /// Place in the spool, from 1, over all boots.
    pub number: u64,
    /// Of the first event in it or, without any, of the next one to come.
    pub first_seq: u64,
    pub events: u32,
    pub cursors_bytes: u32,
    pub payload_bytes: u32,
}

impl Header {
    /// Bytes of the whole entry.
    pub fn total_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.cursors_bytes as u64 + self.payload_bytes as u64
    }

    pub fn is_bounded(&self) -> bool {
        self.cursors_bytes <= CURSORS_BYTES_MAX && self.payload_bytes <= PAYLOAD_BYTES_MAX
    }

    pub fn bytes(&self, crc: u32) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.kind.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        out[24..28].copy_from_slice(&self.events.to_le_bytes());
        out[28..32].copy_from_slice(&self.cursors_bytes.to_le_bytes());
        out[32..36].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[36..40].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn crc(&self, cursors: &[u8], payload: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.bytes(0));
        hasher.update(cursors);
        hasher.update(payload);
        hasher.finalize()
    }

    /// The header that begins an entry, and its checksum. `None`: there is none, or it cannot be one.
    fn parse(b: &[u8; HEADER_BYTES]) -> Option<(Header, u32)> {
        let u32_at = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let u64_at = |at: usize| u32_at(at) as u64 | ((u32_at(at + 4) as u64) << 32);
        let header = Header {
            kind: u32_at(4),
            number: u64_at(8),
            first_seq: u64_at(16),
            events: u32_at(24),
            cursors_bytes: u32_at(28),
            payload_bytes: u32_at(32),
        };
        let known = u32_at(0) == MAGIC && (header.kind == SNAPSHOT || header.kind == DATA);
        let sane = header.number < NUMBER_END && header.first_seq < NUMBER_END;
        (known && header.is_bounded() && sane).then_some((header, u32_at(36)))
    }
}

/// A segment's bytes.
pub trait ReadAt {
    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, out, at)
    }
}

/// Whether there was as much as was to be read.
fn was_there(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

/// The header at `at` of a segment of `end` bytes, and the entry's checksum. `Ok(None)`: there is none, or not all of its entry.
fn header_at(file: &impl ReadAt, at: u64, end: u64) -> io::Result<Option<(Header, u32)>> {
    let mut head = [0; HEADER_BYTES];
    let room = end.saturating_sub(at);
    if room < HEADER_BYTES as u64 || !was_there(file.read_exact_at(&mut head, at))? {
        return Ok(None);
    }
    Ok(Header::parse(&head).filter(|(header, _)| header.total_bytes() <= room))
}

/// Reads the entry at `at` of a segment of `end` bytes. `Ok(None)`: there is no whole, undamaged entry.
/// `body` receives cursors and payload.
pub fn read(
    file: &impl ReadAt,
    at: u64,
    end: u64,
    body: &mut Vec<u8>,
) -> io::Result<Option<Header>> {
    let Some((header, crc)) = header_at(file, at, end)? else {
        return Ok(None);
    };
    body.resize((header.total_bytes() - HEADER_BYTES as u64) as usize, 0);
    if !was_there(file.read_exact_at(body, at + HEADER_BYTES as u64))? {
        return Ok(None);
    }
    let (cursors, payload) = body.split_at(header.cursors_bytes as usize);
    Ok((header.crc(cursors, payload) == crc).then_some(header))
}

/// Reads the entry's payload in the same way; its cursors go by in pieces.
pub fn read_payload(
    file: &impl ReadAt,
    at: u64,
    end: u64,
    payload: &mut Vec<u8>,
) -> io::Result<Option<Header>> {
    let Some((header, crc)) = header_at(file, at, end)? else {
        return Ok(None);
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header.bytes(0));
    let mut at = at + HEADER_BYTES as u64;
    let cursors = header.cursors_bytes as usize;
    let pieces = (0..cursors).step_by(PIECE_BYTES);
    let pieces = pieces.map(|from| PIECE_BYTES.min(cursors - from));
    for length in pieces.chain([header.payload_bytes as usize]) {
        payload.resize(length, 0);
        if !was_there(file.read_exact_at(payload, at))? {
            return Ok(None);
        }
        hasher.update(payload);
        at += length as u64;
    }
    Ok((hasher.finalize() == crc).then_some(header))
}

/// Reads only the header at `at`: for entries that are passed over.
pub fn peek(file: &impl ReadAt, at: u64, end: u64) -> io::Result<Option<Header>> {
    Ok(header_at(file, at, end)?.map(|(header, _)| header))
}
