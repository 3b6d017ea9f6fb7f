//! Component `lustre_osc`: what this node has under way with each object storage target, and what it had: RPCs, their sizes, how long they took.

use super::super::samples::crowd::members::{Column, Members, ABSENT};
use super::super::samples::reading::Found;
use super::super::samples::text::number;
use super::histogram::{self, Histogram, Line, Tables, ROWS};
use super::look::{folders, FILE_BYTES_MAX};
use super::params::Params;
use super::stats::{self, Faults, Stat};
use tracepack::ring::file_id;

const DIR: &str = "osc";
/// What stands between a target's name and where the kernel keeps a mount's connection to it. Those of metadata servers are no client's.
const CLIENT: &str = "-osc-";
const SERVERS: &str = "MDT";

/// Columns: how they are called, and what one of Lustre's units is in ours; `None`: a gauge. The first four are what rpc_stats tells before its tables.
const COLUMNS: [(&str, Option<u32>); 11] = [
    ("read_rpcs_in_flight", None),
    ("write_rpcs_in_flight", None),
    ("pending_read_pages", None),
    ("pending_write_pages", None),
    ("dirty_bytes", None),
    ("read_bytes", Some(1)),
    ("write_bytes", Some(1)),
    ("reads", Some(1)),
    ("writes", Some(1)),
    ("requests", Some(1)),
    ("wait_ns", Some(1000)),
];
const FIGURES: [&[u8]; 4] = [
    b"read RPCs in flight",
    b"write RPCs in flight",
    b"pending read pages",
    b"pending write pages",
];
const DIRTY_BYTES: usize = 4;

static HISTOGRAMS: [Histogram; 2] = [
    Histogram {
        title: b"pages per rpc",
        is_log: true,
        names: ["read_rpc_pages", "write_rpc_pages"],
        // Rows are told as they stand.
        bounds: &[],
    },
    Histogram {
        title: b"rpcs in flight",
        is_log: false,
        names: ["read_in_flight", "write_in_flight"],
        bounds: &[],
    },
];

/// Owned by its source; bounded by the names in a folder, and FILE_BYTES_MAX.
pub struct Osc {
    params: Params,
    /// Those that are still to be read, in order, the last first.
    rest: Vec<String>,
    /// The connections of one target: one for each mount.
    connections: Vec<String>,
    name: String,
    text: Vec<u8>,
}

impl Osc {
    pub fn new(params: &Params) -> Osc {
        Osc {
            params: params.clone(),
            rest: Vec::new(),
            connections: Vec::new(),
            name: String::new(),
            text: Vec::new(),
        }
    }

    /// Adds what one connection's parameter says. False: it makes no sense.
    fn take(
        &mut self,
        connection: &str,
        name: &str,
        out: &mut [u64],
        found: &mut Found,
        take: fn(&[u8], &mut [u64]) -> Faults,
    ) -> bool {
        let param = format!("{DIR}/{connection}/{name}");
        let faults = match self.params.read(&param, FILE_BYTES_MAX, &mut self.text) {
            Ok(false) => return true,
            Ok(true) => take(&self.text, out),
            Err(e) => Faults::one(e.to_string()),
        };
        let is_good = faults.count == 0;
        faults.tell(&param, found);
        is_good
    }
}

/// Adds to a column.
fn add(value: &mut u64, more: u64) {
    let before = if *value == ABSENT { 0 } else { *value };
    *value = before.saturating_add(more).min(ABSENT - 1);
}

pub fn take_rpc_stats(text: &[u8], out: &mut [u64]) -> Faults {
    let mut tables = Tables::of(&HISTOGRAMS);
    let faults = histogram::parse(text, |line| {
        if let Line::Figure(name, value) = line {
            if let Some(place) = FIGURES.iter().position(|own| *own == name) {
                add(&mut out[place], value);
            }
        }
        tables.take(&line);
    });
    for (value, row) in out[COLUMNS.len()..].iter_mut().zip(tables.rows) {
        if row != ABSENT {
            add(value, row);
        }
    }
    faults
}

