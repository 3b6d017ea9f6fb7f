//! A log that another program writes: its lines one after the other, over rotation, from where the spool says.

pub mod lines;
pub mod local_time;
mod owner;
pub mod place;
mod siblings;
pub mod source;
mod tail;

pub use self::owner::Owner;

use self::lines::Lines;
use self::place::Place;
use self::tail::{Look, Tail};
use crate::warn;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};

/// Logs of one source.
pub const LOGS_MAX: usize = 16;

/// Refuses what cannot be a source's logs and their time zone; the settings are called `SOURCE_logs` and `SOURCE_time_zone`.
pub fn check(source: &str, logs: &[PathBuf], time_zone: &str) -> Result<(), String> {
    let absolute = logs
        .iter()
        .all(|log| log.is_absolute() && log.file_name().is_some());
    let twice = (1..logs.len()).any(|i| logs[..i].contains(&logs[i]));
    if logs.len() > LOGS_MAX || !absolute || twice {
        return Err(format!(
            "{source}_logs: expected at most {LOGS_MAX} absolute paths, each once; see agent.sample.toml"
        ));
    }
    zone(source, logs, time_zone).map(drop)
}

/// The logs' zone. Without logs the node's own is not looked for: it may have none.
pub fn zone(source: &str, logs: &[PathBuf], name: &str) -> Result<TimeZone, String> {
    match (logs, name) {
        ([], "") => Ok(TimeZone::UTC),
        _ => local_time::zone(name, &format!("{source}_time_zone")),
    }
}

/// What there is beyond the lines that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// It was read: there are lines again.
    Read,
    /// Reading goes on in another file, or in the same begun anew: what the one before left unfinished stays so. If it left a line without an end,
    /// where that began.
    Other(Option<u64>),
    Nothing,
    /// As much was read as might be.
    Spent,
}

/// Owned by the log's reader. What is in memory at a kill is read again.
pub struct Follower {
    tail: Tail,
    pub lines: Lines,
}

impl Follower {
    pub fn new(path: PathBuf, owner: Owner) -> Follower {
        Follower {
            tail: Tail::new(path, owner),
            lines: Lines::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.tail.path
    }

    /// Sees what there is of the log, before it is read. `Nothing` but for another file.
    pub fn look(&mut self) -> More {
        let looked = self.tail.look(self.lines.end());
        self.tail.tell_missing(looked == Look::Nothing);
        self.came_to(looked, More::Nothing)
    }

    /// Whether nothing was ever read of it.
    pub fn is_blank(&self) -> bool {
        self.tail.place.inode == 0
    }

    /// Whether there is a file.
    pub fn is_there(&self) -> bool {
        !self.tail.was_missing
    }

    /// Reads on, once there is no whole line any more; `budget`: so many bytes at most. `last`: no other look comes.
    pub fn more(&mut self, budget: &mut u64, last: bool) -> More {
        loop {
            if *budget == 0 {
                return More::Spent;
            }
            let read_to = self.lines.end();
            let read = self.tail.read(read_to, self.lines.room());
            // Begun anew since the last look, or just now: what was read is not what follows.
            let found = if !self.tail.is_intact(read_to) {
                self.tail.find_from(read_to)
            } else {
                match read {
                    Ok(0) => self.tail.follow(last),
                    Ok(bytes) => {
                        self.lines.filled(bytes);
                        *budget = budget.saturating_sub(bytes as u64);
                        return More::Read;
                    }
                    Err(e) => {
                        warn!(
                            "log not read",
                            "{}: {e}; it is tried again",
                            self.path().display()
                        );
                        return More::Nothing;
                    }
                }
            };
            match found {
                Look::Nothing => return More::Nothing,
                Look::Same => {}
                Look::Other => return self.came_to(found, More::Nothing),
            }
        }
    }

    fn came_to(&mut self, looked: Look, otherwise: More) -> More {
        if looked != Look::Other {
            return otherwise;
        }
        let (at, _) = self.lines.position();
        let unfinished = self.lines.has_part().then_some(at);
        self.lines.reset(0, false);
        More::Other(unfinished)
    }

    /// Where to go on, if no line waits.
    pub fn place(&self) -> Place {
        let (offset, skipping) = self.lines.position();
        Place {
            offset,
            skipping,
            ..self.tail.place
        }
    }

    pub fn restore(&mut self, place: Place) {
        self.lines.reset(place.offset, place.skipping);
        self.tail.place = place;
    }

    /// Bytes that were gone before they were read, since this was last asked.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.tail.lost)
    }
}
