//! Tally by process and time, for a picture of a job that needs none of its records.
//!
//! Time is divided into bins, the same in all blocks of an archive; processes on end into groups, so many that the cells stay few beside the records. A group is of one node,
//! or of whole nodes, so that a picture can tell them apart. A run's bytes and operations, those that succeeded, are spread evenly over its time, to whole numbers whose sum is the run's.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::head::text_start;
use super::lanes::Lanes;
use super::streams::{expand, squeeze};
use super::table::{Number, Table};
use super::wire::{put, put_bytes, put_signed, Damage, Reader};
use crate::record::Op;

/// Bins of an archive, groups of a block's processes, and what is summed in each cell.
pub const BINS: usize = 256;
pub const GROUPS_MAX: usize = 256;
pub const MEASURES: usize = 4;
/// A block has so many records for each cell, or CELLS_MIN cells.
const RECORDS_A_CELL: usize = 8;
const CELLS_MIN: usize = 64;
const LEVEL: i32 = 12;
/// What it may have when it is not squeezed, bytes.
const PLAIN_BYTES_MAX: usize = 512 << 10;
/// Of a node's name.
const NODE_BYTES_MAX: usize = 256;

/// Read bytes, written bytes, reads and writes, metadata operations.
pub type Cell = [i64; MEASURES];

/// The bins of an archive: the first one begins at `from`, ns since the epoch; what was before it lies in it, what was later in the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    pub from: i64,
    /// ns.
    pub width: i64,
}

impl Default for Bins {
    fn default() -> Self {
        Self { from: 0, width: 1 }
    }
}

impl Bins {
    const SECOND: i64 = 1_000_000_000;

    /// For an interval: as many seconds a bin as are needed, a power of two.
    pub fn over(from: i64, until: i64) -> Self {
        let from = from.div_euclid(Self::SECOND).saturating_mul(Self::SECOND);
        let seconds = until.saturating_sub(from).max(0) / Self::SECOND + 1;
        let each = (seconds as u64).div_ceil(BINS as u64).next_power_of_two();
        Self {
            from,
            width: (each as i64).saturating_mul(Self::SECOND),
        }
    }

    fn of(&self, time: i64) -> usize {
        if time < self.from {
            return 0;
        }
        let passed = time.wrapping_sub(self.from) as u64;
        (passed / self.width as u64).min(BINS as u64 - 1) as usize
    }
}

/// Processes on end.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Group {
    pub processes: usize,
    /// The first one's node and the last one's, and how many these and those between are.
    pub node: Vec<u8>,
    pub last: Vec<u8>,
    pub nodes: usize,
    pub ranks: Option<Ranks>,
    /// By bin, those that are not 0.
    pub cells: Vec<(usize, Cell)>,
}

/// The least and the largest rank, and how many between them there are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    pub low: i64,
    pub high: i64,
    pub missing: u64,
}

#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Grid {
    pub bins: Bins,
    pub groups: Vec<Group>,
}

impl Grid {
    /// ops: the operation of each record.
    pub fn of(table: &Table, ops: &[u8], processes: &Lanes, bins: Bins) -> Self {
        let cells_max = cells_max(table.rows);
        let mut groups: Vec<Tally> = parts(processes)
            .into_iter()
            .map(|lanes| Tally::of(table, ops, processes, bins, lanes))
            .collect();
        loop {
            let cells: usize = groups.iter().map(|group| group.cells.len()).sum();
            if cells <= cells_max || groups.len() <= 1 {
                break;
            }
            let together = cells.div_ceil(cells_max).max(2);
            let nodes: Vec<&[Tally]> = groups
                .chunk_by(|one, next| one.node(processes) == next.node(processes))
                .collect();
            // Nodes are put together whole.
            groups = if nodes.len() < groups.len() {
                let of_nodes = nodes.iter().flat_map(|of_one| of_one.chunks(together));
                of_nodes.map(Tally::merged).collect()
            } else {
                groups.chunks(together).map(Tally::merged).collect()
            };
        }
        let groups = groups
            .into_iter()
            .map(|group| group.told(table, processes))
            .collect();
        Self { bins, groups }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        put_signed(out, self.bins.from);
        put(out, self.bins.width as u64);
        // Column by column: what is alike stands together.
        let mut plain = Vec::new();
        put(&mut plain, self.groups.len() as u64);
        self.groups
            .iter()
            .for_each(|group| put(&mut plain, group.processes as u64));
        self.groups
            .iter()
            .for_each(|group| put_bytes(&mut plain, &group.node));
        self.groups
            .iter()
            .for_each(|group| put(&mut plain, group.nodes as u64 - 1));
        self.groups
            .iter()
            .filter(|group| group.nodes > 1)
            .for_each(|group| put_bytes(&mut plain, &group.last));
        let mut next = 0;
        for group in &self.groups {
            plain.push(group.ranks.is_some() as u8);
            if let Some(Ranks { low, high, missing }) = group.ranks {
                put_signed(&mut plain, low.wrapping_sub(next));
                put(&mut plain, high.wrapping_sub(low) as u64);
                put(&mut plain, missing);
                next = high.wrapping_add(1);
            }
        }
        self.groups
            .iter()
            .for_each(|group| put(&mut plain, group.cells.len() as u64));
        for group in &self.groups {
            let mut next = 0;
            for &(bin, _) in &group.cells {
                put(&mut plain, (bin - next) as u64);
                next = bin + 1;
            }
        }
        for measure in 0..MEASURES {
            let cells = self.groups.iter().flat_map(|group| &group.cells);
            cells.for_each(|(_, cell)| put_signed(&mut plain, cell[measure]));
        }
        squeeze(out, &plain, LEVEL);
    }

