//! Component `lustre_export`: what each client did on each target, from the targets' `exports/NID/stats`. A client is its address on Lustre's network.

use super::super::samples::crowd::members::{Column, Members};
use super::super::samples::reading::{Found, Reading, What};
use super::look::{folders, gauges, FILE_BYTES_MAX};
use super::operations::{columns, Counts, TARGET_COLUMNS};
use super::params::{Entries, Params};
use super::stats::{self, Faults, TIMES};
use crate::info;

const OSTS: &str = "obdfilter";
const DIRS: [&str; 2] = [OSTS, "mdt"];
/// Clients of a node's object storage targets, counted at each, beyond which they are not told: each is a file to read.
const OST_CLIENTS_MAX: f64 = 20_000.0;

/// Owned by its source; bounded by FILE_BYTES_MAX.
pub struct Exports {
    params: Params,
    dir: String,
    entries: Entries,
    name: String,
    text: Vec<u8>,
    /// It was said that there are more than OST_CLIENTS_MAX.
    is_said: bool,
}

impl Exports {
    pub fn new(params: &Params) -> Exports {
        Exports {
            params: params.clone(),
            dir: String::new(),
            entries: Entries::default(),
            name: String::new(),
            text: Vec::new(),
            is_said: false,
        }
    }

    /// Whether the object storage targets have more clients than are told.
    fn are_too_many(&self, targets: &[String], found: &mut Found) -> bool {
        let mut clients = Reading::new("");
        for target in targets {
            let place = [format!("{OSTS}/{target}")];
            let count = &[("num_exports", "", 1.0)];
            gauges(&self.params, &place, count, &mut clients, found);
        }
        let counts = clients.values.iter().map(|value| match value.what {
            What::Gauge(count) => count,
            What::Counter { .. } => 0.0,
        });
        counts.sum::<f64>() > OST_CLIENTS_MAX
    }

    fn param(&self) -> String {
        format!("{}/{}/stats", self.dir, self.name)
    }
}

impl Members for Exports {
    fn component(&self) -> &'static str {
        "lustre_export"
    }

    fn place(&self) -> String {
        let all = DIRS.map(|dir| format!("{dir}/*/exports/*/stats"));
        self.params.place(&all.join(", "))
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn groups(&mut self, found: &mut Found) -> Vec<String> {
        let [osts, mdts] = DIRS.map(|dir| folders(&self.params, dir, found));
        if !self.are_too_many(&osts, found) {
            return [osts, mdts].concat();
        }
        if !self.is_said {
            self.is_said = true;
            info!("too many clients", "lustre_export: this node's object storage targets have more than {OST_CLIENTS_MAX} clients, each counted at each target; only those of metadata targets are told");
        }
        mdts
    }

    fn open(&mut self, group: &str, found: &mut Found) -> bool {
        self.entries = Entries::default();
        for dir in DIRS {
            self.dir = format!("{dir}/{group}/exports");
            match self.params.entries(&self.dir) {
                Ok(None) => {}
                Ok(Some(entries)) => {
                    self.entries = entries;
                    return true;
                }
                Err(e) => {
                    Faults::one(e.to_string()).tell(&self.dir, found);
                    return false;
                }
            }
        }
        false
    }

    fn next(&mut self, _now_utc_ns: i64, found: &mut Found) -> bool {
        while let Some(name) = self.entries.next() {
            let below = format!("{name}/stats");
            self.name = name;
            let (place, text) = ((&*self.dir, &*below), &mut self.text);
            match (self.params).read_below(&self.entries, place, FILE_BYTES_MAX, text) {
                Ok(true) => return true,
                // One that nobody has asked for anything yet.
                Ok(false) => {}
                Err(e) => Faults::one(e.to_string()).tell(&self.param(), found),
            }
        }
        self.text = Vec::new();
        false
    }

    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Of all but the times at its head: most clients have done nothing, and their texts are not read further.
    fn mark(&self) -> u32 {
        let mut rest = &self.text[..];
        while TIMES.iter().any(|time| rest.starts_with(time)) {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            rest = &rest[end..];
        }
        crc32fast::hash(rest).max(1)
    }

    fn values(&mut self, out: &mut [u64], found: &mut Found) -> bool {
        let mut counts = Counts::new();
        let faults = stats::parse(&self.text, |stat| counts.take(stat));
        // A part of it cannot be told from what began anew.
        let is_whole = faults.count == 0;
        faults.tell(&self.param(), found);
        out.copy_from_slice(&counts.values[..TARGET_COLUMNS]);
        is_whole
    }
}

#[cfg(test)]
#[path = "exports_tests.rs"]
mod tests;
