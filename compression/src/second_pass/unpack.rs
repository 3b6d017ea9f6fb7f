//! From a block's streams to its table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::callings::Lane;
use super::matcher::token;
use super::model::{Model, Row, Said, Who, NULL};
use super::names::{Name, NameHasher, Templates};
use super::order::{sequences, turns, Turn};
use super::shape::{Files, Place, Shape};
use super::streams::Told;
use super::table::{
    Number, Numbers, Table, Text, Texts, Wanted, NO_CODE, NUMBERS, TEXTS, TEXT_BYTES_MAX,
    TEXT_BYTES_TOLD_MAX,
};
use super::wire::{unzigzag, Damage, Reader};
use crate::record::{LATENCY_BUCKETS, OP_NAMES};

/// Reads the rows of a block, and of so many processes, behind what the model knows.
pub fn unpack(
    told: Told,
    model: &mut Model,
    (rows, processes): (usize, usize),
    (origin, unit): (i64, i64),
    wanted: &Wanted,
) -> Result<Table<'static>, Damage> {
    let mut reading = told.reading;
    // Of each row its file and two texts, of each process five.
    model
        .templates
        .read(told.templates, rows.saturating_mul(7))?;
    let turns = turns(told.turns, rows, &mut model.turns)?;
    let mut out = Output::new(rows, wanted);
    let mut texts = Pools::default();

    let mut lanes = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    let mut nodes = HashMap::new();
    for turn in &turns {
        let at = turn.lane as usize;
        if at == lanes.len() {
            let mut lane = Lane::default();
            model.lane(&mut reading, &mut lane)?;
            let node = texts.code(Text::Node, &model.templates, &lane.node)?;
            let next = nodes.len();
            let group = *nodes.entry((node, lane.boot)).or_insert(next);
            lanes.push(LaneCodes {
                node,
                boot: lane.boot,
                process: texts.code(Text::Process, &model.templates, &lane.process)?,
                layer: texts.code(Text::Layer, &model.templates, &lane.layer)?,
                source: texts.code(Text::Source, &model.templates, &lane.source)?,
                group,
            });
            counts.push(0);
        }
        counts[at] += turn.rows as usize;
    }
    if lanes.len() != processes {
        return Err(Damage("it has other processes than it says"));
    }
    if lanes
        .iter()
        .any(|lane| [lane.node, lane.process, lane.layer, lane.source].contains(&NO_CODE))
    {
        return Err(Damage("a process has no name"));
    }
    let groups = turns
        .iter()
        .flat_map(|turn| std::iter::repeat_n(lanes[turn.lane as usize].group, turn.rows as usize));
    let seqs = sequences(told.sequences, groups, &mut model.first_seq)?;

    let places = Places::of(&turns, &counts);
    let mut files = Files::default();
    let mut way = Way {
        tokens: Reader::new(told.tokens),
        going: 0,
    };
    for (lane, &count) in counts.iter().enumerate() {
        files.clear();
        model.begin_lane();
        let (mut at, mut home) = (model.home, model.home);
        let (mut said, mut codes) = (Said::default(), WhoCodes::default());
        for place in 0..count {
            let track = way.next(model, &mut at)?;
            if place == 0 {
                home = track;
            }
            let shape = model.tracks[track].shape;
            if place == 0 && !shape.changes() {
                return Err(Damage("a process does not say what it is"));
            }
            let slot = model.row(&mut reading, &mut files, track, place == 0, 0, &mut said)?;
            if shape.changes() {
                codes = WhoCodes::of(&said.who, model, &mut texts)?;
            }
            if shape.place() == Place::New {
                // Of one file alone the others need no text.
                let code = match wanted.file {
                    None => texts.code(Text::File, &model.templates, &said.file.name)?,
                    Some(file) if model.path() == Some(file) => SOUGHT,
                    Some(_) => NO_CODE,
                };
                files.get(slot).key = out.file(code, said.file.id);
            }
            let key = if slot == 0 {
                NO_FILE
            } else {
                files.get(slot).key
            };
            let code = u32::try_from(said.row.code)
                .map_err(|_| Damage("a row has flags that there are not"))?;
            let Some(at) = out.place(places.row(lane, place), lane, key) else {
                continue;
            };
            out.put(at, shape, code, key, &said.row, &codes, (origin, unit));
        }
        model.home = home;
    }
    if wanted.file.is_some() {
        return Ok(out.finish_chosen(&lanes, &seqs, texts));
    }
    Ok(out.finish(&turns, &lanes, seqs, texts))
}

