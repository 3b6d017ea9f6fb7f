//! What a lumberjack client sends compressed: a zlib stream, and the J frames in it. What each bound is for, and what is told of what is wrong,
//! is in pipeline/lumberjack.py.

use std::ops::Range;
use zlib_rs::{Inflate, InflateError, InflateFlush, Status};

/// Room for what streams expand to at first: agents' records to about 14 times their size.
const EXPANDS: usize = 16;
const ROOM_MIN: usize = 4096;
const WINDOW_BITS: u8 = 15;
/// `2`, `J`, sequence, length.
const HEADER: usize = 10;

/// What a zlib stream expands to, as far as it goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Inflated {
    pub plain: Vec<u8>,
    /// How much of what was given the stream took.
    pub taken: usize,
    pub ended: bool,
}

/// Expands a zlib stream to one byte more than `bound` at most: who gets so much stops there. Fails with what is wrong with a garbled one.
pub fn inflate(packed: &[u8], bound: usize) -> Result<Inflated, &'static str> {
    let most = bound.saturating_add(1);
    let mut plain = vec![0; packed.len().saturating_mul(EXPANDS).max(ROOM_MIN).min(most)];
    let mut state = Inflate::new(true, WINDOW_BITS);
    let (mut taken, mut done) = (0, 0);
    loop {
        let status = state.decompress(&packed[taken..], &mut plain[done..], InflateFlush::NoFlush);
        (taken, done) = (state.total_in() as usize, state.total_out() as usize);
        let status = status.map_err(|error| {
            let told = state.error_message();
            told.unwrap_or(match error {
                InflateError::NeedDict { .. } => "it needs a dictionary",
                error => error.as_str(),
            })
        })?;
        let ended = status == Status::StreamEnd;
        // Where there was room left, all that came was taken.
        if ended || done < plain.len() || done == most {
            plain.truncate(done);
            return Ok(Inflated {
                plain,
                taken,
                ended,
            });
        }
        let room = plain.len().saturating_mul(2).min(most);
        plain.reserve_exact(room - plain.len());
        plain.resize(room, 0);
    }
}

/// How many J frames may be taken, of how many bytes each, and of how many all together.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub frames: usize,
    pub payload: usize,
    pub all: usize,
}

/// Where the payloads of J frames lie, as long as these are whole and within the bounds; the last one's sequence number; and where the frames end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub payloads: Vec<Range<usize>>,
    pub last: u32,
    pub end: usize,
}

