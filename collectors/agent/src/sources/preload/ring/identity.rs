//! Whose a ring is: what its header says.

use super::fields::{base_name, claims_of};
use super::Ring;
use crate::clock::{Now, Scale};
use crate::event;
use std::mem::size_of;
use std::os::unix::fs::FileExt;
use tracepack::record::LATENCY_BUCKETS;
use tracepack::ring::{read, Header};

/// What the header said when it was first read.
pub(super) struct Facts {
    clock: u32,
    anchor_ticks: u64,
    anchor_monotonic_ns: u64,
    pid_namespace: u64,
    /// Of the latency histogram, ticks.
    pub latency_bounds: [u64; LATENCY_BUCKETS - 1],
    /// The fields that all its events share.
    pub claims: Vec<u8>,
    /// The executable's path, and its last part as JSON.
    pub program: Vec<u8>,
    pub program_name: Vec<u8>,
}

impl Facts {
    pub fn scale(&self, now: &Now) -> Option<Scale> {
        Scale::new(self.clock, self.anchor_ticks, self.anchor_monotonic_ns, now)
    }
}

impl Ring {
    /// The header, as it is in the file. `Err`: why the file is no ring (yet).
    pub(super) fn header<'a>(
        &self,
        bytes: &'a mut [u8; size_of::<Header>()],
    ) -> Result<read::HeaderView<'a>, &'static str> {
        let file = self.file.as_ref().ok_or("it is not open")?;
        file.read_exact_at(bytes, 0)
            .map_err(|_| "it has no whole header")?;
        let view = read::HeaderView::new(bytes).ok_or("it has no header of this version")?;
        if (view.pid(), view.pid_start_ticks(), view.uid())
            != (self.pid, self.start_ticks, self.uid)
        {
            return Err("its header names another process or user than its path");
        }
        Ok(view)
    }

    /// Whether the header was read.
    pub fn is_identified(&self) -> bool {
        self.facts.is_some()
    }

    /// Takes from the header what never changes. `own`: this agent's pid namespace.
    pub fn identify(&mut self, now: &Now, own: Option<u64>) -> Result<(), &'static str> {
        if self.facts.is_none() {
            let mut bytes = [0u8; size_of::<Header>()];
            let view = self.header(&mut bytes)?;
            let mut process = format!("{}.{}", self.pid, self.start_ticks);
            if is_foreign(view.pid_namespace(), own) {
                // Containers that start together have the same pid 1 at the same tick.
                process += &format!(".{:x}", view.pid_namespace());
            }
            let mut program = Vec::new();
            event::string(&mut program, view.program());
            let facts = Facts {
                clock: view.clock(),
                anchor_ticks: view.anchor_ticks(),
                anchor_monotonic_ns: view.anchor_monotonic_ns(),
                pid_namespace: view.pid_namespace(),
                latency_bounds: view.latency_bounds(),
                claims: claims_of(&view, self.uid, &process),
                program: view.program().to_vec(),
                program_name: base_name(&program),
            };
            self.facts = Some(facts);
            self.changed_ns = now.pair.monotonic_ns;
        }
        Ok(())
    }

    /// When its program began, ns of CLOCK_MONOTONIC; 0: not known.
    pub fn began_ns(&self) -> u64 {
        self.facts.as_ref().map_or(0, |f| f.anchor_monotonic_ns)
    }

    /// 0: not known.
    pub fn pid_namespace(&self) -> u64 {
        self.facts.as_ref().map_or(0, |f| f.pid_namespace)
    }

    /// Whether its pid is a number of another namespace than `own`.
    pub fn is_foreign(&self, own: Option<u64>) -> bool {
        is_foreign(self.pid_namespace(), own)
    }
}

fn is_foreign(theirs: u64, own: Option<u64>) -> bool {
    theirs != 0 && own.is_some_and(|own| own != theirs)
}
