//! What a block is about, to be read without its records: bounds, sums, and sums by time.

use super::file_set::FileSet;
use super::grid::Grid;
use super::table::{Number, Table, Text};
use super::wire::{put, put_bytes, put_signed, Damage, Reader};
use crate::record::{Op, OP_NAMES};

/// Of a text that is the least or the largest one so many bytes are kept; of a larger one the first.
pub const BOUND_BYTES: usize = 128;

/// What the records of an operation come to.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sums {
    pub records: i64,
    pub operations: i64,
    pub bytes: i64,
    pub busy_ns: i64,
    /// Operations that failed.
    pub errors: i64,
}

impl Sums {
    fn all(&mut self) -> [&mut i64; 5] {
        [
            &mut self.records,
            &mut self.operations,
            &mut self.bytes,
            &mut self.busy_ns,
            &mut self.errors,
        ]
    }
}

/// Bounds are inclusive; None where no record has such a thing.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Zone {
    pub start: i64,
    pub end: i64,
    pub nodes: Option<(Vec<u8>, Vec<u8>)>,
    pub files: Option<(Vec<u8>, Vec<u8>)>,
    pub ranks: Option<(i64, i64)>,
    /// The least offset of reads and writes, and the largest end of one.
    pub offsets: Option<(i64, i64)>,
    pub sums: [Sums; OP_NAMES.len()],
}

