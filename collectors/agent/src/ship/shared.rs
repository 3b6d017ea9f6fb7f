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
/// How long a signal that asks for a stop may go unheard.
const STOP_HEARD_AFTER: Duration = Duration::from_secs(1);

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
    /// When something was last acknowledged.
    heard_at: Option<Instant>,
    /// The shipper is to end when it has nothing more to do.
    stopping: bool,
    shipper_ended: bool,
}

impl State {
    fn is_all_acked(&self) -> bool {
        let last = self.segments.back();
        last.is_none_or(|last| self.acked >= last.last_number)
    }

    /// For how long nothing has been acknowledged since then.
    fn silence(&self, since: Instant) -> Duration {
        self.heard_at.map_or(since, |at| at.max(since)).elapsed()
    }
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
        state.is_all_acked()
    }

    /// The same, for as long as something is acknowledged within each such time, and no stop is asked for.
    pub fn wait_while_heard(&self, time: Duration, stop_asked: impl Fn() -> bool) -> bool {
        let since = Instant::now();
        let mut state = self.lock();
        loop {
            let left = time.saturating_sub(state.silence(since));
            if state.shipper_ended || left.is_zero() || stop_asked() {
                return state.is_all_acked();
            }
            // A signal wakes nobody who waits here.
            let waited = self.changed.wait_timeout(state, left.min(STOP_HEARD_AFTER));
            state = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Whether nothing has been acknowledged for so long since then.
    pub fn is_silent(&self, since: Instant, time: Duration) -> bool {
        self.lock().silence(since) >= time
    }

    /// Everything up to this entry has been acknowledged (or had nothing to send).
    pub fn acknowledge(&self, number: u64) {
        let mut state = self.lock();
        if number > state.acked {
            state.acked = number;
            state.heard_at = Some(Instant::now());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn shared(name: &str) -> Shared {
        let segment = Segment {
            id: 1,
            bytes: 100,
            last_number: 1000,
        };
        Shared::new(&temp_dir(name), [segment].into(), 0)
    }

    #[test]
    fn a_stop_is_heard_while_acknowledgements_come() {
        let (shared, stop) = (shared("heard"), AtomicBool::new(false));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..20 {
                    shared.acknowledge(number);
                    std::thread::sleep(Duration::from_millis(10));
                }
                stop.store(true, Ordering::SeqCst);
            });
            let all =
                shared.wait_while_heard(Duration::from_secs(60), || stop.load(Ordering::SeqCst));
            assert!(!all && stop.load(Ordering::SeqCst));
        });
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn silence_is_since_the_last_acknowledgement() {
        let shared = shared("silence");
        let time = Duration::from_millis(50);
        let since = Instant::now();
        assert!(!shared.is_silent(since, Duration::from_secs(60)));
        assert!(!shared.wait_while_heard(time, || false));
        assert!(since.elapsed() >= time && shared.is_silent(since, time));
        shared.acknowledge(7);
        assert!(!shared.is_silent(since, since.elapsed()));
        shared.acknowledge(1000);
        shared.ended();
        assert!(shared.wait_while_heard(Duration::from_secs(60), || false));
    }
}
