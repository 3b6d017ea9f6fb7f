//! Source `preload`: the ring files of watched programs, `<rings>/<uid>/<pid>-<start ticks>-<nonce>.ring`.
//!
//! A ring counts only if the user whose directory it lies in owns it. It is read with pread, so that cutting it short
//! harms nobody; of it only each segment's `tail` is written. When its process has ended, it is read to the end and removed.

pub(crate) mod cursor;
mod file;
mod io_uring;
pub(crate) mod life;
mod listing;
pub(crate) mod paths;
pub(super) mod process;
pub(crate) mod ring;
mod turns;
mod user;

use self::cursor::Cursor;
use self::file::remove;
use self::paths::PathCache;
use self::ring::Buffers;
use self::turns::TurnEnd;
use self::user::{User, TURN_STEPS_MAX};
use super::cursors::{self, Pieces, Reader};
use super::user_dirs::UserDirs;
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sys;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is asked whether processes still live.
const LIVENESS_EVERY: Duration = Duration::from_millis(500);
/// How long an agent that is to end goes on giving turns to users whose rings hold more than one turn reads.
const LAST_LOOK_MAX: Duration = Duration::from_secs(10);
/// Ring files that are kept open between passes.
const OPEN_FILES_MAX: usize = 512;

/// Of its cursors in the spool. 1, 3: they had another form.
pub(crate) const TAG: u8 = 5;

pub struct Preload {
    dirs: UserDirs,
    counters: Arc<Counters>,
    proc: PathBuf,
    /// The pid namespace of `proc`.
    namespace: Option<u64>,
    window_ms: u64,
    /// Bounded by `users_max`.
    users: BTreeMap<u32, User>,
    /// Cursors from the spool whose files were not seen yet.
    restored: HashMap<(u32, String), Cursor>,
    /// What the cursors of all rings may take in the spool, and what they take: bytes.
    cursors_bytes_max: usize,
    cursors_bytes: usize,
    serial: u64,
    /// Users whose turns in this pass are to come; `None`: it has not begun.
    queue: Option<VecDeque<u32>>,
    began: Instant,
    slots_due: bool,
    liveness_due: bool,
    slots_seen: Option<Instant>,
    liveness_seen: Option<Instant>,
    namespaces_seen: Option<Instant>,
    io_urings: io_uring::Looks,
    paths: PathCache,
    buffers: Buffers,
}

impl Preload {
    pub fn new(config: &Config, counters: Arc<Counters>) -> Preload {
        let path = config.under_root(&config.rings);
        let proc = config.under_root(Path::new("/proc"));
        Preload {
            dirs: UserDirs::new(
                path,
                ".ring",
                config.users_max,
                config.rings_per_user_max,
                counters.clone(),
            ),
            counters,
            namespace: process::namespace(&proc),
            proc,
            window_ms: config.window_ms,
            users: BTreeMap::new(),
            restored: HashMap::new(),
            // Whoever has less than an equal share may grow all the same: they never take more than twice that.
            cursors_bytes_max: cursors::bytes_max(config.spool_max_bytes),
            cursors_bytes: 0,
            serial: 0,
            queue: None,
            began: Instant::now(),
            slots_due: false,
            liveness_due: false,
            slots_seen: None,
            liveness_seen: None,
            namespaces_seen: None,
            io_urings: io_uring::Looks::default(),
            paths: PathCache::new(),
            buffers: Buffers::default(),
        }
    }

    fn is_late(&self) -> bool {
        self.began.elapsed() > LAST_LOOK_MAX
    }
}

/// Whether something that happens every `every` is due, which then counts as done.
fn is_due(last: &mut Option<Instant>, every: Duration) -> bool {
    let due = last.is_none_or(|t| t.elapsed() >= every);
    if due {
        *last = Some(Instant::now());
    }
    due
}

impl Source for Preload {
    fn tag(&self) -> u8 {
        TAG
    }

    fn begin(&mut self, pass: &mut Pass) {
        self.queue = None;
        self.began = Instant::now();
        self.slots_due = is_due(
            &mut self.slots_seen,
            Duration::from_millis(self.window_ms / 2),
        ) || pass.last;
        self.liveness_due = is_due(&mut self.liveness_seen, LIVENESS_EVERY);
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let mut queue = match self.queue.take() {
            Some(queue) => queue,
            None => self.begin_turns(pass),
        };
        let mut progress = Progress::Done;
        while let Some(uid) = queue.pop_front() {
            let Some(mut user) = self.users.remove(&uid) else {
                continue;
            };
            match self.read_turn(&mut user, pass, batch) {
                TurnEnd::Done => {}
                TurnEnd::Full => {
                    queue.push_front(uid);
                    progress = Progress::More;
                }
                // With `--once` all is read, however long it takes.
                TurnEnd::Spent if pass.last && !(sys::stop_asked() && self.is_late()) => {
                    queue.push_back(uid);
                    user.turn.iter_mut().for_each(|t| t.steps = TURN_STEPS_MAX);
                }
                TurnEnd::Spent => {
                    pass.more = true;
                    if user.stop_turn() {
                        pass.unfinished.insert(uid);
                    }
                }
            }
            self.users.insert(uid, user);
            if progress == Progress::More {
                break;
            }
        }
        self.queue = Some(queue);
        progress
    }

    fn cursors(&self, all: bool, out: &mut Pieces) {
        let rings = self.users.values().flat_map(|user| &user.rings);
        for ring in rings.filter(|r| (all || r.dirty) && !r.cursor.is_blank()) {
            out.block(|out| ring.cursor.write(all, ring.uid, &ring.name, out));
        }
        if all {
            for ((uid, name), cursor) in &self.restored {
                out.block(|out| cursor.write(true, *uid, name, out));
            }
        }
    }

    fn forget(&mut self) {
        self.restored.clear();
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let (uid, name, cursor) = Cursor::read(cursor)?;
        self.restored.entry((uid, name)).or_default().merge(cursor);
        Some(())
    }

    fn committed(&mut self) {
        let mut open = 0;
        for ring in self.users.values_mut().flat_map(|user| &mut user.rings) {
            ring.committed();
            if ring.finished {
                remove(ring, self.dirs.dir(ring.uid));
            }
            open += ring.file.is_some() as usize;
            if open > OPEN_FILES_MAX {
                ring.file = None;
            }
        }
    }

    fn open_files(&self) -> u64 {
        let rings = self.users.values().flat_map(|user| &user.rings);
        rings.filter(|r| !r.finished).count() as u64
    }
}

#[cfg(test)]
#[path = "preload_tests.rs"]
mod tests;
