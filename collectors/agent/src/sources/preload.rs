//! Source `preload`: the ring files of watched programs, `<rings>/<uid>/<pid>-<start ticks>-<nonce>.ring`.
//!
//! A ring counts only if the user whose directory it lies in owns it. It is read with pread, so that cutting it short
//! harms nobody; of it only each segment's `tail` is written. When its process has ended, it is read to the end and removed.

mod cursor;
mod file;
mod life;
mod paths;
pub(super) mod process;
mod ring;
mod user;

use self::cursor::Cursor;
use self::file::{open, refuse, remove, Refusal};
use self::life::Life;
use self::paths::PathCache;
use self::ring::{Buffers, Context, Flow, Ring};
use self::user::{cursors_bytes_max, User, TURN_STEPS_MAX};
use super::user_dirs::{Listing, UserDirs};
use super::{Pass, Progress, Source};
use crate::config::Config;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::{sys, warn};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is asked whether processes still live.
const LIVENESS_EVERY: Duration = Duration::from_millis(500);
/// How often it is asked which processes live in other pid namespaces, if any rings come from there.
const NAMESPACES_EVERY: Duration = Duration::from_secs(5);
/// How long an agent that is to end goes on giving turns to users whose rings hold more than one turn reads.
const LAST_LOOK_MAX: Duration = Duration::from_secs(10);
/// Ring files that are kept open between passes.
const OPEN_FILES_MAX: usize = 512;
/// How a user's turn ended.
enum TurnEnd {
    Done,
    /// The batch is full: it goes on.
    Full,
    /// Its steps are used up.
    Spent,
}

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
            cursors_bytes_max: cursors_bytes_max(config.spool_max_bytes),
            cursors_bytes: 0,
            serial: 0,
            queue: None,
            began: Instant::now(),
            slots_due: false,
            liveness_due: false,
            slots_seen: None,
            liveness_seen: None,
            namespaces_seen: None,
            paths: PathCache::new(),
            buffers: Buffers::default(),
        }
    }

    /// Takes in what appeared in a user's directory, and forgets what disappeared.
    fn take_listing(&mut self, listing: Listing) {
        let uid = listing.uid;
        let user = self.users.entry(uid).or_default();
        user.cut = listing.cut;
        let there: HashSet<&str> = listing.names.iter().map(String::as_str).collect();
        // A file that was removed under us is read as long as it is open: its program may still write.
        user.rings.retain(|r| {
            listing.cut || (r.file.is_some() && !r.finished) || there.contains(&r.name[..])
        });
        let known: HashSet<String> = user.rings.iter().map(|r| r.name.clone()).collect();
        for name in listing.names.iter().filter(|n| !known.contains(*n)) {
            let cursor = self
                .restored
                .remove(&(uid, name.clone()))
                .unwrap_or_default();
            match Ring::new(uid, name.clone(), self.serial + 1, cursor) {
                Some(ring) => {
                    self.serial += 1;
                    user.rings.push(ring);
                }
                None => {
                    warn!("ring's name", "ring {uid}/{name}: expected a name like PID-STARTTICKS-NONCE.ring; it is not read");
                }
            }
        }
        if !listing.cut {
            self.restored.retain(|(u, _), _| *u != uid);
            if user.rings.is_empty() {
                self.users.remove(&uid);
            }
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
        let cut = self.users.iter().filter(|(_, user)| user.cut);
        pass.unfinished.extend(cut.map(|(uid, _)| *uid));
        // An older listing may lack a ring that is there by now.
        pass.unfinished.extend(unlisted);
    }

    /// The processes in other pid namespaces, if it is time to look for them, a ring is from there, and they can be seen.
    fn in_other_namespaces(&mut self, users: &BTreeMap<u32, User>) -> Option<HashSet<(u64, u32)>> {
        let mut rings = users.values().flat_map(|user| &user.rings);
        let own = self.namespace?;
        let wanted = rings.any(|r| r.is_foreign(Some(own)) && r.life != Life::Ended);
        (wanted && is_due(&mut self.namespaces_seen, NAMESPACES_EVERY))
            .then(|| process::in_other_namespaces(&self.proc, own))?
    }

    fn is_late(&self) -> bool {
        self.began.elapsed() > LAST_LOOK_MAX
    }

    /// Begins the turns of a pass.
    fn begin_turns(&mut self, pass: &mut Pass) -> VecDeque<u32> {
        // After every source has begun: a job event that is there by now finds its rings in this listing.
        self.list(pass);
        let mut users = std::mem::take(&mut self.users);
        self.cursors_bytes = 0;
        let others = self.in_other_namespaces(&users);
        for user in users.values_mut() {
            // Asked before anything is read: what is read of an ended process is then all that there is.
            for ring in user.rings.iter_mut().filter(|r| r.is_identified()) {
                self.ask_life(ring, false, pass);
                // Its process was there before these were looked for.
                let has_ended =
                    |others: &HashSet<_>| !others.contains(&(ring.pid_namespace(), ring.pid));
                if ring.is_foreign(self.namespace) && others.as_ref().is_some_and(has_ended) {
                    ring.life = Life::Ended;
                }
            }
            user.begin_turn();
            user.cursor_bytes = user.rings.iter().map(|r| r.cursor.bytes(&r.name)).sum();
            self.cursors_bytes += user.cursor_bytes;
        }
        for ((uid, name), cursor) in &self.restored {
            let bytes = cursor.bytes(name);
            self.cursors_bytes += bytes;
            if let Some(user) = users.get_mut(uid) {
                user.cursor_bytes += bytes;
            }
        }
        self.users = users;
        self.users.keys().copied().collect()
    }

    /// What a ring may take: how many steps, and how many bytes for its cursor.
    fn context(&mut self, user: &User, steps: u64, pass: &Pass) -> Context<'_> {
        let all = self.cursors_bytes_max;
        let share = all / (self.users.len() + 1); // `user` is taken out
        let room = all.saturating_sub(self.cursors_bytes);
        Context {
            now: pass.now,
            counters: &self.counters,
            paths: &mut self.paths,
            buffers: &mut self.buffers,
            window_ms: self.window_ms,
            slots_due: self.slots_due,
            ship_open: pass.last,
            fill: 0.0,
            steps,
            room: room.max(share.saturating_sub(user.cursor_bytes)),
            short: false,
        }
    }

    /// Begins a ring's pass. Answers whether to read it.
    fn begin_ring(&self, ring: &mut Ring, pass: &mut Pass) -> bool {
        let uid = ring.uid;
        match open(ring, self.dirs.dir(uid)) {
            Ok(()) => {}
            Err(Refusal::Bad(why)) => {
                refuse(ring, &self.counters, &why);
                return false;
            }
            Err(Refusal::NotNow(e)) => {
                warn!(
                    "ring not opened",
                    "ring {uid}/{}: {e}; tried again", ring.name
                );
                pass.unfinished.insert(uid);
                return false;
            }
        }
        if !ring.is_identified() {
            let identified = ring.identify(&pass.now);
            self.ask_life(ring, identified.is_ok(), pass);
            if let Err(why) = identified {
                refuse(ring, &self.counters, why);
                return false;
            }
        }
        true
    }

    /// Finds out whether a ring's process has ended. `now`: whether or not it is due.
    fn ask_life(&self, ring: &mut Ring, now: bool, pass: &mut Pass) {
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

    /// Reads on for one user, who is taken out of `users` meanwhile.
    fn read_turn(&mut self, user: &mut User, pass: &mut Pass, batch: &mut Batch) -> TurnEnd {
        let Some(mut turn) = user.turn.take() else {
            return TurnEnd::Done;
        };
        let end = loop {
            let Some(&index) = turn.order.front() else {
                break TurnEnd::Done;
            };
            if turn.steps == 0 {
                break TurnEnd::Spent;
            }
            // A commit may have closed the file of a ring that has begun.
            if !turn.begun || user.rings[index].file.is_none() {
                turn.steps -= 1;
                if !self.begin_ring(&mut user.rings[index], pass) {
                    turn.begun = false;
                    turn.order.pop_front();
                    continue;
                }
            }
            let foreign = user.rings[index].is_foreign(self.namespace);
            let mut c = self.context(user, turn.steps, pass);
            let ring = &mut user.rings[index];
            if foreign && pass.settle.contains(&ring.uid) {
                // Whether its process is the job's and has ended cannot be known: so what stands there goes before the job's end.
                (c.ship_open, c.slots_due) = (true, true);
            }
            let before = ring.cursor.bytes(&ring.name);
            let mut flow = Flow::Done;
            if !turn.begun {
                let is_new = ring.cursor.is_blank() && ring.life != Life::Ended;
                if !is_new || c.grow(Cursor::base_bytes(&ring.name)) {
                    match ring.begin(&c) {
                        Ok(()) => turn.begun = true,
                        Err(why) => refuse(ring, c.counters, why),
                    }
                }
            }
            if turn.begun {
                flow = ring.read(&mut c, batch);
            }
            (turn.steps, pass.fill) = (c.steps, pass.fill.max(c.fill));
            if c.short && !std::mem::replace(&mut ring.told_short, true) {
                c.counters.waiting_rings.add(1);
                if !std::mem::replace(&mut user.told_short, true) {
                    warn!("cursors", "user {}: positions in rings take {} bytes of the spool; more of this user's rings wait; raise spool_max_bytes", ring.uid, user.cursor_bytes);
                }
            }
            let after = ring.cursor.bytes(&ring.name);
            user.cursor_bytes = user.cursor_bytes + after - before;
            self.cursors_bytes = self.cursors_bytes + after - before;
            match flow {
                Flow::Done => {}
                Flow::Full => break TurnEnd::Full,
                Flow::Later if turn.steps == 0 => break TurnEnd::Spent,
                Flow::Later => {
                    pass.unfinished.insert(ring.uid);
                    pass.more = true;
                }
            }
            turn.begun = false;
            turn.order.pop_front();
        };
        user.turn = Some(turn);
        end
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
        3 // 1: cursors of another form
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

    fn cursors(&self, all: bool, out: &mut Vec<u8>) {
        let rings = self.users.values().flat_map(|user| &user.rings);
        for ring in rings.filter(|r| (all || r.dirty) && !r.cursor.is_blank()) {
            ring.cursor.write(all, ring.uid, &ring.name, out);
        }
        if all {
            for ((uid, name), cursor) in &self.restored {
                cursor.write(true, *uid, name, out);
            }
        }
    }

    fn restore(&mut self, all: bool, mut bytes: &[u8]) {
        if all {
            self.restored.clear();
        }
        while let Some((uid, name, cursor)) = Cursor::read(&mut bytes) {
            self.restored.entry((uid, name)).or_default().merge(cursor);
        }
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
