//! The columns of a block that is read.

use std::borrow::Cow;

use super::model::{Row, NULL};
use super::pools::Pools;
use super::shape::Shape;
use super::table::{Number, Numbers, Table, Text, Texts, Wanted, NO_CODE, NUMBERS};
use crate::record::{LATENCY_BUCKETS, OP_NAMES};

/// A process, or what stands for one: the codes of its texts.
#[derive(Clone, Copy)]
pub struct LaneCodes {
    pub node: i32,
    pub boot: i64,
    pub process: i32,
    pub layer: i32,
    pub source: i32,
}

/// A process as it says it is.
pub struct Caller {
    pub lane: LaneCodes,
    pub job: i32,
    pub program: i32,
    pub uid: i64,
    pub parent: i64,
    pub rank: i64,
}

/// A file: its path and its id.
struct Named {
    path: i32,
    id: Option<i64>,
}

/// The number of the file that a row has which is about none.
pub const NO_FILE: u32 = 0;
/// The path's code of the only file that is wanted.
pub const SOUGHT: i32 = 0;

/// Columns as they are filled, row by row; those that are not wanted stay empty. What rows of one process or about one file have in common is looked up at last.
pub struct Output<'a> {
    wanted: &'a Wanted<'a>,
    rows: usize,
    numbers: [Vec<i64>; NUMBERS.len()],
    /// errno, and flags << 16.
    codes: Vec<u32>,
    ops: Vec<i32>,
    /// By number, in the order in which they came.
    callers: Vec<u32>,
    files: Vec<u32>,
    of_caller: Vec<Caller>,
    of_file: Vec<Named>,
    latency: Vec<i64>,
    has_latency: Vec<u8>,
    /// Where only the rows of a file are wanted: which of the block.
    chosen: Vec<u32>,
}

/// What each row has of its own.
const FILLED: [Number; 10] = [
    Number::Handle,
    Number::Offset,
    Number::Stride,
    Number::Size,
    Number::Count,
    Number::Bytes,
    Number::Start,
    Number::End,
    Number::BusyNs,
    Number::SlowNs,
];

/// What is looked up at last, by errno and flags, and by processes.
const OF_CODES: [Number; 2] = [Number::Errno, Number::Flags];
const OF_CALLERS: ([Number; 4], [Text; 6]) = (
    [Number::Boot, Number::Uid, Number::Parent, Number::Rank],
    [
        Text::Node,
        Text::Layer,
        Text::Source,
        Text::Job,
        Text::Process,
        Text::Program,
    ],
);

impl<'a> Output<'a> {
    pub fn new(rows: usize, wanted: &'a Wanted<'a>) -> Self {
        let none = Named {
            path: NO_CODE,
            id: None,
        };
        let mut out = Self {
            wanted,
            rows: 0,
            numbers: Default::default(),
            codes: Vec::new(),
            ops: Vec::new(),
            callers: Vec::new(),
            files: Vec::new(),
            of_caller: Vec::new(),
            of_file: vec![none],
            latency: Vec::new(),
            has_latency: Vec::new(),
            chosen: Vec::new(),
        };
        if wanted.file.is_none() {
            out.reach(rows);
        }
        out
    }

    /// Room for so many rows.
    fn reach(&mut self, rows: usize) {
        let has = |number: &Number| self.wanted.numbers[*number as usize];
        let says = |text: &Text| self.wanted.texts[*text as usize];
        for number in FILLED.into_iter().filter(has) {
            reach(&mut self.numbers[number as usize], rows);
        }
        if OF_CODES.iter().any(has) {
            reach(&mut self.codes, rows);
        }
        if OF_CALLERS.0.iter().any(has) || OF_CALLERS.1.iter().any(says) {
            reach(&mut self.callers, rows);
        }
        if has(&Number::FileId) || says(&Text::File) {
            reach(&mut self.files, rows);
        }
        if says(&Text::Op) {
            reach(&mut self.ops, rows);
        }
        self.rows = rows;
        if !self.has_latency.is_empty() {
            self.latency.resize(rows * LATENCY_BUCKETS, 0);
            self.has_latency.resize(rows, 0);
        }
    }

