//! Component `lustre_ost`: what each object storage target of this node did, how large its RPCs and the disk's I/Os were and how long those
//! took, and how full it is.

use super::super::samples::reading::{Found, Reading};
use super::super::samples::Probe;
use super::histogram::{self, Histogram, BYTES, IN_FLIGHT, MS, PAGES};
use super::look::{folders, gauges, places, read, take_stats, take_tables, Gauges, FULLNESS};
use super::operations::Counts;
use super::params::Params;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const DIR: &str = "obdfilter";

/// What is told of its operations.
#[rustfmt::skip]
pub const NAMES: [&str; 18] = [
    "read_bytes", "write_bytes", "reads", "writes", "read", "write", "create", "destroy", "fallocate", "get_info", "getattr", "prealloc",
    "punch", "quotactl", "set_info", "setattr", "statfs", "sync",
];

/// What is told of brw_stats. The first counts RPCs, the others what the disks were asked for.
pub static HISTOGRAMS: [Histogram; 4] = [
    Histogram {
        title: b"pages per bulk r/w",
        is_log: true,
        bounds: &PAGES,
        names: ["read_rpc_pages", "write_rpc_pages"],
    },
    Histogram {
        title: b"I/O time (1/1000s)",
        is_log: true,
        bounds: &MS,
        names: ["read_disk_ms", "write_disk_ms"],
    },
    Histogram {
        title: b"disk I/O size",
        is_log: true,
        bounds: &BYTES,
        names: ["read_disk_bytes", "write_disk_bytes"],
    },
    Histogram {
        title: b"disk I/Os in flight",
        is_log: false,
        bounds: &IN_FLIGHT,
        names: ["read_disk_in_flight", "write_disk_in_flight"],
    },
];

/// What their buckets are called.
pub static BUCKETS: LazyLock<Vec<String>> = LazyLock::new(|| histogram::bucket_names(&HISTOGRAMS));

const GAUGES: &Gauges = &[
    ("num_exports", "clients", 1.0),
    ("tot_granted", "granted_bytes", 1.0),
    ("tot_dirty", "dirty_bytes", 1.0),
    ("tot_pending", "pending_bytes", 1.0),
];

/// What a target's texts said last, so that what one leaves out stays as it was.
#[derive(Default)]
struct Before {
    counts: Option<Counts>,
    rows: Vec<u64>,
}

pub struct Ost {
    params: Params,
    text: Vec<u8>,
    before: BTreeMap<String, Before>,
}

impl Ost {
    pub fn new(params: &Params) -> Ost {
        Ost {
            params: params.clone(),
            text: Vec::new(),
            before: BTreeMap::new(),
        }
    }

    fn target(&mut self, target: &str, found: &mut Found) {
        let (params, text) = (&self.params, &mut self.text);
        let mut reading = Reading::new(target);
        let places = places(params, DIR, target, found);
        let own = &places[..1];
        let before = self.before.entry(target.into()).or_default();
        read(params, own, "stats", text, found, |text| {
            take_stats(text, &mut before.counts)
        });
        if let Some(counts) = &before.counts {
            counts.tell(&NAMES, &mut reading);
        }
        // It is cleared by itself.
        reading.part("brw_stats");
        read(params, &places, "brw_stats", text, found, |text| {
            take_tables(text, &HISTOGRAMS, &mut before.rows, |_, _| ())
        });
        histogram::tell(&HISTOGRAMS, &BUCKETS, &before.rows, &mut reading);
        gauges(params, own, GAUGES, &mut reading, found);
        gauges(params, &places, FULLNESS, &mut reading, found);
        if !reading.values.is_empty() {
            // All targets' lie in memory until they are told.
            reading.values.shrink_to_fit();
            found.readings.push(reading);
        }
    }
}

impl Probe for Ost {
    fn component(&self) -> &'static str {
        "lustre_ost"
    }

    fn place(&self) -> String {
        self.params.place(DIR)
    }

    fn read(&mut self, found: &mut Found) {
        let targets = folders(&self.params, DIR, found);
        self.before.retain(|target, _| targets.contains(target));
        for target in targets {
            self.target(&target, found);
        }
    }
}

#[cfg(test)]
#[path = "ost_tests.rs"]
mod tests;
