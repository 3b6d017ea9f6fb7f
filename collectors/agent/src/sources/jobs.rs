//! Source `jobs`: job events, `<rings>/<uid>/<name>.job`, which `bellrock run` leaves when a launch begins and ends.
//!
//! Events are listed before the rings are read and shipped after, so an `end` follows what the job's ended processes did.
//! A file is removed once the spool has its event; after a kill in between it is shipped twice, which the server allows.
//!
//! A launcher that is killed leaves no `end`. So a `start` that names its process is kept, as `<name>.running.job`, until the
//! `end` is in the spool; when the process is gone without one, the agent ends the launch itself, with no exit code. The server
//! lets no such end replace one with a code.

mod event;
mod launches;

use self::event::{parse, write, JobEvent, What};
use self::launches::Running;
use super::cursors::{Pieces, Reader};
use super::own_file::{self, Refusal};
use super::preload::process;
use super::user_dirs::UserDirs;
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::{sys, warn};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest job event file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Job events of one user in one look.
const FILES_MAX: usize = 4096;
/// What a kept `start` is called in the end.
const RUNNING: &str = ".running.job";
/// How often it is asked whether launchers still live.
const LIVENESS_EVERY: Duration = Duration::from_millis(500);

/// What is in the batch.
enum Shipped {
    Start(Box<JobEvent>),
    /// Of this launch.
    End(String),
    /// An end that the launcher did not tell; the file is the kept `start`.
    Abandoned,
}

pub struct Jobs {
    dirs: UserDirs,
    counters: Arc<Counters>,
    /// Files that are there, by user.
    waiting: BTreeMap<u32, Vec<String>>,
    /// In the batch; its files are removed or kept once the spool has it.
    shipped: Vec<(u32, String, Shipped)>,
    /// By user and kept file; at most `RUNNING_MAX` a user. The files are what lasts: they are listed anew by the next agent.
    running: BTreeMap<(u32, String), Running>,
    /// Of those, whose launcher was gone before this pass's listing: an `end` of its own would be in that.
    closing: BTreeSet<(u32, String)>,
    /// Whose `unseen` is in the batch already, while its `start` waits for the next one.
    told_unseen: (u32, String),
    liveness_seen: Option<Instant>,
    proc: PathBuf,
    /// Ours; in another one a pid means another process.
    namespace: Option<u64>,
}

impl Jobs {
    pub fn new(config: &Config, counters: Arc<Counters>) -> Jobs {
        let path = config.under_root(&config.rings);
        let proc = config.under_root(Path::new("/proc"));
        let dirs = UserDirs::new(path, ".job", config.users_max, FILES_MAX, counters.clone());
        Jobs {
            dirs,
            counters,
            waiting: BTreeMap::new(),
            shipped: Vec::new(),
            running: BTreeMap::new(),
            closing: BTreeSet::new(),
            told_unseen: (0, String::new()),
            liveness_seen: None,
            namespace: process::namespace(&proc),
            proc,
        }
    }

    fn load(&self, uid: u32, name: &str) -> Result<JobEvent, Refusal> {
        let dir = self
            .dirs
            .dir(uid)
            .ok_or_else(|| Refusal::NotNow(io::Error::from(io::ErrorKind::NotFound)))?;
        let file = match sys::open_file_at(dir, name, false) {
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                return Err(Refusal::Bad("a symbolic link".into()))
            }
            other => other.map_err(Refusal::NotNow)?,
        };
        own_file::check(&file, uid)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(Refusal::NotNow)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Refusal::Bad(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        parse(&bytes).map_err(Refusal::Bad)
    }

    /// Puts a file that cannot be a job event out of the way.
    fn refuse(&self, uid: u32, name: &str, why: &str) {
        self.counters.bad_jobs.add(1);
        warn!(
            "bad job event",
            "{uid}/{name}: {why}; renamed to {name}.bad; compare it with docs/architecture.md"
        );
        let renamed = self.dirs.dir(uid).map_or(Ok(()), |dir| {
            sys::rename_at(dir, name, &format!("{name}.bad"))
        });
        if let Err(e) = renamed {
            warn!("bad job event not renamed", "{uid}/{name}: {e}");
        }
    }

