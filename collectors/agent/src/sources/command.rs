//! Programs that sources ask. One at a time, never waited for, bounded in time and output.
//!
//! A program gets arguments but no shell, no input and a bare environment, runs in a group of its own at low priority, and ends with the agent.
//! When its time is over the whole group is killed. Until what was killed is gone no other is started, so that one which hangs in the kernel
//! keeps the next from hanging beside it. A child that leaves its group is not followed.

mod child;

use self::child::Child;
use crate::sys;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// What a program may print, unless it is told otherwise.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// What is taken of it in one look; what a pipe can hold is less.
const LOOK_BYTES_MAX: usize = 256 << 10;
const CHUNK_BYTES: usize = 8 << 10;
/// How long what was killed is given to go.
const LEAVING: Duration = Duration::from_secs(1);

/// Owned by its source, in the agent's thread.
pub struct Command {
    program: PathBuf,
    limit: Duration,
    bytes_max: usize,
    running: Option<Running>,
    /// Killed then, but not gone yet.
    leaving: Option<(Child, Instant)>,
}

struct Running {
    child: Child,
    output: File,
    taken: usize,
    began: Instant,
}

impl Command {
    /// `program`: an absolute path, on a disk that does not hang; `limit`: for how long it may run.
    pub fn new(program: PathBuf, limit: Duration) -> Command {
        Command {
            program,
            limit,
            bytes_max: OUTPUT_BYTES_MAX,
            running: None,
            leaving: None,
        }
    }

    /// The same, of which more may be printed than of others.
    pub fn printing(mut self, bytes_max: usize) -> Command {
        self.bytes_max = bytes_max;
        self
    }

    /// Begins to ask. An error says why it could not, and nothing runs then.
    pub fn start(&mut self, arguments: &[&str]) -> Result<(), String> {
        if self.running.is_some() || !self.is_gone() {
            return Err(format!(
                "{}: one that was started before was killed and does not end; what it waits for shows: cat /proc/{}/stack",
                self.program.display(),
                self.leaving.as_ref().map_or(0, |(child, _)| child.id())
            ));
        }
        let started = Child::start(&self.program, arguments);
        let (child, output) = started.map_err(|e| format!("{}: {e}", self.program.display()))?;
        self.running = Some(Running {
            child,
            output,
            taken: 0,
            began: Instant::now(),
        });
        Ok(())
    }

    /// Gives what the program has printed since, and says how it ended once it has. `None`: it is under way, or none was started.
    pub fn look(&mut self, take: impl FnMut(&[u8])) -> Option<Result<(), String>> {
        let running = self.running.as_mut()?;
        // Asked for first: once it has ended, all that it printed is in the pipe.
        let has_ended = sys::has_ended(running.child.id());
        let fault = match running.read(self.bytes_max, take) {
            Err(e) => Some(e.to_string()),
            Ok(()) if has_ended => None,
            Ok(()) if running.began.elapsed() < self.limit => return None,
            Ok(()) => Some(format!("it took longer than {} s", self.limit.as_secs())),
        };
        let status = self.end();
        let fault = fault.or(match status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("it ended with {status}")),
            None => Some("it does not end".into()),
        });
        Some(match fault {
            None => Ok(()),
            Some(fault) => Err(format!("{}: {fault}", self.program.display())),
        })
    }

    /// Kills what runs and closes its pipe. Answers how it ended, if it is gone at once.
    pub fn end(&mut self) -> Option<ExitStatus> {
        let child = self.running.take()?.child;
        // Before its leader is taken leave of, the group's number can be no other's.
        sys::kill_group(child.id());
        match child.try_wait() {
            Ok(Some(status)) => Some(status),
            _ => {
                self.leaving = Some((child, Instant::now()));
                None
            }
        }
    }

    /// What was killed just now is not gone yet: another can be started soon.
    pub fn is_leaving(&mut self) -> bool {
        !self.is_gone()
            && (self.leaving.as_ref()).is_some_and(|(_, killed)| killed.elapsed() < LEAVING)
    }

    /// Whether what was killed is gone.
    fn is_gone(&mut self) -> bool {
        if let Some((child, _)) = &self.leaving {
            if matches!(child.try_wait(), Ok(None)) {
                return false;
            }
        }
        self.leaving = None;
        true
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    /// Takes what is there.
    fn read(&mut self, bytes_max: usize, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut chunk = [0; CHUNK_BYTES];
        let mut room = LOOK_BYTES_MAX;
        while room > 0 {
            match self.output.read(&mut chunk) {
                Ok(0) => break,
                Ok(got) => {
                    self.taken += got;
                    room = room.saturating_sub(got);
                    if self.taken > bytes_max {
                        let text = format!("it printed more than {bytes_max} bytes");
                        return Err(io::Error::other(text));
                    }
                    take(&chunk[..got]);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
