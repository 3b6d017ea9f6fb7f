//! What the spool's target is given: flags, the `acked` file's number (u64), the lengths of the first two segments (u16 each), the
//! bytes of all three.

use super::spool_reference::u64_at;

const HEAD: usize = 13;
pub const SEGMENTS: usize = 3;

pub struct Input {
    pub flags: u8,
    pub acked: u64,
    pub segments: Vec<Vec<u8>>,
}

impl Input {
    pub fn parse(bytes: &[u8]) -> Option<Input> {
        let (head, mut rest) = bytes.split_at_checked(HEAD)?;
        let mut segments = Vec::new();
        for i in 0..SEGMENTS {
            let length = match i {
                2 => rest.len(),
                _ => u16::from_le_bytes([head[9 + 2 * i], head[10 + 2 * i]]) as usize,
            };
            let (segment, after) = rest.split_at(length.min(rest.len()));
            segments.push(segment.to_vec());
            rest = after;
        }
        Some(Input {
            flags: head[0],
            acked: u64_at(head, 1),
            segments,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.flags];
        out.extend(self.acked.to_le_bytes());
        for segment in &self.segments[..2] {
            out.extend((segment.len() as u16).to_le_bytes());
        }
        out.extend(self.segments.concat());
        out
    }
}
