//! Whether more will come of a ring.

use super::ring::Ring;
use super::user::User;
use super::{is_due, process, Preload};
use crate::clock::Now;
use crate::sources::Pass;
use crate::warn;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// How often it is asked which processes live in other pid namespaces, if any rings come from there.
const NAMESPACES_EVERY: Duration = Duration::from_secs(5);
/// A process in another pid namespace can often not be asked after. When its ring has not changed for this long, it is taken for
/// ended; should it change again, it is read on.
pub const SILENT_AFTER_NS: i64 = 15 * 60 * 1_000_000_000;
/// When its ring has not changed for this long, it is removed.
pub const REMOVE_AFTER_NS: i64 = 24 * 3600 * 1_000_000_000;

/// What is known of a ring's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Lives,
    /// It is in another pid namespace, and its ring has not changed for long: what stands there is taken for final.
    Silent,
    /// Nothing more will come.
    Ended,
}

impl Ring {
    /// Judges the life of a process that cannot be asked after.
    pub fn judge_silence(&mut self, now: &Now) {
        self.life = match now.pair.monotonic_ns - self.changed_ns {
            REMOVE_AFTER_NS.. => Life::Ended,
            SILENT_AFTER_NS.. => Life::Silent,
            _ => Life::Lives,
        };
    }
}

impl Preload {
    /// Finds out which rings' processes have ended, before anything is read: what is read of one is then all that there is.
    pub(super) fn ask_lives(&mut self, users: &mut BTreeMap<u32, User>, pass: &mut Pass) {
        let others = self.in_other_namespaces(users);
        let rings = users.values_mut().flat_map(|user| &mut user.rings);
        for ring in rings.filter(|r| r.is_identified()) {
            self.ask_life(ring, false, pass);
            // Its process was there before these were looked for.
            let has_ended =
                |others: &HashSet<_>| !others.contains(&(ring.pid_namespace(), ring.pid));
            if ring.is_foreign(self.namespace) && others.as_ref().is_some_and(has_ended) {
                ring.life = Life::Ended;
            }
        }
        let rings = users.values_mut().flat_map(|user| &mut user.rings);
        self.io_urings.look(&self.proc, self.namespace, rings);
    }

    /// Finds out whether a ring's process has ended. `now`: whether or not it is due.
    pub(super) fn ask_life(&self, ring: &mut Ring, now: bool, pass: &mut Pass) {
        if ring.life == Life::Ended {
            return;
        }
        if ring.is_foreign(self.namespace) {
            ring.judge_silence(&pass.now);
        } else if now || self.liveness_due || pass.last || pass.settle.contains(&ring.uid) {
            match process::has_ended(&self.proc, ring.pid, ring.start_ticks) {
                Ok(true) => ring.life = Life::Ended,
                Ok(false) => {}
                Err(e) => {
                    warn!("process", "process {}: {e}; asked again", ring.pid);
                    pass.unfinished.insert(ring.uid);
                }
            }
        }
    }

    /// The processes in other pid namespaces, if it is time to look for them, a ring is from there, and they can be seen.
    fn in_other_namespaces(&mut self, users: &BTreeMap<u32, User>) -> Option<HashSet<(u64, u32)>> {
        let mut rings = users.values().flat_map(|user| &user.rings);
        let own = self.namespace?;
        let wanted = rings.any(|r| r.is_foreign(Some(own)) && r.life != Life::Ended);
        (wanted && is_due(&mut self.namespaces_seen, NAMESPACES_EVERY))
            .then(|| process::in_other_namespaces(&self.proc, own))?
    }
}
