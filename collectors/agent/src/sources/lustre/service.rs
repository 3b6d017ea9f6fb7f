//! Component `lustre_service`: the queues of Lustre's services on this node, such as `ost_io`, `mdt` and `ldlm_cbd`: how many requests came, how
//! long they waited, how many were waiting or being served when each came, and the threads that serve them.

use super::super::samples::reading::{Found, Range, Reading};
use super::super::samples::Probe;
use super::look::{folders, gauges, read, Gauges};
use super::params::Params;
use super::stats::{self, Faults, Stat};

const DIRS: [&str; 4] = ["ost/OSS", "mds/MDS", "mgs/MGS", "ldlm/services"];

/// Lustre's name of a sum over all requests, ours, and what one of Lustre's units is in ours.
const SUMS: [(&[u8], &str, u32); 4] = [
    (b"req_waittime", "wait_ns", 1000),
    (b"req_qdepth", "queued", 1),
    (b"req_active", "active", 1),
    (b"req_timeout", "timeout_s", 1),
];
/// Requests by which servers and clients manage locks.
const LOCKS: [(&[u8], &str); 7] = [
    (b"ldlm_bl_callback", "blocking_callbacks"),
    (b"ldlm_cp_callback", "completion_callbacks"),
    (b"ldlm_gl_callback", "glimpse_callbacks"),
    (b"ldlm_cancel", "lock_cancels"),
    (b"ldlm_extent_enqueue", "lock_enqueues"),
    (b"ldlm_glimpse_enqueue", "lock_enqueues"),
    (b"ldlm_ibits_enqueue", "lock_enqueues"),
];
const GAUGES: &Gauges = &[
    ("threads_started", "threads", 1.0),
    ("threads_min", "threads_min", 1.0),
    ("threads_max", "threads_max", 1.0),
];

pub struct Service {
    params: Params,
    text: Vec<u8>,
}

impl Service {
    pub fn new(params: &Params) -> Service {
        Service {
            params: params.clone(),
            text: Vec::new(),
        }
    }
}

impl Probe for Service {
    fn component(&self) -> &'static str {
        "lustre_service"
    }

    fn place(&self) -> String {
        self.params.place(&DIRS.join(", "))
    }

    fn read(&mut self, found: &mut Found) {
        for dir in DIRS {
            for service in folders(&self.params, dir, found) {
                let mut reading = Reading::new(&*service);
                let place = [format!("{dir}/{service}")];
                let (params, text) = (&self.params, &mut self.text);
                read(params, &place, "stats", text, found, |text| {
                    take(text, &mut reading)
                });
                gauges(params, &place, GAUGES, &mut reading, found);
                if !reading.values.is_empty() {
                    found.readings.push(reading);
                }
            }
        }
    }
}

/// What a service's text adds up to. `None`: it does not say.
#[derive(Default)]
struct Sums {
    requests: Option<u64>,
    sums: [Option<u64>; SUMS.len()],
    buffers: Option<(u64, u64)>,
    locks: [u64; LOCKS.len()],
    served: u64,
    served_us: u64,
}

impl Sums {
    fn take(&mut self, stat: Stat) {
        if stat.name == b"reqbuf_avail" {
            self.buffers = stat.sum.map(|sum| (stat.count, sum));
        } else if let Some(place) = SUMS.iter().position(|(own, ..)| *own == stat.name) {
            self.sums[place] = stat.sum;
            if place == 0 {
                self.requests = Some(stat.count);
            }
        } else {
            // What the requests were; only some are told with the time that they took.
            if let Some(sum) = stat.sum.filter(|_| stat.is_time()) {
                self.served = self.served.saturating_add(stat.count);
                self.served_us = self.served_us.saturating_add(sum);
            }
            if let Some(place) = LOCKS.iter().position(|(own, _)| *own == stat.name) {
                self.locks[place] = stat.count;
            }
        }
    }
}

/// Takes a service's text. One that never had a request says nothing but the time: then all is 0.
pub fn take(text: &[u8], reading: &mut Reading) -> Faults {
    let mut sums = Sums::default();
    let faults = stats::parse(text, |stat| sums.take(stat));
    let is_whole = faults.count == 0;
    let absent = is_whole.then_some(0);
    let mut counter = |name: &'static str, raw: Option<u64>, scale: u32| {
        if let Some(raw) = raw {
            reading.counter(name, raw, Range::Bits64, scale);
        }
    };
    let is_unused = is_whole && sums.requests.is_none();
    counter("requests", sums.requests.or(absent), 1);
    for ((_, name, scale), sum) in SUMS.iter().zip(sums.sums) {
        counter(name, sum.or(is_unused.then_some(0)), *scale);
    }
    let (looks, free) = sums.buffers.unzip();
    counter("buffer_looks", looks.or(absent), 1);
    counter("buffers_free", free.or(absent), 1);
    if !is_whole {
        return faults;
    }
    counter("served", Some(sums.served), 1);
    counter("served_ns", Some(sums.served_us), 1000);
    for name in [
        "blocking_callbacks",
        "completion_callbacks",
        "glimpse_callbacks",
        "lock_cancels",
        "lock_enqueues",
    ] {
        let own = LOCKS
            .iter()
            .zip(sums.locks)
            .filter(|((_, own), _)| *own == name);
        counter(
            name,
            Some(own.map(|(_, count)| count).fold(0, u64::saturating_add)),
            1,
        );
    }
    faults
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
