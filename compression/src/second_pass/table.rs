//! Records of kind `run` in columns.

use std::borrow::Cow;
use std::ops::Index;

/// Whole numbers of a record, in the order of `Table::numbers`; the names are the schema's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Number {
    Boot,
    Seq,
    Uid,
    Parent,
    Rank,
    FileId,
    Handle,
    Offset,
    Stride,
    Size,
    Count,
    Bytes,
    Start,
    End,
    BusyNs,
    SlowNs,
    Errno,
    Flags,
}
pub const NUMBERS: [&str; 18] = [
    "boot", "seq", "uid", "parent", "rank", "file_id", "handle", "offset", "stride", "size",
    "count", "bytes", "start", "end", "busy_ns", "slow_ns", "errno", "flags",
];

/// Texts of a record, in the order of `Table::texts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Text {
    Node,
    Layer,
    Source,
    Job,
    Process,
    Program,
    Op,
    File,
}
pub const TEXTS: [&str; 8] = [
    "node", "layer", "source", "job", "process", "program", "op", "file",
];

/// Bytes that all texts of a block may have, each once a column, and those of all its records, each as often as it is there: as many are made in reading at most.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
pub const TEXT_BYTES_TOLD_MAX: usize = 256 << 20;

/// A column of whole numbers; `valid`: 0 where null, empty where all are there.
#[derive(Clone, Default, Debug)]
pub struct Numbers<'a> {
    pub values: Cow<'a, [i64]>,
    pub valid: Cow<'a, [u8]>,
}

impl Numbers<'_> {
    #[inline(always)]
    pub fn is_there(&self, row: usize) -> bool {
        self.valid.is_empty() || self.valid[row] != 0
    }

    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.is_there(row).then(|| self.values[row])
    }
}

/// What of records is read. What is not has empty columns.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Records about this path alone.
    pub file: Option<&'a [u8]>,
    pub numbers: [bool; NUMBERS.len()],
    pub texts: [bool; TEXTS.len()],
    pub latency: bool,
}

impl Wanted<'_> {
    pub const ALL: Wanted<'static> = Wanted {
        file: None,
        numbers: [true; NUMBERS.len()],
        texts: [true; TEXTS.len()],
        latency: true,
    };
}

/// Of no text.
pub const NO_CODE: i32 = -1;

/// Texts on end, by number.
#[derive(Clone, Debug)]
pub struct Strings {
    bytes: Vec<u8>,
    /// Where each ends, behind a 0.
    ends: Vec<usize>,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            ends: vec![0],
        }
    }
}

impl Strings {
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| &self[number])
    }

    /// All of them, and where each ends, behind a 0.
    pub fn into_parts(self) -> (Vec<u8>, Vec<usize>) {
        (self.bytes, self.ends)
    }
}

impl Index<usize> for Strings {
    type Output = [u8];

    fn index(&self, number: usize) -> &[u8] {
        &self.bytes[self.ends[number]..self.ends[number + 1]]
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Strings {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}

/// A column of texts, by their number in `texts`, or NO_CODE.
#[derive(Clone, Default, Debug)]
pub struct Texts<'a> {
    pub codes: Cow<'a, [i32]>,
    pub texts: Strings,
}

impl Texts<'_> {
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let code = self.codes[row];
        (code != NO_CODE).then(|| &self.texts[code as usize])
    }
}

#[derive(Clone, Default, Debug)]
pub struct Table<'a> {
    pub rows: usize,
    pub numbers: [Numbers<'a>; NUMBERS.len()],
    pub texts: [Texts<'a>; TEXTS.len()],
    /// LATENCY_BUCKETS a row; empty where no row has any.
    pub latency: Numbers<'a>,
}

impl<'a> Table<'a> {
    #[inline(always)]
    pub fn number(&self, number: Number) -> &[i64] {
        &self.numbers[number as usize].values
    }

    #[inline(always)]
    pub fn text(&self, text: Text) -> &Texts<'a> {
        &self.texts[text as usize]
    }

    /// Bytes of its texts: each that a record has, once for each column; and as often as it is there.
    pub fn text_bytes(&self) -> (usize, usize) {
        let (mut once, mut told) = (0, 0);
        for column in &self.texts {
            let mut is_used = vec![false; column.texts.len()];
            for &code in column.codes.iter().filter(|&&code| code != NO_CODE) {
                let size = column.texts[code as usize].len();
                told += size;
                if !std::mem::replace(&mut is_used[code as usize], true) {
                    once += size;
                }
            }
        }
        (once, told)
    }
}