    /// Of a block with so many rows and processes.
    pub fn read(from: &mut Reader, rows: usize, processes: usize) -> Result<Self, Damage> {
        let begin = from.signed()?;
        let width = i64::try_from(from.number()?)
            .ok()
            .filter(|&width| width > 0);
        let bins = Bins {
            from: begin,
            width: width.ok_or(Damage("its bins of time are none"))?,
        };
        let plain = expand(from, PLAIN_BYTES_MAX)?;
        let mut reader = Reader::new(&plain);
        let count = reader.size(GROUPS_MAX, "it has too many groups of processes")?;
        let mut groups = vec![Group::default(); count];
        let mut left = processes;
        for group in &mut groups {
            group.processes = reader.size(left, "its groups have more processes than there are")?;
            left -= group.processes;
            if group.processes == 0 {
                return Err(Damage("a group has no processes"));
            }
        }
        // Of a primer there are none at all.
        if left > 0 && count > 0 {
            return Err(Damage("its groups have fewer processes than there are"));
        }
        for group in &mut groups {
            group.node = node(&mut reader)?;
        }
        for group in &mut groups {
            let further =
                reader.size(group.processes - 1, "a group has more nodes than processes")?;
            group.nodes = further + 1;
        }
        for group in &mut groups {
            group.last = match group.nodes {
                1 => group.node.clone(),
                _ => node(&mut reader)?,
            };
        }
        let mut next = 0i64;
        for group in &mut groups {
            if reader.byte()? != 0 {
                let low = next.wrapping_add(reader.signed()?);
                let further = reader.number()?;
                let high = low.wrapping_add(further as i64);
                if low > high || [low, high].iter().any(|&rank| i32::try_from(rank).is_err()) {
                    return Err(Damage("a group has ranks that there are not"));
                }
                let missing = reader.number()?;
                if missing > further.saturating_sub(1) {
                    return Err(Damage("a group lacks more ranks than lie between two"));
                }
                group.ranks = Some(Ranks { low, high, missing });
                next = high + 1;
            }
        }
        // One group may have a cell for each bin, however few the records are.
        let mut left = cells_max(rows).max(BINS);
        for group in &mut groups {
            let cells = reader.size(left.min(BINS), "it has more cells than it may have")?;
            left -= cells;
            group.cells = vec![(0, [0; MEASURES]); cells];
        }
        for group in &mut groups {
            let mut next = 0;
            for (bin, _) in &mut group.cells {
                *bin = next + reader.size(BINS, "a cell lies in no bin")?;
                if *bin >= BINS {
                    return Err(Damage("a cell lies in no bin"));
                }
                next = *bin + 1;
            }
        }
        for measure in 0..MEASURES {
            for group in &mut groups {
                for (_, cell) in &mut group.cells {
                    cell[measure] = reader.signed()?;
                }
            }
        }
        if !reader.is_empty() {
            return Err(Damage("its sums are longer than they say"));
        }
        Ok(Self { bins, groups })
    }
}

fn node(from: &mut Reader) -> Result<Vec<u8>, Damage> {
    let node = from.bytes()?;
    if node.len() > NODE_BYTES_MAX || std::str::from_utf8(node).is_err() {
        return Err(Damage("a group's node is no text that it can be"));
    }
    Ok(node.to_vec())
}

/// Of a block with so many rows and more than one group.
fn cells_max(rows: usize) -> usize {
    (rows / RECORDS_A_CELL).max(CELLS_MIN)
}

