//! Records row by row, for tests of the second pass.

use std::collections::HashMap;
use tracepack::second_pass::block::{Plan, Primer};
use tracepack::second_pass::grid::Bins;
use tracepack::second_pass::head::Precision;
use tracepack::second_pass::table::{
    Number, Numbers, Strings, Table, Text, Texts, NO_CODE, NUMBERS, TEXTS,
};

pub const T0: i64 = 1_700_000_000_000_000_000;
const BUCKETS: usize = 8;
const NULLABLE: [Number; 4] = [Number::Uid, Number::Parent, Number::Rank, Number::FileId];

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub numbers: [Option<i64>; NUMBERS.len()],
    pub texts: [Option<Vec<u8>>; TEXTS.len()],
    pub latency: Option<[i64; BUCKETS]>,
}

impl Record {
    /// A read of a process.
    pub fn new(node: &str, process: &str, rank: i64) -> Record {
        let mut record = Record {
            numbers: [Some(0); NUMBERS.len()],
            texts: Default::default(),
            latency: None,
        };
        for (text, value) in [
            (Text::Node, node),
            (Text::Layer, "compute"),
            (Text::Source, "preload"),
            (Text::Job, "7"),
            (Text::Process, process),
            (Text::Program, "prog"),
            (Text::Op, "read"),
            (Text::File, "/a"),
        ] {
            record.say(text, value);
        }
        for (number, value) in [
            (Number::Seq, 1),
            (Number::Rank, rank),
            (Number::Size, 10),
            (Number::Count, 1),
            (Number::Bytes, 10),
            (Number::Start, T0),
            (Number::End, T0 + 5),
            (Number::BusyNs, 5),
            (Number::SlowNs, 5),
        ] {
            record.set(number, value);
        }
        record
    }

    pub fn set(&mut self, number: Number, value: i64) {
        self.numbers[number as usize] = Some(value);
    }

    pub fn say(&mut self, text: Text, value: &str) {
        self.texts[text as usize] = Some(value.into());
    }
}

pub fn table(records: &[Record]) -> Table<'static> {
    let numbers = std::array::from_fn(|number| {
        let valid = records
            .iter()
            .map(|record| u8::from(record.numbers[number].is_some()))
            .collect::<Vec<_>>();
        Numbers {
            values: records
                .iter()
                .map(|record| record.numbers[number].unwrap_or(0))
                .collect(),
            valid: if valid.contains(&0) {
                valid.into()
            } else {
                Vec::new().into()
            },
        }
    });
    let texts = std::array::from_fn(|text| {
        let (mut known, mut texts) = (HashMap::new(), Strings::default());
        let codes = records.iter().map(|record| match &record.texts[text] {
            None => NO_CODE,
            Some(value) => *known.entry(value.clone()).or_insert_with(|| {
                texts.push(value);
                texts.len() as i32 - 1
            }),
        });
        let codes: Vec<i32> = codes.collect();
        Texts {
            codes: codes.into(),
            texts,
        }
    });
    let mut latency = Numbers::default();
    if records.iter().any(|record| record.latency.is_some()) {
        latency.values = records
            .iter()
            .flat_map(|record| record.latency.unwrap_or_default())
            .collect();
        latency.valid = records
            .iter()
            .map(|record| u8::from(record.latency.is_some()))
            .collect();
    }
    Table {
        rows: records.len(),
        numbers,
        texts,
        latency,
    }
}

pub fn records(table: &Table) -> Vec<Record> {
    let is_nullable = |number: usize| NULLABLE.iter().any(|known| *known as usize == number);
    let record = |row: usize| Record {
        numbers: std::array::from_fn(|number| {
            let column = &table.numbers[number];
            assert_eq!(column.values.len(), table.rows, "{}", NUMBERS[number]);
            assert!(is_nullable(number) || column.valid.is_empty());
            column.get(row)
        }),
        texts: std::array::from_fn(|text| {
            assert_eq!(table.texts[text].codes.len(), table.rows, "{}", TEXTS[text]);
            table.texts[text].get(row).map(<[u8]>::to_vec)
        }),
        latency: (!table.latency.values.is_empty() && table.latency.is_there(row)).then(|| {
            table.latency.values[row * BUCKETS..][..BUCKETS]
                .try_into()
                .unwrap()
        }),
    };
    (0..table.rows).map(record).collect()
}

/// An application that does the same in each process, four of which a node has: each step a file of the process's own and one that all share.
pub fn replayed(processes: usize, steps: usize) -> Vec<Record> {
    let mut records = Vec::new();
    for node in 0..processes.div_ceil(4) {
        let mut seq = 0;
        for step in 0..steps as i64 {
            for rank in (node * 4..processes.min(node * 4 + 4)).map(|rank| rank as i64) {
                for (op, path) in [
                    ("write", format!("/out/{step:04}.{rank}")),
                    ("read", "/in".into()),
                ] {
                    seq += 1;
                    let mut record = Record::new(
                        &format!("cn{node:03}"),
                        &format!("{}.5{rank}", 100 + rank),
                        rank,
                    );
                    record.say(Text::Op, op);
                    record.say(Text::File, &path);
                    let start = T0 + step * 1_000_000_000 + rank * 1000 + seq * 7919 % 1000;
                    let took = 1_000_000 + seq * 104_729 % 5000;
                    for (number, value) in [
                        (
                            Number::Boot,
                            (node as i64 + 1).wrapping_mul(0x1e37_79b9_7f4a_7c15),
                        ),
                        (Number::Seq, seq),
                        (Number::FileId, step),
                        (Number::Offset, rank * 4096),
                        (Number::Stride, 4096),
                        (Number::Size, 4096),
                        (Number::Count, 4),
                        (Number::Bytes, 4 * 4096),
                        (Number::Start, start),
                        (Number::End, start + took),
                        (Number::BusyNs, took / 2),
                        (Number::SlowNs, took / 4),
                    ] {
                        record.set(number, value);
                    }
                    records.push(record);
                }
            }
        }
    }
    records
}

pub fn plan(primer: Option<&Primer>, lanes_before: usize, is_primer: bool) -> Plan<'_> {
    Plan {
        precision: Precision::default(),
        bins: Bins::over(T0, T0 + 60_000_000_000),
        primer,
        lanes_before,
        is_primer,
    }
}
