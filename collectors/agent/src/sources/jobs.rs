//! Source `jobs`: job events, `<rings>/<uid>/<name>.job`, which `bellrock run` leaves when a launch begins and ends.
//!
//! Events are listed before the rings are read and shipped after, so an `end` follows what the job's ended processes did.
//! A file is removed once the spool has its event; after a kill in between it is shipped twice, which the server allows.

use super::user_dirs::UserDirs;
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::event;
use crate::ship::batch::Batch;
use crate::{sys, warn};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// Longest job event file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Job events of one user in one look.
const FILES_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Start,
    End,
}

#[derive(Deserialize)]
struct JobEvent {
    event: What,
    job: String,
    launch: String,
    cluster: Option<String>,
    program: Option<String>,
    command: Option<String>,
    user: Option<String>,
    time: i64,
    exit_code: Option<i32>,
}

/// Parses a job event file. Unknown keys are dropped; a wrong type is an error.
fn parse(bytes: &[u8]) -> Result<JobEvent, String> {
    let event: JobEvent = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if event.job.is_empty() || event.launch.is_empty() {
        return Err("`job` and `launch` must not be empty".into());
    }
    Ok(event)
}

fn write(out: &mut Vec<u8>, e: &JobEvent, uid: u32) {
    let text = |out: &mut Vec<u8>, name: &str, value: &Option<String>| {
        event::text(out, name, value.as_ref().map(|v| v.as_bytes()));
    };
    event::text(
        out,
        "event",
        Some(if matches!(e.event, What::Start) {
            b"start"
        } else {
            b"end"
        }),
    );
    event::text(out, "job", Some(e.job.as_bytes()));
    event::text(out, "launch", Some(e.launch.as_bytes()));
    text(out, "cluster", &e.cluster);
    text(out, "program", &e.program);
    text(out, "command", &e.command);
    text(out, "user", &e.user);
    event::integer(out, "uid", uid.into());
    event::integer(out, "time", e.time);
    match e.exit_code {
        Some(code) => event::integer(out, "exit_code", code.into()),
        None => event::text(out, "exit_code", None),
    }
}

enum Refusal {
    /// It will never be right.
    Bad(String),
    /// Perhaps later.
    Io(io::Error),
}

pub struct Jobs {
    dirs: UserDirs,
    counters: Arc<Counters>,
    /// Files that are there, by user.
    waiting: BTreeMap<u32, Vec<String>>,
    /// In the batch; removed once the spool has it.
    shipped: Vec<(u32, String)>,
}

impl Jobs {
    pub fn new(config: &Config, counters: Arc<Counters>) -> Jobs {
        let path = config.under_root(&config.rings);
        let dirs = UserDirs::new(path, ".job", config.users_max, FILES_MAX, counters.clone());
        Jobs {
            dirs,
            counters,
            waiting: BTreeMap::new(),
            shipped: Vec::new(),
        }
    }

    fn load(&self, uid: u32, name: &str) -> Result<JobEvent, Refusal> {
        let dir = self
            .dirs
            .dir(uid)
            .ok_or_else(|| Refusal::Io(io::Error::from(io::ErrorKind::NotFound)))?;
        let file = match sys::open_file_at(dir, name, false) {
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                return Err(Refusal::Bad("a symbolic link".into()))
            }
            other => other.map_err(Refusal::Io)?,
        };
        let st = sys::stat(&file).map_err(Refusal::Io)?;
        if !sys::is_regular(&st) || st.st_uid != uid || st.st_nlink != 1 {
            return Err(Refusal::Bad(format!(
                "expected a regular file of user {uid} without other links"
            )));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(Refusal::Io)?;
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
}

impl Source for Jobs {
    fn tag(&self) -> u8 {
        2
    }

    fn begin(&mut self, pass: &mut Pass) {
        for mut listing in self.dirs.poll(|_| pass.last) {
            listing.names.sort_unstable_by(|a, b| b.cmp(a)); // the first in order is taken first, from the end
            self.waiting.insert(listing.uid, listing.names);
        }
        self.waiting.retain(|_, names| !names.is_empty());
        pass.settle.extend(self.waiting.keys());
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let uids: Vec<u32> = self
            .waiting
            .keys()
            .copied()
            .filter(|uid| !pass.unfinished.contains(uid))
            .collect();
        for uid in uids {
            while let Some(name) = self.waiting.get_mut(&uid).and_then(Vec::pop) {
                match self.load(uid, &name) {
                    Ok(event) => {
                        if !batch.push("job", |out| write(out, &event, uid)) {
                            self.waiting.entry(uid).or_default().push(name);
                            return Progress::More;
                        }
                        self.counters.records.add(1);
                        self.shipped.push((uid, name));
                    }
                    Err(Refusal::Bad(why)) => self.refuse(uid, &name, &why),
                    // Listed again as long as it is there.
                    Err(Refusal::Io(e)) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(Refusal::Io(e)) => warn!("job event", "{uid}/{name}: {e}"),
                }
            }
        }
        Progress::Done
    }

    fn cursors(&self, _all: bool, _out: &mut Vec<u8>) {}

    fn restore(&mut self, _all: bool, _bytes: &[u8]) {}

    fn committed(&mut self) {
        for (uid, name) in std::mem::take(&mut self.shipped) {
            match self
                .dirs
                .dir(uid)
                .map_or(Ok(()), |dir| sys::unlink_at(dir, &name))
            {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    warn!(
                        "job event not removed",
                        "{uid}/{name}: {e}; it will be shipped again"
                    );
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
