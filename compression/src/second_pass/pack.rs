//! From a table to a block's streams.

use std::collections::HashMap;

use super::callings::Lane;
use super::lanes::Lanes;
use super::matcher::Matcher;
use super::model::{Model, Row, Said, Who, NULL};
use super::names::Name;
use super::order::{put_sequences, put_turns};
use super::rhythm::Times;
use super::shape::{Files, Place, Shape};
use super::side::Packing;
use super::streams::Streams;
use super::table::{Number, Table, Text, NO_CODE};
use crate::record::LATENCY_BUCKETS;

/// Packs a table behind what the model knows. origin, unit: of the times, which have to be so many ns after the origin.
pub fn pack(
    table: &Table,
    ops: &[u8],
    lanes: &Lanes,
    model: &mut Model,
    origin: i64,
    unit: i64,
) -> Streams {
    let mut packing = Packing::default();
    let mut matcher = Matcher::new(&model.tracks, table.rows);
    let told_before = model.templates.told.len();

    let mut names = Names::default();
    for &(row, _) in &lanes.first {
        let mut lane = Lane {
            node: names.of(table, Text::Node, row, model),
            boot: table.number(Number::Boot)[row],
            process: names.of(table, Text::Process, row, model),
            layer: names.of(table, Text::Layer, row, model),
            source: names.of(table, Text::Source, row, model),
        };
        unerring(model.lane(&mut packing, &mut lane));
    }

    let mut shaping = Shaping::of(table, ops);
    let mut told_files = Files::default();
    for lane in 0..lanes.count() {
        let rows = lanes.rows(lane);
        shaping.shape(rows);
        let Shaping {
            shapes,
            slots,
            sizes,
            ..
        } = &shaping;
        told_files.clear();
        model.begin_lane();
        let (mut at, mut home) = (model.home, model.home);
        for (place, &row) in rows.iter().enumerate() {
            let row = row as usize;
            let shape = shapes[place];
            let goes_on = |model: &Model, at: usize| {
                model
                    .tracks
                    .get(at)
                    .is_some_and(|track| track.shape == shape)
            };
            if !goes_on(model, at) {
                if let Some(to) = matcher.find(
                    &model.tracks,
                    model.lane,
                    at,
                    &shapes[place..],
                    &sizes[place..],
                ) {
                    matcher.jump(at, to);
                    at = to;
                }
            }
            let known = model.tracks.len();
            let track = if goes_on(model, at) {
                matcher.go_on();
                at += 1;
                model.visit(at - 1)
            } else {
                matcher.open(shape);
                model.open(shape)
            };
            if track == known {
                matcher.learn(track, &shapes[place..], &sizes[place..]);
            }
            if place == 0 {
                home = track;
            }
            let mut said = Said {
                row: row_of(table, row, shape, origin, unit),
                ..Said::default()
            };
            if shape.place() == Place::New {
                said.file.name = names.of(table, Text::File, row, model);
                said.file.id = table.numbers[Number::FileId as usize].get(row);
            }
            if shape.changes() {
                let number =
                    |number: Number| table.numbers[number as usize].get(row).unwrap_or(NULL);
                said.who = Who {
                    job: names.of(table, Text::Job, row, model),
                    program: names.of(table, Text::Program, row, model),
                    uid: number(Number::Uid),
                    parent: number(Number::Parent),
                    rank: number(Number::Rank),
                };
            }
            unerring(model.row(
                &mut packing,
                &mut told_files,
                track,
                place == 0,
                slots[place] as usize,
                &mut said,
            ));
        }
        model.home = home;
    }

    let mut turns = Vec::new();
    put_turns(&mut turns, &lanes.turns, &mut model.turns);
    let mut sequences = Vec::new();
    let nodes = lanes.turns.iter().flat_map(|turn| {
        std::iter::repeat_n(lanes.first[turn.lane as usize].1, turn.rows as usize)
    });
    put_sequences(
        &mut sequences,
        nodes.zip(table.number(Number::Seq).iter().copied()),
        &mut model.first_seq,
    );
    Streams {
        turns,
        sequences,
        templates: model.templates.told.split_off(told_before),
        tokens: matcher.finish(),
        packing,
    }
}

/// In packing nothing is read that could be damaged.
fn unerring<T>(result: Result<T, super::wire::Damage>) -> T {
    result.expect("what is packed is whole")
}