pub fn take_stats(text: &[u8], out: &mut [u64]) -> Faults {
    stats::parse(text, |stat: Stat| {
        let mut put = |name: &str, value: Option<u64>| {
            let place = COLUMNS.iter().position(|(own, _)| *own == name);
            if let (Some(place), Some(value)) = (place, value) {
                add(&mut out[place], value);
            }
        };
        match stat.name {
            b"read_bytes" => {
                put("reads", Some(stat.count));
                put("read_bytes", stat.sum);
            }
            b"write_bytes" => {
                put("writes", Some(stat.count));
                put("write_bytes", stat.sum);
            }
            b"req_waittime" => {
                put("requests", Some(stat.count));
                put("wait_ns", stat.sum);
            }
            _ => {}
        }
    })
}

fn take_dirty(text: &[u8], out: &mut [u64]) -> Faults {
    match number(text.trim_ascii()) {
        Some(bytes) => {
            add(&mut out[DIRTY_BYTES], bytes);
            Faults::default()
        }
        None => Faults::one("expected a whole number".into()),
    }
}

impl Members for Osc {
    fn component(&self) -> &'static str {
        "lustre_osc"
    }

    fn place(&self) -> String {
        self.params.place(DIR)
    }

    fn columns(&self) -> Vec<Column> {
        // rpc_stats is cleared by itself.
        let column = |name: &str, scale: Option<u32>, part: u8| Column {
            name: name.into(),
            scale,
            part,
        };
        let of_stats = COLUMNS.map(|(name, scale)| column(name, scale, 0));
        let mut all = of_stats.to_vec();
        for histogram in &HISTOGRAMS {
            for name in histogram.names {
                for row in 0..ROWS {
                    let name = match histogram.bound(row) {
                        u64::MAX => format!("{name}_to_inf"),
                        bound => format!("{name}_to_{bound}"),
                    };
                    all.push(column(&name, Some(1), 1));
                }
            }
        }
        all
    }

    /// One, of all targets.
    fn groups(&mut self, found: &mut Found) -> Vec<String> {
        let mut all = folders(&self.params, DIR, found);
        let connection = |name: &String| {
            let at = name.rfind(CLIENT);
            at.is_some_and(|at| !name[at + CLIENT.len()..].starts_with(SERVERS))
        };
        all.retain(connection);
        all.reverse();
        self.rest = all;
        match self.rest.is_empty() {
            true => Vec::new(),
            false => vec![String::new()],
        }
    }

    fn open(&mut self, _group: &str, _found: &mut Found) -> bool {
        true
    }

    fn next(&mut self, _now_utc_ns: i64, _found: &mut Found) -> bool {
        let target = |name: &str| name.rfind(CLIENT).map(|at| name[..at].to_string());
        let Some(name) = self.rest.last().and_then(|name| target(name)) else {
            return false;
        };
        self.connections.clear();
        while self.rest.last().and_then(|one| target(one)).as_ref() == Some(&name) {
            self.connections.extend(self.rest.pop());
        }
        self.name = name;
        true
    }

    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn mark(&self) -> u32 {
        0
    }

    /// Without one of its mounts the sums are lower, and began nowhere anew.
    fn identity(&self) -> u64 {
        file_id(self.connections.join(" ").as_bytes()) >> 1
    }

    fn values(&mut self, out: &mut [u64], found: &mut Found) -> bool {
        let mut is_good = true;
        for connection in self.connections.clone() {
            is_good &= self.take(&connection, "rpc_stats", out, found, take_rpc_stats);
            is_good &= self.take(&connection, "stats", out, found, take_stats);
            is_good &= self.take(&connection, "cur_dirty_bytes", out, found, take_dirty);
        }
        is_good
    }
}

#[cfg(test)]
#[path = "osc_tests.rs"]
mod tests;
