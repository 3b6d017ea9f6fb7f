//! Source `preload`: the ring files of watched programs, `<rings>/<uid>/<pid>-<start ticks>-<nonce>.ring`.
//!
//! A ring counts only if the user whose directory it lies in owns it. It is read with pread, so that cutting it short
//! harms nobody; of it only each segment's `tail` is written. When its process has ended, it is read to the end and removed.

mod cursor;
mod fields;
mod names;
mod paths;
mod process;
mod ring;
mod slots;

use self::cursor::Cursor;
use self::paths::PathCache;
use self::ring::{Buffers, Context, Flow, Ring, FILE_BYTES_MAX};
use super::user_dirs::{Listing, UserDirs};
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::{sys, warn};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is asked whether processes still live.
const LIVENESS_EVERY: Duration = Duration::from_millis(500);
/// Ring files that are kept open between passes.
const OPEN_FILES_MAX: usize = 512;
/// A file of an ended process that is no ring is removed when it is this old.
const BAD_FILE_AGE_S: i64 = 5;

/// Why a file was not opened.
enum Refusal {
    /// It is not what it should be.
    Bad(String),
    /// The system is short of something.
    NotNow(io::Error),
}

pub struct Preload {
    dirs: UserDirs,
    counters: Arc<Counters>,
    proc: PathBuf,
    window_ms: u64,
    rings: Vec<Ring>,
    /// Cursors from the spool whose files were not seen yet.
    restored: HashMap<(u32, String), Cursor>,
    /// Users whose rings do not all fit.
    cut: HashSet<u32>,
    serial: u64,
    /// Where the pass is; `None`: it has not begun.
    at: Option<usize>,
    begun: bool,
    slots_due: bool,
    liveness_due: bool,
    slots_seen: Option<Instant>,
    liveness_seen: Option<Instant>,
    paths: PathCache,
    buffers: Buffers,
}

impl Preload {
    pub fn new(config: &Config, counters: Arc<Counters>) -> Preload {
        let path = config.under_root(&config.rings);
        Preload {
            dirs: UserDirs::new(
                path,
                ".ring",
                config.users_max,
                config.rings_per_user_max,
                counters.clone(),
            ),
            counters,
            proc: config.under_root(Path::new("/proc")),
            window_ms: config.window_ms,
            rings: Vec::new(),
            restored: HashMap::new(),
            cut: HashSet::new(),
            serial: 0,
            at: None,
            begun: false,
            slots_due: false,
            liveness_due: false,
            slots_seen: None,
            liveness_seen: None,
            paths: PathCache::new(),
            buffers: Buffers::default(),
        }
    }

    /// Takes in what appeared in a user's directory, and forgets what disappeared.
    fn take_listing(&mut self, listing: Listing) {
        let uid = listing.uid;
        if listing.cut {
            self.cut.insert(uid);
        } else {
            self.cut.remove(&uid);
        }
        let there: HashSet<&str> = listing.names.iter().map(String::as_str).collect();
        // A file that was removed under us is read as long as it is open: its program may still write.
        self.rings.retain(|r| {
            r.uid != uid
                || listing.cut
                || (r.file.is_some() && !r.finished)
                || there.contains(&r.name[..])
        });
        let known: HashSet<String> = self
            .rings
            .iter()
            .filter(|r| r.uid == uid)
            .map(|r| r.name.clone())
            .collect();
        for name in listing.names.iter().filter(|n| !known.contains(*n)) {
            let cursor = self
                .restored
                .remove(&(uid, name.clone()))
                .unwrap_or_default();
            match Ring::new(uid, name.clone(), self.serial + 1, cursor) {
                Some(ring) => {
                    self.serial += 1;
                    self.rings.push(ring);
                }
                None => {
                    warn!("ring's name", "ring {uid}/{name}: expected a name like PID-STARTTICKS-NONCE.ring; it is not read");
                }
            }
        }
        if !listing.cut {
            self.restored.retain(|(u, _), _| *u != uid);
        }
    }

    fn list(&mut self, pass: &mut Pass) {
        let mut unlisted = pass.settle.clone();
        for listing in self
            .dirs
            .poll(|uid| pass.last || pass.settle.contains(&uid))
        {
            unlisted.remove(&listing.uid);
            self.take_listing(listing);
        }
        pass.unfinished.extend(&self.cut);
        // An older listing may lack a ring that is there by now.
        pass.unfinished.extend(unlisted);
    }