/// A number for each row's file, path and id; NO_FILE where it has neither.
fn file_keys(table: &Table) -> Vec<u32> {
    let ids = &table.numbers[Number::FileId as usize];
    let column = table.text(Text::File);
    let mut of_code: Vec<Option<(Option<i64>, u32)>> = vec![None; column.texts.len()];
    let mut others: HashMap<(i32, Option<i64>), u32> = HashMap::new();
    let mut count = 0;
    let mut another = || {
        count += 1;
        count - 1
    };
    let keys = column.codes.iter().enumerate().map(|(row, &code)| {
        let id = ids.get(row);
        if code == NO_CODE && id.is_none() {
            return NO_FILE;
        }
        if let Ok(code) = usize::try_from(code) {
            let (known, key) = *of_code[code].get_or_insert_with(|| (id, another()));
            if known == id {
                return key;
            }
        }
        *others.entry((code, id)).or_insert_with(&mut another)
    });
    keys.collect()
}

const NO_FILE: u32 = u32::MAX;

/// What the rows of one process look like, before they are packed: the way through the tracks depends on those that follow.
struct Shaping<'a> {
    table: &'a Table<'a>,
    ops: &'a [u8],
    /// Of each row of the table its file.
    keys: Vec<u32>,
    files: Files,
    /// Of each row of the process, in their order.
    shapes: Vec<Shape>,
    slots: Vec<u32>,
    sizes: Vec<u32>,
}

impl<'a> Shaping<'a> {
    fn of(table: &'a Table<'a>, ops: &'a [u8]) -> Self {
        Self {
            table,
            ops,
            keys: file_keys(table),
            files: Files::default(),
            shapes: Vec::new(),
            slots: Vec::new(),
            sizes: Vec::new(),
        }
    }

    fn shape(&mut self, rows: &[u32]) {
        self.files.clear();
        self.shapes.clear();
        self.slots.clear();
        self.sizes.clear();
        let table = self.table;
        let handles = table.number(Number::Handle);
        let sizes = table.number(Number::Size);
        for (place, &row) in rows.iter().enumerate() {
            let row = row as usize;
            let changes = place == 0 || !self.says_the_same(row, rows[place - 1] as usize);
            let (at, slot) = match self.keys[row] {
                NO_FILE => (Place::None, 0),
                key => self.files.find(key),
            };
            let file = self.files.get(slot);
            let same_handle = at != Place::New && file.handle == handles[row];
            file.handle = handles[row];
            let has_latency = !table.latency.values.is_empty() && table.latency.is_there(row);
            let op = self.ops[row];
            self.shapes
                .push(Shape::new(op, at, same_handle, has_latency, changes));
            self.slots.push(slot as u32);
            self.sizes.push(sizes[row] as u32);
        }
    }

    /// Whether a process says the same of itself in two rows.
    #[inline]
    fn says_the_same(&self, row: usize, other: usize) -> bool {
        let number = |number: Number| {
            let column = &self.table.numbers[number as usize];
            column.get(row) == column.get(other)
        };
        let text = |text: Text| {
            let codes = &self.table.text(text).codes;
            codes[row] == codes[other]
        };
        text(Text::Job)
            && text(Text::Program)
            && number(Number::Uid)
            && number(Number::Parent)
            && number(Number::Rank)
    }
}

#[inline]
fn row_of(table: &Table, row: usize, shape: Shape, origin: i64, unit: i64) -> Row {
    let number = |number: Number| table.number(number)[row];
    let start = number(Number::Start);
    let times = Times {
        start: start.wrapping_sub(origin),
        took: number(Number::End).wrapping_sub(start),
        busy: number(Number::BusyNs),
        slow: number(Number::SlowNs),
    };
    let mut latency = [0; LATENCY_BUCKETS];
    if shape.has_latency() {
        latency.copy_from_slice(&table.latency.values[row * LATENCY_BUCKETS..][..LATENCY_BUCKETS]);
    }
    Row {
        code: number(Number::Errno) | number(Number::Flags) << 16,
        handle: number(Number::Handle),
        size: number(Number::Size),
        count: number(Number::Count),
        stride: number(Number::Stride),
        offset: number(Number::Offset),
        bytes: number(Number::Bytes),
        times: times.in_units(unit),
        latency,
    }
}

/// Names of a column's texts, each looked up once.
#[derive(Default)]
struct Names {
    of_code: [Vec<Option<Name>>; super::table::TEXTS.len()],
}

impl Names {
    fn of(&mut self, table: &Table, text: Text, row: usize, model: &mut Model) -> Name {
        let column = table.text(text);
        let code = column.codes[row];
        if code == NO_CODE {
            return Name::default();
        }
        let known = &mut self.of_code[text as usize];
        if known.is_empty() {
            known.resize(column.texts.len(), None);
        }
        let found = known[code as usize];
        found.unwrap_or_else(|| {
            let name = model.templates.name(Some(&column.texts[code as usize]));
            known[code as usize] = Some(name);
            name
        })
    }
}
