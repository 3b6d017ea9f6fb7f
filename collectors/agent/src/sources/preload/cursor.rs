//! How far a ring file has been read, and what of its open runs was shipped. Kept in the spool beside what was read.

use tracepack::record::{Run, FLAG_FOLDED, FLAG_PIECE};
use tracepack::ring::{SEGMENTS_MAX, SLOTS};

/// What was shipped of a run that was still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    pub slot: u32,
    pub generation: u32,
    pub count: u64,
    pub bytes: u64,
    pub busy: u64,
    pub end: u64,
}

impl Shipped {
    /// In the spool.
    pub const BYTES: usize = 40;
}

/// Of a segment of which something was read; reading any other begins at its `tail`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCursor {
    /// Its place in the file.
    pub index: u32,
    /// Runs read.
    pub position: u64,
    /// Folded operations counted.
    pub folded: u64,
    /// Slot and generation of the last run read: that run may still stand in its slot. Generation 0: none.
    pub last_slot: u32,
    pub last_generation: u32,
    /// Bounded by SLOTS.
    pub shipped: Vec<Shipped>,
    /// `tail` as it stands in the file, once it was read. Not in the spool.
    pub tail: Option<u64>,
    /// It differs from what the spool has.
    pub changed: bool,
}

impl SegmentCursor {
    /// In the spool, without `shipped`.
    pub const BYTES: usize = 29;

    /// Nothing was read.
    pub fn is_blank(&self) -> bool {
        self.position == 0 && self.folded == 0 && self.shipped.is_empty()
    }

    pub fn has_shipped(&self, slot: usize) -> bool {
        self.shipped.iter().any(|s| s.slot as usize == slot)
    }

    /// What remains of `run` after what was shipped of it. `None`: nothing. `Err`: it has shrunk, which an honest run cannot.
    pub fn rest(&self, run: &Run) -> Result<Option<Run>, ()> {
        let Some(s) = self
            .shipped
            .iter()
            .find(|s| s.slot == run.slot && s.generation == run.generation)
        else {
            return Ok(Some(*run));
        };
        let count = run.count.checked_sub(s.count).ok_or(())?;
        if count == 0 {
            return Ok(None);
        }
        let bytes = run.bytes.checked_sub(s.bytes).ok_or(())?;
        let busy = run.busy.checked_sub(s.busy).ok_or(())?;
        let exact = run.flags & FLAG_FOLDED == 0;
        let skipped = (run.stride as u64).wrapping_mul(s.count);
        Ok(Some(Run {
            offset: if exact {
                run.offset.wrapping_add(skipped)
            } else {
                run.offset
            },
            stride: if count == 1 { 0 } else { run.stride },
            count,
            bytes,
            start: s.end,
            busy,
            // The slowest may have been shipped already; it is then longer than all that remains.
            slowest: run.slowest.min(busy),
            flags: run.flags | FLAG_PIECE,
            ..*run
        }))
    }

    /// All of an open run, as it stands, is shipped.
    pub fn ship(&mut self, run: &Run) {
        self.changed = true;
        self.forget(run.slot);
        if self.shipped.len() < SLOTS {
            self.shipped.push(Shipped {
                slot: run.slot,
                generation: run.generation,
                count: run.count,
                bytes: run.bytes,
                busy: run.busy,
                end: run.end,
            });
        }
    }

    /// The run in this slot is closed.
    pub fn forget(&mut self, slot: u32) {
        self.shipped.retain(|s| s.slot != slot);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The `start` record was made.
    pub started: bool,
    /// Losses counted.
    pub lost_operations: u64,
    pub lost_names: u64,
    /// So many segments were read to their end after their process's: they need no cursor any more.
    pub ended: u32,
    /// By place in the file. Bounded by what the source grants its user.
    pub segments: Vec<SegmentCursor>,
}

impl Cursor {
    /// Nothing was read of the ring; such a cursor is not kept in the spool.
    pub fn is_blank(&self) -> bool {
        *self == Cursor::default()
    }

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

    /// The place of a segment's cursor among all, or where it would be.
    pub fn find(&self, index: usize) -> Result<usize, usize> {
        self.segments
            .binary_search_by_key(&(index as u32), |s| s.index)
    }

