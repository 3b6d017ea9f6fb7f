//! What the drainer, which appends to the spool, and the shipper, which empties it, share.

use crate::warn;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The acknowledged position is saved this often; after a kill, what was acknowledged since is sent again.
const SAVE_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub id: u64,
    pub bytes: u64,
    pub last_number: u64,
}

/// What both threads know of the spool.
#[derive(Default)]
pub(super) struct State {
    /// Oldest first; the last one is being written and is never deleted.
    pub segments: VecDeque<Segment>,
    pub acked: u64,
    pub saved: u64,
    saved_at: Option<Instant>,
    /// The shipper is to end when it has nothing more to do.
    stopping: bool,
    shipper_ended: bool,
}

/// Shared by the drainer, which appends, and the shipper, which reads and acknowledges.
pub struct Shared {
    pub(super) dir: PathBuf,
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

pub(super) fn segment_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:016}.seg"))
}

impl Shared {
    pub(crate) fn new(dir: &Path, segments: VecDeque<Segment>, acked: u64) -> Shared {
        let state = State {
            segments,
            acked,
            saved: acked,
            ..State::default()
        };
        Shared {
            dir: dir.to_path_buf(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until there is an entry after this one, or a stop was asked for, or the time is over.
    pub fn wait_for_more(&self, passed: u64, time: Duration) {
        let nothing = |s: &mut State| {
            !s.stopping
                && s.segments
                    .back()
                    .is_none_or(|last| last.last_number <= passed)
        };
        drop(self.changed.wait_timeout_while(self.lock(), time, nothing));
    }

    /// Waits until a stop is asked for, or the time is over.
    pub fn wait_for_stop(&self, time: Duration) {
        drop(
            self.changed
                .wait_timeout_while(self.lock(), time, |s| !s.stopping),
        );
    }

    /// Asks the shipper to end once everything is acknowledged, or the server is out of reach.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    pub fn stopping(&self) -> bool {
        self.lock().stopping
    }

    /// The shipper has ended.
    pub fn ended(&self) {
        self.lock().shipper_ended = true;
        self.changed.notify_all();
    }

    /// Waits for the shipper's end. Answers whether everything that was appended is acknowledged.
    pub fn wait_for_end(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |s| !s.shipper_ended);
        let state = waited.unwrap_or_else(|e| e.into_inner()).0;
        state
            .segments
            .back()
            .is_none_or(|s| state.acked >= s.last_number)
    }

    /// The same, for as long as something is acknowledged within each such time.
    pub fn wait_while_heard(&self, time: Duration) -> bool {
        let mut state = self.lock();
        loop {
            let acked = state.acked;
            let silent = |s: &mut State| !s.shipper_ended && s.acked == acked;
            let waited = self.changed.wait_timeout_while(state, time, silent);
            state = waited.unwrap_or_else(|e| e.into_inner()).0;
            if state.shipper_ended || state.acked == acked {
                return state
                    .segments
                    .back()
                    .is_none_or(|s| state.acked >= s.last_number);
            }
        }
    }

    /// Everything up to this entry has been acknowledged (or had nothing to send).
    pub fn acknowledge(&self, number: u64) {
        let mut state = self.lock();
        if number > state.acked {
            state.acked = number;
            self.delete_acked(&mut state);
            self.changed.notify_all();
        }
        if state.saved_at.is_none_or(|t| t.elapsed() >= SAVE_EVERY) {
            self.save_acked(&mut state);
        }
    }

    /// Saves the acknowledged position now.
    pub fn save(&self) {
        self.save_acked(&mut self.lock());
    }

    fn save_acked(&self, state: &mut State) {
        if state.acked == state.saved {
            return;
        }
        state.saved_at = Some(Instant::now());
        let (path, new) = (self.dir.join("acked"), self.dir.join("acked.tmp"));
        match fs::write(&new, format!("{}\n", state.acked)).and_then(|()| fs::rename(&new, &path)) {
            Ok(()) => state.saved = state.acked,
            Err(e) => warn!(
                "acked file",
                "{}: {e}; after a kill, acknowledged records are sent again",
                path.display()
            ),
        }
    }

    pub(super) fn delete_acked(&self, state: &mut State) {
        while state.segments.len() > 1 && state.segments[0].last_number <= state.acked {
            let path = segment_path(&self.dir, state.segments[0].id);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    warn!("segment not removed", "{}: {e}", path.display());
                    return;
                }
                _ => state.segments.pop_front(),
            };
        }
    }
}
