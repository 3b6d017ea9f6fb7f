//! The form that the sources' cursors have in an entry of the spool: FORM, sections, END. A section is a source's tag and a block of blocks, one for
//! each ring or log; a block is its length and its bytes. A source that has many has several sections. Numbers are little-endian.
//!
//! An entry has a checksum, so only a fault in the agent, or another version of it, can make cursors that break off. The end and the
//! lengths let that be told and counted, wherever it happens, and keep a bad block from taking the others along.

use super::Source;
use crate::counters::Counters;
use crate::warn;

/// Entries of earlier agents have COUNTED and the number of sections before them, and no END; those of still earlier ones begin with a tag, 1 to 5,
/// and their sections are not cut into blocks. All are taken back.
const FORM: u8 = 7;
const COUNTED: u8 = 6;
/// Where a section's tag would be.
const END: u8 = 0;
/// Cursors are handed to the spool in pieces of so many bytes and what the last block has beyond: all of them together may be several MiB.
pub const PIECE_BYTES: usize = 64 << 10;
/// Cursors of many things, those of all rings and those of all tables of instances, may take this part of the spool each, at most BYTES_MAX: so that two
/// segments of cursors fit into the spool.
const PART: u64 = 16;
const BYTES_MAX: u64 = 8 << 20;

/// What cursors of many things may take in such a spool, bytes.
pub fn bytes_max(spool_max_bytes: u64) -> usize {
    (spool_max_bytes / PART).min(BYTES_MAX) as usize
}

/// Appends a block: its length, and what `write` appends.
fn block(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    end_block(out, at);
}

/// Says of the block whose length stands at `at` that it ends here.
fn end_block(out: &mut [u8], at: usize) {
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes the sources' blocks, and hands them on in pieces.
pub struct Pieces<'a> {
    /// What was not handed on yet.
    piece: Vec<u8>,
    has_begun: bool,
    /// Of the source that writes.
    tag: u8,
    /// Where in `piece` its section begins, once it has a block.
    section: Option<usize>,
    take: &'a mut dyn FnMut(&[u8]),
}

impl Pieces<'_> {
    pub fn to(take: &mut dyn FnMut(&[u8])) -> Pieces<'_> {
        Pieces {
            piece: Vec::new(),
            has_begun: false,
            tag: END,
            section: None,
            take,
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.piece.push(FORM);
        }
    }

    /// Appends a block: its length, and what `write` appends.
    pub fn block(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        if self.section.is_none() {
            self.section = Some(self.piece.len());
            self.piece.push(self.tag);
            self.piece.extend_from_slice(&[0; 4]);
        }
        block(&mut self.piece, write);
        if self.piece.len() >= PIECE_BYTES {
            self.end_section();
            self.hand_on();
        }
    }

    fn end_section(&mut self) {
        if let Some(at) = self.section.take() {
            end_block(&mut self.piece, at + 1);
        }
    }

    fn hand_on(&mut self) {
        (self.take)(&self.piece);
        self.piece.clear();
    }

    fn end(mut self) {
        if self.has_begun {
            self.piece.push(END);
            self.hand_on();
        }
    }
}

/// Hands over all sources' cursors, or those that changed: nothing if none did.
pub fn write(sources: &[Box<dyn Source>], all: bool, take: &mut dyn FnMut(&[u8])) {
    let mut pieces = Pieces::to(take);
    if all {
        pieces.begin();
    }
    for source in sources {
        pieces.tag = source.tag();
        source.cursors(all, &mut pieces);
        pieces.end_section();
    }
    pieces.end();
}

