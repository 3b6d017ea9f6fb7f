//! Launches that began and did not end yet: looked after, in case their launchers are killed.

use super::event::{write, JobEvent, What};
use super::{Jobs, Shipped, RUNNING};
use crate::ship::batch::Batch;
use crate::sources::own_file::Refusal;
use crate::sources::preload::process;
use crate::{info, sys, warn};
use std::io;

/// Launches of one user whose processes are looked after; well below `FILES_MAX`, since their files are among those.
const RUNNING_MAX: usize = 1024;

/// A launch that began and did not end yet: the `start`, kept in a file.
pub(super) struct Running {
    pub(super) start: JobEvent,
    pub(super) launcher: (u32, u64),
    pub(super) gone: bool,
}

impl Jobs {
    /// Asks after the launchers. What cannot be asked now is asked again.
    pub(super) fn look_after(&mut self) {
        for ((uid, name), running) in self.running.iter_mut().filter(|(_, r)| !r.gone) {
            let (pid, start_ticks) = running.launcher;
            match process::has_ended(&self.proc, pid, start_ticks) {
                Ok(gone) => running.gone = gone,
                Err(e) => warn!("launcher", "{uid}/{name}: process {pid}: {e}; asked again"),
            }
        }
    }

    fn count_running(&self, uid: u32) -> usize {
        self.running.keys().filter(|(u, _)| *u == uid).count()
    }

    /// Takes in the kept files of a user, and forgets those that are not there any more.
    pub(super) fn take_kept(&mut self, uid: u32, names: Vec<String>, cut: bool) {
        self.running
            .retain(|(u, name), _| *u != uid || cut || names.contains(name));
        for name in names {
            if self.running.contains_key(&(uid, name.clone())) {
                continue;
            }
            match self.load(uid, &name) {
                Ok(start) => match start.launcher(self.namespace) {
                    Some(launcher) => self.keep(uid, name, start, launcher),
                    None => self.refuse(
                        uid,
                        &name,
                        "expected a start with pid and pid_start_ticks of this pid namespace",
                    ),
                },
                Err(Refusal::Bad(why)) => self.refuse(uid, &name, &why),
                Err(Refusal::NotNow(e)) if e.kind() == io::ErrorKind::NotFound => {}
                Err(Refusal::NotNow(e)) => warn!("job event", "{uid}/{name}: {e}"),
            }
        }
    }

    fn keep(&mut self, uid: u32, name: String, start: JobEvent, launcher: (u32, u64)) {
        let running = Running {
            start,
            launcher,
            gone: false,
        };
        self.running.insert((uid, name), running);
    }

    /// A `start` that the spool has: kept if its launcher can be looked after, else removed.
    pub(super) fn settle_start(&mut self, uid: u32, name: &str, start: JobEvent, has_ended: bool) {
        let Some(launcher) = start.launcher(self.namespace).filter(|_| !has_ended) else {
            return self.remove(uid, name);
        };
        if self.count_running(uid) >= RUNNING_MAX {
            warn!(
                "too many launches",
                "{uid}/{name}: more than {RUNNING_MAX} launches run; whether this one's launcher is killed is not seen"
            );
            return self.remove(uid, name);
        }
        let kept = format!("{}{RUNNING}", name.strip_suffix(".job").unwrap_or(name));
        let renamed = match self.dirs.dir(uid) {
            Some(dir) => sys::rename_at(dir, name, &kept),
            None => return,
        };
        match renamed {
            Ok(()) => self.keep(uid, kept, start, launcher),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                warn!(
                    "job event not kept",
                    "{uid}/{name}: {e}; whether its launcher is killed is not seen"
                );
                self.remove(uid, name);
            }
        }
    }

    /// Ends a user's launches whose launchers are gone and told no end. Answers false if the batch is full.
    pub(super) fn close_abandoned(&mut self, uid: u32, now_ns: i64, batch: &mut Batch) -> bool {
        let keys: Vec<_> = self
            .closing
            .iter()
            .filter(|k| k.0 == uid)
            .cloned()
            .collect();
        for key in keys {
            let told = |launch: &String| {
                let ends = self.shipped.iter().filter(|(u, _, _)| *u == uid);
                ends.into_iter()
                    .any(|(_, _, s)| matches!(s, Shipped::End(ended) if ended == launch))
            };
            // An end that was committed before has removed it.
            if let Some(running) = self.running.get(&key).filter(|r| !told(&r.start.launch)) {
                let mut end = running.start.clone();
                end.event = What::End;
                end.time = now_ns.max(end.time);
                end.exit_code = None;
                if !batch.push("job", |out| write(out, &end, uid)) {
                    return false;
                }
                info!(
                    "launch abandoned",
                    "job {} of user {uid}: its launcher, process {}, is gone and told no end; it ends here",
                    end.job,
                    running.launcher.0
                );
                self.counters.records.add(1);
                self.shipped.push((uid, key.1.clone(), Shipped::Abandoned));
            }
            self.closing.remove(&key);
        }
        true
    }
}
