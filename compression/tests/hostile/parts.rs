//! A block taken apart, and put together again with the right checksums.

use super::Random;

const STREAMS: usize = 37;
const UPPERS_AND_BEYOND: usize = 5;
/// file_id and boot stand behind the others.
const DRAWN: [usize; 2] = [6 + 11, 6 + 16];
pub const FIXED: usize = 36;
const PRIMED: u8 = 1;

#[derive(Clone)]
pub struct Parts {
    version: u8,
    flags: u8,
    /// Up to the sums, these, and which files there are.
    pub head: Vec<u8>,
    sums: Vec<u8>,
    files: Vec<u8>,
    pub streams: Vec<Vec<u8>>,
    times: Vec<Vec<u8>>,
    lowers: Vec<u8>,
}

fn take_number(from: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = from[0];
        *from = &from[1..];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn take_numbers(from: &mut &[u8], count: u32) {
    for _ in 0..count {
        take_number(from);
    }
}

fn take<'a>(from: &mut &'a [u8], size: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(size);
    *from = rest;
    taken
}

fn take_squeezed(from: &mut &[u8]) -> Vec<u8> {
    let (plain, packed) = (take_number(from) as usize, take_number(from) as usize);
    match packed {
        0 => take(from, plain).to_vec(),
        packed => zstd::bulk::decompress(take(from, packed), plain).unwrap(),
    }
}

pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn sizes(block: &[u8]) -> [usize; 3] {
    [8, 12, 16].map(|at| u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) as usize)
}

impl Parts {
    pub fn of(block: &[u8]) -> Parts {
        let [head, structure, times] = sizes(block);
        let mut rest = &block[FIXED..];
        let whole = take(&mut rest, head);
        let mut from = whole;
        // Records, processes; the primer, and processes passed over; origin, unit, the precision's two and a byte; start and end.
        take_numbers(&mut from, 2);
        if block[5] & PRIMED != 0 {
            take(&mut from, 4);
            take_numbers(&mut from, 1);
        }
        take_numbers(&mut from, 4);
        take(&mut from, 1);
        take_numbers(&mut from, 2);
        for _ in 0..2 {
            if take(&mut from, 1)[0] != 0 {
                let size = take_number(&mut from) as usize;
                take(&mut from, size);
                take_number(&mut from);
                let size = take_number(&mut from) as usize;
                take(&mut from, size);
            }
        }
        for _ in 0..2 {
            if take(&mut from, 1)[0] != 0 {
                take_number(&mut from);
                take_number(&mut from);
            }
        }
        let ops = take_number(&mut from).count_ones();
        take_numbers(&mut from, ops * 5 + 2);
        let head = whole[..whole.len() - from.len()].to_vec();
        let sums = take_squeezed(&mut from);
        let files = from.to_vec();

        let mut from = take(&mut rest, structure);
        let plain = take_squeezed(&mut from);
        let mut plain = plain.as_slice();
        let there = take_number(&mut plain);
        let mut size = |at| match there >> at & 1 {
            0 => 0,
            _ => take_number(&mut plain) as usize,
        };
        let sizes: Vec<_> = (0..STREAMS).map(&mut size).collect();
        let of = |at: usize| {
            if DRAWN.contains(&at) {
                take(&mut from, sizes[at])
            } else {
                take(&mut plain, sizes[at])
            }
        };
        let streams = (0..STREAMS).map(of).map(<[u8]>::to_vec).collect();
        let mut from = take(&mut rest, times);
        let times = (0..UPPERS_AND_BEYOND)
            .map(|_| take_squeezed(&mut from))
            .collect();
        Parts {
            version: block[4],
            flags: block[5],
            head,
            sums,
            files,
            streams,
            times,
            lowers: from.to_vec(),
        }
    }

