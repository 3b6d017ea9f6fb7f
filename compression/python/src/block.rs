//! Many records of one kind at a time: which payloads are good ones, where they follow each other, and their columns.

use std::collections::HashMap;

use crate::columns::{Column, Kind, Values};
use crate::scan::{Scanner, Unusual};

/// What a payload is that is for a slower reader.
const UNUSUAL: u32 = u32::MAX;
/// A node's name that is longer is put otherwise into a document's id, which has 512 bytes at most: pipeline/store/elastic/names.py.
const NODE_BYTES_MAX: usize = 400;

/// The times that are plausible, ns; see pipeline/schema/times.py.
#[derive(Clone, Copy)]
pub struct Times {
    pub earliest: i64,
    pub latest: i64,
    pub longest: i64,
    /// What ended before is late.
    pub late: i64,
}

/// Payloads `first` to `first + count` of one (node, boot), whose numbers follow each other from `seq` on.
#[derive(Debug, PartialEq, Eq)]
pub struct Span {
    pub first: usize,
    pub count: usize,
    pub row: usize,
    pub seq: i64,
    pub late: usize,
}

/// Where in the columns the fields are that give a record its place.
#[derive(Clone, Copy)]
pub struct Places {
    pub node: usize,
    pub boot: usize,
    pub seq: usize,
    pub start: usize,
    pub end: usize,
    pub layer: usize,
}

pub struct Reader {
    tag: Box<[u8]>,
    fields: Vec<Column>,
    by_name: HashMap<Box<[u8]>, usize>,
    /// Of each field, its name as it stands before a value.
    keys: Vec<Box<[u8]>>,
    places: Places,
}

pub struct Block {
    pub columns: Vec<Column>,
    pub rows: usize,
    pub places: Places,
    pub spans: Vec<Span>,
    row_of: Vec<u32>,
}

impl Reader {
    /// For records whose `kind` is `tag`. Fails with the name of a field that there has to be and is not.
    pub fn new(tag: &str, fields: Vec<Column>) -> Result<Self, &'static str> {
        let by_name: HashMap<_, _> = fields
            .iter()
            .enumerate()
            .map(|(place, field)| (field.name.clone(), place))
            .collect();
        let place = |name: &'static str, number: bool| match by_name.get(name.as_bytes()) {
            Some(&place)
                if matches!(fields[place].kind, Kind::Integer { .. } | Kind::Hex) == number
                    && !fields[place].nullable =>
            {
                Ok(place)
            }
            _ => Err(name),
        };
        let places = Places {
            node: place("node", false)?,
            boot: place("boot", true)?,
            seq: place("seq", true)?,
            start: place("start", true)?,
            end: place("end", true)?,
            layer: place("layer", false)?,
        };
        if fields.len() > 64 {
            return Err("one of more than 64");
        }
        let keys = fields
            .iter()
            .map(|field| [b"\"", &*field.name, b"\":"].concat().into())
            .collect();
        Ok(Self {
            tag: tag.as_bytes().into(),
            keys,
            fields,
            by_name,
            places,
        })
    }

    pub fn read<'a>(&self, payloads: impl Iterator<Item = &'a [u8]>, times: Times) -> Block {
        let mut block = Block {
            columns: self.fields.iter().map(Column::empty).collect(),
            rows: 0,
            places: self.places,
            spans: Vec::new(),
            row_of: Vec::new(),
        };
        // Where the fields came in the record before: agents write them in one order.
        let mut order: Vec<usize> = Vec::with_capacity(self.fields.len());
        for payload in payloads {
            let usual = self
                .read_one(payload, &mut block.columns, &mut order)
                .is_ok()
                && block.is_plausible(times);
            if usual {
                block.row_of.push(block.rows as u32);
                block.rows += 1;
                block.extend_spans(times);
            } else {
                let rows = block.rows;
                block
                    .columns
                    .iter_mut()
                    .for_each(|column| column.truncate(rows));
                block.row_of.push(UNUSUAL);
            }
        }
        block
    }

    fn read_one(
        &self,
        payload: &[u8],
        columns: &mut [Column],
        order: &mut Vec<usize>,
    ) -> Result<(), Unusual> {
        let mut scanner = Scanner::new(payload);
        let (mut seen, mut tagged, mut place) = (0_u64, false, 0);
        scanner.skip_blanks();
        scanner.take(b'{')?;
        loop {
            scanner.skip_blanks();
            let field = match order.get(place) {
                Some(&field) if scanner.take_all(&self.keys[field]) => {
                    scanner.skip_blanks();
                    Some(field)
                }
                _ => {
                    let name = scanner.string()?;
                    scanner.skip_blanks();
                    scanner.take(b':')?;
                    scanner.skip_blanks();
                    if name == b"kind" {
                        None
                    } else {
                        let field = *self.by_name.get(name).ok_or(Unusual)?;
                        order.truncate(place);
                        order.push(field);
                        Some(field)
                    }
                }
            };
            if let Some(field) = field {
                place += 1;
                if seen & (1 << field) != 0 {
                    return Err(Unusual);
                }
                seen |= 1 << field;
                columns[field].read(&mut scanner)?;
            } else {
                if tagged || scanner.string()? != &*self.tag {
                    return Err(Unusual);
                }
                tagged = true;
            }
            scanner.skip_blanks();
            match scanner.peek() {
                Some(b',') => scanner.take(b',')?,
                _ => break,
            }
        }
        scanner.take(b'}')?;
        scanner.skip_blanks();
        scanner.end()?;
        if !tagged {
            return Err(Unusual);
        }
        for (place, column) in columns.iter_mut().enumerate() {
            if seen & (1 << place) == 0 {
                if !column.nullable {
                    return Err(Unusual);
                }
                column.push_null();
            }
        }
        Ok(())
    }
}

impl Block {
    /// Whether the record that was read last, which is not counted yet, has times that can be, and a name that fits.
    fn is_plausible(&self, times: Times) -> bool {
        let (start, end) = (
            self.columns[self.places.start].number(self.rows),
            self.columns[self.places.end].number(self.rows),
        );
        let node = self.columns[self.places.node].text(self.rows);
        node.len() <= NODE_BYTES_MAX
            && start >= times.earliest
            && end <= times.latest
            && end >= start
            && end - start <= times.longest
    }

    /// Puts the last record to the last span, or begins one.
    fn extend_spans(&mut self, times: Times) {
        let (row, first) = (self.rows - 1, self.row_of.len() - 1);
        let seq = self.columns[self.places.seq].number(row);
        let late = usize::from(self.columns[self.places.end].number(row) < times.late);
        let same = |place: usize| {
            self.columns[place].number(row) == self.columns[place].number(row.wrapping_sub(1))
        };
        if let Some(span) = self.spans.last() {
            let follows = span.first + span.count == first
                && span.seq.checked_add(span.count as i64) == Some(seq);
            if follows && same(self.places.node) && same(self.places.boot) {
                if let Some(span) = self.spans.last_mut() {
                    span.count += 1;
                    span.late += late;
                }
                return;
            }
        }
        self.spans.push(Span {
            first,
            count: 1,
            row,
            seq,
            late,
        });
    }

    /// The row of a payload; None where it is unusual or there is none.
    pub fn row(&self, payload: usize) -> Option<usize> {
        self.row_of
            .get(payload)
            .filter(|&&row| row != UNUSUAL)
            .map(|&row| row as usize)
    }

    pub fn dictionary(&self, column: usize) -> &[Box<[u8]>] {
        match &self.columns[column].values {
            Values::Texts(texts, _) => texts.all(),
            _ => &[],
        }
    }
}