/// Processes that follow each other, in groups of at most so many that these are GROUPS_MAX: each of one node, or of whole nodes.
fn parts(processes: &Lanes) -> Vec<Range<usize>> {
    let each = processes.count().div_ceil(GROUPS_MAX).max(1);
    let mut nodes: Vec<Range<usize>> = Vec::new();
    for (lane, (_, node)) in processes.first.iter().enumerate() {
        match nodes.last_mut() {
            Some(last) if processes.first[last.start].1 == *node => last.end = lane + 1,
            _ => nodes.push(lane..lane + 1),
        }
    }
    let fine = nodes.iter().map(|lanes| lanes.len().div_ceil(each));
    if fine.sum::<usize>() <= GROUPS_MAX {
        let cut = |lanes: &Range<usize>| {
            let end = lanes.end;
            let begins = lanes.clone().step_by(each);
            begins.map(move |begin| begin..(begin + each).min(end))
        };
        return nodes.iter().flat_map(cut).collect();
    }
    let together = nodes.len().div_ceil(GROUPS_MAX);
    let whole = nodes.chunks(together);
    whole
        .map(|nodes| nodes[0].start..nodes[nodes.len() - 1].end)
        .collect()
}

/// A group whose sums may still grow: those of hostile records pass 64 bits.
#[derive(Clone)]
struct Tally {
    lanes: Range<usize>,
    ranks: HashSet<i64>,
    /// By bin, those that are not 0.
    cells: Vec<(usize, [i128; MEASURES])>,
}

impl Tally {
    fn of(table: &Table, ops: &[u8], processes: &Lanes, bins: Bins, lanes: Range<usize>) -> Self {
        let mut ranks = HashSet::new();
        let mut bands = [Band::default(); BINS];
        for process in lanes.clone() {
            let mut last = None;
            for &row in processes.rows(process) {
                let row = row as usize;
                add(table, row, ops[row], bins, &mut bands);
                let rank = table.numbers[Number::Rank as usize].get(row);
                if rank != last {
                    ranks.extend(rank);
                    last = rank;
                }
            }
        }
        let mut through = [0; MEASURES];
        let mut cells = Vec::new();
        for (bin, band) in bands.iter().enumerate() {
            plus(&mut through, &band.from_here);
            let mut cell = through;
            plus(&mut cell, &band.here);
            if cell != [0; MEASURES] {
                cells.push((bin, cell));
            }
        }
        Self {
            lanes,
            ranks,
            cells,
        }
    }

    /// The number of the first process's node.
    fn node(&self, processes: &Lanes) -> usize {
        processes.first[self.lanes.start].1
    }

    /// Groups that follow each other as one.
    fn merged(groups: &[Self]) -> Self {
        let mut all = groups[0].clone();
        let mut cells = BTreeMap::new();
        for group in groups {
            for (bin, cell) in &group.cells {
                plus(cells.entry(*bin).or_insert([0; MEASURES]), cell);
            }
            all.ranks.extend(&group.ranks);
            all.lanes.end = group.lanes.end;
        }
        all.cells = cells.into_iter().collect();
        all
    }

    fn told(self, table: &Table, processes: &Lanes) -> Group {
        let within = |sum: i128| sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let cells = self
            .cells
            .iter()
            .map(|(bin, cell)| (*bin, cell.map(within)));
        let name = |lane| text_start(processes.node(table, lane), NODE_BYTES_MAX).to_vec();
        let nodes: HashSet<&[u8]> = self
            .lanes
            .clone()
            .map(|lane| processes.node(table, lane))
            .collect();
        let bounds = self.ranks.iter().min().zip(self.ranks.iter().max());
        let ranks = bounds.map(|(&low, &high)| Ranks {
            low,
            high,
            missing: high.wrapping_sub(low) as u64 - (self.ranks.len() as u64 - 1),
        });
        let node = name(self.lanes.start);
        let last = if nodes.len() > 1 {
            name(self.lanes.end - 1)
        } else {
            node.clone()
        };
        Group {
            processes: self.lanes.len(),
            node,
            last,
            nodes: nodes.len(),
            ranks,
            cells: cells.collect(),
        }
    }
}

/// What is added in one bin, and from it on.
#[derive(Clone, Copy, Default)]
struct Band {
    here: [i128; MEASURES],
    from_here: [i128; MEASURES],
}

fn plus(sums: &mut [i128; MEASURES], more: &[i128; MEASURES]) {
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| *sum += more);
}

