//! Source `lwfs_client`: the trace logs of LWFS clients, as on Sunway TaihuLight's compute nodes (Beacon, NSDI'19, §3.2).
//!
//! Each log is tailed over rotation. Its requests merge by the first pass, each handle and operation by itself. Times are to the
//! second, and the log names no process: the node stands for it.

mod cursor;
mod errno;
pub mod line;
pub mod lines;
pub mod local_time;
mod log;
mod numbers;
mod owner;
mod place;
mod record;
pub mod runs;
mod siblings;
pub mod table;
mod tail;
pub mod trace;

use self::log::{Flow, Log};
use self::owner::Owner;
use super::cursors::{block, Reader};
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sys;
use jiff::tz::TimeZone;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logs of one node.
const LOGS_MAX: usize = 16;
/// How often logs are looked at; their times are no finer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is read of a log before the other sources have their turn, bytes.
const TURN_BYTES: u64 = 32 << 20;
/// How long an agent that is to end goes on reading logs that hold more than one turn reads.
const LAST_LOOK_MAX: Duration = Duration::from_secs(10);
/// Bound of a log's open runs, and of its handles, bytes; where the spool is small, what all take together is this part of it.
const TABLE_BYTES_MAX: u64 = 1 << 20;
const SPOOL_PART: u64 = 16;
/// Tables that may be in the spool for each log: handles, open runs, closed ones.
const TABLES: u64 = 3;

/// Looks at the settings.
pub fn check(logs: &[PathBuf], time_zone: &str) -> Result<(), String> {
    let absolute = logs
        .iter()
        .all(|log| log.is_absolute() && log.file_name().is_some());
    let twice = (1..logs.len()).any(|i| logs[..i].contains(&logs[i]));
    if logs.len() > LOGS_MAX || !absolute || twice {
        return Err(format!(
            "lwfs_client_logs: expected at most {LOGS_MAX} absolute paths, each once; see agent.sample.toml"
        ));
    }
    zone(logs, time_zone)
        .map(drop)
        .map_err(|e| format!("lwfs_client_time_zone: {e}"))
}

/// The logs' zone. Without logs the node's own is not looked for: it may have none.
fn zone(logs: &[PathBuf], name: &str) -> Result<TimeZone, String> {
    match (logs, name) {
        ([], "") => Ok(TimeZone::UTC),
        _ => local_time::zone(name),
    }
}

pub struct LwfsClient {
    counters: Arc<Counters>,
    logs: Vec<Log>,
    settings: log::Settings,
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

impl LwfsClient {
    pub fn new(config: &Config, counters: Arc<Counters>) -> LwfsClient {
        // A capture's files belong to who captured them.
        let is_capture = !config.root.as_os_str().is_empty();
        let owner = if is_capture {
            Owner::Anyone
        } else {
            Owner::own()
        };
        Self::of_owner(config, counters, owner)
    }

    /// For a person who tries a log: whoever owns it.
    pub fn of_anyone(config: &Config, counters: Arc<Counters>) -> LwfsClient {
        Self::of_owner(config, counters, Owner::Anyone)
    }

    fn of_owner(config: &Config, counters: Arc<Counters>, owner: Owner) -> LwfsClient {
        let count = config.lwfs_client_logs.len().max(1) as u64;
        let share = config.spool_max_bytes / SPOOL_PART / TABLES / count;
        let settings = log::Settings {
            owner,
            zone: zone(&config.lwfs_client_logs, &config.lwfs_client_time_zone)
                .unwrap_or(TimeZone::UTC),
            window: Duration::from_secs(config.lwfs_client_window_s),
            table_bytes_max: TABLE_BYTES_MAX.min(share) as usize,
        };
        let paths = config.lwfs_client_logs.iter();
        let logs = paths
            .map(|path| Log::new(config.under_root(path), &settings))
            .collect();
        LwfsClient {
            counters,
            logs,
            settings,
            looked: None,
            is_unfinished: false,
            turn: None,
        }
    }

    /// Begins a turn, if it is time for one.
    fn begin_turn(&mut self, pass: &Pass) -> Option<Turn> {
        let due = self.looked.is_none_or(|t| t.elapsed() >= LOOK_EVERY);
        // A job's end must follow what was logged of it.
        let flush = pass.last || !pass.settle.is_empty();
        if self.logs.is_empty() || !(due || flush || self.is_unfinished) {
            return None;
        }
        self.looked = Some(Instant::now());
        self.is_unfinished = false;
        Some(Turn {
            began: Instant::now(),
            log: 0,
            bytes: TURN_BYTES,
            flush,
        })
    }
}

impl Source for LwfsClient {
    fn tag(&self) -> u8 {
        4
    }

    fn begin(&mut self, _pass: &mut Pass) {
        self.turn = None;
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let begun = self.turn.take();
        let Some(mut turn) = begun.or_else(|| self.begin_turn(pass)) else {
            return Progress::Done;
        };
        while let Some(log) = self.logs.get_mut(turn.log) {
            let late = sys::stop_asked() && turn.began.elapsed() > LAST_LOOK_MAX;
            if pass.last && !late {
                // With `--once` all is read, however long it takes.
                turn.bytes = TURN_BYTES;
            }
            match log.read(
                &mut turn.bytes,
                turn.flush,
                pass.last,
                &self.counters,
                batch,
            ) {
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

    fn cursors(&self, all: bool, out: &mut Vec<u8>) {
        for log in &self.logs {
            if log.has_cursor(all) {
                block(out, |out| log.write_cursor(all, out));
            }
        }
    }

    fn forget(&mut self) {
        self.logs.retain(|log| !log.is_retired());
        self.logs
            .iter_mut()
            .for_each(|log| log.forget(&self.settings));
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let path = cursor::log(cursor)?;
        let of_path = |log: &Log| log.path().as_os_str().as_bytes() == path;
        if let Some(at) = self.logs.iter().position(of_path) {
            return self.logs[at].restore(cursor);
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
        let mut log = Log::retired(path, &self.settings);
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

#[cfg(test)]
#[path = "lwfs_client_tests.rs"]
mod tests;