const NO_FILE: u32 = u32::MAX;
/// The code of the only file that is wanted.
const SOUGHT: i32 = 0;

/// The way through the tracks, as it is told.
struct Way<'a> {
    tokens: Reader<'a>,
    going: u64,
}

impl Way<'_> {
    /// The next row's track; `at`: where the way goes on.
    #[inline]
    fn next(&mut self, model: &mut Model, at: &mut usize) -> Result<usize, Damage> {
        while self.going == 0 {
            let told = self.tokens.number()?;
            let value = told >> token::BITS;
            match told & ((1 << token::BITS) - 1) {
                token::GO_ON => self.going = value.saturating_add(1),
                token::OPEN => return Ok(model.open(Shape::read(value)?)),
                token::JUMP => {
                    let to = (*at as i64).wrapping_add(unzigzag(value));
                    *at = usize::try_from(to)
                        .map_err(|_| Damage("the structure goes on where nothing is"))?;
                }
                _ => return Err(Damage("the structure goes on in a way that there is not")),
            }
        }
        if *at >= model.tracks.len() {
            return Err(Damage("the structure goes on where nothing is"));
        }
        self.going -= 1;
        *at += 1;
        Ok(model.visit(*at - 1))
    }
}

/// Where the rows of each process are.
enum Places {
    /// Processes follow each other: where each begins.
    Whole(Vec<usize>),
    /// The rows, process by process, and where those of each begin.
    Mixed(Vec<u32>, Vec<usize>),
}

impl Places {
    fn of(turns: &[Turn], counts: &[usize]) -> Self {
        let mut begin = Vec::with_capacity(counts.len());
        let mut next = 0;
        for count in counts {
            begin.push(next);
            next += count;
        }
        if turns.len() == counts.len() {
            return Self::Whole(begin);
        }
        let (mut rows, mut at, mut row) = (vec![0; next], begin.clone(), 0);
        for turn in turns {
            let at = &mut at[turn.lane as usize];
            for _ in 0..turn.rows {
                rows[*at] = row;
                (*at, row) = (*at + 1, row + 1);
            }
        }
        Self::Mixed(rows, begin)
    }

    #[inline(always)]
    fn row(&self, lane: usize, place: usize) -> usize {
        match self {
            Self::Whole(begin) => begin[lane] + place,
            Self::Mixed(rows, begin) => rows[begin[lane] + place] as usize,
        }
    }
}

struct LaneCodes {
    node: i32,
    boot: i64,
    process: i32,
    layer: i32,
    source: i32,
    group: usize,
}

#[derive(Clone, Copy, Default)]
struct WhoCodes {
    job: i32,
    program: i32,
    uid: i64,
    parent: i64,
    rank: i64,
}

impl WhoCodes {
    fn of(who: &Who, model: &Model, texts: &mut Pools) -> Result<Self, Damage> {
        let is_in =
            |value: i64, least: i64, most: i64| value == NULL || (least..=most).contains(&value);
        if !is_in(who.uid, 0, u32::MAX as i64)
            || !is_in(who.parent, 0, u32::MAX as i64)
            || !is_in(who.rank, i32::MIN as i64, i32::MAX as i64)
        {
            return Err(Damage("a process has a number that there is not"));
        }
        let program = texts.code(Text::Program, &model.templates, &who.program)?;
        if program == NO_CODE {
            return Err(Damage("a process has no program"));
        }
        Ok(Self {
            job: texts.code(Text::Job, &model.templates, &who.job)?,
            program,
            uid: who.uid,
            parent: who.parent,
            rank: who.rank,
        })
    }
}

