//! What a spool's segments hold, read the slow and obvious way: the oracle of the spool's target.

const HEADER: usize = 40;
const CRC_AT: usize = 36;
const SNAPSHOT: u32 = 1;
const DATA: u32 = 2;

pub fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

pub fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
}

/// An entry whose parts are all there and undamaged.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub kind: u32,
    pub number: u64,
    pub first_seq: u64,
    pub events: u32,
    pub cursors: &'a [u8],
    pub payload: &'a [u8],
}

impl Entry<'_> {
    pub fn bytes(&self) -> usize {
        HEADER + self.cursors.len() + self.payload.len()
    }
    pub fn next_seq(&self) -> u64 {
        self.first_seq + self.events as u64
    }
}

/// How long the entry at `at` says it is, if it says so at all and is all there.
fn claimed(b: &[u8], at: usize) -> Option<usize> {
    let head = b.get(at..at.checked_add(HEADER)?)?;
    let (cursors, payload) = (u32_at(head, 28) as usize, u32_at(head, 32) as usize);
    let total = HEADER + cursors + payload;
    (head.starts_with(b"BRE1") && b.len() - at >= total).then_some(total)
}

fn crc(entry: &[u8]) -> u32 {
    let mut copy = entry.to_vec();
    copy[CRC_AT..CRC_AT + 4].fill(0);
    crc32fast::hash(&copy)
}

/// Gives every entry of a segment the checksum that it ought to have: so changes get behind that door.
pub fn mend(segment: &mut [u8]) {
    let mut at = 0;
    while let Some(total) = claimed(segment, at) {
        let crc = crc(&segment[at..at + total]);
        segment[at + CRC_AT..at + CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        at += total;
    }
}

/// The undamaged entry at `at`.
pub fn entry(b: &[u8], at: usize) -> Option<Entry<'_>> {
    let total = claimed(b, at)?;
    let entry = &b[at..at + total];
    let (body, cursors) = (&entry[HEADER..], u32_at(entry, 28) as usize);
    let found = Entry {
        kind: u32_at(entry, 4),
        number: u64_at(entry, 8),
        first_seq: u64_at(entry, 16),
        events: u32_at(entry, 24),
        cursors: &body[..cursors],
        payload: &body[cursors..],
    };
    let known = [SNAPSHOT, DATA].contains(&found.kind);
    let counts = found.number < 1 << 62 && found.first_seq < 1 << 62;
    (known && counts && crc(entry) == u32_at(entry, CRC_AT)).then_some(found)
}

/// What a spool with these segments, oldest first, holds.
#[derive(Default)]
pub struct Held<'a> {
    /// Of each segment the entries that count.
    pub entries: Vec<Vec<Entry<'a>>>,
    pub boot: u64,
    pub kernel_boot: u64,
    pub next_seq: u64,
    pub next_number: u64,
}

impl<'a> Held<'a> {
    pub fn of(segments: &'a [Vec<u8>]) -> Held<'a> {
        let mut held = Held::default();
        for segment in segments {
            let (mut found, mut at) = (Vec::new(), 0);
            while let Some(entry) = entry(segment, at).filter(|e| held.goes_on(at, e)) {
                if at == 0 {
                    held.boot = u64_at(entry.cursors, 0);
                    held.kernel_boot = u64_at(entry.cursors, 8);
                }
                (held.next_seq, held.next_number) = (entry.next_seq(), entry.number + 1);
                at += entry.bytes();
                found.push(entry);
            }
            held.entries.push(found);
        }
        held
    }

    /// Whether an entry is the next: within a segment both numbers go on, a new segment may leave some out but repeat none.
    fn goes_on(&self, at: usize, e: &Entry) -> bool {
        if at > 0 {
            return e.kind == DATA && (e.first_seq, e.number) == (self.next_seq, self.next_number);
        }
        let whole = e.kind == SNAPSHOT && e.cursors.len() >= 16;
        whole
            && e.number >= self.next_number
            && (u64_at(e.cursors, 0) != self.boot || e.first_seq >= self.next_seq)
    }
}