    /// The segment was read to its end, and so were those before it.
    pub fn end_segment(&mut self, index: usize) {
        if let Ok(place) = self.find(index) {
            self.segments.remove(place);
        }
        self.ended = index as u32 + 1;
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
            }
        }
    }

    /// Takes in what a later entry of the spool says.
    pub fn merge(&mut self, later: Cursor) {
        let mut segments = std::mem::take(&mut self.segments);
        segments.retain(|s| s.index >= later.ended && later.find(s.index as usize).is_err());
        segments.extend_from_slice(&later.segments);
        segments.sort_unstable_by_key(|s| s.index);
        *self = Cursor { segments, ..later };
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
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn segment(&mut self) -> Option<SegmentCursor> {
        let mut s = SegmentCursor {
            index: self.u32()?,
            position: self.u64()?,
            folded: self.u64()?,
            last_slot: self.u32()?,
            last_generation: self.u32()?,
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
                slot: self.u32()?,
                generation: self.u32()?,
                count: self.u64()?,
                bytes: self.u64()?,
                busy: self.u64()?,
                end: self.u64()?,
            });
        }
        Some(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use tracepack::record::Operation;

    #[test]
    fn cursors_survive_the_spool_and_damage() {
        let shipped = Shipped {
            slot: 3,
            generation: 9,
            count: 1,
            bytes: 2,
            busy: 3,
            end: 4,
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

    /// Ships an open run at random moments; the pieces together must be what a list of the operations says.
    #[test]
    fn pieces_add_up_to_the_run() {
        let mut random = Random::new(11);
        for case in 0..3000 {
            let folding = case % 3 == 0;
            let (stride, size) = (random.below(9) as i64 * 512 - 2048, 1 + random.below(4096));
            let mut cursor = SegmentCursor::default();
            let mut operations: Vec<Operation> = Vec::new();
            let mut pieces: Vec<Run> = Vec::new();
            let mut run = Run::default();
            let total = 1 + random.below(12);
            for i in 0..total {
                let start = i * 100 + random.below(10);
                let o = Operation {
                    file: 1,
                    offset: (1i64 << 40).wrapping_add(stride * i as i64) as u64,
                    size: if folding {
                        1 + random.below(4096)
                    } else {
                        size
                    },
                    start,
                    end: start + 1 + random.below(80),
                    op: 1,
                    ..Operation::default()
                };
                if i == 0 {
                    run = Run {
                        slot: 4,
                        generation: 7,
                        ..Run::of(&o)
                    };
                } else if folding {
                    run.fold(&o);
                } else {
                    assert!(run.continues(&o));
                    run.extend(&o);
                }
                operations.push(o);
                if random.below(3) == 0 {
                    pieces.extend(cursor.rest(&run).unwrap());
                    cursor.ship(&run);
                }
            }
            pieces.extend(cursor.rest(&run).unwrap());
            assert_eq!(pieces.iter().map(|p| p.count).sum::<u64>(), total);
            assert_eq!(
                pieces.iter().map(|p| p.bytes).sum::<u64>(),
                operations.iter().map(|o| o.size).sum::<u64>()
            );
            assert_eq!(
                pieces.iter().map(|p| p.busy).sum::<u64>(),
                operations.iter().map(|o| o.end - o.start).sum::<u64>()
            );
            assert_eq!(
                pieces.iter().map(|p| p.slowest).max(),
                operations.iter().map(|o| o.end - o.start).max(),
                "the slowest operation is in some piece"
            );
            let mut at = 0;
            for (i, piece) in pieces.iter().enumerate() {
                assert_eq!(piece.flags & FLAG_PIECE != 0, i > 0);
                let own = &operations[at..at + piece.count as usize];
                at += own.len();
                assert_eq!(piece.end, own.iter().map(|o| o.end).max().unwrap());
                assert!(piece.start <= own[0].start);
                if !folding {
                    for (k, o) in own.iter().enumerate() {
                        assert_eq!(
                            piece
                                .offset
                                .wrapping_add((piece.stride as u64).wrapping_mul(k as u64)),
                            o.offset
                        );
                        assert_eq!(piece.size, o.size);
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_that_shrank_is_an_error() {
        let run = Run {
            slot: 1,
            generation: 1,
            count: 5,
            bytes: 50,
            busy: 5,
            ..Run::default()
        };
        let mut cursor = SegmentCursor::default();
        cursor.ship(&run);
        assert_eq!(cursor.rest(&run), Ok(None));
        assert_eq!(cursor.rest(&Run { count: 4, ..run }), Err(()));
        assert_eq!(
            cursor.rest(&Run {
                count: 6,
                bytes: 49,
                ..run
            }),
            Err(())
        );
        // Another run of the same slot is another story.
        let other = Run {
            generation: 2,
            count: 1,
            ..run
        };
        assert_eq!(cursor.rest(&other), Ok(Some(other)));
    }
}
