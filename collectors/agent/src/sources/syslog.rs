//! Source `syslog`: the system's log of this node, in files or in systemd's journal: messages of a severity, and those that tell of known events.

pub mod clock;
pub mod entry;
pub mod events;
mod file;
mod journal;
pub mod line;
mod log;
pub mod message;
pub mod teller;

use self::events::Events;
use self::teller::Wanted;
use super::log_file;
use super::log_file::source::Logs;
use crate::config::Config;
use crate::counters::Counters;
use jiff::tz::TimeZone;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Names of severities, the gravest first, and how grave each is.
const SEVERITIES: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];
/// Of a log that is met for the first time, what is older than this is passed over; beyond a day the server would call it late.
const OLDEST_NS: i64 = 23 * 3600 * 1_000_000_000;
/// Of a log's path, which messages bear, bytes.
const PATH_BYTES_MAX: usize = 255;

fn severity(name: &str) -> Option<u8> {
    let at = SEVERITIES.iter().position(|severity| *severity == name)?;
    Some(at as u8)
}

/// Looks at the settings.
pub fn check(config: &Config) -> Result<(), String> {
    let (logs, zone) = (&config.syslog_logs, &config.syslog_time_zone);
    log_file::check("syslog", logs, zone)?;
    let is_long = |log: &PathBuf| log.as_os_str().as_bytes().len() > PATH_BYTES_MAX;
    if logs.iter().any(is_long) {
        return Err(format!(
            "syslog_logs: expected paths of at most {PATH_BYTES_MAX} bytes, which messages bear"
        ));
    }
    if severity(&config.syslog_severity).is_none() {
        return Err(format!(
            "syslog_severity: {:?}: expected one of {}",
            config.syslog_severity,
            SEVERITIES.join(", ")
        ));
    }
    events::check("syslog_patterns", &config.syslog_patterns)
}

/// Whether there is anything to read. What the spool has of logs that are none of the settings any more is told even so.
fn is_set(config: &Config) -> bool {
    !config.syslog_logs.is_empty() || config.syslog_journal_period_s > 0
}

pub type Syslog = Logs<log::Log>;

pub fn new(config: &Config, counters: Arc<Counters>) -> Syslog {
    let is_capture = !config.root.as_os_str().is_empty();
    reaching(config, counters, (!is_capture).then_some(OLDEST_NS))
}

/// For a person who tries a log: all of it, and no journal.
pub fn of_files(config: &Config, counters: Arc<Counters>) -> Syslog {
    let config = Config {
        syslog_journal_period_s: 0,
        ..config.clone()
    };
    reaching(&config, counters, None)
}

fn reaching(config: &Config, counters: Arc<Counters>, oldest_ns: Option<i64>) -> Syslog {
    let (logs, zone) = (&config.syslog_logs, &config.syslog_time_zone);
    let settings = log::Settings {
        zone: log_file::zone("syslog", logs, zone).unwrap_or(TimeZone::UTC),
        stat: config.under_root(Path::new("/proc/stat")),
        wanted: Rc::new(Wanted {
            oldest_ns,
            severity: severity(&config.syslog_severity).unwrap_or_default(),
            per_minute: config.syslog_per_minute,
            events: match is_set(config) {
                true => Events::new(&config.syslog_patterns),
                false => Events::default(),
            },
        }),
        journal: journal::Settings {
            command: config.syslog_journal_command.clone(),
            period: Duration::from_secs(config.syslog_journal_period_s),
        },
        root: config.root.clone(),
    };
    // A capture has nothing that could be asked.
    let asks = config.syslog_journal_period_s > 0 && config.root.as_os_str().is_empty();
    let journal = asks.then(|| PathBuf::from(journal::PATH));
    let files = logs.iter().map(|path| config.under_root(path));
    Logs::new(34, files.chain(journal), settings, counters)
}

#[cfg(test)]
#[path = "syslog_tests.rs"]
mod tests;
