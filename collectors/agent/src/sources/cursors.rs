//! The form that the sources' cursors have in an entry of the spool: FORM, the number of sections, the sections. A section is a
//! source's tag and a block of blocks, one for each ring or log; a block is its length and its bytes. Numbers are little-endian.
//!
//! An entry has a checksum, so only a fault in the agent, or another version of it, can make cursors that break off. The counts and
//! lengths let that be told and counted, wherever it happens, and keep a bad block from taking the others along.

use super::Source;
use crate::counters::Counters;
use crate::warn;

/// Entries of earlier agents begin with a tag, 1 to 5; their sections are not cut into blocks, and are taken back all the same.
const FORM: u8 = 6;
/// Cursors of many things, those of all rings and those of all tables of instances, may take this part of the spool each, at most BYTES_MAX: so that two
/// segments of cursors fit into the spool.
const PART: u64 = 16;
const BYTES_MAX: u64 = 8 << 20;

/// What cursors of many things may take in such a spool, bytes.
pub fn bytes_max(spool_max_bytes: u64) -> usize {
    (spool_max_bytes / PART).min(BYTES_MAX) as usize
}

/// Appends a block: its length, and what `write` appends.
pub fn block(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a source's section, unless it would hold nothing. Answers whether it did.
fn section(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let at = out.len();
    out.push(tag);
    block(out, write);
    let is_empty = out.len() == at + 5;
    if is_empty {
        out.truncate(at);
    }
    !is_empty
}

/// Appends all sources' cursors, or those that changed: nothing if none did.
pub fn write(sources: &[Box<dyn Source>], all: bool, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[FORM, 0]);
    for source in sources {
        out[at + 1] += section(out, source.tag(), |out| source.cursors(all, out)) as u8;
    }
    if !all && out[at + 1] == 0 {
        out.truncate(at);
    }
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
        [FORM, rest @ ..] => take_back(sources, Reader(rest)),
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

/// Answers how many places made no sense.
fn take_back(sources: &mut [Box<dyn Source>], mut rest: Reader) -> u64 {
    let mut bad = 0;
    let Some(sections) = rest.u8() else { return 1 };
    for _ in 0..sections {
        let Some(tag) = rest.u8() else { return bad + 1 };
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

/// What `write` would append for a source with this tag alone.
#[cfg(any(test, feature = "fuzz"))]
pub fn write_one(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[FORM, 1]);
    section(out, tag, write);
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