    /// The number of a process that says something else of itself, and of a file.
    pub fn caller(&mut self, caller: Caller) -> u32 {
        self.of_caller.push(caller);
        self.of_caller.len() as u32 - 1
    }

    pub fn file(&mut self, path: i32, id: Option<i64>) -> u32 {
        self.of_file.push(Named { path, id });
        self.of_file.len() as u32 - 1
    }

    /// Where a row of the block, about a file, is put; None: it is not wanted.
    #[inline(always)]
    pub fn place(&mut self, row: usize, file: u32) -> Option<usize> {
        if self.wanted.file.is_none() {
            return Some(row);
        }
        if self.of_file[file as usize].path != SOUGHT {
            return None;
        }
        self.chosen.push(row as u32);
        self.reach(self.chosen.len());
        Some(self.chosen.len() - 1)
    }

    #[inline(always)]
    pub fn put(
        &mut self,
        row: usize,
        shape: Shape,
        (caller, file, code): (u32, u32, u32),
        told: &Row,
        (origin, unit): (i64, i64),
    ) {
        let times = &told.times;
        let start = origin.wrapping_add(times.start.wrapping_mul(unit));
        let end = start.wrapping_add(times.took.wrapping_mul(unit));
        let mut put = |number: Number, value: i64| {
            set(&mut self.numbers[number as usize], row, value);
        };
        put(Number::Handle, told.handle);
        put(Number::Offset, told.offset);
        put(Number::Stride, told.stride);
        put(Number::Size, told.size);
        put(Number::Count, told.count);
        put(Number::Bytes, told.bytes);
        put(Number::Start, start);
        put(Number::End, end);
        put(Number::BusyNs, times.busy.wrapping_mul(unit));
        put(Number::SlowNs, times.slow.wrapping_mul(unit));
        set(&mut self.callers, row, caller);
        set(&mut self.files, row, file);
        set(&mut self.codes, row, code);
        set(&mut self.ops, row, i32::from(shape.op()));
        if shape.has_latency() && self.wanted.latency {
            if self.has_latency.is_empty() {
                self.latency = vec![0; self.rows * LATENCY_BUCKETS];
                self.has_latency = vec![0; self.rows];
            }
            self.latency[row * LATENCY_BUCKETS..][..LATENCY_BUCKETS].copy_from_slice(&told.latency);
            self.has_latency[row] = 1;
        }
    }

    /// The table. seqs: of all rows of the block.
    pub fn finish(mut self, mut seqs: Vec<i64>, mut pools: Pools) -> Table<'static> {
        if let Some(file) = self.wanted.file {
            self.put_in_order();
            seqs = self.chosen.iter().map(|&row| seqs[row as usize]).collect();
            pools.texts[Text::File as usize] = [file].into_iter().collect();
        }
        pools.texts[Text::Op as usize] = OP_NAMES.iter().collect();
        let callers = self.callers.iter();
        let callers = callers.map(|&caller| &self.of_caller[caller as usize]);
        let lanes = callers.clone().map(|caller| &caller.lane);
        let files = self.files.iter();
        let files = files.map(|&file| &self.of_file[file as usize]);
        let codes = self.codes.iter();
        let known = |value: i64| (value != NULL).then_some(value);

