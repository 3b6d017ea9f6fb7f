//! A block's streams, squeezed: those of the structure together, those of the times each by itself, so that the one can be read without the other.

use super::side::{Field, Packing, Reading, FIELDS, TIMES};
use super::wire::{put, Damage, Reader};

/// What a block's structure may have when it is not squeezed, bytes.
pub const STRUCTURE_BYTES_MAX: usize = 32 << 20;
/// A number of 64 bits has at most.
const NUMBER_BYTES: usize = 10;
/// zstd's levels: small parts can afford to be looked at closely.
const LEVEL: i32 = 6;
const SMALL_LEVEL: i32 = 19;
const SMALL_BYTES: usize = 8 << 10;
/// Bytes that are nearly chance: only how often each comes is of use.
const TIMES_LEVEL: i32 = 1;

pub struct Streams {
    pub turns: Vec<u8>,
    pub sequences: Vec<u8>,
    pub templates: Vec<u8>,
    pub tokens: Vec<u8>,
    pub packing: Packing,
}

/// Streams of the structure: turns, sequences, templates, tokens, gaps, masks, and a field's values each.
const STRUCTURE: usize = VALUES + FIELDS;
const VALUES: usize = 6;
/// Those that are drawn by chance stay as they are: among the others they would only be in the way.
const DRAWN: [usize; 2] = [
    VALUES + Field::Boot as usize,
    VALUES + Field::FileId as usize,
];

impl Streams {
    /// (structure, times), squeezed; None where the structure is larger than a block's may be.
    pub fn squeeze(self) -> Option<(Vec<u8>, Vec<u8>)> {
        let packing = self.packing;
        let mut structure: Vec<Vec<u8>> = vec![
            self.turns,
            self.sequences,
            self.templates,
            self.tokens,
            packing.gaps,
            packing.masks,
        ];
        structure.extend(packing.values);
        let mut plain = Vec::new();
        // Most are empty in a block that goes on as the primer did.
        let there = |(at, stream): (usize, &Vec<u8>)| u64::from(!stream.is_empty()) << at;
        put(&mut plain, structure.iter().enumerate().map(there).sum());
        let sizes = structure.iter().map(|stream| stream.len() as u64);
        sizes
            .filter(|&size| size > 0)
            .for_each(|size| put(&mut plain, size));
        let mut drawn = Vec::new();
        for (at, stream) in structure.iter().enumerate() {
            if DRAWN.contains(&at) {
                &mut drawn
            } else {
                &mut plain
            }
            .extend_from_slice(stream);
        }
        if plain.len() > STRUCTURE_BYTES_MAX {
            return None;
        }
        let mut packed = Vec::new();
        squeeze(
            &mut packed,
            &plain,
            if plain.len() <= SMALL_BYTES {
                SMALL_LEVEL
            } else {
                LEVEL
            },
        );
        packed.extend(drawn);

        let mut times = Vec::new();
        packing
            .uppers
            .iter()
            .for_each(|upper| squeeze(&mut times, upper, TIMES_LEVEL));
        squeeze(&mut times, &packing.beyond, TIMES_LEVEL);
        times.extend(packing.lowers.finish());
        Some((packed, times))
    }
}

pub fn squeeze(out: &mut Vec<u8>, plain: &[u8], level: i32) {
    put(out, plain.len() as u64);
    let packed = zstd::bulk::compress(plain, level).unwrap_or_default();
    // What zstd does not make smaller, or cannot take for want of memory, stays as it is.
    if packed.is_empty() || packed.len() >= plain.len() {
        put(out, 0);
        out.extend_from_slice(plain);
    } else {
        put(out, packed.len() as u64);
        out.extend(packed);
    }
}

/// most: bytes that it may have when expanded; no more room is taken.
pub fn expand(from: &mut Reader, most: usize) -> Result<Vec<u8>, Damage> {
    let size = from.size(most, "a part is larger than it may be")?;
    let packed = from.number()?;
    if packed == 0 {
        return Ok(from.take(size)?.to_vec());
    }
    let packed = from.take(usize::try_from(packed).unwrap_or(usize::MAX))?;
    let plain =
        zstd::bulk::decompress(packed, size).map_err(|_| Damage("a part cannot be expanded"))?;
    if plain.len() != size {
        return Err(Damage("a part has another size than it says"));
    }
    Ok(plain)
}

/// The parts of a block, expanded.
pub struct Parts<'a> {
    structure: Vec<u8>,
    drawn: &'a [u8],
    uppers: [Vec<u8>; TIMES],
    beyond: Vec<u8>,
    lowers: &'a [u8],
}

/// Streams that are read.
pub struct Told<'a> {
    pub turns: &'a [u8],
    pub sequences: &'a [u8],
    pub templates: &'a [u8],
    pub tokens: &'a [u8],
    pub reading: Reading<'a>,
}

impl<'a> Parts<'a> {
    /// Of a block with so many rows.
    pub fn expand(structure: &'a [u8], times: &'a [u8], rows: usize) -> Result<Self, Damage> {
        let mut reader = Reader::new(structure);
        let structure = expand(&mut reader, STRUCTURE_BYTES_MAX)?;
        let drawn = reader.rest();
        let mut times = Reader::new(times);
        let mut uppers: [Vec<u8>; TIMES] = Default::default();
        for upper in &mut uppers {
            *upper = expand(&mut times, rows)?;
        }
        let beyond = expand(&mut times, rows * TIMES * NUMBER_BYTES)?;
        let lowers = times.rest();
        Ok(Self {
            structure,
            drawn,
            uppers,
            beyond,
            lowers,
        })
    }

    pub fn told(&self) -> Result<Told<'_>, Damage> {
        let mut reader = Reader::new(&self.structure);
        let there = reader.number()?;
        if there >> STRUCTURE != 0 {
            return Err(Damage("it has a stream that there is not"));
        }
        let mut sizes = [0; STRUCTURE];
        for (_, size) in sizes
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| there >> at & 1 == 1)
        {
            *size = reader.size(STRUCTURE_BYTES_MAX, "a stream is larger than what holds it")?;
        }
        let mut drawn = Reader::new(self.drawn);
        let mut streams = [&[][..]; STRUCTURE];
        for (at, stream) in streams.iter_mut().enumerate() {
            *stream = if DRAWN.contains(&at) {
                &mut drawn
            } else {
                &mut reader
            }
            .take(sizes[at])?;
        }
        let [turns, sequences, templates, tokens, gaps, masks, values @ ..] = streams;
        let uppers = self.uppers.each_ref().map(Vec::as_slice);
        let reading = Reading::new(gaps, masks, values, uppers, self.lowers, &self.beyond)?;
        Ok(Told {
            turns,
            sequences,
            templates,
            tokens,
            reading,
        })
    }
}
