//! The form that cursors have in the spool.

use super::{Cursor, SegmentCursor, Shipped};
use tracepack::record::LATENCY_BUCKETS;
use tracepack::ring::{SEGMENTS_MAX, SLOTS};

impl Shipped {
    /// In the spool.
    pub const BYTES: usize = 63;
}

impl SegmentCursor {
    /// In the spool, without `shipped`.
    pub const BYTES: usize = 24;
}

impl Cursor {
    /// How many bytes it takes in the spool.
    pub fn bytes(&self, name: &str) -> usize {
        if self.is_blank() {
            return 0;
        }
        let segments = self.segments.iter();
        Self::base_bytes(name)
            + segments
                .map(|s| SegmentCursor::BYTES + s.shipped.len() * Shipped::BYTES)
                .sum::<usize>()
    }

    /// Without segments.
    pub fn base_bytes(name: &str) -> usize {
        30 + name.len()
    }

    /// Appends this cursor under its file's name, which is at most 255 bytes as on every Linux file system. `all`: with the
    /// segments that did not change, too.
    pub fn write(&self, all: bool, uid: u32, name: &str, out: &mut Vec<u8>) {
        let segments = self.segments.iter().filter(|s| all || s.changed);
        out.extend_from_slice(&uid.to_le_bytes());
        out.push(name.len().min(255) as u8);
        out.extend_from_slice(&name.as_bytes()[..name.len().min(255)]);
        out.push(self.started as u8);
        out.extend_from_slice(&self.lost_operations.to_le_bytes());
        out.extend_from_slice(&self.lost_names.to_le_bytes());
        out.extend_from_slice(&self.ended.to_le_bytes());
        out.extend_from_slice(&(segments.clone().count() as u32).to_le_bytes());
        for s in segments {
            out.extend_from_slice(&s.index.to_le_bytes());
            out.extend_from_slice(&s.position.to_le_bytes());
            out.extend_from_slice(&s.folded.to_le_bytes());
            out.extend_from_slice(&s.last_slot.to_le_bytes());
            out.extend_from_slice(&s.last_generation.to_le_bytes());
            out.push(s.shipped.len() as u8);
            for p in &s.shipped {
                out.extend_from_slice(&p.slot.to_le_bytes());
                out.extend_from_slice(&p.generation.to_le_bytes());
                for v in [p.count, p.bytes, p.busy, p.end] {
                    out.extend_from_slice(&v.to_le_bytes());
                }
                for v in p.latency {
                    out.extend_from_slice(&v.to_le_bytes());
                }
            }
        }
    }

    /// Takes one cursor off the front of `bytes`.
    pub fn read(bytes: &mut &[u8]) -> Option<(u32, String, Cursor)> {
        let mut r = Bytes(bytes);
        let uid = r.u32()?;
        let length = r.u8()? as usize;
        let name = String::from_utf8(r.take(length)?.to_vec()).ok()?;
        let mut cursor = Cursor {
            started: r.u8()? == 1,
            lost_operations: r.u64()?,
            lost_names: r.u64()?,
            ended: r.u32()?,
            segments: Vec::new(),
        };
        let segments = r.u32()? as usize;
        if segments > SEGMENTS_MAX {
            return None;
        }
        for _ in 0..segments {
            let segment = r.segment()?;
            let last = cursor.segments.last().map(|s| s.index);
            if last.is_some_and(|last| last >= segment.index) {
                return None;
            }
            cursor.segments.push(segment);
        }
        *bytes = r.0;
        Some((uid, name, cursor))
    }
}

/// A reader of little-endian numbers.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }
    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn latency(&mut self) -> Option<[u32; LATENCY_BUCKETS - 1]> {
        let mut latency = [0; LATENCY_BUCKETS - 1];
        for v in &mut latency {
            *v = self.u32()?;
        }
        Some(latency)
    }
    fn segment(&mut self) -> Option<SegmentCursor> {
        let mut s = SegmentCursor {
            index: self.u32()?,
            position: self.u64()?,
            folded: self.u64()?,
            last_slot: self.u8()?,
            last_generation: self.u16()?,
            shipped: Vec::new(),
            tail: None,
            changed: false,
        };
        let shipped = self.u8()? as usize;
        if shipped > SLOTS {
            return None;
        }
        for _ in 0..shipped {
            s.shipped.push(Shipped {
                slot: self.u8()?,
                generation: self.u16()?,
                count: self.u64()?,
                bytes: self.u64()?,
                busy: self.u64()?,
                end: self.u64()?,
                latency: self.latency()?,
            });
        }
        Some(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn cursors_survive_the_spool_and_damage() {
        let shipped = Shipped {
            slot: 3,
            generation: 9,
            count: 1,
            bytes: 2,
            busy: 3,
            end: 4,
            latency: [5, 6, 7, 8, 9, 10, 11],
        };
        let segment = SegmentCursor {
            index: 900,
            position: 77,
            folded: 5,
            last_slot: 1,
            last_generation: 2,
            shipped: vec![shipped; 2],
            tail: None,
            changed: false,
        };
        let cursor = Cursor {
            started: true,
            lost_operations: 1,
            lost_names: 2,
            ended: 0,
            segments: vec![SegmentCursor::default(), segment],
        };
        let mut bytes = Vec::new();
        cursor.write(true, 1000, "1-2-3.ring", &mut bytes);
        assert_eq!(cursor.bytes("1-2-3.ring"), bytes.len());
        let one = bytes.len();
        Cursor::default().write(true, 0, "4-5-6.ring", &mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(
            Cursor::read(&mut rest),
            Some((1000, "1-2-3.ring".into(), cursor))
        );
        assert_eq!(
            Cursor::read(&mut rest),
            Some((0, "4-5-6.ring".into(), Cursor::default()))
        );
        assert!(rest.is_empty());
        for cut in 0..one {
            assert_eq!(Cursor::read(&mut &bytes[..cut]), None);
        }
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next() as u8;
            let mut rest = &damaged[..];
            while Cursor::read(&mut rest).is_some() {}
        }
    }
}
