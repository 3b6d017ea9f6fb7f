//! What a spool's segments say of where to go on.

use super::entry::{self, Header, ReadAt, DATA, SNAPSHOT};
use std::io;

/// Boot id and the kernel's boot, before the cursors of a segment's first entry.
const IDENTITY_BYTES: usize = 16;

/// What the last entry of a scan said.
pub struct Recovered {
    pub boot: u64,
    pub kernel_boot: u64,
    pub next_seq: u64,
    pub next_number: u64,
}

impl Recovered {
    /// Whether an entry goes on where the last one of its segment ended.
    fn continues(&self, header: &Header) -> bool {
        (header.number, header.first_seq) == (self.next_number, self.next_seq)
    }

    /// Whether a segment may begin so after this: entries may be missing before it, but none may come again, such as in a copy.
    fn precedes(&self, boot: u64, header: &Header) -> bool {
        header.number >= self.next_number
            && (boot != self.boot || header.first_seq >= self.next_seq)
    }
}

/// Reads a segment's entries up to the first that is not whole or no continuation. Answers where that is, and the number of
/// the last one before.
pub fn read_segment(
    file: &impl ReadAt,
    length: u64,
    recovered: &mut Option<Recovered>,
    restore: &mut impl FnMut(bool, &[u8]),
) -> io::Result<(u64, u64)> {
    let mut body = Vec::new();
    let mut at = 0;
    let mut last_number = 0;
    while let Some(header) = entry::read(file, at, length, &mut body)? {
        let cursors = &body[..header.cursors_bytes as usize];
        let next = (header.first_seq + header.events as u64, header.number + 1);
        match (header.kind, at, recovered.as_mut()) {
            (SNAPSHOT, 0, before) if cursors.len() >= IDENTITY_BYTES => {
                let u64_at = |at: usize| {
                    u64::from_le_bytes(cursors[at..at + 8].try_into().unwrap_or_default())
                };
                let (boot, kernel_boot) = (u64_at(0), u64_at(8));
                if before.is_some_and(|r| !r.precedes(boot, &header)) {
                    break;
                }
                *recovered = Some(Recovered {
                    boot,
                    kernel_boot,
                    next_seq: next.0,
                    next_number: next.1,
                });
                restore(true, &cursors[IDENTITY_BYTES..]);
            }
            (DATA, 1.., Some(r)) if r.continues(&header) => {
                (r.next_seq, r.next_number) = next;
                restore(false, cursors);
            }
            _ => break,
        }
        last_number = header.number;
        at += header.total_bytes();
    }
    Ok((at, last_number))
}
