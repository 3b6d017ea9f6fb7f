//! The two ways through a block: what packs it and what reads it do the same, step by step, and differ in where values come from.

use super::wire::{put, put_signed, BitReader, BitWriter, Damage, Reader};

/// What a row is told by beside its shape. A value that is as foretold takes no room.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    // The first seven: a mask of them is one byte.
    Offset,
    Count,
    Size,
    Bytes,
    Stride,
    Code,
    /// Of a single operation, beyond its duration.
    Busy,
    Slow,
    Handle,
    Slot,
    FileKind,
    FileId,
    Latency,
    Uid,
    Parent,
    Rank,
    Boot,
    // Names: the template, and the numbers in it.
    File,
    FileNumbers,
    Job,
    JobNumbers,
    Program,
    ProgramNumbers,
    Node,
    NodeNumbers,
    Process,
    ProcessNumbers,
    Layer,
    LayerNumbers,
    Source,
    SourceNumbers,
}
pub const FIELDS: usize = 31;

/// Times that are told with what they miss the guess by.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Time {
    Start,
    Took,
    Busy,
    Slow,
}
pub const TIMES: usize = 4;

/// A miss is told by a byte, its upper part, and so many bits as its usual size asks for. Beyond the byte's range it is told in full.
const BEYOND: u8 = 255;
const MIDDLE: i64 = 127;
/// More lower bits are never told.
pub const LOWER_BITS_MAX: i32 = 48;

pub trait Side {
    /// Before a row's values.
    fn begin(&mut self) -> Result<(), Damage>;
    /// A value: of what is packed it is given, of what is read it is found.
    fn value(&mut self, field: Field, foretold: i64, value: &mut i64) -> Result<(), Damage>;
    /// The same of one that may be foretold in another way, which costs less than to tell it.
    fn either(
        &mut self,
        field: Field,
        foretold: i64,
        other: i64,
        value: &mut i64,
    ) -> Result<(), Damage>;
    /// The same of one that is drawn by chance where it is not as foretold, or where nothing is.
    fn drawn(&mut self, field: Field, foretold: Option<i64>, value: &mut i64)
        -> Result<(), Damage>;
    /// Which of some numbers (a bit each) are not as foretold, and each of these.
    fn numbers(&mut self, field: Field, foretold: &[i64], values: &mut [i64])
        -> Result<(), Damage>;
    /// A time, which misses its guess by some 2^lower.
    fn time(&mut self, time: Time, guess: i64, lower: u32, value: &mut i64) -> Result<(), Damage>;
    /// After a row's values.
    fn end(&mut self);
}

/// Rows that differ from what was foretold: how many do not in between, which fields, and by how much.
#[derive(Default)]
pub struct Packing {
    pub gaps: Vec<u8>,
    pub masks: Vec<u8>,
    pub values: [Vec<u8>; FIELDS],
    pub uppers: [Vec<u8>; TIMES],
    pub lowers: BitWriter,
    pub beyond: Vec<u8>,
    gap: u64,
    mask: u32,
}

impl Packing {
    fn miss(&mut self, field: Field) -> &mut Vec<u8> {
        self.mask |= 1 << field as u32;
        &mut self.values[field as usize]
    }
}

impl Side for Packing {
    #[inline]
    fn begin(&mut self) -> Result<(), Damage> {
        self.mask = 0;
        Ok(())
    }

    #[inline]
    fn value(&mut self, field: Field, foretold: i64, value: &mut i64) -> Result<(), Damage> {
        if *value != foretold {
            let by = value.wrapping_sub(foretold);
            put_odd(self.miss(field), by);
        }
        Ok(())
    }

    #[inline]
    fn either(
        &mut self,
        field: Field,
        foretold: i64,
        other: i64,
        value: &mut i64,
    ) -> Result<(), Damage> {
        if *value != foretold {
            let by = if *value == other {
                0
            } else {
                value.wrapping_sub(foretold)
            };
            put_odd(self.miss(field), by);
        }
        Ok(())
    }

    fn drawn(
        &mut self,
        field: Field,
        foretold: Option<i64>,
        value: &mut i64,
    ) -> Result<(), Damage> {
        match foretold {
            None => self.values[field as usize].extend(value.to_le_bytes()),
            Some(foretold) if *value == foretold => {}
            Some(_) => self.miss(field).extend(value.to_le_bytes()),
        }
        Ok(())
    }

