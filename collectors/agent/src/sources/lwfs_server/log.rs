//! One server's log: its file, what it told, and the samples that are made of it.

use super::group::{Since, Told, NS_PER_S};
use super::line;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::log_file::lines::Next;
use crate::sources::log_file::local_time::LocalTime;
use crate::sources::log_file::place::Place;
use crate::sources::log_file::source::{self, Flow, How};
use crate::sources::log_file::{Follower, More, Owner};
use crate::sources::samples::reading::Reading;
use crate::sources::samples::track::{At, To, Track, QUIET_MAX_NS};
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Lines of a second may come so long after it, s.
const LATE_S: i64 = 1;
/// A log that is silent says that nothing was served, but for so long ago, s: lines may lie in the server's buffer.
const SILENT_LATE_S: i64 = 5;

pub struct Settings {
    pub owner: Owner,
    pub zone: TimeZone,
    pub bounds_us: Vec<u64>,
    /// What the logs' paths begin with that is no part of their names.
    pub root: PathBuf,
}

/// Owned by the source. What is in memory at a kill is read again from the cursor's place on.
pub struct Log {
    follower: Follower,
    instance: String,
    told: Told,
    /// `None`: nothing was told yet.
    track: Option<Track>,
    /// Whole seconds that the batch had no room for, and since where each is; as many as one line's statements.
    waiting: VecDeque<(Since, Reading)>,
    bad_lines: u64,
    /// Lines that begin before this were counted: read again, they do not count again.
    counted_to: u64,
    /// It was not looked at since it was read to its end.
    is_due: bool,
    is_retired: bool,
    has_changed: bool,
}

impl Log {
    fn read_all(
        &mut self,
        budget: &mut u64,
        how: How,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        loop {
            if !self.take_lines(counters, batch) {
                return Flow::Full;
            }
            match self.follower.more(budget, how.last) {
                More::Read => self.has_changed = true,
                More::Other(unfinished) => self.came_to_other(unfinished),
                More::Spent => return Flow::Spent,
                More::Nothing => break,
            }
        }
        let now_s = how.now.utc_ns() / NS_PER_S;
        let late_s = if how.last { 0 } else { LATE_S };
        if self
            .told
            .open_second()
            .is_some_and(|open| open + 1 + late_s <= now_s)
        {
            self.close();
        }
        self.tell_silence(now_s - SILENT_LATE_S);
        match self.tell(counters, batch) {
            true => Flow::Done,
            false => Flow::Full,
        }
    }

    /// Takes the lines that were read. False: the batch is full.
    fn take_lines(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        loop {
            if !self.tell(counters, batch) {
                return false;
            }
            let (told, waiting, instance) = (&mut self.told, &mut self.waiting, &self.instance);
            let mut bad = 0;
            let begin = match self.follower.lines.next_line() {
                Next::Nothing => return true,
                Next::TooLong(at) => {
                    bad += 1;
                    at
                }
                Next::Line(at, text) => {
                    line::parse(text, |said| {
                        let timed = said.and_then(|said| Some((told.second(&said)?, said.what)));
                        let Some((second, what)) = timed else {
                            bad += 1;
                            return;
                        };
                        if told.ends(second, &what) {
                            waiting.extend(closed(told, instance));
                        }
                        bad += told.take(second, at, what);
                    });
                    at
                }
            };
            if begin >= self.counted_to {
                self.bad_lines += bad;
                self.counted_to = self.follower.lines.position().0;
            }
        }
    }

    fn close(&mut self) {
        let closed = closed(&mut self.told, &self.instance);
        self.waiting.extend(closed);
    }

    /// The log is there and said nothing for long: nothing, or less than a group, was served until `end_s`.
    fn tell_silence(&mut self, end_s: i64) {
        let told_ns = self.track.as_ref().map(|track| track.told.utc_ns);
        let is_silent = self.told.open_second().is_none() && self.waiting.is_empty();
        let is_long = told_ns.is_some_and(|told| end_s * NS_PER_S - told >= QUIET_MAX_NS);
        if is_silent && is_long && self.follower.is_there() {
            let since = self.since();
            let reading = self.told.reading(&self.instance, end_s);
            self.waiting.extend(reading.map(|reading| (since, reading)));
        }
    }

