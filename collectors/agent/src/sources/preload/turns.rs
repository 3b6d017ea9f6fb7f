//! A pass over the rings, in turns: each user's rings get so many steps of it.

use super::cursor::Cursor;
use super::file::{open, refuse};
use super::life::Life;
use super::ring::{Context, Flow, Ring};
use super::user::{Turn, User};
use super::Preload;
use crate::ship::batch::Batch;
use crate::sources::own_file::Refusal;
use crate::sources::Pass;
use crate::warn;
use std::collections::VecDeque;

/// How a user's turn ended.
pub(super) enum TurnEnd {
    Done,
    /// The batch is full: it goes on.
    Full,
    /// Its steps are used up.
    Spent,
}

impl Preload {
    /// Begins the turns of a pass.
    pub(super) fn begin_turns(&mut self, pass: &mut Pass) -> VecDeque<u32> {
        // After every source has begun: a job event that is there by now finds its rings in this listing.
        self.list(pass);
        let mut users = std::mem::take(&mut self.users);
        self.cursors_bytes = 0;
        self.ask_lives(&mut users, pass);
        for user in users.values_mut() {
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

    /// Reads on for one user, who is taken out of `users` meanwhile.
    pub(super) fn read_turn(
        &mut self,
        user: &mut User,
        pass: &mut Pass,
        batch: &mut Batch,
    ) -> TurnEnd {
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
            match self.read_ring(user, index, &mut turn, pass, batch) {
                Flow::Done => {}
                Flow::Full => break TurnEnd::Full,
                Flow::Later if turn.steps == 0 => break TurnEnd::Spent,
                Flow::Later => {
                    pass.unfinished.insert(user.rings[index].uid);
                    pass.more = true;
                }
            }
            turn.begun = false;
            turn.order.pop_front();
        };
        user.turn = Some(turn);
        end
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
            let identified = ring.identify(&pass.now, self.namespace);
            self.ask_life(ring, identified.is_ok(), pass);
            if let Err(why) = identified {
                refuse(ring, &self.counters, why);
                return false;
            }
        }
        true
    }

    /// Reads on in a ring that could be opened.
    fn read_ring(
        &mut self,
        user: &mut User,
        index: usize,
        turn: &mut Turn,
        pass: &mut Pass,
        batch: &mut Batch,
    ) -> Flow {
        let settles = pass.settle.contains(&user.rings[index].uid);
        let mut c = self.context(user, turn.steps, pass);
        let ring = &mut user.rings[index];
        if settles {
            // What stands there goes before the job's end: its process may be just about to die, as when a whole job is killed.
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
        flow
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
}
