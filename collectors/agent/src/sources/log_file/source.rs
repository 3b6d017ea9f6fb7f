//! A source of logs: each log's turn, and its cursor in the spool.

use super::Owner;
use crate::clock::Now;
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::{Pieces, Reader};
use crate::sources::{Pass, Progress, Source};
use crate::sys;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often logs are looked at; their times are no finer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is read of a log before the other sources have their turn, bytes.
pub const TURN_BYTES: u64 = 32 << 20;
/// How long an agent that is to end goes on reading logs that hold more than one turn reads.
const LAST_LOOK_MAX: Duration = Duration::from_secs(10);

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// All that was there is read.
    Done,
    /// The batch is full.
    Full,
    /// As much was read as might be.
    Spent,
}

/// How a log is to be read in this turn.
#[derive(Clone, Copy)]
pub struct How {
    /// Nothing stays open.
    pub flush: bool,
    /// No other look comes.
    pub last: bool,
    pub now: Now,
}

/// One log: its file, what it told, and what goes into the batch.
pub trait Log {
    type Settings;

    /// Whether a job's end must follow what was logged of it.
    const JOBS_WAIT: bool = true;

    fn new(path: PathBuf, settings: &Self::Settings) -> Self;

    /// One that is not among the settings any more: what the spool has of it is written, and that is all.
    fn retired(path: PathBuf, settings: &Self::Settings) -> Self;

    fn path(&self) -> &Path;

    fn is_retired(&self) -> bool;

    /// Whether it is retired and has nothing more to write.
    fn is_over(&self) -> bool;

    /// Reads what is there, `budget` bytes at most.
    fn read(&mut self, budget: &mut u64, how: How, counters: &Counters, batch: &mut Batch) -> Flow;

    /// Whether the spool should have its cursor: it changed, or all are asked for.
    fn has_cursor(&self, all: bool) -> bool;

    /// Appends what follows the path in its cursor.
    fn write_cursor(&self, all: bool, out: &mut Vec<u8>);

    /// Takes back what the spool has of it. `None`: it makes no sense, and nothing was changed.
    fn restore(&mut self, cursor: &mut Reader) -> Option<()>;

    fn committed(&mut self);
}

/// Owned by the agent's thread; as many logs as the settings name, and those of earlier settings.
pub struct Logs<L: Log> {
    tag: u8,
    counters: Arc<Counters>,
    logs: Vec<L>,
    settings: L::Settings,
    looked: Option<Instant>,
    /// Something was left in the last pass.
    is_unfinished: bool,
    /// In this pass: when it began, and how far reading has come. `None`: it has not begun.
    turn: Option<Turn>,
}

struct Turn {
    began: Instant,
    /// The log whose turn it is.
    log: usize,
    /// What may still be read of it.
    bytes: u64,
    /// Nothing stays open.
    flush: bool,
}

/// Whose the logs must be. A capture's files belong to who captured them.
pub fn owner(config: &Config) -> Owner {
    match config.root.as_os_str().is_empty() {
        true => Owner::own(),
        false => Owner::Anyone,
    }
}

impl<L: Log> Logs<L> {
    /// `tag`: of its cursors in the spool.
    pub fn new(
        tag: u8,
        paths: impl Iterator<Item = PathBuf>,
        settings: L::Settings,
        counters: Arc<Counters>,
    ) -> Logs<L> {
        Logs {
            tag,
            counters,
            logs: paths.map(|path| L::new(path, &settings)).collect(),
            settings,
            looked: None,
            is_unfinished: false,
            turn: None,
        }
    }

    /// Begins a turn, if it is time for one.
    fn begin_turn(&mut self, pass: &Pass) -> Option<Turn> {
        let now = pass.now.instant;
        let since = |looked: Instant| now.saturating_duration_since(looked);
        let due = self.looked.is_none_or(|looked| since(looked) >= LOOK_EVERY);
        let flush = pass.last || (L::JOBS_WAIT && !pass.settle.is_empty());
        if self.logs.is_empty() || !(due || flush || self.is_unfinished) {
            return None;
        }
        self.looked = Some(now);
        self.is_unfinished = false;
        Some(Turn {
            began: Instant::now(),
            log: 0,
            bytes: TURN_BYTES,
            flush,
        })
    }

    /// The next pass looks, whenever the last one did.
    #[cfg(test)]
    pub fn look_at_once(&mut self) {
        self.looked = None;
    }

    /// Something was left for the next pass.
    #[cfg(test)]
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    #[cfg(test)]
    pub fn log_count(&self) -> usize {
        self.logs.len()
    }
}

/// The path of the log whose cursor comes next.
fn path<'a>(cursor: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = cursor.u16()? as usize;
    cursor.take(length)
}

impl<L: Log> Source for Logs<L> {
    fn tag(&self) -> u8 {
        self.tag
    }

    fn begin(&mut self, _pass: &mut Pass) {
        self.turn = None;
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let begun = self.turn.take();
        let Some(mut turn) = begun.or_else(|| self.begin_turn(pass)) else {
            return Progress::Done;
        };
        let how = How {
            flush: turn.flush,
            last: pass.last,
            now: pass.now,
        };
        while let Some(log) = self.logs.get_mut(turn.log) {
            let late = sys::stop_asked() && turn.began.elapsed() > LAST_LOOK_MAX;
            if pass.last && !late {
                // With `--once` all is read, however long it takes.
                turn.bytes = TURN_BYTES;
            }
            match log.read(&mut turn.bytes, how, &self.counters, batch) {
                Flow::Full => {
                    self.turn = Some(turn);
                    return Progress::More;
                }
                Flow::Spent if pass.last && !late => continue,
                Flow::Spent => {
                    pass.more = true;
                    self.is_unfinished = true;
                    if turn.flush {
                        // The log names no users: any job's operations may be in what is left.
                        pass.unfinished.extend(&pass.settle);
                    }
                }
                Flow::Done => {}
            }
            turn.log += 1;
            turn.bytes = TURN_BYTES;
        }
        // The next pass begins a turn of its own; until then there is nothing to do.
        self.turn = Some(turn);
        Progress::Done
    }

    fn cursors(&self, all: bool, out: &mut Pieces) {
        for log in self.logs.iter().filter(|log| log.has_cursor(all)) {
            out.block(|out| {
                let path = log.path().as_os_str().as_bytes();
                out.extend_from_slice(&(path.len() as u16).to_le_bytes());
                out.extend_from_slice(path);
                log.write_cursor(all, out);
            });
        }
    }

    fn forget(&mut self) {
        self.logs.retain(|log| !log.is_retired());
        for log in &mut self.logs {
            *log = L::new(log.path().to_path_buf(), &self.settings);
        }
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let path = path(cursor)?;
        let of_path = |log: &L| log.path().as_os_str().as_bytes() == path;
        if let Some(at) = self.logs.iter().position(of_path) {
            return self.logs[at].restore(cursor);
        }
        let mut log = L::retired(PathBuf::from(OsStr::from_bytes(path)), &self.settings);
        log.restore(cursor)?;
        self.logs.push(log);
        Some(())
    }

    fn committed(&mut self) {
        self.logs.iter_mut().for_each(Log::committed);
        // Those that are no longer read have written their last.
        self.logs.retain(|log| !log.is_over());
    }
}