/// The texts of each column, each once.
#[derive(Default)]
struct Pools {
    texts: [Vec<Cow<'static, [u8]>>; TEXTS.len()],
    codes: [HashMap<Name, i32, BuildHasherDefault<NameHasher>>; TEXTS.len()],
    /// Of the texts, and of all that were looked for.
    bytes: usize,
    told: usize,
    buffer: Vec<u8>,
}

impl Pools {
    fn code(&mut self, text: Text, templates: &Templates, name: &Name) -> Result<i32, Damage> {
        let texts = &mut self.texts[text as usize];
        let known = self.codes[text as usize].get(name);
        let code = match known {
            Some(&code) => code,
            None => {
                self.buffer.clear();
                if !templates.render(name, &mut self.buffer)? {
                    return Ok(NO_CODE);
                }
                self.bytes += self.buffer.len();
                if self.bytes > TEXT_BYTES_MAX {
                    return Err(Damage("its texts are longer than a block's may be"));
                }
                if std::str::from_utf8(&self.buffer).is_err() {
                    return Err(Damage("a text is not UTF-8"));
                }
                let code = texts.len() as i32;
                texts.push(Cow::Owned(self.buffer.clone()));
                self.codes[text as usize].insert(*name, code);
                code
            }
        };
        self.told += texts[code as usize].len();
        if self.told > TEXT_BYTES_TOLD_MAX {
            return Err(Damage(
                "its records' texts are longer than a block's may be",
            ));
        }
        Ok(code)
    }
}

/// Columns as they are filled, row by row; those that are not wanted stay empty.
struct Output<'a> {
    wanted: &'a Wanted<'a>,
    rows: usize,
    numbers: [Vec<i64>; NUMBERS.len()],
    nulls: [Vec<u8>; NUMBERS.len()],
    jobs: Vec<i32>,
    programs: Vec<i32>,
    ops: Vec<i32>,
    files: Vec<i32>,
    /// Path and id, by key.
    of_key: Vec<(i32, Option<i64>)>,
    latency: Vec<i64>,
    has_latency: Vec<u8>,
    /// Where only the rows of a file are wanted: which of the block, and the process of each.
    chosen: Vec<(u32, u32)>,
}

const FILLED: [Number; 16] = [
    Number::Uid,
    Number::Parent,
    Number::Rank,
    Number::FileId,
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
    Number::Errno,
    Number::Flags,
];
const NULLABLE: [Number; 4] = [Number::Uid, Number::Parent, Number::Rank, Number::FileId];

