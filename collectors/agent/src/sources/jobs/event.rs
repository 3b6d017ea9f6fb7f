//! A job event: as its file says it, and as it is shipped.

use crate::event;
use crate::sources::preload::ring::fields::{claims, write_unseen};
use serde::Deserialize;
use tracepack::record::UNSEEN_WHY;

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Start,
    End,
}

#[derive(Clone, Deserialize)]
pub struct JobEvent {
    pub event: What,
    pub job: String,
    pub launch: String,
    pub cluster: Option<String>,
    pub program: Option<String>,
    pub command: Option<String>,
    pub user: Option<String>,
    pub time: i64,
    pub exit_code: Option<i32>,
    /// The launcher's; not shipped.
    pub pid: Option<u32>,
    pub pid_start_ticks: Option<u64>,
    pub pid_namespace: Option<u64>,
    /// The program's path and why its calls cannot be seen, where that is so; shipped as a run.
    pub executable: Option<String>,
    pub unseen: Option<i32>,
}

impl JobEvent {
    /// The process whose end ends the launch, where a `start` names one of this pid namespace (`None`: of whichever).
    pub fn launcher(&self, namespace: Option<u64>) -> Option<(u32, u64)> {
        let elsewhere =
            matches!((self.pid_namespace, namespace), (Some(its), Some(ours)) if its != ours);
        match self.event {
            What::Start if !elsewhere => Some((self.pid?, self.pid_start_ticks?)),
            _ => None,
        }
    }

    /// Writes the fields of a `run` event where a `start` says that the program's calls cannot be seen. The process is the launcher.
    pub fn unseen(&self, namespace: Option<u64>, uid: u32) -> Option<impl FnOnce(&mut Vec<u8>)> {
        let why = self.unseen.unwrap_or(0) & UNSEEN_WHY;
        let path = self.executable.clone().filter(|p| !p.is_empty());
        let path = path.filter(|_| self.event == What::Start && why != 0)?;
        let process = match (self.pid, self.pid_start_ticks, self.pid_namespace) {
            (Some(pid), Some(ticks), Some(its)) if namespace.is_some_and(|ours| ours != its) => {
                format!("{pid}.{ticks}.{its:x}")
            }
            (Some(pid), Some(ticks), _) => format!("{pid}.{ticks}"),
            _ => "0.0".to_string(), // not "node": that is who knows no process at all
        };
        let claims = claims(Some(self.job.as_bytes()), uid, &process, 0, -1);
        let at = self.time;
        Some(move |out: &mut Vec<u8>| write_unseen(out, &claims, path.as_bytes(), why, at))
    }
}

/// Parses a job event file. Unknown keys are dropped; a wrong type is an error.
pub fn parse(bytes: &[u8]) -> Result<JobEvent, String> {
    let event: JobEvent = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if event.job.is_empty() || event.launch.is_empty() {
        return Err("`job` and `launch` must not be empty".into());
    }
    Ok(event)
}

/// Writes the fields of a `job` event.
pub fn write(out: &mut Vec<u8>, e: &JobEvent, uid: u32) {
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
