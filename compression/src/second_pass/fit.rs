//! What a table has to be, so that it can be packed and read again.

use super::table::{Number, Table, Text, NO_CODE, NUMBERS, TEXTS};
use crate::record::OP_NAMES;

/// Why a table cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has too many records, or their texts are too long: fewer of them may do.
    TooMuch(String),
    /// It is no table of such records.
    Wrong(String),
}

/// Numbers whose range is smaller than that of their column here, and texts and numbers that no record lacks.
pub fn check(table: &Table) -> Result<(), Refused> {
    let unsigned = |bits: u32| 0..=(1i64 << bits) - 1;
    let ranges = [
        (Number::Uid, unsigned(32)),
        (Number::Parent, unsigned(32)),
        (Number::Rank, i64::from(i32::MIN)..=i64::from(i32::MAX)),
        (Number::Errno, unsigned(16)),
        (Number::Flags, unsigned(16)),
    ];
    for (number, range) in ranges {
        let column = &table.numbers[number as usize];
        // What stands where it is null is nobody's business, and mostly in range as well.
        if column.values.iter().all(|value| range.contains(value)) {
            continue;
        }
        let wrong = (0..table.rows)
            .filter_map(|row| column.get(row))
            .find(|value| !range.contains(value));
        if let Some(value) = wrong {
            let (name, least, most) = (NUMBERS[number as usize], range.start(), range.end());
            return Err(Refused::Wrong(format!(
                "{name}: expected a number from {least} to {most}, got {value}"
            )));
        }
    }
    let null = |name: &str| {
        Err(Refused::Wrong(format!(
            "{name}: expected a value, got null"
        )))
    };
    let nullable = [Number::Uid, Number::Parent, Number::Rank, Number::FileId];
    for (number, column) in table.numbers.iter().enumerate() {
        let may_be = nullable.iter().any(|known| *known as usize == number);
        if !may_be && column.valid.contains(&0) {
            return null(NUMBERS[number]);
        }
    }
    let texts = [
        Text::Node,
        Text::Layer,
        Text::Source,
        Text::Process,
        Text::Program,
    ];
    for text in texts {
        if table.text(text).codes.contains(&NO_CODE) {
            return null(TEXTS[text as usize]);
        }
    }
    Ok(())
}

/// The operation of each row, by number.
pub fn operations(table: &Table) -> Result<Vec<u8>, Refused> {
    let column = table.text(Text::Op);
    let of_code = column
        .texts
        .iter()
        .map(|text| OP_NAMES.iter().position(|name| name.as_bytes() == text));
    let of_code: Vec<_> = of_code.collect();
    let op = |&code: &i32| {
        let op = usize::try_from(code).ok().and_then(|code| of_code[code]);
        let text = || {
            usize::try_from(code).map_or_else(
                |_| "null".into(),
                |code| String::from_utf8_lossy(&column.texts[code]).into_owned(),
            )
        };
        op.map(|op| op as u8).ok_or_else(|| {
            Refused::Wrong(format!(
                "op: expected one of {}, got {}",
                OP_NAMES.join(", "),
                text()
            ))
        })
    };
    column.codes.iter().map(op).collect()
}