    fn remove(&self, uid: u32, name: &str) {
        let removed = self
            .dirs
            .dir(uid)
            .map_or(Ok(()), |dir| sys::unlink_at(dir, name));
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                warn!(
                    "job event not removed",
                    "{uid}/{name}: {e}; it will be shipped again"
                );
            }
            _ => {}
        }
    }

    /// Reads a user's events into the batch. Answers false if it is full.
    fn read_events(&mut self, uid: u32, batch: &mut Batch) -> bool {
        while let Some(name) = self.waiting.get_mut(&uid).and_then(Vec::pop) {
            match self.load(uid, &name) {
                Ok(event) => {
                    // Before the start, so that it is not lost between them; after a kill it is told twice, which does no harm.
                    let unseen = event.unseen(self.namespace, uid);
                    if let Some(unseen) = unseen.filter(|_| self.told_unseen != (uid, name.clone()))
                    {
                        if !batch.push("run", unseen) {
                            self.waiting.entry(uid).or_default().push(name);
                            return false;
                        }
                        self.counters.records.add(1);
                        self.told_unseen = (uid, name.clone());
                    }
                    if !batch.push("job", |out| write(out, &event, uid)) {
                        self.waiting.entry(uid).or_default().push(name);
                        return false;
                    }
                    self.counters.records.add(1);
                    let shipped = match event.event {
                        What::Start => Shipped::Start(Box::new(event)),
                        What::End => Shipped::End(event.launch),
                    };
                    self.shipped.push((uid, name, shipped));
                }
                Err(Refusal::Bad(why)) => self.refuse(uid, &name, &why),
                // Listed again as long as it is there.
                Err(Refusal::NotNow(e)) if e.kind() == io::ErrorKind::NotFound => {}
                Err(Refusal::NotNow(e)) => {
                    warn!("job event", "{uid}/{name}: {e}");
                    // It may be the end of a launch whose launcher is gone.
                    self.closing.retain(|(u, _)| *u != uid);
                }
            }
        }
        true
    }
}

impl Source for Jobs {
    fn tag(&self) -> u8 {
        2
    }

    fn begin(&mut self, pass: &mut Pass) {
        let due = |t: Instant| t.elapsed() >= LIVENESS_EVERY;
        if pass.last || self.liveness_seen.is_none_or(due) {
            self.liveness_seen = Some(Instant::now());
            self.look_after();
        }
        let gone = self.running.iter().filter(|(_, r)| r.gone);
        let gone: BTreeSet<(u32, String)> = gone.map(|(key, _)| key.clone()).collect();
        let mut fresh = BTreeSet::new();
        let force = |uid| gone.iter().any(|(u, _)| *u == uid);
        for listing in self.dirs.poll(pass.last, force) {
            let (uid, cut) = (listing.uid, listing.cut);
            let is_kept = |name: &String| name.ends_with(RUNNING);
            let (kept, mut names): (Vec<_>, Vec<_>) = listing.names.into_iter().partition(is_kept);
            names.sort_unstable_by(|a, b| b.cmp(a)); // the first in order is taken first, from the end
            self.waiting.insert(uid, names);
            self.take_kept(uid, kept, cut);
            if !cut {
                fresh.insert(uid);
            }
        }
        self.waiting.retain(|_, names| !names.is_empty());
        self.closing = gone;
        self.closing.retain(|(uid, _)| fresh.contains(uid));
        pass.settle.extend(self.waiting.keys());
        pass.settle.extend(self.closing.iter().map(|(uid, _)| uid));
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let uids: BTreeSet<u32> = self
            .waiting
            .keys()
            .copied()
            .chain(self.closing.iter().map(|(uid, _)| *uid))
            .filter(|uid| !pass.unfinished.contains(uid))
            .collect();
        for uid in uids {
            if !self.read_events(uid, batch) || !self.close_abandoned(uid, pass.now.utc_ns(), batch)
            {
                return Progress::More;
            }
        }
        Progress::Done
    }

    fn cursors(&self, _all: bool, _out: &mut Pieces) {}

    fn forget(&mut self) {}

    /// It has none.
    fn restore(&mut self, _cursor: &mut Reader) -> Option<()> {
        None
    }

    fn committed(&mut self) {
        let shipped = std::mem::take(&mut self.shipped);
        let of_end = |(uid, _, what): &(u32, String, Shipped)| match what {
            Shipped::End(launch) => Some((*uid, launch.clone())),
            _ => None,
        };
        let ended: BTreeSet<(u32, String)> = shipped.iter().filter_map(of_end).collect();
        for (uid, name, what) in shipped {
            match what {
                Shipped::Start(start) => {
                    let has_ended = ended.contains(&(uid, start.launch.clone()));
                    self.settle_start(uid, &name, *start, has_ended);
                }
                // The end's own file goes last: what a kill leaves behind is then ended by it once more.
                Shipped::End(launch) => {
                    let of_launch = |(key, running): (&(u32, String), &Running)| {
                        (key.0 == uid && running.start.launch == launch).then(|| key.clone())
                    };
                    let kept: Vec<_> = self.running.iter().filter_map(of_launch).collect();
                    for key in kept {
                        self.remove(uid, &key.1);
                        self.running.remove(&key);
                    }
                    self.remove(uid, &name);
                }
                Shipped::Abandoned => {
                    self.remove(uid, &name);
                    self.running.remove(&(uid, name));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
