//! Blocks: some records of a job, packed, with what they are about.

use super::file_set::FileSet;
pub use super::fit::Refused;
use super::fit::{check, operations};
pub use super::frame::{find, Frame};
use super::grid::{Bins, Grid};
use super::head::{Behind, Head, Precision, Zone};
use super::lanes::Lanes;
use super::model::Model;
use super::pack::pack;
use super::streams::Parts;
use super::table::{Number, Table, Wanted, TEXT_BYTES_MAX, TEXT_BYTES_TOLD_MAX};
use super::unpack::unpack;
use super::wire::Damage;

/// Records of a block.
pub const ROWS_MAX: usize = 1 << 16;
/// Of a primer.
pub const PRIMER_ROWS_MAX: usize = 1 << 12;

/// What the later blocks of an archive go on from: what its first records teach.
#[derive(Clone)]
pub struct Primer {
    /// Of its beginning: what goes on from it names it so.
    checksum: u32,
    model: Model,
    lanes: usize,
    /// Of the times: ns since the epoch, and ns.
    origin: i64,
    unit: i64,
}

impl Primer {
    /// Reads the block that has them.
    pub fn read(block: &[u8]) -> Result<Self, Damage> {
        let frame = Frame::read(block)?;
        let head = frame.head(block)?;
        if !frame.is_primer || frame.is_primed {
            return Err(Damage("it is no primer"));
        }
        if head.rows > PRIMER_ROWS_MAX {
            return Err(Damage("it has more records than a primer may have"));
        }
        let mut model = Model::default();
        read(block, &frame, &head, &mut model, &Wanted::ALL)?;
        Ok(Self {
            checksum: frame.checksum,
            model,
            lanes: head.lanes,
            origin: head.origin,
            unit: head.unit,
        })
    }
}

/// How a block is made.
pub struct Plan<'a> {
    pub bins: Bins,
    /// How exact the records are, to be told: they are packed as they are given.
    pub precision: Precision,
    pub primer: Option<&'a Primer>,
    /// How many processes of the archive come before this block's first one.
    pub lanes_before: usize,
    /// It is a primer itself, whose records stand in the first blocks once more.
    pub is_primer: bool,
}

/// Packs at most ROWS_MAX records.
pub fn encode(table: &Table, plan: &Plan) -> Result<Vec<u8>, Refused> {
    let rows_max = if plan.is_primer {
        PRIMER_ROWS_MAX
    } else {
        ROWS_MAX
    };
    if table.rows > rows_max {
        return Err(Refused::TooMuch(format!(
            "a block has at most {rows_max} records, not {}",
            table.rows
        )));
    }
    let too_long = || {
        Refused::TooMuch(format!(
            "the texts of a block have at most {} MiB, and of all its records {} MiB",
            TEXT_BYTES_MAX >> 20,
            TEXT_BYTES_TOLD_MAX >> 20
        ))
    };
    let (once, told) = table.text_bytes();
    if once > TEXT_BYTES_MAX || told > TEXT_BYTES_TOLD_MAX {
        return Err(too_long());
    }
    let ops = operations(table)?;
    check(table)?;
    let lanes = Lanes::of(table);
    let fits = |primer: &&Primer| common_unit(table, primer.origin) % primer.unit as u64 == 0;
    let primer = plan.primer.filter(fits);
    let (origin, unit) = match primer {
        Some(primer) => (primer.origin, primer.unit),
        None => {
            let starts = table.number(Number::Start);
            let origin = starts.iter().copied().min().unwrap_or(0);
            let unit = i64::try_from(common_unit(table, origin)).unwrap_or(1);
            (origin, unit.max(1))
        }
    };
    let mut head = Head {
        rows: table.rows,
        lanes: lanes.count(),
        origin,
        unit,
        precision: plan.precision,
        zone: Zone::of(table, &ops),
        ..Head::default()
    };
    if !plan.is_primer {
        head.files = Some(FileSet::of(table));
        head.grid = Grid::of(table, &ops, &lanes, plan.bins);
    }
    let mut model = Model::default();
    if let Some(primer) = primer {
        let skipped = plan.lanes_before as i64 - primer.lanes as i64;
        head.behind = Some(Behind {
            primer: primer.checksum,
            skipped,
        });
        model.clone_from(&primer.model);
        model.skip(skipped);
    }
    let streams = pack(table, &ops, &lanes, &mut model, origin, unit);
    let (structure, times) = streams.squeeze().ok_or_else(too_long)?;
    let parts = [&head.write()[..], &structure, &times];
    Ok(Frame::write(primer.is_some(), plan.is_primer, parts))
}

/// The records of a block.
pub fn decode(block: &[u8], primer: Option<&Primer>) -> Result<Table<'static>, Damage> {
    decode_some(block, primer, &Wanted::ALL)
}

/// Some of a block's records and columns. All of it is gone through, as each record rests on those before it, but no room is taken for what is not wanted.
pub fn decode_some(
    block: &[u8],
    primer: Option<&Primer>,
    wanted: &Wanted,
) -> Result<Table<'static>, Damage> {
    let frame = Frame::read(block)?;
    let head = frame.head(block)?;
    let mut model = Model::default();
    if let Some(behind) = head.behind {
        let primer = primer.ok_or(Damage("it goes on from a primer, which is not there"))?;
        if primer.checksum != behind.primer {
            return Err(Damage("it goes on from another primer"));
        }
        if (primer.origin, primer.unit) != (head.origin, head.unit) {
            return Err(Damage("its times are not those of its primer"));
        }
        model.clone_from(&primer.model);
        model.skip(behind.skipped);
    }
    read(block, &frame, &head, &mut model, wanted)
}

/// The records behind what the model knows.
fn read(
    block: &[u8],
    frame: &Frame,
    head: &Head,
    model: &mut Model,
    wanted: &Wanted,
) -> Result<Table<'static>, Damage> {
    if block.len() != frame.size() {
        return Err(Damage("it has another length than it says"));
    }
    let parts = Parts::expand(frame.part(block, 1)?, frame.part(block, 2)?, head.rows)?;
    let counts = (head.rows, head.lanes);
    unpack(
        parts.told()?,
        model,
        counts,
        (head.origin, head.unit),
        wanted,
    )
}

/// The largest number of ns that all times are multiples of, since the origin; 0 where all are 0. Differences that do not fit into 64 bits wrap round, as when
/// they are read: what counts is what they have become.
fn common_unit(table: &Table, origin: i64) -> u64 {
    let [start, end, busy, slow] = [Number::Start, Number::End, Number::BusyNs, Number::SlowNs]
        .map(|number| table.number(number));
    let mut unit = 0u64;
    for row in 0..table.rows {
        for time in [
            start[row].wrapping_sub(origin),
            end[row].wrapping_sub(start[row]),
            busy[row],
            slow[row],
        ] {
            unit = common(unit, time.unsigned_abs());
        }
        if unit == 1 {
            break;
        }
    }
    unit
}

fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