impl Zone {
    /// ops: the operation of each record.
    pub fn of(table: &Table, ops: &[u8]) -> Self {
        let number = |number: Number| table.number(number);
        let mut zone = Self {
            start: number(Number::Start).iter().copied().min().unwrap_or(0),
            end: number(Number::End).iter().copied().max().unwrap_or(0),
            nodes: text_bounds(table, Text::Node),
            files: text_bounds(table, Text::File),
            ..Self::default()
        };
        let [counts, bytes, busy, errnos] =
            [Number::Count, Number::Bytes, Number::BusyNs, Number::Errno].map(number);
        let [offsets, strides, sizes] = [Number::Offset, Number::Stride, Number::Size].map(number);
        let ranks = &table.numbers[Number::Rank as usize];
        for (row, &op) in ops.iter().enumerate() {
            let sums = &mut zone.sums[op as usize];
            sums.records += 1;
            sums.operations = sums.operations.saturating_add(counts[row]);
            sums.bytes = sums.bytes.saturating_add(bytes[row]);
            sums.busy_ns = sums.busy_ns.saturating_add(busy[row]);
            if errnos[row] != 0 {
                sums.errors = sums.errors.saturating_add(counts[row]);
            }
            if let Some(rank) = ranks.get(row) {
                widen(&mut zone.ranks, rank, rank);
            }
            if op == Op::Read as u8 || op == Op::Write as u8 {
                let last = strides[row]
                    .saturating_mul(counts[row].saturating_sub(1).max(0))
                    .saturating_add(offsets[row]);
                let (least, largest) = (last.min(offsets[row]), last.max(offsets[row]));
                widen(&mut zone.offsets, least, largest.saturating_add(sizes[row]));
            }
        }
        zone
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_signed(out, self.start);
        put(out, self.end.wrapping_sub(self.start) as u64);
        for texts in [&self.nodes, &self.files] {
            out.push(texts.is_some() as u8);
            if let Some((least, largest)) = texts {
                let same = least
                    .iter()
                    .zip(largest)
                    .take_while(|(a, b)| a == b)
                    .count();
                put_bytes(out, least);
                put(out, same as u64);
                put_bytes(out, &largest[same..]);
            }
        }
        for numbers in [self.ranks, self.offsets] {
            out.push(numbers.is_some() as u8);
            if let Some((least, largest)) = numbers {
                put_signed(out, least);
                put(out, largest.wrapping_sub(least) as u64);
            }
        }
        let has = self
            .sums
            .iter()
            .enumerate()
            .filter(|(_, sums)| sums.records > 0);
        put(out, has.clone().fold(0, |mask, (op, _)| mask | 1 << op));
        for (_, sums) in has {
            sums.clone()
                .all()
                .iter()
                .for_each(|sum| put_signed(out, **sum));
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Damage> {
        let start = from.signed()?;
        let mut zone = Self {
            start,
            end: start.wrapping_add(from.number()? as i64),
            ..Self::default()
        };
        for texts in [&mut zone.nodes, &mut zone.files] {
            if from.byte()? != 0 {
                let least = from.bytes()?.to_vec();
                let same = from.size(least.len(), "a bound has more in common than there is")?;
                let mut largest = least[..same].to_vec();
                largest.extend(from.bytes()?);
                if [&least, &largest].iter().any(|text| {
                    text.len() > BOUND_BYTES + char::MAX.len_utf8()
                        || std::str::from_utf8(text).is_err()
                }) {
                    return Err(Damage("a bound is no text that bounds can be"));
                }
                *texts = Some((least, largest));
            }
        }
        for numbers in [&mut zone.ranks, &mut zone.offsets] {
            if from.byte()? != 0 {
                let least = from.signed()?;
                *numbers = Some((least, least.wrapping_add(from.number()? as i64)));
            }
        }
        let has = from.number()?;
        if has >> OP_NAMES.len() != 0 {
            return Err(Damage("it has an operation that there is not"));
        }
        for (op, sums) in zone.sums.iter_mut().enumerate() {
            if has & (1 << op) != 0 {
                for sum in sums.all() {
                    *sum = from.signed()?;
                }
            }
        }
        Ok(zone)
    }
}

fn widen(bounds: &mut Option<(i64, i64)>, least: i64, largest: i64) {
    let (low, high) = bounds.get_or_insert((least, largest));
    (*low, *high) = ((*low).min(least), (*high).max(largest));
}

/// The least and the largest of a column's texts that a record has. Of a long one the beginning is kept, of the largest with the last of all characters behind it, so that
/// it is no less than what it stands for.
fn text_bounds(table: &Table, text: Text) -> Option<(Vec<u8>, Vec<u8>)> {
    let column = table.text(text);
    let mut is_used = vec![false; column.texts.len()];
    let mut last = -1;
    for &code in column.codes.iter() {
        if code != last && code >= 0 {
            is_used[code as usize] = true;
        }
        last = code;
    }
    let used = || {
        column
            .texts
            .iter()
            .zip(&is_used)
            .filter(|(_, used)| **used)
            .map(|(text, _)| text)
    };
    let (least, largest) = (used().min()?, used().max()?);
    let cut = |text: &[u8]| text_start(text, BOUND_BYTES).to_vec();
    let mut high = cut(largest);
    if high.len() < largest.len() {
        high.extend(char::MAX.to_string().bytes());
    }
    Some((cut(least), high))
}

/// The beginning of a text, of so many bytes at most; characters are kept whole.
pub fn text_start(text: &[u8], most: usize) -> &[u8] {
    let mut end = text.len().min(most);
    while end > 0 && end < text.len() && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

/// How exact records are kept. Times are those rounded down to multiples of `time` ns, offsets to multiples of `offset` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    pub time: u64,
    pub offset: u64,
    /// Handles are kept; else each is -1.
    pub handles: bool,
}

impl Default for Precision {
    fn default() -> Self {
        Self {
            time: 1,
            offset: 1,
            handles: true,
        }
    }
}

/// Where a block goes on from a primer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Which one: the checksum of its beginning.
    pub primer: u32,
    /// How many processes lie between the primer's end and the block's first one; negative where it begins within the primer.
    pub skipped: i64,
}

/// What stands before a block's records.
#[derive(Clone, Default, Debug)]
pub struct Head {
    pub rows: usize,
    /// Processes in it.
    pub lanes: usize,
    /// None where it stands for itself.
    pub behind: Option<Behind>,
    /// Of the times: ns since the epoch, and ns.
    pub origin: i64,
    pub unit: i64,
    pub precision: Precision,
    pub zone: Zone,
    pub grid: Grid,
    /// None where it is not told: of a primer, and of a block of version 1.
    pub files: Option<FileSet>,
}

impl Head {
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.rows as u64);
        put(&mut out, self.lanes as u64);
        if let Some(behind) = self.behind {
            out.extend(behind.primer.to_le_bytes());
            put_signed(&mut out, behind.skipped);
        }
        put_signed(&mut out, self.origin);
        put(&mut out, self.unit as u64);
        put(&mut out, self.precision.time);
        put(&mut out, self.precision.offset);
        out.push(self.precision.handles as u8);
        self.zone.write(&mut out);
        self.grid.write(&mut out);
        self.files.iter().for_each(|files| files.write(&mut out));
        out
    }

    /// is_primed: of a block that goes on from a primer. has_files: of one that tells which files it has.
    pub fn read(
        bytes: &[u8],
        rows_max: usize,
        is_primed: bool,
        has_files: bool,
    ) -> Result<Self, Damage> {
        let mut reader = Reader::new(bytes);
        let rows = reader.size(rows_max, "it has more records than a block may have")?;
        let lanes = reader.size(rows, "it has more processes than records")?;
        let behind = match is_primed {
            true => Some(Behind {
                primer: reader.fixed()?,
                skipped: reader.signed()?,
            }),
            false => None,
        };
        let origin = reader.signed()?;
        let step = |reader: &mut Reader| {
            let step = i64::try_from(reader.number()?).ok();
            step.filter(|&step| step > 0)
                .ok_or(Damage("its times or offsets are multiples of nothing"))
        };
        let unit = step(&mut reader)?;
        let precision = Precision {
            time: step(&mut reader)? as u64,
            offset: step(&mut reader)? as u64,
            handles: reader.byte()? != 0,
        };
        let zone = Zone::read(&mut reader)?;
        let grid = Grid::read(&mut reader, rows, lanes)?;
        let files = has_files
            .then(|| FileSet::read(&mut reader, rows))
            .transpose()?;
        if !reader.is_empty() {
            return Err(Damage("its head is longer than it says"));
        }
        Ok(Self {
            rows,
            lanes,
            behind,
            origin,
            unit,
            precision,
            zone,
            grid,
            files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_nothing_are_damage() {
        let read = |unit: i64, time: u64, offset: u64| {
            let precision = Precision {
                time,
                offset,
                handles: true,
            };
            let head = Head {
                unit,
                precision,
                ..Head::default()
            };
            Head::read(&head.write(), 0, false, false)
                .map(|read| (read.unit, read.precision) == (unit, precision))
        };
        let most = i64::MAX as u64;
        assert_eq!(read(1, 1, most), Ok(true));
        for (unit, time, offset) in [
            (0, 1, 1),
            (-1, 1, 1),
            (1, 0, 1),
            (1, 1, 0),
            (1, most + 1, 1),
        ] {
            assert!(read(unit, time, offset).is_err(), "{unit} {time} {offset}");
        }
    }
}