/// Adds a row to the bins that it lies in: all between the first and the last one have the same, so that it costs nothing how many there are.
#[inline]
fn add(table: &Table, row: usize, op: u8, bins: Bins, bands: &mut [Band; BINS]) {
    let number = |number: Number| table.number(number)[row];
    if number(Number::Errno) != 0 {
        return;
    }
    let (count, bytes) = (number(Number::Count), number(Number::Bytes));
    let amounts = match op {
        op if op == Op::Read as u8 => [bytes, 0, count, 0],
        op if op == Op::Write as u8 => [0, bytes, count, 0],
        op if op == Op::Start as u8 || op == Op::Mmap as u8 || op == Op::Unseen as u8 => return,
        _ => [0, 0, 0, count],
    };
    let (start, end) = (number(Number::Start), number(Number::End));
    let (first, last) = (bins.of(start), bins.of(end.saturating_sub(1).max(start)));
    for (measure, &amount) in amounts
        .iter()
        .enumerate()
        .filter(|(_, amount)| **amount != 0)
    {
        let amount = i128::from(amount);
        let mut rest = amount;
        if last > first {
            let took = i128::from(end) - i128::from(start);
            let width = i128::from(bins.width);
            let passed = i128::from(bins.from) + (first as i128 + 1) * width - i128::from(start);
            let (begun, each) = (amount * passed / took, amount * width / took);
            bands[first].here[measure] += begun;
            bands[first + 1].from_here[measure] += each;
            bands[last].from_here[measure] -= each;
            rest -= begun + each * (last - first - 1) as i128;
        }
        bands[last].here[measure] += rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(grid: &Grid, rows: usize, processes: usize) -> Result<Grid, Damage> {
        let mut out = Vec::new();
        grid.write(&mut out);
        Grid::read(&mut Reader::new(&out), rows, processes)
    }

    fn ranks(low: i64, high: i64, missing: u64) -> Ranks {
        Ranks { low, high, missing }
    }

    fn grid() -> Grid {
        let group = |ranks, cells: std::ops::Range<usize>| Group {
            processes: 2,
            node: b"cn1".to_vec(),
            last: b"cn2".to_vec(),
            nodes: 2,
            ranks,
            cells: cells.map(|bin| (bin, [1, i64::MIN, i64::MAX, 0])).collect(),
        };
        Grid {
            bins: Bins::default(),
            groups: vec![
                group(Some(ranks(0, 4, 3)), 0..200),
                group(None, 100..156),
                group(Some(ranks(i32::MIN.into(), i32::MAX.into(), 0)), 0..0),
            ],
        }
    }

    #[test]
    fn sums_are_read_as_they_were_put() {
        let mut grid = grid();
        grid.groups[1].node = "\u{e9}".repeat(NODE_BYTES_MAX / 2).into();
        grid.groups[1].last = grid.groups[1].node.clone();
        grid.groups[0].nodes = 1;
        grid.groups[0].last = grid.groups[0].node.clone();
        assert_eq!(read(&grid, 8, 6).unwrap(), grid);
        // The most that there may be.
        let (mut all, one) = (Grid::default(), grid.groups.remove(1));
        all.groups = vec![one; GROUPS_MAX];
        let of_each = cells_max(1 << 16) / GROUPS_MAX;
        for group in &mut all.groups {
            group.ranks = Some(ranks(i32::MIN.into(), i32::MAX.into(), (1 << 32) - 2));
            group.cells = (BINS - of_each..BINS)
                .map(|bin| (bin, [i64::MIN; MEASURES]))
                .collect();
        }
        assert_eq!(read(&all, 1 << 16, 2 * GROUPS_MAX).unwrap(), all);
    }

    #[test]
    fn sums_that_there_cannot_be_are_damage() {
        let damaged = |change: &dyn Fn(&mut Grid)| {
            let mut wrong = grid();
            change(&mut wrong);
            assert!(read(&wrong, 8, 6).is_err(), "{wrong:?}");
        };
        damaged(&|grid| grid.bins.width = 0);
        damaged(&|grid| grid.bins.width = i64::MIN);
        damaged(&|grid| grid.groups[1].processes = 0);
        damaged(&|grid| grid.groups[1].processes = 1);
        damaged(&|grid| grid.groups[1].processes = 3);
        damaged(&|grid| grid.groups[1].node = vec![b'a'; NODE_BYTES_MAX + 1]);
        damaged(&|grid| grid.groups[1].node = vec![0xff]);
        damaged(&|grid| grid.groups[1].nodes = 3);
        damaged(&|grid| grid.groups[1].last = vec![b'a'; NODE_BYTES_MAX + 1]);
        damaged(&|grid| grid.groups[1].last = vec![0xff]);
        for (low, high) in [(1, 0), (0, 1 << 31), (-1 << 40, 0), (0, i64::MIN)] {
            damaged(&|grid| grid.groups[2].ranks = Some(ranks(low, high, 0)));
        }
        damaged(&|grid| grid.groups[2].ranks = Some(ranks(0, 4, 4)));
        damaged(&|grid| grid.groups[2].ranks = Some(ranks(0, 0, 1)));
        // One more than so few records may have; a bin that there is not.
        damaged(&|grid| grid.groups[1].cells.push((200, [1; MEASURES])));
        damaged(&|grid| grid.groups[1].cells[55].0 = BINS);
    }
}
