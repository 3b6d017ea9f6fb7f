//! What the probes of Lustre share: parameters that are read, and what is wrong with them said.

use super::super::samples::reading::{Found, Reading};
use super::super::samples::text::{number, quote};
use super::histogram::{self, Histogram, Line, Tables};
use super::operations::Counts;
use super::params::{lctl, Params};
use super::stats::{self, Faults};

/// Of `stats`, `brw_stats`, `rpc_stats`, which have a few KiB.
pub const FILE_BYTES_MAX: usize = 256 << 10;

/// Gauges: Lustre's name, ours, and what one of Lustre's units is in ours.
pub type Gauges = [(&'static str, &'static str, f64)];

/// How full a target is: its own parameters, or those of the storage beneath it.
pub const FULLNESS: &Gauges = &[
    ("kbytestotal", "total_bytes", 1024.0),
    ("kbytesfree", "free_bytes", 1024.0),
    ("kbytesavail", "available_bytes", 1024.0),
    ("filestotal", "total_files", 1.0),
    ("filesfree", "free_files", 1.0),
];

/// The folders in a folder; none, and an error, if that cannot be told.
pub fn folders(params: &Params, dir: &str, found: &mut Found) -> Vec<String> {
    params.folders(dir).unwrap_or_else(|e| {
        found.error(|| {
            format!(
                "{dir}: {e}; look at it with: lctl list_param {}.*",
                lctl(dir)
            )
        });
        Vec::new()
    })
}

/// A target's folder, and those of the storages (`osd-ldiskfs`, `osd-zfs`) that may lie beneath it.
pub fn places(params: &Params, dir: &str, target: &str, found: &mut Found) -> Vec<String> {
    let storages = folders(params, "", found).into_iter();
    let storages = storages.filter(|name| name.starts_with("osd-"));
    [dir.to_string()]
        .into_iter()
        .chain(storages)
        .map(|dir| format!("{dir}/{target}"))
        .collect()
}

/// Reads the parameter `name` of the first place that has it. Nobody has it: nothing is taken.
pub fn read(
    params: &Params,
    places: &[String],
    name: &str,
    text: &mut Vec<u8>,
    found: &mut Found,
    take: impl FnOnce(&[u8]) -> Faults,
) {
    for place in places {
        let param = format!("{place}/{name}");
        let faults = match params.read(&param, FILE_BYTES_MAX, text) {
            Ok(false) => continue,
            Ok(true) => take(text),
            Err(e) => Faults::one(e.to_string()),
        };
        return faults.tell(&param, found);
    }
}

/// Takes a text of `stats` or `md_stats`. Of one that cannot be read whole nothing is taken if it is the first: what it leaves out would be new later.
pub fn take_stats(text: &[u8], before: &mut Option<Counts>) -> Faults {
    let mut counts = Counts::new();
    let faults = stats::parse(text, |stat| counts.take(stat));
    if faults.count == 0 || before.is_some() {
        counts.go_on(before);
    }
    faults
}

/// Takes a text of `brw_stats` or `rpc_stats`, in the same way; `figure` what is not in its tables.
pub fn take_tables(
    text: &[u8],
    all: &'static [Histogram],
    before: &mut Vec<u64>,
    mut figure: impl FnMut(&[u8], u64),
) -> Faults {
    let mut tables = Tables::of(all);
    let faults = histogram::parse(text, |line| {
        if let Line::Figure(name, value) = line {
            figure(name, value);
        }
        tables.take(&line);
    });
    if faults.count == 0 || !before.is_empty() {
        tables.go_on(before);
    }
    faults
}

/// Reads gauges of the first place that has them.
pub fn gauges(
    params: &Params,
    places: &[String],
    gauges: &Gauges,
    reading: &mut Reading,
    found: &mut Found,
) {
    let mut text = Vec::new();
    for (own, name, unit) in gauges {
        read(params, places, own, &mut text, found, |text| {
            match number(text.trim_ascii()) {
                Some(raw) => {
                    reading.gauge(*name, raw as f64 * unit);
                    Faults::default()
                }
                None => Faults::one(format!("expected a whole number, found {}", quote(text))),
            }
        });
    }
}
