//! What packing and reading know of a job's records so far, and what that foretells of the next row.
//!
//! Rows are walked process by process. Each stands at a *track*: the place of the structure at which a like row stood in other processes, or in a
//! step before. A row's values are foretold by the trends of its track, its times by the track's rhythm.

use super::callings::{Callings, Lane};
use super::names::{Name, NameTrend, Templates};
use super::order::Change;
use super::rhythm::{Did, Recent, Rhythm, Times};
use super::shape::{Files, Place, Shape};
use super::side::{Field, Side};
use super::trend::Trend;
use super::wire::Damage;
use crate::record::{LATENCY_BUCKETS, OP_NAMES};
use crate::ring::file_id;

/// Of a value that may be null.
pub const NULL: i64 = i64::MIN;

/// A row, in the order of its process.
#[derive(Clone, Copy, Default)]
pub struct Row {
    /// errno, and flags << 16.
    pub code: i64,
    pub handle: i64,
    pub size: i64,
    pub count: i64,
    pub stride: i64,
    pub offset: i64,
    pub bytes: i64,
    pub times: Times,
    pub latency: [i64; LATENCY_BUCKETS],
}

/// A file that a process names for the first time.
#[derive(Clone, Copy, Default)]
pub struct NewFile {
    pub name: Name,
    pub id: Option<i64>,
}

/// What a process says of itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Who {
    pub job: Name,
    pub program: Name,
    pub uid: i64,
    pub parent: i64,
    pub rank: i64,
}

/// All that a row says. `file` and `who` are looked at where its shape says so: it names a file, the process says something else of itself.
#[derive(Default)]
pub struct Said {
    pub row: Row,
    pub file: NewFile,
    pub who: Who,
}

/// How a file's id comes from its path.
mod kind {
    pub const HASHED: i64 = 0;
    pub const NO_ID: i64 = 1;
    pub const OWN: i64 = 2;
}

#[derive(Clone, Default)]
struct WhoTrend {
    job: NameTrend,
    program: NameTrend,
    numbers: [Trend; 3],
}

#[derive(Clone, Default)]
struct FileTrend {
    name: NameTrend,
    kind: Trend,
}

/// What is known at one place of the structure.
#[derive(Clone, Default)]
pub struct Track {
    pub shape: Shape,
    /// The last process that had a row here, by number from 1.
    pub lane: u32,
    code: Trend,
    handle: Trend,
    slot: Trend,
    size: Trend,
    count: Trend,
    stride: Trend,
    offset: Trend,
    bytes: Trend,
    rhythm: Rhythm,
    /// Few rows have these.
    file: Option<Box<FileTrend>>,
    who: Option<Box<WhoTrend>>,
    latency: Option<Box<[Trend; LATENCY_BUCKETS]>>,
}

impl Track {
    /// That of the next row's operations, as foretold; the lower bits are enough to look it up.
    pub fn size(&self) -> u32 {
        self.size.next() as u32
    }
}

#[derive(Clone, Default)]
pub struct Model {
    pub templates: Templates,
    pub tracks: Vec<Track>,
    /// Where the last process began.
    pub home: usize,
    callings: Callings,
    /// How processes took turns, and the number of the last node's first row.
    pub turns: Vec<Change>,
    pub first_seq: i64,
    /// How many processes there were.
    pub lane: u32,
    /// Where the last row of each operation stood, for places that are new.
    of_op: [Option<u32>; OP_NAMES.len()],
    recent: Recent,
    /// When the last process's first row began.
    first_start: i64,
    /// The path of the file that was named last, and its hash, if it has one.
    path: Vec<u8>,
    hash: Option<u64>,
}

impl Model {
    /// Codes what a process is called.
    pub fn lane<S: Side>(&mut self, side: &mut S, lane: &mut Lane) -> Result<(), Damage> {
        self.callings.pass(side, &self.templates, lane)
    }

    /// Goes on as if so many processes had been there that were like the last ones; back, if negative.
    pub fn skip(&mut self, lanes: i64) {
        self.callings.skip(lanes);
        for track in &mut self.tracks {
            let all = [
                &mut track.code,
                &mut track.handle,
                &mut track.slot,
                &mut track.size,
                &mut track.count,
                &mut track.stride,
                &mut track.offset,
                &mut track.bytes,
            ];
            all.into_iter().for_each(|trend| trend.skip(lanes));
            if let Some(file) = &mut track.file {
                file.name.skip(lanes);
            }
            if let Some(who) = &mut track.who {
                [&mut who.job, &mut who.program]
                    .into_iter()
                    .for_each(|name| name.skip(lanes));
                who.numbers.iter_mut().for_each(|trend| trend.skip(lanes));
            }
        }
    }

    /// The path of the file that was named last, and its hash, if it has one.
    pub fn path(&self) -> Option<(&[u8], u64)> {
        self.hash.map(|hash| (&*self.path, hash))
    }

    /// The next process's rows follow.
    pub fn begin_lane(&mut self) {
        self.lane += 1;
        self.recent.begin(self.first_start);
    }

    /// The track of the next row, which continues at `at`: that one, or a new one that begins as it is where the process has been there.
    #[inline]
    pub fn visit(&mut self, at: usize) -> usize {
        let track = &mut self.tracks[at];
        if track.lane != self.lane {
            track.lane = self.lane;
            return at;
        }
        let copy = track.clone();
        self.tracks.push(copy);
        self.tracks.len() - 1
    }

    /// A track for a row that is like no other.
    pub fn open(&mut self, shape: Shape) -> usize {
        let like = self.of_op[shape.op() as usize];
        let mut track = like.map_or_else(Track::default, |at| self.tracks[at as usize].clone());
        track.shape = shape;
        track.lane = self.lane;
        self.tracks.push(track);
        self.tracks.len() - 1
    }

