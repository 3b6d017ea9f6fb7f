//! Component `lustre_mdt`: what each metadata target of this node did, operation by operation, and how full it is.

use super::super::samples::reading::{Found, Reading};
use super::super::samples::Probe;
use super::look::{folders, gauges, places, read, take_stats, Gauges, FULLNESS};
use super::operations::Counts;
use super::params::Params;
use std::collections::BTreeMap;

const DIR: &str = "mdt";

/// What is told of its operations. Bytes are those of files that lie on the target itself.
#[rustfmt::skip]
pub const NAMES: [&str; 28] = [
    "read_bytes", "write_bytes", "reads", "writes", "read", "write", "close", "crossdir_rename", "fallocate", "getattr", "getxattr", "link",
    "migrate", "mkdir", "mknod", "open", "parallel_rename_dir", "parallel_rename_file", "punch", "rename", "rmdir", "samedir_rename",
    "setattr", "setxattr", "statfs", "sync", "unlink", "quotactl",
];

const GAUGES: &Gauges = &[("num_exports", "clients", 1.0)];

pub struct Mdt {
    params: Params,
    text: Vec<u8>,
    /// What targets' texts said last, so that what one leaves out stays as it was.
    before: BTreeMap<String, Option<Counts>>,
}

impl Mdt {
    pub fn new(params: &Params) -> Mdt {
        Mdt {
            params: params.clone(),
            text: Vec::new(),
            before: BTreeMap::new(),
        }
    }
}

impl Probe for Mdt {
    fn component(&self) -> &'static str {
        "lustre_mdt"
    }

    fn place(&self) -> String {
        self.params.place(DIR)
    }

    fn read(&mut self, found: &mut Found) {
        let (params, text) = (&self.params, &mut self.text);
        let targets = folders(params, DIR, found);
        self.before.retain(|target, _| targets.contains(target));
        for target in targets {
            let before = self.before.entry(target.clone()).or_default();
            let mut reading = Reading::new(&*target);
            let places = places(params, DIR, &target, found);
            let own = &places[..1];
            read(params, own, "md_stats", text, found, |text| {
                take_stats(text, before)
            });
            if let Some(counts) = before {
                counts.tell(&NAMES, &mut reading);
            }
            gauges(params, own, GAUGES, &mut reading, found);
            gauges(params, &places, FULLNESS, &mut reading, found);
            if !reading.values.is_empty() {
                found.readings.push(reading);
            }
        }
    }
}

#[cfg(test)]
#[path = "mdt_tests.rs"]
mod tests;