    /// With all checksums right. lie: a number that stands where the size of a stream, or of what is squeezed, should.
    pub fn block(&self, random: &mut Random, lie: Option<u64>) -> Vec<u8> {
        let mut lies = lie.map(|lie| (random.below(STREAMS + 8), lie));
        let mut size = |size: usize| match &mut lies {
            Some((0, lie)) => {
                let lie = *lie;
                lies = None;
                lie
            }
            Some((left, _)) => {
                *left -= 1;
                size as u64
            }
            None => size as u64,
        };
        let is_packed = random.below(8) == 0;
        let squeeze = |out: &mut Vec<u8>, plain: &[u8], size: &mut dyn FnMut(usize) -> u64| {
            put_number(out, size(plain.len()));
            if is_packed {
                let packed = zstd::bulk::compress(plain, 1).unwrap();
                put_number(out, packed.len() as u64);
                out.extend(packed);
            } else {
                put_number(out, 0);
                out.extend(plain);
            }
        };
        let mut head = self.head.clone();
        squeeze(&mut head, &self.sums, &mut size);
        head.extend(&self.files);
        let (mut plain, mut drawn) = (Vec::new(), Vec::new());
        put_number(&mut plain, size((1 << STREAMS) - 1));
        self.streams
            .iter()
            .for_each(|stream| put_number(&mut plain, size(stream.len())));
        for (at, stream) in self.streams.iter().enumerate() {
            if DRAWN.contains(&at) {
                &mut drawn
            } else {
                &mut plain
            }
            .extend(stream);
        }
        let (mut structure, mut times) = (Vec::new(), Vec::new());
        squeeze(&mut structure, &plain, &mut size);
        structure.extend(drawn);
        self.times
            .iter()
            .for_each(|stream| squeeze(&mut times, stream, &mut size));
        times.extend(&self.lowers);
        let mut block = b"BRSP".to_vec();
        block.extend([self.version, self.flags, 0, 0]);
        [&head, &structure, &times]
            .iter()
            .for_each(|part| block.extend((part.len() as u32).to_le_bytes()));
        block.resize(FIXED, 0);
        [&head, &structure, &times]
            .iter()
            .for_each(|part| block.extend(*part));
        sign(&mut block);
        block
    }

    pub fn change(&mut self, random: &mut Random, other: &Parts) {
        let all = STREAMS + UPPERS_AND_BEYOND + 4;
        let at = random.below(all);
        let (stream, theirs) = match at {
            0 => (&mut self.head, &other.head),
            1 => (&mut self.sums, &other.sums),
            2 => (&mut self.lowers, &other.lowers),
            3 => (&mut self.files, &other.files),
            at if at < 4 + STREAMS => (&mut self.streams[at - 4], &other.streams[at - 4]),
            at => (
                &mut self.times[at - 4 - STREAMS],
                &other.times[at - 4 - STREAMS],
            ),
        };
        change(random, stream, theirs);
        if random.below(64) == 0 {
            self.flags = random.below(256) as u8;
        }
        if random.below(64) == 0 {
            self.version = random.below(4) as u8;
        }
    }

    /// As version 1 had it: without the files in its head.
    pub fn first_version(&self) -> Parts {
        let mut old = self.clone();
        old.version = 1;
        old.files.clear();
        old
    }
}

/// Makes the checksums right, as far as the sizes reach.
pub fn sign(block: &mut [u8]) {
    let mut from = FIXED;
    for (part, size) in sizes(block).into_iter().enumerate() {
        let end = from.saturating_add(size);
        let Some(bytes) = block.get(from..end) else {
            break;
        };
        let sum = crc32c::crc32c(bytes).to_le_bytes();
        block[20 + part * 4..][..4].copy_from_slice(&sum);
        from = end;
    }
    let sum = crc32c::crc32c(&block[..FIXED - 4]).to_le_bytes();
    block[FIXED - 4..FIXED].copy_from_slice(&sum);
}

/// Changes some bytes; `other`: like ones of another block.
pub fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len() + 1);
    let end = at + random.below((bytes.len() - at).min(40) + 1);
    match random.below(8) {
        0 | 1 if !bytes.is_empty() => {
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1 << random.below(8);
        }
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        5 => {
            let from = random.below(other.len() + 1);
            let until = from + random.below((other.len() - from).min(200) + 1);
            bytes.splice(at..end, other[from..until].iter().copied());
        }
        // A number in the place of what may be one.
        _ => {
            let mut number = Vec::new();
            put_number(&mut number, random.edge());
            let old = bytes[at..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
            let end = (at + old).min(bytes.len());
            bytes.splice(at..end, number);
        }
    }
}