impl<'a> Output<'a> {
    fn new(rows: usize, wanted: &'a Wanted<'a>) -> Self {
        let mut out = Self {
            wanted,
            rows: 0,
            numbers: Default::default(),
            nulls: Default::default(),
            jobs: Vec::new(),
            programs: Vec::new(),
            ops: Vec::new(),
            files: Vec::new(),
            of_key: Vec::new(),
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
        let is_wanted = |number: &Number| self.wanted.numbers[*number as usize];
        for number in FILLED.into_iter().filter(is_wanted) {
            reach(&mut self.numbers[number as usize], rows, 0);
        }
        for number in NULLABLE.into_iter().filter(is_wanted) {
            reach(&mut self.nulls[number as usize], rows, 1);
        }
        for (text, codes) in [
            (Text::Job, &mut self.jobs),
            (Text::Program, &mut self.programs),
            (Text::Op, &mut self.ops),
            (Text::File, &mut self.files),
        ] {
            if self.wanted.texts[text as usize] {
                reach(codes, rows, NO_CODE);
            }
        }
        self.rows = rows;
        if !self.has_latency.is_empty() {
            self.latency.resize(rows * LATENCY_BUCKETS, 0);
            self.has_latency.resize(rows, 0);
        }
    }

    fn file(&mut self, code: i32, id: Option<i64>) -> u32 {
        self.of_key.push((code, id));
        self.of_key.len() as u32 - 1
    }

    /// Where a row of the block, of a process and about a file, is put; None: it is not wanted.
    #[inline(always)]
    fn place(&mut self, row: usize, lane: usize, key: u32) -> Option<usize> {
        if self.wanted.file.is_none() {
            return Some(row);
        }
        if key == NO_FILE || self.of_key[key as usize].0 != SOUGHT {
            return None;
        }
        self.chosen.push((row as u32, lane as u32));
        self.reach(self.chosen.len());
        Some(self.chosen.len() - 1)
    }

    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn put(
        &mut self,
        row: usize,
        shape: Shape,
        code: u32,
        key: u32,
        told: &Row,
        who: &WhoCodes,
        (origin, unit): (i64, i64),
    ) {
        let times = &told.times;
        let start = origin.wrapping_add(times.start.wrapping_mul(unit));
        let (file, id) = if key == NO_FILE {
            (NO_CODE, None)
        } else {
            self.of_key[key as usize]
        };
        let known = |value: i64| (value != NULL).then_some(value);
        self.nullable(Number::Uid, row, known(who.uid));
        self.nullable(Number::Parent, row, known(who.parent));
        self.nullable(Number::Rank, row, known(who.rank));
        self.nullable(Number::FileId, row, id);
        let mut put = |number: Number, value: i64| {
            if let Some(place) = self.numbers[number as usize].get_mut(row) {
                *place = value;
            }
        };
        put(Number::Handle, told.handle);
        put(Number::Offset, told.offset);
        put(Number::Stride, told.stride);
        put(Number::Size, told.size);
        put(Number::Count, told.count);
        put(Number::Bytes, told.bytes);
        put(Number::Start, start);
        put(
            Number::End,
            start.wrapping_add(times.took.wrapping_mul(unit)),
        );
        put(Number::BusyNs, times.busy.wrapping_mul(unit));
        put(Number::SlowNs, times.slow.wrapping_mul(unit));
        put(Number::Errno, i64::from(code & 0xffff));
        put(Number::Flags, i64::from(code >> 16));
        for (codes, code) in [
            (&mut self.jobs, who.job),
            (&mut self.programs, who.program),
            (&mut self.ops, i32::from(shape.op())),
            (&mut self.files, file),
        ] {
            if let Some(place) = codes.get_mut(row) {
                *place = code;
            }
        }
        if shape.has_latency() && self.wanted.latency {
            if self.has_latency.is_empty() {
                self.latency = vec![0; self.rows * LATENCY_BUCKETS];
                self.has_latency = vec![0; self.rows];
            }
            self.latency[row * LATENCY_BUCKETS..][..LATENCY_BUCKETS].copy_from_slice(&told.latency);
            self.has_latency[row] = 1;
        }
    }

    #[inline(always)]
    fn nullable(&mut self, number: Number, row: usize, value: Option<i64>) {
        match value {
            None => {
                if let Some(place) = self.nulls[number as usize].get_mut(row) {
                    *place = 0;
                }
            }
            Some(value) => {
                if let Some(place) = self.numbers[number as usize].get_mut(row) {
                    *place = value;
                }
            }
        }
    }

    fn finish(
        mut self,
        turns: &[Turn],
        lanes: &[LaneCodes],
        seqs: Vec<i64>,
        pools: Pools,
    ) -> Table<'static> {
        let wanted = self.wanted;
        let each = turns
            .iter()
            .map(|turn| (&lanes[turn.lane as usize], turn.rows as usize));
        let codes = wanted_texts(wanted, |text| {
            let mut codes = Vec::with_capacity(self.rows);
            each.clone()
                .for_each(|(lane, rows)| codes.resize(codes.len() + rows, text(lane)));
            codes
        });
        if wanted.numbers[Number::Boot as usize] {
            let mut boots = Vec::with_capacity(self.rows);
            each.for_each(|(lane, rows)| boots.resize(boots.len() + rows, lane.boot));
            self.numbers[Number::Boot as usize] = boots;
        }
        if wanted.numbers[Number::Seq as usize] {
            self.numbers[Number::Seq as usize] = seqs;
        }
        self.table(codes, pools)
    }

