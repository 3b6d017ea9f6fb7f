//! From a block's streams to its table.

use std::borrow::Cow;
use std::collections::HashMap;

use super::callings::Lane;
use super::matcher::token;
use super::model::{Model, Row, Said, Who, NULL};
use super::names::{Name, Templates};
use super::order::{sequences, turns, Turn};
use super::shape::{Files, Place, Shape};
use super::streams::Told;
use super::table::{
    Number, Numbers, Table, Text, Texts, NO_CODE, NUMBERS, TEXTS, TEXT_BYTES_MAX,
    TEXT_BYTES_TOLD_MAX,
};
use super::wire::{unzigzag, Damage, Reader};
use crate::record::{LATENCY_BUCKETS, OP_NAMES};

/// Reads the rows of a block, and of so many processes, behind what the model knows.
pub fn unpack(
    told: Told,
    model: &mut Model,
    (rows, processes): (usize, usize),
    origin: i64,
    unit: i64,
) -> Result<Table<'static>, Damage> {
    let mut reading = told.reading;
    // Of each row its file and two texts, of each process five.
    model
        .templates
        .read(told.templates, rows.saturating_mul(7))?;
    let turns = turns(told.turns, rows, &mut model.turns)?;
    let mut out = Output::new(rows);
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
                let code = texts.code(Text::File, &model.templates, &said.file.name)?;
                files.get(slot).key = out.file(code, said.file.id);
            }
            let key = if slot == 0 {
                NO_FILE
            } else {
                files.get(slot).key
            };
            out.put(
                places.row(lane, place),
                shape,
                key,
                &said.row,
                &codes,
                (origin, unit),
            )?;
        }
        model.home = home;
    }
    Ok(out.finish(&turns, &lanes, seqs, texts))
}

const NO_FILE: u32 = u32::MAX;

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
    codes: [HashMap<Name, i32>; TEXTS.len()],
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

/// Columns as they are filled, row by row.
struct Output {
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

impl Output {
    fn new(rows: usize) -> Self {
        let mut numbers: [Vec<i64>; NUMBERS.len()] = Default::default();
        FILLED
            .iter()
            .for_each(|&number| numbers[number as usize] = vec![0; rows]);
        let mut nulls: [Vec<u8>; NUMBERS.len()] = Default::default();
        for number in [Number::Uid, Number::Parent, Number::Rank, Number::FileId] {
            nulls[number as usize] = vec![1; rows];
        }
        Self {
            numbers,
            nulls,
            jobs: vec![0; rows],
            programs: vec![0; rows],
            ops: vec![0; rows],
            files: vec![NO_CODE; rows],
            of_key: Vec::new(),
            latency: Vec::new(),
            has_latency: Vec::new(),
        }
    }

    fn file(&mut self, code: i32, id: Option<i64>) -> u32 {
        self.of_key.push((code, id));
        self.of_key.len() as u32 - 1
    }

    #[inline]
    fn put(
        &mut self,
        row: usize,
        shape: Shape,
        key: u32,
        told: &Row,
        who: &WhoCodes,
        (origin, unit): (i64, i64),
    ) -> Result<(), Damage> {
        let code =
            u32::try_from(told.code).map_err(|_| Damage("a row has flags that there are not"))?;
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
        let mut put = |number: Number, value: i64| self.numbers[number as usize][row] = value;
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
        self.jobs[row] = who.job;
        self.programs[row] = who.program;
        self.ops[row] = i32::from(shape.op());
        self.files[row] = file;
        if shape.has_latency() {
            let rows = self.ops.len();
            if self.latency.is_empty() {
                self.latency = vec![0; rows * LATENCY_BUCKETS];
                self.has_latency = vec![0; rows];
            }
            self.latency[row * LATENCY_BUCKETS..][..LATENCY_BUCKETS].copy_from_slice(&told.latency);
            self.has_latency[row] = 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn nullable(&mut self, number: Number, row: usize, value: Option<i64>) {
        match value {
            None => self.nulls[number as usize][row] = 0,
            Some(value) => self.numbers[number as usize][row] = value,
        }
    }

    fn finish(
        mut self,
        turns: &[Turn],
        lanes: &[LaneCodes],
        seqs: Vec<i64>,
        mut pools: Pools,
    ) -> Table<'static> {
        let rows = self.ops.len();
        let of_lane = |of: fn(&LaneCodes) -> i32| {
            let mut codes = Vec::with_capacity(rows);
            for turn in turns {
                codes.resize(
                    codes.len() + turn.rows as usize,
                    of(&lanes[turn.lane as usize]),
                );
            }
            codes
        };
        let mut boots = Vec::with_capacity(rows);
        for turn in turns {
            boots.resize(
                boots.len() + turn.rows as usize,
                lanes[turn.lane as usize].boot,
            );
        }
        self.numbers[Number::Boot as usize] = boots;
        self.numbers[Number::Seq as usize] = seqs;
        let mut codes: [Vec<i32>; TEXTS.len()] = Default::default();
        codes[Text::Node as usize] = of_lane(|lane| lane.node);
        codes[Text::Process as usize] = of_lane(|lane| lane.process);
        codes[Text::Layer as usize] = of_lane(|lane| lane.layer);
        codes[Text::Source as usize] = of_lane(|lane| lane.source);
        codes[Text::Job as usize] = self.jobs;
        codes[Text::Program as usize] = self.programs;
        codes[Text::File as usize] = self.files;
        codes[Text::Op as usize] = self.ops;
        pools.texts[Text::Op as usize] = OP_NAMES
            .iter()
            .map(|name| Cow::Borrowed(name.as_bytes()))
            .collect();
        let mut nulls = self.nulls.into_iter();
        let mut codes = codes.into_iter();
        Table {
            rows,
            numbers: self.numbers.map(|values| Numbers {
                values: values.into(),
                valid: nulls.next().unwrap_or_default().into(),
            }),
            texts: pools.texts.map(|texts| Texts {
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