    fn numbers(
        &mut self,
        field: Field,
        foretold: &[i64],
        values: &mut [i64],
    ) -> Result<(), Damage> {
        let mut differ = 0u64;
        for (at, (value, foretold)) in values.iter().zip(foretold).enumerate() {
            differ |= u64::from(value != foretold) << at;
        }
        if differ != 0 {
            let out = self.miss(field);
            put(out, differ);
            for (value, foretold) in values.iter().zip(foretold) {
                if value != foretold {
                    put_signed(out, value.wrapping_sub(*foretold));
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn time(&mut self, time: Time, guess: i64, lower: u32, value: &mut i64) -> Result<(), Damage> {
        let by = value.wrapping_sub(guess);
        let upper = by >> lower;
        if (-MIDDLE..=MIDDLE).contains(&upper) {
            self.uppers[time as usize].push((upper + MIDDLE) as u8);
            self.lowers.put(by as u64, lower);
        } else {
            self.uppers[time as usize].push(BEYOND);
            put_signed(&mut self.beyond, by);
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self) {
        if self.mask == 0 {
            self.gap += 1;
            return;
        }
        put(&mut self.gaps, self.gap);
        put(&mut self.masks, self.mask as u64);
        self.gap = 0;
    }
}

/// What follows no rule often is a multiple of something: the zeros at its end are told by their number, the odd rest without its last bit.
fn put_odd(out: &mut Vec<u8>, by: i64) {
    if by == 0 {
        return out.push(0);
    }
    let zeros = by.trailing_zeros();
    out.push(zeros as u8 + 1);
    put_signed(out, (by >> zeros) >> 1);
}

fn odd(from: &mut Reader) -> Result<i64, Damage> {
    match from.byte()? {
        0 => Ok(0),
        zeros @ 1..=64 => Ok((from.signed()? << 1 | 1) << (zeros - 1)),
        _ => Err(Damage("a value ends with more zeros than it has bits")),
    }
}

/// See `Packing`.
pub struct Reading<'a> {
    gaps: Reader<'a>,
    masks: Reader<'a>,
    values: [Reader<'a>; FIELDS],
    uppers: [Reader<'a>; TIMES],
    lowers: BitReader<'a>,
    beyond: Reader<'a>,
    gap: u64,
    mask: u32,
}

/// No row differs any more.
const NONE: u64 = u64::MAX;

impl<'a> Reading<'a> {
    pub fn new(
        gaps: &'a [u8],
        masks: &'a [u8],
        values: [&'a [u8]; FIELDS],
        uppers: [&'a [u8]; TIMES],
        lowers: &'a [u8],
        beyond: &'a [u8],
    ) -> Result<Self, Damage> {
        let mut reading = Self {
            gaps: Reader::new(gaps),
            masks: Reader::new(masks),
            values: values.map(Reader::new),
            uppers: uppers.map(Reader::new),
            lowers: BitReader::new(lowers),
            beyond: Reader::new(beyond),
            gap: 0,
            mask: 0,
        };
        reading.next_gap()?;
        Ok(reading)
    }

    fn next_gap(&mut self) -> Result<(), Damage> {
        self.gap = if self.gaps.is_empty() {
            NONE
        } else {
            self.gaps.number()?
        };
        Ok(())
    }

    #[inline(always)]
    fn differs(&self, field: Field) -> bool {
        self.mask & (1 << field as u32) != 0
    }

    /// By how much a value differs. Most do not.
    #[cold]
    fn miss(&mut self, field: Field) -> Result<i64, Damage> {
        odd(&mut self.values[field as usize])
    }

    #[cold]
    fn next_mask(&mut self) -> Result<(), Damage> {
        self.mask = self.masks.number()? as u32;
        self.next_gap()
    }
}

impl Side for Reading<'_> {
    #[inline(always)]
    fn begin(&mut self) -> Result<(), Damage> {
        self.mask = 0;
        if self.gap == 0 {
            self.next_mask()?;
        } else if self.gap != NONE {
            self.gap -= 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn value(&mut self, field: Field, foretold: i64, value: &mut i64) -> Result<(), Damage> {
        *value = foretold;
        if self.differs(field) {
            *value = foretold.wrapping_add(self.miss(field)?);
        }
        Ok(())
    }

    #[inline(always)]
    fn either(
        &mut self,
        field: Field,
        foretold: i64,
        other: i64,
        value: &mut i64,
    ) -> Result<(), Damage> {
        *value = foretold;
        if self.differs(field) {
            let by = self.miss(field)?;
            *value = if by == 0 {
                other
            } else {
                foretold.wrapping_add(by)
            };
        }
        Ok(())
    }

    fn drawn(
        &mut self,
        field: Field,
        foretold: Option<i64>,
        value: &mut i64,
    ) -> Result<(), Damage> {
        *value = match foretold {
            Some(foretold) if !self.differs(field) => foretold,
            _ => {
                let bytes = self.values[field as usize].take(8)?;
                bytes
                    .iter()
                    .rev()
                    .fold(0, |value, &byte| value << 8 | i64::from(byte))
            }
        };
        Ok(())
    }

    fn numbers(
        &mut self,
        field: Field,
        foretold: &[i64],
        values: &mut [i64],
    ) -> Result<(), Damage> {
        values.copy_from_slice(foretold);
        if self.differs(field) {
            let from = &mut self.values[field as usize];
            let differ = from.number()?;
            for (at, value) in values.iter_mut().enumerate() {
                if differ & (1 << at) != 0 {
                    *value = value.wrapping_add(from.signed()?);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn time(&mut self, time: Time, guess: i64, lower: u32, value: &mut i64) -> Result<(), Damage> {
        let upper = self.uppers[time as usize].byte()?;
        let by = if upper == BEYOND {
            self.beyond.signed()?
        } else {
            (i64::from(upper) - MIDDLE) << lower | self.lowers.take(lower)? as i64
        };
        *value = guess.wrapping_add(by);
        Ok(())
    }

    #[inline(always)]
    fn end(&mut self) {}
}
