//! Component `lustre_client`: what programs of this node asked each of its mounts of Lustre for, and how its read-ahead fared.

use super::super::samples::crowd::members::{settle, ABSENT};
use super::super::samples::reading::{Found, Range, Reading};
use super::super::samples::Probe;
use super::look::{folders, read, take_stats};
use super::operations::Counts;
use super::params::Params;
use super::stats::{self, Faults};
use std::collections::BTreeMap;

const DIR: &str = "llite";

/// What is told of its operations.
#[rustfmt::skip]
const NAMES: [&str; 34] = [
    "read_bytes", "write_bytes", "reads", "writes", "read", "write", "close", "create", "fallocate", "flock", "fsync", "getattr", "getxattr",
    "inode_permission", "ioctl", "link", "listxattr", "mkdir", "mknod", "mmap", "open", "page_fault", "page_mkwrite", "readdir", "removexattr",
    "rename", "rmdir", "seek", "setattr", "setxattr", "statfs", "symlink", "truncate", "unlink",
];

/// What its read-ahead did, in pages: Lustre's name now and until 2.11 or so, and ours.
const READ_AHEAD: [(&[u8], &[u8], &str); 6] = [
    (b"hits", b"hits", "readahead_hits"),
    (b"misses", b"misses", "readahead_misses"),
    (
        b"read_but_discarded",
        b"read but discarded",
        "readahead_discards",
    ),
    (
        b"readpage_not_consecutive",
        b"readpage not consecutive",
        "readahead_not_consecutive",
    ),
    (
        b"miss_inside_window",
        b"miss inside window",
        "readahead_missed_inside",
    ),
    (
        b"failed_lock_match",
        b"failed lock match",
        "readahead_lock_misses",
    ),
];

/// What a mount's texts said last, so that what one leaves out stays as it was.
#[derive(Default)]
struct Before {
    counts: Option<Counts>,
    read_ahead: Option<[u64; READ_AHEAD.len()]>,
}

pub struct Llite {
    params: Params,
    text: Vec<u8>,
    before: BTreeMap<String, Before>,
}

impl Llite {
    pub fn new(params: &Params) -> Llite {
        Llite {
            params: params.clone(),
            text: Vec::new(),
            before: BTreeMap::new(),
        }
    }
}

impl Probe for Llite {
    fn component(&self) -> &'static str {
        "lustre_client"
    }

    fn place(&self) -> String {
        self.params.place(DIR)
    }

    fn read(&mut self, found: &mut Found) {
        let mounts = folders(&self.params, DIR, found);
        self.before.retain(|mount, _| mounts.contains(mount));
        let mut readings: BTreeMap<String, Reading> = BTreeMap::new();
        for mount in mounts {
            // The file system's name, and where the kernel keeps this mount of it.
            let (name, _) = mount.rsplit_once('-').unwrap_or((&mount, ""));
            let reading = readings
                .entry(name.into())
                .or_insert_with(|| Reading::new(name));
            let before = self.before.entry(mount.clone()).or_default();
            let place = [format!("{DIR}/{mount}")];
            let (params, text) = (&self.params, &mut self.text);
            read(params, &place, "stats", text, found, |text| {
                take_stats(text, &mut before.counts)
            });
            // Each mount begins anew by itself.
            reading.part(&mount);
            if let Some(counts) = &before.counts {
                counts.tell(&NAMES, reading);
            }
            read(params, &place, "read_ahead_stats", text, found, |text| {
                take_read_ahead(text, &mut before.read_ahead)
            });
            reading.part(&format!("{mount} read_ahead"));
            let counts = before.read_ahead.iter().flatten();
            for ((.., name), raw) in READ_AHEAD.iter().zip(counts) {
                let raw = if *raw == ABSENT { 0 } else { *raw };
                reading.counter(*name, raw, Range::Bits64, 1);
            }
        }
        let readings = readings.into_values();
        found
            .readings
            .extend(readings.filter(|reading| !reading.values.is_empty()));
    }
}

fn take_read_ahead(text: &[u8], before: &mut Option<[u64; READ_AHEAD.len()]>) -> Faults {
    let mut counts = [ABSENT; READ_AHEAD.len()];
    let faults = stats::parse(text, |stat| {
        let names = READ_AHEAD
            .iter()
            .position(|(now, then, _)| [*now, *then].contains(&stat.name));
        if let Some(place) = names {
            counts[place] = stat.count.min(ABSENT - 1);
        }
    });
    if let Some(before) = before {
        settle(&mut counts, before, |_| Some(0));
    }
    if faults.count == 0 || before.is_some() {
        *before = Some(counts);
    }
    faults
}

#[cfg(test)]
#[path = "llite_tests.rs"]
mod tests;