    /// Tells what waits. False: the batch is full.
    fn tell(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        while let Some((_, reading)) = self.waiting.front() {
            let at = At::told(reading.time_ns.unwrap_or_default());
            match &mut self.track {
                None => self.track = Some(Track::begin(reading, at)),
                Some(track) => {
                    let to = To {
                        component: "lwfs_server",
                        counters,
                        batch: &mut *batch,
                    };
                    if !track.go_on(reading, at, true, to) {
                        return false;
                    }
                }
            }
            self.waiting.pop_front();
            self.has_changed = true;
        }
        true
    }

    /// Reading goes on in another file, or in the same begun anew. What was said in the one before stands.
    fn came_to_other(&mut self, unfinished: Option<u64>) {
        self.bad_lines += unfinished.is_some_and(|at| at >= self.counted_to) as u64;
        self.counted_to = 0;
        self.told.moved_on();
        self.waiting.iter_mut().for_each(|(since, _)| since.at = 0);
        self.has_changed = true;
    }

    /// Since where the next agent is to read.
    fn since(&self) -> Since {
        let waiting = self.waiting.front().map(|(since, _)| *since);
        waiting.unwrap_or_else(|| self.told.since(self.follower.place().offset))
    }

    fn place(&self) -> Place {
        let read_to = self.follower.place();
        match self.since().at {
            offset if offset == read_to.offset => read_to,
            offset => Place {
                offset,
                skipping: false,
                ..read_to
            },
        }
    }
}

/// Ends the second that is open: since where it was, and what stood at its end.
fn closed(told: &mut Told, instance: &str) -> Option<(Since, Reading)> {
    let (second, since) = (told.open_second()?, told.since(0));
    told.close();
    Some((since, told.reading(instance, second + 1)?))
}

impl source::Log for Log {
    type Settings = Settings;

    fn new(path: PathBuf, settings: &Settings) -> Log {
        let inside = path.strip_prefix(&settings.root).unwrap_or(&path);
        let instance = Path::new("/").join(inside);
        Log {
            instance: instance.to_string_lossy().into_owned(),
            follower: Follower::new(path, settings.owner),
            told: Told::new(
                LocalTime::new(settings.zone.clone(), 0),
                &settings.bounds_us,
            ),
            track: None,
            waiting: VecDeque::new(),
            bad_lines: 0,
            counted_to: 0,
            is_due: true,
            is_retired: false,
            has_changed: false,
        }
    }

    fn retired(path: PathBuf, settings: &Settings) -> Log {
        Log {
            is_retired: true,
            ..Self::new(path, settings)
        }
    }

    fn path(&self) -> &Path {
        self.follower.path()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }

    fn is_over(&self) -> bool {
        self.is_retired
    }

    fn read(&mut self, budget: &mut u64, how: How, counters: &Counters, batch: &mut Batch) -> Flow {
        if self.is_retired {
            return Flow::Done;
        }
        if std::mem::take(&mut self.is_due) {
            if let More::Other(unfinished) = self.follower.look() {
                self.came_to_other(unfinished);
            }
        }
        let flow = self.read_all(budget, how, counters, batch);
        counters.bad_lines.add(std::mem::take(&mut self.bad_lines));
        counters.lost_log_bytes.add(self.follower.take_lost());
        if flow == Flow::Done {
            self.is_due = true;
            self.follower.lines.shrink();
        }
        flow
    }

    fn has_cursor(&self, all: bool) -> bool {
        self.has_changed || all && !self.follower.is_blank()
    }

    fn write_cursor(&self, _all: bool, out: &mut Vec<u8>) {
        self.place().write(out);
        self.since().write(out);
        let last_s = self.told.open_second().unwrap_or(self.told.clock.last_s());
        out.extend_from_slice(&last_s.to_le_bytes());
        out.extend_from_slice(&self.counted_to.to_le_bytes());
        out.push(self.track.is_some() as u8);
        if let Some(track) = &self.track {
            track.write_cursor(out);
        }
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let place = Place::read(cursor)?;
        let doubted = Since::read(cursor)?;
        let (last_s, counted_to) = (cursor.u64()? as i64, cursor.u64()?);
        let track = match cursor.u8()? {
            0 => None,
            _ => Some(Track::read_cursor(cursor)?),
        };
        self.follower.restore(place);
        self.told.clock.resume(last_s);
        self.told.restore(doubted, |key| track.as_ref()?.bits(key));
        self.track = track;
        self.counted_to = counted_to;
        self.waiting.clear();
        self.has_changed = false;
        Some(())
    }

    fn committed(&mut self) {
        self.has_changed = false;
    }
}