    /// Codes a row of the track's shape. slot: which of the process's files it is about, in packing. Returns the slot.
    pub fn row<S: Side>(
        &mut self,
        side: &mut S,
        files: &mut Files,
        at: usize,
        is_first: bool,
        slot: usize,
        said: &mut Said,
    ) -> Result<usize, Damage> {
        let Said {
            row,
            file: new_file,
            who,
        } = said;
        let texts = &self.templates;
        let track = &mut self.tracks[at];
        let shape = track.shape;
        self.of_op[shape.op() as usize] = Some(at as u32);
        side.begin()?;
        if shape.changes() {
            let known = track.who.get_or_insert_default();
            known
                .job
                .pass(side, texts, (Field::Job, Field::JobNumbers), &mut who.job)?;
            known.program.pass(
                side,
                texts,
                (Field::Program, Field::ProgramNumbers),
                &mut who.program,
            )?;
            let fields = [Field::Uid, Field::Parent, Field::Rank];
            for ((field, trend), value) in fields.into_iter().zip(&mut known.numbers).zip([
                &mut who.uid,
                &mut who.parent,
                &mut who.rank,
            ]) {
                tell(side, field, trend, value)?;
            }
        }
        let slot = match shape.place() {
            Place::None => files.none(),
            Place::Recent(at) => files.recent(at)?,
            Place::New => {
                let known = track.file.get_or_insert_default();
                self.hash = pass_file(side, texts, known, &mut self.path, new_file)?;
                files.open()
            }
            Place::Slot => {
                let mut told = slot as i64;
                tell(side, Field::Slot, &mut track.slot, &mut told)?;
                files.told(told)?
            }
        };
        let file = files.get(slot);
        tell(side, Field::Code, &mut track.code, &mut row.code)?;
        if shape.same_handle() {
            row.handle = file.handle;
        } else {
            tell(side, Field::Handle, &mut track.handle, &mut row.handle)?;
            file.handle = row.handle;
        }
        tell(side, Field::Size, &mut track.size, &mut row.size)?;
        tell(side, Field::Count, &mut track.count, &mut row.count)?;
        if row.count == 1 {
            side.value(Field::Stride, 0, &mut row.stride)?;
        } else {
            tell(side, Field::Stride, &mut track.stride, &mut row.stride)?;
        }
        // Where the file's line goes on, or else behind what came last.
        let by = track.offset.next();
        let (foretold, other) = (file.line.wrapping_add(by), file.last.wrapping_add(by));
        side.either(Field::Offset, foretold, other, &mut row.offset)?;
        let is_foretold = row.offset == foretold || row.offset == other;
        track.offset.learn(if is_foretold {
            by
        } else {
            row.offset.wrapping_sub(file.last)
        });
        if shape.moves() {
            let step = if row.count == 1 {
                row.size
            } else {
                row.stride.wrapping_mul(row.count)
            };
            file.last = row.offset.wrapping_add(step);
            if is_foretold {
                file.line = file.last;
            }
        }
        let whole = row.size.wrapping_mul(row.count);
        let mut rest = row.bytes.wrapping_sub(whole);
        tell(side, Field::Bytes, &mut track.bytes, &mut rest)?;
        row.bytes = whole.wrapping_add(rest);

        let single = |side: &mut S, times: &mut Times| {
            side.value(Field::Busy, times.took, &mut times.busy)?;
            side.value(Field::Slow, times.busy, &mut times.slow)
        };
        track.rhythm.pass(
            side,
            &mut self.recent,
            Did {
                op: shape.op(),
                count: row.count,
                bytes: row.bytes,
            },
            &mut row.times,
            single,
        )?;
        if shape.has_latency() {
            let known = track.latency.get_or_insert_default();
            side.numbers(
                Field::Latency,
                &known.each_ref().map(Trend::next),
                &mut row.latency,
            )?;
            known
                .iter_mut()
                .zip(row.latency)
                .for_each(|(trend, value)| trend.learn(value));
        }
        side.end();
        if is_first {
            self.first_start = row.times.start;
        }
        Ok(slot)
    }
}

#[inline(always)]
fn tell<S: Side>(
    side: &mut S,
    field: Field,
    trend: &mut Trend,
    value: &mut i64,
) -> Result<(), Damage> {
    side.value(field, trend.next(), value)?;
    trend.learn(*value);
    Ok(())
}

/// Codes a file, and answers with the hash of its path, if it has one, which is left in `path`.
fn pass_file<S: Side>(
    side: &mut S,
    texts: &Templates,
    known: &mut FileTrend,
    path: &mut Vec<u8>,
    file: &mut NewFile,
) -> Result<Option<u64>, Damage> {
    known.name.pass(
        side,
        texts,
        (Field::File, Field::FileNumbers),
        &mut file.name,
    )?;
    path.clear();
    let hash = texts.render(&file.name, path)?.then(|| file_id(path));
    let hashed = hash.map(|hash| hash as i64);
    let mut kind = match file.id {
        None => kind::NO_ID,
        id if id == hashed => kind::HASHED,
        Some(_) => kind::OWN,
    };
    tell(side, Field::FileKind, &mut known.kind, &mut kind)?;
    file.id = match kind {
        kind::HASHED => hashed,
        kind::NO_ID => None,
        _ => {
            let mut id = file.id.unwrap_or_default();
            side.drawn(Field::FileId, None, &mut id)?;
            Some(id)
        }
    };
    Ok(hash)
}
