//! What stands around a block's parts: which they are, how long, and their checksums.

use super::block::ROWS_MAX;
use super::head::Head;
use super::wire::Damage;

const MAGIC: [u8; 4] = *b"BRSP";
/// What is written; older ones are read. Since 2 a head tells which files a block has.
const VERSION: u8 = 2;
const OLDEST: u8 = 1;
/// Magic, version, flags, two bytes that are 0, sizes of head, structure and times, and their checksums with that of the sizes.
const FIXED: usize = 36;
const PRIMED: u8 = 1;
const PRIMER: u8 = 2;

/// A block's fixed beginning: what it is, and where its parts end.
#[derive(Clone, Debug)]
pub struct Frame {
    pub is_primed: bool,
    pub is_primer: bool,
    version: u8,
    /// Of the beginning itself, which has those of all parts, so that it tells two primers apart.
    pub checksum: u32,
    ends: [usize; 3],
    checksums: [u32; 3],
}

impl Frame {
    /// A block of these parts.
    pub fn write(is_primed: bool, is_primer: bool, parts: [&[u8]; 3]) -> Vec<u8> {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut out = Vec::with_capacity(FIXED + size);
        out.extend(MAGIC);
        let flags = if is_primed { PRIMED } else { 0 } | if is_primer { PRIMER } else { 0 };
        out.extend([VERSION, flags, 0, 0]);
        for part in parts {
            out.extend((part.len() as u32).to_le_bytes());
        }
        for part in parts {
            out.extend(crc32c::crc32c(part).to_le_bytes());
        }
        let fixed = crc32c::crc32c(&out);
        out.extend(fixed.to_le_bytes());
        for part in parts {
            out.extend(part);
        }
        out
    }

    /// Of a block, or of its first bytes.
    pub fn read(block: &[u8]) -> Result<Self, Damage> {
        let fixed = block
            .first_chunk::<FIXED>()
            .ok_or(Damage("it is shorter than a block's beginning"))?;
        if fixed[..4] != MAGIC {
            return Err(Damage("it does not begin as a block does"));
        }
        let number = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let checksum = number(FIXED - 4);
        if crc32c::crc32c(&fixed[..FIXED - 4]) != checksum {
            return Err(Damage("its beginning has another checksum"));
        }
        if !(OLDEST..=VERSION).contains(&fixed[4]) {
            return Err(Damage("it has a version that is not known here"));
        }
        if fixed[5] & !(PRIMED | PRIMER) != 0 || fixed[6..8] != [0, 0] {
            return Err(Damage("it has flags that are not known here"));
        }
        let mut end = FIXED;
        let ends = [8, 12, 16].map(|at| {
            end = end.saturating_add(number(at) as usize);
            end
        });
        Ok(Self {
            is_primed: fixed[5] & PRIMED != 0,
            is_primer: fixed[5] & PRIMER != 0,
            version: fixed[4],
            checksum,
            ends,
            checksums: [20, 24, 28].map(number),
        })
    }

    /// Bytes of all of it, and of what has to be there to read its head.
    pub fn size(&self) -> usize {
        self.ends[2]
    }

    pub fn head_size(&self) -> usize {
        self.ends[0]
    }

    pub fn head(&self, block: &[u8]) -> Result<Head, Damage> {
        let head = Head::read(
            self.part(block, 0)?,
            ROWS_MAX,
            self.is_primed,
            self.version >= 2 && !self.is_primer,
        )?;
        if head.grid.groups.is_empty() && !self.is_primer && head.lanes > 0 {
            return Err(Damage("it has no sums of its processes"));
        }
        Ok(head)
    }

    /// Head, structure or times, by number.
    pub fn part<'a>(&self, block: &'a [u8], which: usize) -> Result<&'a [u8], Damage> {
        let from = if which == 0 {
            FIXED
        } else {
            self.ends[which - 1]
        };
        let part = block
            .get(from..self.ends[which])
            .ok_or(Damage("it is shorter than it says"))?;
        if crc32c::crc32c(part) != self.checksums[which] {
            return Err(Damage("a part has another checksum"));
        }
        Ok(part)
    }
}

/// Where the first block from a place on begins: one whose fixed beginning is whole.
pub fn find(data: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(rest) = data.get(at..) {
        at += rest
            .windows(MAGIC.len())
            .position(|window| window == MAGIC)?;
        if Frame::read(&data[at..]).is_ok() {
            return Some(at);
        }
        at += 1;
    }
    None
}