    /// Of the rows of a file, which come process by process.
    fn finish_chosen(mut self, lanes: &[LaneCodes], seqs: &[i64], pools: Pools) -> Table<'static> {
        let wanted = self.wanted;
        let mut chosen = std::mem::take(&mut self.chosen);
        if !chosen.is_sorted() {
            let mut order: Vec<usize> = (0..chosen.len()).collect();
            order.sort_unstable_by_key(|&at| chosen[at]);
            put_in_order(&mut chosen, &order, 1);
            let numbers = self.numbers.iter_mut();
            numbers.for_each(|column| put_in_order(column, &order, 1));
            let nulls = self.nulls.iter_mut();
            nulls.for_each(|column| put_in_order(column, &order, 1));
            for codes in [&mut self.jobs, &mut self.programs, &mut self.ops] {
                put_in_order(codes, &order, 1);
            }
            put_in_order(&mut self.latency, &order, LATENCY_BUCKETS);
            put_in_order(&mut self.has_latency, &order, 1);
        }
        let of_lane = |&(_, lane): &(u32, u32)| &lanes[lane as usize];
        let codes = wanted_texts(wanted, |text| {
            chosen.iter().map(|row| text(of_lane(row))).collect()
        });
        if wanted.numbers[Number::Boot as usize] {
            let boots = chosen.iter().map(|row| of_lane(row).boot);
            self.numbers[Number::Boot as usize] = boots.collect();
        }
        if wanted.numbers[Number::Seq as usize] {
            let seqs = chosen.iter().map(|&(row, _)| seqs[row as usize]);
            self.numbers[Number::Seq as usize] = seqs.collect();
        }
        self.table(codes, pools)
    }

    /// codes: those of a process's texts.
    fn table(self, mut codes: [Vec<i32>; TEXTS.len()], mut pools: Pools) -> Table<'static> {
        let wanted = self.wanted;
        codes[Text::Job as usize] = self.jobs;
        codes[Text::Program as usize] = self.programs;
        codes[Text::File as usize] = self.files;
        codes[Text::Op as usize] = self.ops;
        pools.texts[Text::Op as usize] = OP_NAMES
            .iter()
            .map(|name| Cow::Borrowed(name.as_bytes()))
            .collect();
        if let Some(file) = wanted.file {
            pools.texts[Text::File as usize] = vec![Cow::Owned(file.to_vec())];
        }
        let mut is_wanted = wanted.texts.iter();
        let texts = pools.texts.map(|texts| match is_wanted.next() {
            Some(true) => texts,
            _ => Vec::new(),
        });
        let mut nulls = self.nulls.into_iter();
        let mut codes = codes.into_iter();
        Table {
            rows: self.rows,
            numbers: self.numbers.map(|values| Numbers {
                values: values.into(),
                valid: nulls.next().unwrap_or_default().into(),
            }),
            texts: texts.map(|texts| Texts {
                codes: codes.next().unwrap_or_default().into(),
                texts,
            }),
            latency: Numbers {
                values: self.latency.into(),
                valid: self.has_latency.into(),
            },
        }
    }
}

/// So many rows of a column; all at once if it has none.
fn reach<T: Copy>(column: &mut Vec<T>, rows: usize, value: T) {
    if column.is_empty() {
        *column = vec![value; rows];
    } else {
        column.resize(rows, value);
    }
}

type CodeOf = fn(&LaneCodes) -> i32;

/// Of the texts that a process has, the columns of those that are wanted.
fn wanted_texts(wanted: &Wanted, column: impl Fn(CodeOf) -> Vec<i32>) -> [Vec<i32>; TEXTS.len()] {
    let mut codes: [Vec<i32>; TEXTS.len()] = Default::default();
    let of_lane: [(Text, CodeOf); 4] = [
        (Text::Node, |lane| lane.node),
        (Text::Process, |lane| lane.process),
        (Text::Layer, |lane| lane.layer),
        (Text::Source, |lane| lane.source),
    ];
    for (text, of) in of_lane {
        if wanted.texts[text as usize] {
            codes[text as usize] = column(of);
        }
    }
    codes
}

/// The rows of a column, each of so many values, in an order; one that is empty stays so.
fn put_in_order<T: Copy>(column: &mut Vec<T>, order: &[usize], each: usize) {
    if !column.is_empty() {
        let rows = order.iter().map(|&row| &column[row * each..][..each]);
        *column = rows.flatten().copied().collect();
    }
}
