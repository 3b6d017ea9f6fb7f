//! Source `lwfs_client`: the trace logs of LWFS clients, as on Sunway TaihuLight's compute nodes (Beacon, NSDI'19, §3.2).
//!
//! Each log is tailed over rotation. Its requests merge by the first pass, each handle and operation by itself. Times are to the
//! second, and the log names no process: the node stands for it.

mod cursor;
mod errno;
pub mod line;
mod log;
mod numbers;
mod record;
pub mod runs;
pub mod table;
pub mod trace;

use super::log_file::source::{owner, Logs};
use super::log_file::{self, Owner};
use crate::config::Config;
use crate::counters::Counters;
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;

/// Bound of a log's open runs, and of its handles, bytes; where the spool is small, what all take together is this part of it.
const TABLE_BYTES_MAX: u64 = 1 << 20;
const SPOOL_PART: u64 = 16;
/// Tables that may be in the spool for each log: handles, open runs, closed ones.
const TABLES: u64 = 3;

/// Looks at the settings.
pub fn check(config: &Config) -> Result<(), String> {
    let (logs, zone) = (&config.lwfs_client_logs, &config.lwfs_client_time_zone);
    log_file::check("lwfs_client", logs, zone)
}

pub type LwfsClient = Logs<log::Log>;

pub fn new(config: &Config, counters: Arc<Counters>) -> LwfsClient {
    of_owner(config, counters, owner(config))
}

/// For a person who tries a log: whoever owns it.
pub fn of_anyone(config: &Config, counters: Arc<Counters>) -> LwfsClient {
    of_owner(config, counters, Owner::Anyone)
}

fn of_owner(config: &Config, counters: Arc<Counters>, owner: Owner) -> LwfsClient {
    let (logs, zone) = (&config.lwfs_client_logs, &config.lwfs_client_time_zone);
    let share = config.spool_max_bytes / SPOOL_PART / TABLES / logs.len().max(1) as u64;
    let settings = log::Settings {
        owner,
        zone: log_file::zone("lwfs_client", logs, zone).unwrap_or(TimeZone::UTC),
        window: Duration::from_secs(config.lwfs_client_window_s),
        table_bytes_max: TABLE_BYTES_MAX.min(share) as usize,
    };
    let paths = logs.iter().map(|path| config.under_root(path));
    Logs::new(4, paths, settings, counters)
}

#[cfg(test)]
#[path = "lwfs_client_tests.rs"]
mod tests;
