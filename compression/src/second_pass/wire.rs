//! Numbers and texts as bytes of a block, and back.

use std::fmt;

/// What is wrong with a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub &'static str);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damage {}

/// Small where the number is near 0, of either sign.
#[inline(always)]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline(always)]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Goes on with a hash.
#[inline(always)]
pub fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(FACTOR).rotate_left(23)
}

/// Where a hash has its entry in a table of 2^bits.
#[inline(always)]
pub fn table_place(hash: u64, bits: u32) -> usize {
    (hash.wrapping_mul(FACTOR) >> (64 - bits)) as usize
}

#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front. Never panics, and never reads beyond the end.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.rest.split_first().ok_or(END)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub fn number(&mut self) -> Result<u64, Damage> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first as u64);
        }
        let mut value = (first & 0x7f) as u64;
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let part = (byte & 0x7f) as u64;
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage("a number has more than 64 bits"))
    }

    #[inline]
    pub fn signed(&mut self) -> Result<i64, Damage> {
        self.number().map(unzigzag)
    }

    /// A number of four bytes.
    pub fn fixed(&mut self) -> Result<u32, Damage> {
        let (&bytes, rest) = self.rest.split_first_chunk().ok_or(END)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(bytes))
    }

    /// A number that may be as large as `most`.
    pub fn size(&mut self, most: usize, what: &'static str) -> Result<usize, Damage> {
        let value = self.number()?;
        if value > most as u64 {
            return Err(Damage(what));
        }
        Ok(value as usize)
    }

    pub fn take(&mut self, size: usize) -> Result<&'a [u8], Damage> {
        if size > self.rest.len() {
            return Err(END);
        }
        let (taken, rest) = self.rest.split_at(size);
        self.rest = rest;
        Ok(taken)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let size = self.size(self.rest.len(), "a text is longer than what holds it")?;
        self.take(size)
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

const END: Damage = Damage("it ends too early");

/// Bits, the lowest of each byte first.
#[derive(Default)]
pub struct BitWriter {
    pub bytes: Vec<u8>,
    open: u64,
    used: u32,
}

impl BitWriter {
    /// At most 56 bits at once; those above are not looked at.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 56);
        self.open |= (value & ((1 << bits) - 1)) << self.used;
        self.used += bits;
        while self.used >= 8 {
            self.bytes.push(self.open as u8);
            self.open >>= 8;
            self.used -= 8;
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.used > 0 {
            self.bytes.push(self.open as u8);
        }
        self.bytes
    }
}

pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// At most 56 bits at once.
    #[inline(always)]
    pub fn take(&mut self, bits: u32) -> Result<u64, Damage> {
        let from = self.at / 8;
        let open = match self.bytes.get(from..).and_then(<[u8]>::first_chunk) {
            Some(next) => u64::from_le_bytes(*next),
            None => self.last(from, bits)?,
        };
        let value = open >> (self.at % 8) & ((1 << bits) - 1);
        self.at += bits as usize;
        Ok(value)
    }

    /// The last bytes, fewer than eight, with zeros behind them.
    #[cold]
    fn last(&self, from: usize, bits: u32) -> Result<u64, Damage> {
        if self.at + bits as usize > self.bytes.len() * 8 {
            return Err(END);
        }
        let last = self.bytes[from..].iter().rev();
        Ok(last.fold(0, |open, &byte| open << 8 | u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 9] = [
        0,
        1,
        127,
        128,
        1 << 14,
        1 << 56,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX,
    ];

    #[test]
    fn numbers_are_read_as_they_were_put_and_take_seven_bits_a_byte() {
        for value in EDGES {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(
                bytes.len(),
                (64 - value.leading_zeros()).div_ceil(7).max(1) as usize
            );
            put_signed(&mut bytes, value as i64);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(value));
            assert_eq!(reader.signed(), Ok(value as i64));
            assert!(reader.is_empty() && reader.number().is_err());
        }
        assert_eq!(
            [0, -1, 1, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, u64::MAX - 1, u64::MAX]
        );
    }

    #[test]
    fn what_is_no_number_is_damage() {
        let most = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(Reader::new(&most).number(), Ok(u64::MAX));
        for wrong in [
            vec![],
            vec![0x80],
            vec![0xff; 9],
            [&[0xff; 9][..], &[2]].concat(),
            [&[0x80; 10][..], &[0]].concat(),
        ] {
            assert!(Reader::new(&wrong).number().is_err(), "{wrong:?}");
        }
        assert!(Reader::new(&[3, 1, 2]).bytes().is_err() && Reader::new(&[3]).size(2, "").is_err());
    }

    #[test]
    fn bits_are_read_as_they_were_put() {
        let widths: Vec<u32> = (0..400u32).map(|at| at * 31 % 49).collect();
        let value = |at: usize| (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bits = BitWriter::default();
        for (at, &width) in widths.iter().enumerate() {
            bits.put(value(at), width);
        }
        let bytes = bits.finish();
        assert_eq!(
            bytes.len(),
            (widths.iter().sum::<u32>() as usize).div_ceil(8)
        );
        let mut reader = BitReader::new(&bytes);
        for (at, &width) in widths.iter().enumerate() {
            assert_eq!(
                reader.take(width),
                Ok(value(at) & ((1 << width) - 1)),
                "{at}"
            );
        }
        assert_eq!(reader.take(0), Ok(0));
        assert!(reader.take(8).is_err());
    }
}