        let mut table = Table {
            rows: self.rows,
            numbers: self.numbers.map(all_there),
            latency: Numbers {
                values: self.latency.into(),
                valid: self.has_latency.into(),
            },
            ..Table::default()
        };
        let mut filling = Filling {
            wanted: self.wanted,
            table: &mut table,
            pools,
        };
        filling.plain(Number::Boot, lanes.clone().map(|lane| lane.boot));
        filling.plain(Number::Seq, seqs.into_iter());
        filling.nullable(Number::Uid, callers.clone().map(|caller| known(caller.uid)));
        filling.nullable(
            Number::Parent,
            callers.clone().map(|caller| known(caller.parent)),
        );
        filling.nullable(
            Number::Rank,
            callers.clone().map(|caller| known(caller.rank)),
        );
        filling.nullable(Number::FileId, files.clone().map(|file| file.id));
        let errnos = codes.clone().map(|code| code & 0xffff);
        filling.plain(Number::Errno, errnos.map(i64::from));
        filling.plain(Number::Flags, codes.map(|code| i64::from(code >> 16)));
        filling.text(Text::Node, lanes.clone().map(|lane| lane.node));
        filling.text(Text::Layer, lanes.clone().map(|lane| lane.layer));
        filling.text(Text::Source, lanes.clone().map(|lane| lane.source));
        filling.text(Text::Job, callers.clone().map(|caller| caller.job));
        filling.text(Text::Process, lanes.map(|lane| lane.process));
        filling.text(Text::Program, callers.map(|caller| caller.program));
        filling.text(Text::Op, self.ops.into_iter());
        filling.text(Text::File, files.map(|file| file.path));
        table
    }

    /// Of the rows of a file, which come process by process.
    fn put_in_order(&mut self) {
        if self.chosen.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.chosen.len()).collect();
        order.sort_unstable_by_key(|&at| self.chosen[at]);
        let numbers = self.numbers.iter_mut();
        numbers.for_each(|column| put_in_order(column, &order, 1));
        for column in [
            &mut self.chosen,
            &mut self.codes,
            &mut self.callers,
            &mut self.files,
        ] {
            put_in_order(column, &order, 1);
        }
        put_in_order(&mut self.ops, &order, 1);
        put_in_order(&mut self.latency, &order, LATENCY_BUCKETS);
        put_in_order(&mut self.has_latency, &order, 1);
    }
}

/// A table's columns as they are filled at last.
struct Filling<'a> {
    wanted: &'a Wanted<'a>,
    table: &'a mut Table<'static>,
    pools: Pools,
}

impl Filling<'_> {
    fn plain(&mut self, number: Number, values: impl Iterator<Item = i64>) {
        if self.wanted.numbers[number as usize] {
            self.table.numbers[number as usize] = all_there(values.collect());
        }
    }

    fn nullable(&mut self, number: Number, values: impl Iterator<Item = Option<i64>> + Clone) {
        self.plain(number, values.clone().map(Option::unwrap_or_default));
        if self.wanted.numbers[number as usize] && values.clone().any(|value| value.is_none()) {
            let valid = values.map(|value| u8::from(value.is_some()));
            self.table.numbers[number as usize].valid = valid.collect();
        }
    }

    fn text(&mut self, text: Text, codes: impl Iterator<Item = i32>) {
        if self.wanted.texts[text as usize] {
            self.table.texts[text as usize] = Texts {
                codes: codes.collect(),
                texts: std::mem::take(&mut self.pools.texts[text as usize]),
            };
        }
    }
}

fn all_there(values: Vec<i64>) -> Numbers<'static> {
    Numbers {
        values: values.into(),
        valid: Cow::default(),
    }
}

/// A value of a column that is wanted.
#[inline(always)]
fn set<T>(column: &mut [T], row: usize, value: T) {
    if let Some(place) = column.get_mut(row) {
        *place = value;
    }
}

/// So many rows of a column; all at once if it has none.
fn reach<T: Copy + Default>(column: &mut Vec<T>, rows: usize) {
    if column.is_empty() {
        // What comes as zeros from the system is not written once more.
        *column = vec![T::default(); rows];
    } else {
        column.resize(rows, T::default());
    }
}

/// The rows of a column, each of so many values, in an order; one that is empty stays so.
fn put_in_order<T: Copy>(column: &mut Vec<T>, order: &[usize], each: usize) {
    if !column.is_empty() {
        let rows = order.iter().map(|&row| &column[row * each..][..each]);
        *column = rows.flatten().copied().collect();
    }
}
