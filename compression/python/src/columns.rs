//! A field's values, one a record, and how they are read.

use std::collections::HashMap;

use crate::scan::{hex64, Scanner, Unusual};

/// Of a field that a record does not have.
pub const NULL: u32 = u32::MAX;
pub const HISTOGRAM_BINS: usize = 8;

/// Texts that repeat from record to record, each once, told by number.
#[derive(Default)]
pub struct Texts {
    codes: HashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
    last: u32,
}

impl Texts {
    /// The number of the text that came last, if the scanner has it once more: neighbours mostly are alike.
    fn again(&self, scanner: &mut Scanner) -> Option<u32> {
        let last = self.texts.get(self.last as usize)?;
        scanner.take_text(last).then_some(self.last)
    }

    /// The number of a text; a new one is kept if it `fits`.
    fn code(&mut self, text: &[u8], fits: impl Fn(&[u8]) -> bool) -> Result<u32, Unusual> {
        self.last = match self.codes.get(text) {
            Some(&code) => code,
            None if !fits(text) => return Err(Unusual),
            None => {
                let code = self.texts.len() as u32;
                self.codes.insert(text.into(), code);
                self.texts.push(text.into());
                code
            }
        };
        Ok(self.last)
    }

    pub fn get(&self, code: u32) -> &[u8] {
        &self.texts[code as usize]
    }

    pub fn all(&self) -> &[Box<[u8]>] {
        &self.texts
    }
}

/// What a field's values are, and their bounds: those of pipeline/schema.
pub enum Kind {
    Integer {
        low: i64,
        high: i64,
    },
    Hex,
    /// `values`: all that there are; `length`: most characters, and at least one.
    Text {
        values: Option<Vec<Box<[u8]>>>,
        length: Option<usize>,
    },
    Histogram,
}

pub enum Values {
    Numbers(Vec<i64>),
    Texts(Texts, Vec<u32>),
    /// HISTOGRAM_BINS a record.
    Histograms(Vec<i64>),
}

pub struct Column {
    pub name: Box<[u8]>,
    pub kind: Kind,
    pub nullable: bool,
    pub values: Values,
    /// One a record, in a column that may be null.
    pub valid: Vec<bool>,
}

impl Column {
    pub fn new(name: &str, kind: Kind, nullable: bool) -> Self {
        let values = empty(&kind);
        Self {
            name: name.as_bytes().into(),
            kind,
            nullable,
            values,
            valid: Vec::new(),
        }
    }

    /// An empty column of the same field.
    pub fn empty(&self) -> Self {
        let kind = match &self.kind {
            Kind::Integer { low, high } => Kind::Integer {
                low: *low,
                high: *high,
            },
            Kind::Hex => Kind::Hex,
            Kind::Text { values, length } => Kind::Text {
                values: values.clone(),
                length: *length,
            },
            Kind::Histogram => Kind::Histogram,
        };
        Self {
            name: self.name.clone(),
            values: empty(&kind),
            kind,
            nullable: self.nullable,
            valid: Vec::new(),
        }
    }

    /// Reads one value behind those that are here.
    pub fn read(&mut self, scanner: &mut Scanner) -> Result<(), Unusual> {
        if self.nullable && scanner.null() {
            self.push_null();
            return Ok(());
        }
        match (&self.kind, &mut self.values) {
            (Kind::Integer { low, high }, Values::Numbers(numbers)) => {
                let value = scanner.integer()?;
                if value < *low || value > *high {
                    return Err(Unusual);
                }
                numbers.push(value);
            }
            (Kind::Hex, Values::Numbers(numbers)) => numbers.push(hex64(scanner.string()?)? as i64),
            (Kind::Text { values, length }, Values::Texts(texts, codes)) => {
                let code = match texts.again(scanner) {
                    Some(code) => code,
                    None => texts.code(scanner.string()?, |text| {
                        values
                            .as_ref()
                            .is_none_or(|values| values.iter().any(|value| **value == *text))
                            && length.is_none_or(|most| fits(text, most))
                    })?,
                };
                codes.push(code);
            }
            (Kind::Histogram, Values::Histograms(bins)) => {
                scanner.take(b'[')?;
                for bin in 0..HISTOGRAM_BINS {
                    if bin > 0 {
                        scanner.take(b',')?;
                    }
                    scanner.skip_blanks();
                    let value = scanner.integer()?;
                    if value < 0 {
                        return Err(Unusual);
                    }
                    bins.push(value);
                    scanner.skip_blanks();
                }
                scanner.take(b']')?;
            }
            _ => return Err(Unusual),
        }
        if self.nullable {
            self.valid.push(true);
        }
        Ok(())
    }

    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Numbers(numbers) => numbers.push(0),
            Values::Texts(_, codes) => codes.push(NULL),
            Values::Histograms(bins) => bins.extend([0; HISTOGRAM_BINS]),
        }
        if self.nullable {
            self.valid.push(false);
        }
    }

    /// Forgets the values of records from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Numbers(numbers) => numbers.truncate(rows),
            Values::Texts(_, codes) => codes.truncate(rows),
            Values::Histograms(bins) => bins.truncate(rows * HISTOGRAM_BINS),
        }
        self.valid.truncate(rows);
    }

    pub fn number(&self, row: usize) -> i64 {
        match &self.values {
            Values::Numbers(numbers) => numbers[row],
            Values::Texts(_, codes) => i64::from(codes[row]),
            Values::Histograms(_) => 0,
        }
    }

    pub fn text(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Texts(texts, codes) if codes[row] != NULL => texts.get(codes[row]),
            _ => b"",
        }
    }
}

fn empty(kind: &Kind) -> Values {
    match kind {
        Kind::Integer { .. } | Kind::Hex => Values::Numbers(Vec::new()),
        Kind::Text { .. } => Values::Texts(Texts::default(), Vec::new()),
        Kind::Histogram => Values::Histograms(Vec::new()),
    }
}

/// Whether a text has at least one character and not more than `most`.
fn fits(text: &[u8], most: usize) -> bool {
    let characters = || text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
    !text.is_empty() && (text.len() <= most || characters() <= most)
}
