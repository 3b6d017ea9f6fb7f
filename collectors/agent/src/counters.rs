//! The agent's counters of its own, shipped as a sample of component `agent`.
//!
//! They live in memory: what was counted since the last sample is gone when the agent is killed. Records are not.

use crate::event;
use crate::memory;
use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Every counter; shared by both threads.
        #[derive(Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: Counter,)* }

        impl Counters {
            pub fn each(&self) -> Vec<(&'static str, &Counter)> {
                vec![$((stringify!($name), &self.$name)),*]
            }
        }
    };
}

/// A number that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; stays at the largest number rather than wrapping.
    pub fn add(&self, n: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |v| {
                Some(v.saturating_add(n))
            });
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Operations that programs did, as their runs tell.
    seen,
    /// Operations that needed no record of their own: `seen` less the run records.
    merged,
    /// Records written to the spool, of every kind.
    records,
    /// Records sent, resent ones included.
    sent,
    /// Records that the server has acknowledged.
    acknowledged,
    /// Operations that programs could not record.
    lost,
    /// File names that found no room in a ring file.
    lost_names,
    /// Runs that a ring file overwrote before they were read; only a damaged or forged ring does.
    lost_runs,
    /// Operations that were folded because a ring was full.
    folded,
    /// Runs whose file's name is not known.
    unknown_names,
    /// Ring files that are not what they should be.
    bad_rings,
    /// Ring files that waited, or some of whose segments did, since their user's positions took too much of the spool.
    waiting_rings,
    /// Runs, positions and open slots in ring files that make no sense.
    bad_runs,
    /// Times that lay outside the machine's life and were moved into it.
    clamped_times,
    /// Job event files that were refused.
    bad_jobs,
    /// Lines of logs that could not be understood.
    bad_lines,
    /// Operations in logs that have no kind among ours (FLUSH, LK, STATFS and the like).
    other_operations,
    /// Replies in logs that tell of a failed or short operation whose request was not waiting any more.
    late_replies,
    /// Bytes of logs that were gone before they were read.
    lost_log_bytes,
    /// Messages of logs that were left out since more came in a minute than are told.
    left_out_messages,
    /// Things that a source of samples could not read or understand, at each look.
    failed_reads,
    /// Spool entries that were found torn or damaged.
    torn_entries,
    /// Positions in the spool that broke off or made no sense.
    bad_cursors,
    /// Times that a table of jobs, clients or targets became larger than the spool keeps.
    unkept_tables,
    /// Records that were lost with a damaged part of the spool before they could be sent.
    lost_records,
    /// Times that a spool entry could not be written at the first try.
    spool_errors,
    /// Seconds for which the spool was full or could not be written, and nothing was read from the rings.
    spool_full_seconds,
    /// Times that a connection to the server was lost or could not be made.
    reconnects,
}

/// What a sample needs beside the counters.
pub struct Gauges {
    pub spool_bytes: u64,
    pub rings: u64,
    /// This sample is the last: the agent ends as it was asked to.
    pub ended: bool,
}

/// Makes samples: each bears what was counted since the one before.
pub struct Sampler {
    last: Vec<u64>,
    last_cpu_s: f64,
    last_end_ns: i64,
}

impl Sampler {
    /// `now_ns`: UTC, the start of the first interval.
    pub fn new(now_ns: i64) -> Sampler {
        Sampler {
            last: Vec::new(),
            last_cpu_s: 0.0,
            last_end_ns: now_ns,
        }
    }

    /// Lets the interval of the next sample begin no later than `since_ns`.
    pub fn reach_back(&mut self, since_ns: i64) {
        self.last_end_ns = self.last_end_ns.min(since_ns);
    }

    /// Writes the fields of a sample of the interval that ends now, and begins the next.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        node: &str,
        now_ns: i64,
        counters: &Counters,
        gauges: &Gauges,
    ) {
        let counters = counters.each();
        self.last.resize(counters.len(), 0);
        event::text(out, "component", Some(b"agent"));
        event::text(out, "instance", Some(node.as_bytes()));
        event::integer(out, "start", self.last_end_ns.min(now_ns));
        event::integer(out, "end", now_ns);
        self.last_end_ns = now_ns;
        out.extend_from_slice(b",\"values\":{");
        let begin = out.len();
        for ((name, counter), last) in counters.iter().zip(&mut self.last) {
            let value = counter.get();
            event::integer(out, name, (value - *last).min(i64::MAX as u64) as i64);
            *last = value;
        }
        event::integer(out, "spool_bytes", gauges.spool_bytes as i64);
        event::integer(out, "rings", gauges.rings as i64);
        if gauges.ended {
            event::integer(out, "ended", 1);
        }
        if let Some(rss) = memory::rss_bytes() {
            event::integer(out, "rss_bytes", rss as i64);
        }
        let cpu_s = sys::cpu_s();
        event::float(out, "cpu_s", cpu_s - self.last_cpu_s);
        self.last_cpu_s = cpu_s;
        out.remove(begin); // the first comma
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::samples::golden::Defined;

    #[test]
    fn the_schema_tells_of_every_value() {
        let defined = Defined::of("agent");
        let counters = Counters::default();
        let gauges = Gauges {
            spool_bytes: 1,
            rings: 1,
            ended: true,
        };
        let mut out = b"{\"kind\":\"sample\"".to_vec();
        Sampler::new(0).write(&mut out, "n", 1, &counters, &gauges);
        out.push(b'}');
        let event: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let told = event["values"].as_object().unwrap().keys();
        let told = told.map(|name| defined.find(name).0.to_string()).collect();
        defined.are_all(&told);
        for (name, _) in counters.each() {
            assert_eq!(defined.find(name), (name, "counter"));
        }
    }

    #[test]
    fn counters_are_shipped_as_deltas() {
        let counters = Counters::default();
        let mut sampler = Sampler::new(5);
        let gauges = Gauges {
            spool_bytes: 17,
            rings: 2,
            ended: false,
        };
        let mut values = |now: i64| {
            let mut out = b"{\"kind\":\"sample\"".to_vec();
            sampler.write(&mut out, "n\"1", now, &counters, &gauges);
            out.push(b'}');
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        counters.seen.add(7);
        let first = values(10);
        assert_eq!(
            (first["start"].as_i64(), first["end"].as_i64()),
            (Some(5), Some(10))
        );
        assert_eq!(first["values"]["seen"], 7);
        assert_eq!(first["values"]["spool_bytes"], 17);
        assert_eq!(first["instance"], "n\"1");
        counters.seen.add(2);
        counters.lost.add(u64::MAX);
        counters.lost.add(1);
        let second = values(20);
        assert_eq!(second["start"], 10);
        assert_eq!(second["values"]["seen"], 2);
        assert_eq!(second["values"]["lost"], i64::MAX);
        assert!(second["values"]["cpu_s"].as_f64().unwrap() >= 0.0);
        assert!(second["values"]["ended"].is_null());
        sampler.reach_back(15);
        sampler.reach_back(17);
        let mut out = b"{\"kind\":\"sample\"".to_vec();
        sampler.write(
            &mut out,
            "n",
            30,
            &counters,
            &Gauges {
                ended: true,
                ..gauges
            },
        );
        out.push(b'}');
        let third: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (&third["start"], &third["values"]["ended"]),
            (&15.into(), &1.into())
        );
    }
}