    /// Opens a ring's file and checks that it is what its place says.
    fn open(&mut self, index: usize) -> Result<(), Refusal> {
        let ring = &mut self.rings[index];
        if ring.file.is_some() {
            return Ok(());
        }
        let dir = self.dirs.dir(ring.uid);
        let dir = dir.ok_or_else(|| Refusal::Bad("its directory is gone".into()))?;
        let opened = sys::open_file_at(dir, &ring.name, true);
        let file = opened.map_err(|e| match e.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR | libc::EIO) => {
                Refusal::NotNow(e)
            }
            _ => Refusal::Bad(e.to_string()),
        })?;
        let st = sys::stat(&file).map_err(Refusal::NotNow)?;
        if !sys::is_regular(&st) || st.st_uid != ring.uid || st.st_nlink != 1 {
            let uid = ring.uid;
            return Err(Refusal::Bad(format!(
                "expected a regular file of user {uid} without other links"
            )));
        }
        if st.st_size as u64 > FILE_BYTES_MAX {
            return Err(Refusal::Bad(format!(
                "{} bytes are more than a ring has",
                st.st_size
            )));
        }
        ring.file = Some(file);
        Ok(())
    }

    /// A file that cannot be read as a ring: perhaps it is being made; after its process's end it is removed.
    fn refuse(&mut self, index: usize, why: &str) {
        let ring = &mut self.rings[index];
        let age_s = ring
            .file
            .as_ref()
            .and_then(|f| sys::stat(f).ok())
            .map(|st| sys::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000 - st.st_mtime);
        let is_old = age_s.is_none_or(|age| age > BAD_FILE_AGE_S);
        if is_old && !std::mem::replace(&mut ring.told_bad, true) {
            self.counters.bad_rings.add(1);
            warn!(
                "no ring",
                "ring {}/{}: {why}; it is not read", ring.uid, ring.name
            );
        }
        // What could not even be opened is left to its owner.
        ring.finished = ring.dead && is_old && ring.file.is_some();
    }

    /// Begins a ring's pass. Answers whether to read it.
    fn begin_ring(&mut self, index: usize, pass: &mut Pass) -> bool {
        let ring = &mut self.rings[index];
        let settle = pass.last || pass.settle.contains(&ring.uid);
        // Asked before anything is read: what is read of an ended process is then all that there is.
        if !ring.dead && (self.liveness_due || settle) {
            match process::has_ended(&self.proc, ring.pid, ring.start_ticks) {
                Ok(ended) => ring.dead = ended,
                Err(e) => {
                    warn!("process", "process {}: {e}; asked again", ring.pid);
                    pass.unfinished.insert(ring.uid);
                }
            }
        }
        match self.open(index) {
            Ok(()) => {}
            Err(Refusal::Bad(why)) => {
                self.refuse(index, &why);
                return false;
            }
            Err(Refusal::NotNow(e)) => {
                let ring = &self.rings[index];
                warn!(
                    "ring not opened",
                    "ring {}/{}: {e}; tried again", ring.uid, ring.name
                );
                pass.unfinished.insert(ring.uid);
                return false;
            }
        }
        let context = Self::context(&self.counters, &mut self.paths, &mut self.buffers, pass);
        match self.rings[index].begin(&context) {
            Ok(()) => true,
            Err(why) => {
                self.refuse(index, why);
                false
            }
        }
    }

    fn context<'a>(
        counters: &'a Counters,
        paths: &'a mut PathCache,
        buffers: &'a mut Buffers,
        pass: &Pass,
    ) -> Context<'a> {
        Context {
            now: pass.now,
            counters,
            paths,
            buffers,
            window_ms: 0,
            slots_due: false,
            ship_open: pass.last,
            fill: 0.0,
        }
    }

    fn read_ring(&mut self, index: usize, pass: &mut Pass, batch: &mut Batch) -> Flow {
        let mut context = Self::context(&self.counters, &mut self.paths, &mut self.buffers, pass);
        context.window_ms = self.window_ms;
        context.slots_due = self.slots_due;
        let flow = self.rings[index].read(&mut context, batch);
        pass.fill = pass.fill.max(context.fill);
        flow
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
        1
    }

    fn begin(&mut self, pass: &mut Pass) {
        self.at = None;
        self.begun = false;
        self.slots_due = is_due(
            &mut self.slots_seen,
            Duration::from_millis(self.window_ms / 2),
        ) || pass.last;
        self.liveness_due = is_due(&mut self.liveness_seen, LIVENESS_EVERY);
    }

    fn read(&mut self, pass: &mut Pass, batch: &mut Batch) -> Progress {
        let mut index = match self.at {
            Some(index) => index,
            None => {
                // After every source has begun: a job event that is there by now finds its rings in this listing.
                self.list(pass);
                0
            }
        };
        while index < self.rings.len() {
            self.at = Some(index);
            if self.begun || (!self.rings[index].finished && self.begin_ring(index, pass)) {
                self.begun = true;
                match self.read_ring(index, pass, batch) {
                    Flow::Done => {}
                    Flow::Full => return Progress::More,
                    Flow::Later => {
                        pass.unfinished.insert(self.rings[index].uid);
                        pass.more = true;
                    }
                }
            }
            self.begun = false;
            index += 1;
        }
        self.at = Some(index);
        Progress::Done
    }

    fn cursors(&self, all: bool, out: &mut Vec<u8>) {
        for ring in self.rings.iter().filter(|r| all || r.dirty) {
            ring.cursor.write(ring.uid, &ring.name, out);
        }
        if all {
            for ((uid, name), cursor) in &self.restored {
                cursor.write(*uid, name, out);
            }
        }
    }

    fn restore(&mut self, all: bool, mut bytes: &[u8]) {
        if all {
            self.restored.clear();
        }
        while let Some((uid, name, cursor)) = Cursor::read(&mut bytes) {
            self.restored.insert((uid, name), cursor);
        }
    }

    fn committed(&mut self) {
        let mut open = 0;
        for ring in &mut self.rings {
            ring.committed();
            if ring.finished {
                let removed = self
                    .dirs
                    .dir(ring.uid)
                    .map_or(Ok(()), |dir| sys::unlink_at(dir, &ring.name));
                match removed {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        warn!(
                            "ring not removed",
                            "ring {}/{}: {e}; remove it by hand", ring.uid, ring.name
                        );
                    }
                    _ => {}
                }
                ring.file = None; // forgotten at the next listing, which does not find it
            }
            open += ring.file.is_some() as usize;
            if open > OPEN_FILES_MAX {
                ring.file = None;
            }
        }
    }

    fn open_files(&self) -> u64 {
        self.rings.iter().filter(|r| !r.finished).count() as u64
    }
}

#[cfg(test)]
#[path = "preload_tests.rs"]
mod tests;
