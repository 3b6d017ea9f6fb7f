//! Source `lwfs_server`: the logs of LWFS servers, as on Sunway TaihuLight's forwarding nodes (Beacon, NSDI'19, §3.2).
//!
//! A server writes a group of lines each 1,000 requests: how many operations of each kind took or waited how long since its start, and how many wait now.

mod group;
pub mod line;
mod log;

use super::log_file::source::{owner, Logs};
use super::log_file::{self, Owner};
use crate::config::Config;
use crate::counters::Counters;
use jiff::tz::TimeZone;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Of a log's path, which is the samples' instance, bytes.
const PATH_BYTES_MAX: usize = 255;

/// Looks at the settings.
pub fn check(config: &Config) -> Result<(), String> {
    let bounds = &config.lwfs_server_bounds_us;
    if bounds.len() != line::BUCKETS - 1 || !bounds.windows(2).all(|two| two[0] < two[1]) {
        return Err(format!(
            "lwfs_server_bounds_us: expected {} numbers, each larger than the one before; see agent.sample.toml",
            line::BUCKETS - 1
        ));
    }
    let (logs, zone) = (&config.lwfs_server_logs, &config.lwfs_server_time_zone);
    let is_long = |log: &std::path::PathBuf| log.as_os_str().as_bytes().len() > PATH_BYTES_MAX;
    if logs.iter().any(is_long) {
        return Err(format!(
            "lwfs_server_logs: expected paths of at most {PATH_BYTES_MAX} bytes, which samples bear"
        ));
    }
    log_file::check("lwfs_server", logs, zone)
}

pub type LwfsServer = Logs<log::Log>;

pub fn new(config: &Config, counters: Arc<Counters>) -> LwfsServer {
    of_owner(config, counters, owner(config))
}

/// For a person who tries a log: whoever owns it.
pub fn of_anyone(config: &Config, counters: Arc<Counters>) -> LwfsServer {
    of_owner(config, counters, Owner::Anyone)
}

fn of_owner(config: &Config, counters: Arc<Counters>, owner: Owner) -> LwfsServer {
    let (logs, zone) = (&config.lwfs_server_logs, &config.lwfs_server_time_zone);
    let settings = log::Settings {
        owner,
        zone: log_file::zone("lwfs_server", logs, zone).unwrap_or(TimeZone::UTC),
        bounds_us: config.lwfs_server_bounds_us.clone(),
        root: config.root.clone(),
    };
    let paths = logs.iter().map(|path| config.under_root(path));
    Logs::new(19, paths, settings, counters)
}

#[cfg(test)]
#[path = "lwfs_server_tests.rs"]
mod tests;
