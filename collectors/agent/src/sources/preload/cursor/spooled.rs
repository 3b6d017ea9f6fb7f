//! The form that cursors have in the spool.

use super::{Cursor, SegmentCursor, Shipped};
use crate::sources::cursors::Reader;
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
    /// How many bytes it takes in the spool, with its block's length.
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
        34 + name.len()
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

    /// Takes one cursor off the front.
    pub fn read(r: &mut Reader) -> Option<(u32, String, Cursor)> {
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
            let segment = segment(r)?;
            let last = cursor.segments.last().map(|s| s.index);
            if last.is_some_and(|last| last >= segment.index) {
                return None;
            }
            cursor.segments.push(segment);
        }
        Some((uid, name, cursor))
    }
}

fn segment(r: &mut Reader) -> Option<SegmentCursor> {
    let mut s = SegmentCursor {
        index: r.u32()?,
        position: r.u64()?,
        folded: r.u64()?,
        last_slot: r.u8()?,
        last_generation: r.u16()?,
        shipped: Vec::new(),
        tail: None,
        changed: false,
    };
    let shipped = r.u8()? as usize;
    if shipped > SLOTS {
        return None;
    }
    for _ in 0..shipped {
        s.shipped.push(Shipped {
            slot: r.u8()?,
            generation: r.u16()?,
            count: r.u64()?,
            bytes: r.u64()?,
            busy: r.u64()?,
            end: r.u64()?,
            latency: latency(r)?,
        });
    }
    Some(s)
}

fn latency(r: &mut Reader) -> Option<[u32; LATENCY_BUCKETS - 1]> {
    let mut latency = [0; LATENCY_BUCKETS - 1];
    for v in &mut latency {
        *v = r.u32()?;
    }
    Some(latency)
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
        assert_eq!(cursor.bytes("1-2-3.ring"), 4 + bytes.len());
        let one = bytes.len();
        Cursor::default().write(true, 0, "4-5-6.ring", &mut bytes);
        let mut rest = Reader(&bytes);
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
            assert_eq!(Cursor::read(&mut Reader(&bytes[..cut])), None);
        }
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.number() as u8;
            let mut rest = Reader(&damaged);
            while Cursor::read(&mut rest).is_some() {}
        }
    }
}