pub fn split(plain: &[u8], bounds: Bounds) -> Frames {
    let mut found = Frames::default();
    let mut left = bounds.all;
    while found.payloads.len() < bounds.frames {
        let rest = &plain[found.end..];
        let Some(&[b'2', b'J', a, b, c, d, e, f, g, h]) = rest.first_chunk::<HEADER>() else {
            break;
        };
        let length = u32::from_be_bytes([e, f, g, h]) as usize;
        if length > bounds.payload || length > left || length > rest.len() - HEADER {
            break;
        }
        let begin = found.end + HEADER;
        found.end = begin + length;
        found.last = u32::from_be_bytes([a, b, c, d]);
        found.payloads.push(begin..found.end);
        left -= length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` in a zlib stream as it is, in blocks of at most 65,535 bytes.
    fn stored(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0x78, 0x01];
        let blocks: Vec<&[u8]> = text.chunks(0xffff).collect();
        for (place, block) in blocks.iter().enumerate() {
            let size = block.len() as u16;
            out.push(u8::from(place + 1 == blocks.len()));
            out.extend(size.to_le_bytes());
            out.extend((!size).to_le_bytes());
            out.extend(*block);
        }
        let (mut a, mut b) = (1_u32, 0_u32);
        for &byte in text {
            a = (a + u32::from(byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        out.extend((b << 16 | a).to_be_bytes());
        out
    }

    fn frame(sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u32;
        let head = [&b"2J"[..], &sequence.to_be_bytes(), &length.to_be_bytes()];
        [&head.concat(), payload].concat()
    }

    const WIDE: Bounds = Bounds {
        frames: 10,
        payload: 100,
        all: 1000,
    };

    #[test]
    fn a_stream_expands_to_what_it_was() {
        for size in [1, 4095, 4096, 4097, 100_000, 300_000] {
            let text: Vec<u8> = (0..size).map(|at| (at * 7 % 251) as u8).collect();
            let packed = stored(&text);
            let found = inflate(&packed, size);
            let taken = packed.len();
            assert_eq!(
                found,
                Ok(Inflated {
                    plain: text,
                    taken,
                    ended: true
                })
            );
        }
    }

    #[test]
    fn a_stream_is_not_expanded_beyond_its_bound() {
        let packed = stored(&[b'x'; 100_000]);
        for bound in [0, 1, 4095, 4096, 50_000, 99_999] {
            let found = inflate(&packed, bound).unwrap();
            assert_eq!(found.plain.len(), bound + 1);
            assert!(found.plain.capacity() <= bound + 1);
        }
    }

    #[test]
    fn what_is_cut_or_followed_by_something_is_told() {
        let packed = stored(b"text");
        for cut in 0..packed.len() {
            let found = inflate(&packed[..cut], 100).unwrap();
            assert!(!found.ended && b"text".starts_with(&found.plain));
        }
        let found = inflate(&[&packed[..], b"tail"].concat(), 100).unwrap();
        assert_eq!((found.taken, found.ended), (packed.len(), true));
    }

    #[test]
    fn what_is_garbled_is_told() {
        let mut packed = stored(b"text");
        let last = packed.len() - 1;
        packed[last] ^= 1;
        assert_eq!(inflate(&packed, 100), Err("incorrect data check"));
        assert_eq!(
            inflate(b"no zlib stream", 100),
            Err("incorrect header check")
        );
        // One that asks for a dictionary.
        assert_eq!(
            inflate(&[0x78, 0x20, 0, 0, 0, 1, 3, 0], 100),
            Err("it needs a dictionary")
        );
    }

    #[test]
    fn frames_are_split() {
        let plain = [frame(1, b"{}"), frame(7, b""), frame(u32::MAX, b"abc")].concat();
        let found = split(&plain, WIDE);
        assert_eq!(found.payloads, [10..12, 22..22, 32..35]);
        assert_eq!((found.last, found.end), (u32::MAX, plain.len()));
    }

    #[test]
    fn splitting_stops_where_something_is_wrong_or_beyond_a_bound() {
        let good = frame(1, b"{}");
        let huge = [&b"2J\0\0\0\x02"[..], &[0xff; 4]].concat();
        for next in [
            &b""[..],
            b"2",
            b"2J\0\0\0\x02\0\0\0",
            b"2J\0\0\0\x02\0\0\0\x01",
            b"3J\0\0\0\x02\0\0\0\0",
            b"2W\0\0\0\x02\0\0\0\0",
            &huge,
        ] {
            let found = split(&[&good[..], next].concat(), WIDE);
            assert_eq!(
                (found.payloads.len(), found.last, found.end),
                (1, 1, 12),
                "{next:?}"
            );
        }
        let two = good.repeat(2);
        for (bounds, count) in [
            (Bounds { frames: 0, ..WIDE }, 0),
            (Bounds { frames: 1, ..WIDE }, 1),
            (Bounds { frames: 2, ..WIDE }, 2),
            (Bounds { payload: 1, ..WIDE }, 0),
            (Bounds { payload: 2, ..WIDE }, 2),
            (Bounds { all: 1, ..WIDE }, 0),
            (Bounds { all: 3, ..WIDE }, 1),
            (Bounds { all: 4, ..WIDE }, 2),
        ] {
            let found = split(&two, bounds);
            assert_eq!((found.payloads.len(), found.end), (count, 12 * count));
        }
    }

    /// Damaged streams and frames: something comes back, within the bounds, whatever the bytes are.
    #[test]
    fn damaged_bytes_stay_within_the_bounds() {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let plain = [
            frame(1, &[b'x'; 90]),
            frame(2, b"{}"),
            frame(3, &[b'y'; 99]),
        ]
        .concat();
        let packed = stored(&plain);
        for _ in 0..100_000 {
            let mut bytes = packed.clone();
            for _ in 0..1 + random(3) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = random(256) as u8,
                    1 => drop(bytes.drain(at..)),
                    _ => bytes.insert(at, random(256) as u8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            if let Ok(found) = inflate(&bytes, 150) {
                assert!(found.plain.len() <= 151 && found.taken <= bytes.len());
            }
            let found = split(&bytes[bytes.len().min(7)..], WIDE);
            let size: usize = found.payloads.iter().map(Range::len).sum();
            assert!(found.payloads.len() <= WIDE.frames && size <= WIDE.all);
            assert_eq!(found.end, size + HEADER * found.payloads.len());
        }
    }
}