/// Gives each source its cursors back; `all`: they replace what was restored before. Those of a source that is not there any more are
/// dropped. What makes no sense is passed over, told and counted.
pub fn restore(sources: &mut [Box<dyn Source>], all: bool, bytes: &[u8], counters: &Counters) {
    if all {
        sources.iter_mut().for_each(|s| s.forget());
    }
    let bad = match bytes {
        // An entry whose records moved no cursor bears none; earlier agents also wrote none where no source had any.
        [] => 0,
        [FORM, rest @ ..] => take_back(sources, None, Reader(rest)),
        [COUNTED, rest @ ..] => match rest.split_first() {
            Some((count, rest)) => take_back(sources, Some(*count), Reader(rest)),
            None => 1,
        },
        old => take_back_unframed(sources, Reader(old)),
    };
    if bad > 0 {
        counters.bad_cursors.add(bad);
        warn!(
            "bad cursors",
            "spool: positions that an entry holds break off or make no sense, in {bad} places; what was read after the ones before them comes \
             again and counts twice, or is lost if it is gone; keep the spool's directory and report it"
        );
    }
}

/// Takes so many sections back, or all up to END. Answers how many places made no sense.
fn take_back(sources: &mut [Box<dyn Source>], mut count: Option<u8>, mut rest: Reader) -> u64 {
    let mut bad = 0;
    while count != Some(0) {
        let Some(tag) = rest.u8() else { return bad + 1 };
        match &mut count {
            Some(count) => *count -= 1,
            None if tag == END => break,
            None => {}
        }
        let (section, is_whole) = rest.block();
        if let Some(source) = sources.iter_mut().find(|s| s.tag() == tag) {
            bad += take_blocks(&mut **source, section);
        }
        bad += !is_whole as u64;
    }
    bad + !rest.is_empty() as u64
}

fn take_blocks(source: &mut dyn Source, mut section: Reader) -> u64 {
    let mut bad = 0;
    while !section.is_empty() {
        let (mut block, is_whole) = section.block();
        let is_taken = is_whole && source.restore(&mut block).is_some() && block.is_empty();
        bad += !is_taken as u64;
    }
    bad
}

/// The same for an entry of an earlier agent, of which a cut between two sections cannot be seen.
fn take_back_unframed(sources: &mut [Box<dyn Source>], mut rest: Reader) -> u64 {
    let mut bad = 0;
    while let Some(tag) = rest.u8() {
        let (mut section, is_whole) = rest.block();
        if let Some(source) = sources.iter_mut().find(|s| s.tag() == tag) {
            while !section.is_empty() && source.restore(&mut section).is_some() {}
            bad += (is_whole && !section.is_empty()) as u64;
        }
        bad += !is_whole as u64;
    }
    bad
}

/// What `write` would hand over for a source with this tag alone.
#[cfg(any(test, feature = "fuzz"))]
pub fn write_one(tag: u8, write: impl FnOnce(&mut Pieces)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut take = |piece: &[u8]| out.extend_from_slice(piece);
    let mut pieces = Pieces::to(&mut take);
    pieces.tag = tag;
    write(&mut pieces);
    pieces.end_section();
    pieces.end();
    out
}

/// The blocks that one source hands over.
#[cfg(test)]
pub fn blocks_of(source: &dyn Source, all: bool) -> Vec<u8> {
    let whole = write_one(source.tag(), |out| source.cursors(all, out));
    let mut rest = Reader(whole.get(1..).unwrap_or_default());
    let mut blocks = Vec::new();
    while rest.u8().is_some_and(|tag| tag != END) {
        blocks.extend_from_slice(rest.block().0 .0);
    }
    blocks
}

/// Gives one source its blocks back; answers how many made no sense.
#[cfg(test)]
pub fn restore_one(source: &mut dyn Source, all: bool, blocks: &[u8]) -> u64 {
    if all {
        source.forget();
    }
    take_blocks(source, Reader(blocks))
}

/// Takes little-endian numbers and bytes off the front. `None`: there are not so many.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many numbers.
    pub fn u64s<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.u64()?;
        }
        Some(numbers)
    }

    /// The next block, and whether it is whole; of one that is cut short what there is.
    fn block(&mut self) -> (Reader<'a>, bool) {
        let length = self.u32().map(|length| length as usize);
        match length.and_then(|length| self.take(length)) {
            Some(block) => (Reader(block), true),
            None if length.is_some() => (Reader(std::mem::take(&mut self.0)), false),
            None => {
                self.0 = &[];
                (Reader(&[]), false)
            }
        }
    }
}

#[cfg(test)]
#[path = "cursors_tests.rs"]
mod tests;
