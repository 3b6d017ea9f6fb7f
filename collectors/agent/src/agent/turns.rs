//! The agent's turns: look, spool, sleep; and its end.

use super::{Agent, Mode, EXIT_NOT_SHIPPED};
use crate::counters::{Counters, Gauges};
use crate::ship::shared::Shared;
use crate::ship::spool::AppendError;
use crate::sources::{cursors, Pass, Progress};
use crate::{info, log, memory, sys, warn};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long an agent goes on shipping that a signal ends.
const SHIP_AT_STOP: Duration = Duration::from_secs(5);
/// How long `--once` and `--steps` do while nothing is acknowledged. So long `--steps` also waits for a spool that takes nothing, once no more steps come.
const SHIP_ONCE: Duration = Duration::from_secs(60);
/// Pause before a spool that could not be written is tried again: from, to.
const SPOOL_RETRY_MIN: Duration = Duration::from_millis(50);
const SPOOL_RETRY_MAX: Duration = Duration::from_secs(2);
/// After so long without a record memory is given back.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Agent {
    /// Looks again and again, more often while rings fill fast.
    pub(super) fn watch(&mut self) {
        let shortest = Duration::from_millis(self.config.poll_min_ms);
        let longest = Duration::from_millis(self.config.poll_max_ms);
        let mut pause = shortest;
        while !sys::stop_asked() {
            let Some(pass) = self.pass(false) else { return };
            pause = match pass.fill {
                _ if pass.more => shortest,
                0.5.. => shortest,
                0.25.. => (pause / 2).max(shortest),
                ..0.1 => (pause + pause / 2).min(longest),
                _ => pause,
            };
            if self.worked.elapsed() >= REST_AFTER && self.batch.rest() {
                memory::trim_heap();
            }
            sys::wait(self.until_due().map_or(pause, |due| pause.min(due)));
        }
    }

    /// Until a source wants to look again, whatever the rings hold; rounded up, so as not to wake too early.
    fn until_due(&self) -> Option<Duration> {
        let due = self
            .sources
            .iter()
            .filter_map(|source| source.due())
            .min()?;
        Some(due.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    /// Reads everything that is there, and spools it. `None`: asked to stop while the spool could not be written, or it was given up.
    fn pass(&mut self, last: bool) -> Option<Pass> {
        let pass = self.look(last)?;
        self.commit().then_some(pass)
    }

    /// Reads everything that is there; the last of it may still wait in the batch.
    pub(super) fn look(&mut self, last: bool) -> Option<Pass> {
        let mut pass = Pass::new(self.clock.now(), last);
        for source in &mut self.sources {
            source.begin(&mut pass);
        }
        for index in 0..self.sources.len() {
            while self.sources[index].read(&mut pass, &mut self.batch) == Progress::More {
                if !self.commit() {
                    return None;
                }
                // It may have waited long for the spool.
                pass.now = self.clock.now();
            }
        }
        let period = Duration::from_secs(self.config.sample_period_s);
        // A job's end must not come without the losses that it had.
        let c = &self.counters;
        let lost = c.lost.get() + c.lost_runs.get() + c.spool_full_seconds.get();
        let losses_due = lost != self.lost_sampled && !pass.settle.is_empty();
        let now = self.clock.now().instant;
        let since = |sampled: Instant| now.saturating_duration_since(sampled);
        if last || losses_due || self.sampled.is_none_or(|sampled| since(sampled) >= period) {
            self.lost_sampled = lost;
            if !self.batch.has_room() && !self.commit() {
                return None;
            }
            self.sample(last);
        }
        Some(pass)
    }

    fn sample(&mut self, last: bool) {
        let now = self.clock.now();
        self.sampled = Some(now.instant);
        self.counters.records.add(1);
        let gauges = Gauges {
            spool_bytes: self.spool.bytes(),
            rings: self.sources.iter().map(|s| s.open_files()).sum(),
            ended: last,
        };
        let now_ns = now.utc_ns();
        let (sampler, node, counters) = (&mut self.sampler, &self.config.node, &self.counters);
        self.batch.push("sample", |out| {
            sampler.write(out, node, now_ns, counters, &gauges)
        });
    }

    /// Spools the batch with the cursors that it was read up to. While that fails nothing more is read. Answers false if
    /// asked to stop before it succeeded, or it was given up: then the batch is read again by the next agent.
    pub(super) fn commit(&mut self) -> bool {
        let mut pause = SPOOL_RETRY_MIN;
        loop {
            let window = match self.batch.finish() {
                Ok(window) => window,
                Err(e) => unreachable!("compressing in memory failed: {e}"),
            };
            if window.events > 0 {
                self.worked = Instant::now();
            }
            let sources = &self.sources;
            let is_full = match self
                .spool
                .append(&window, |all, put| cursors::write(sources, all, put))
            {
                Ok(()) => break,
                Err(AppendError::Full(_)) => {
                    self.not_spooled();
                    warn!(
                        "spool full",
                        "spool {}: full ({} bytes); the rings are not read until the server at {} acknowledges; check that it runs",
                        self.config.spool.display(),
                        self.spool.bytes(),
                        self.config.server
                    );
                    true
                }
                Err(AppendError::Io(e)) => {
                    self.counters.spool_errors.add(1);
                    self.not_spooled();
                    warn!(
                        "spool not written",
                        "spool {}: {e}; it is tried again; check with: df {0}",
                        self.config.spool.display()
                    );
                    false
                }
            };
            if sys::stop_asked() || self.gives_up() {
                if !is_full {
                    self.overflow.leave_off();
                }
                return false;
            }
            sys::wait(pause);
            pause = (pause * 2).min(SPOOL_RETRY_MAX);
        }
        if let Some(since_ns) = self.overflow.since_ns() {
            // What is told next belongs to the jobs of all that time.
            self.sampler.reach_back(since_ns);
            let seconds = self.overflow.end();
            self.counters.spool_full_seconds.add(seconds);
            // The log may lie on the disk that was full.
            log::retry();
            info!(
                "spool written again",
                "spool {}: written again after {seconds} s in which it was full or could not be written; the rings were not read meanwhile, and \
                 programs may have folded operations",
                self.config.spool.display()
            );
        }
        self.batch.restart(self.spool.next_seq());
        for source in &mut self.sources {
            source.committed();
        }
        true
    }

    /// Whether what the spool does not take now is left to the next agent.
    fn gives_up(&mut self) -> bool {
        match self.mode {
            Mode::Watch => false,
            Mode::Once => true,
            Mode::Steps => {
                // Who told the steps is gone, with or without having told the last.
                if self.no_more_since.is_none() && sys::is_abandoned(io::stdin().as_fd()) {
                    self.no_more_since = Some(Instant::now());
                }
                let is_silent = |since| self.spool.shared().is_silent(since, SHIP_ONCE);
                self.no_more_since.is_some_and(is_silent)
            }
        }
    }

    /// Nothing is read meanwhile, and programs may fold operations. Not so where time stands still.
    fn not_spooled(&mut self) {
        if self.mode != Mode::Steps {
            self.overflow.begin(self.clock.now().utc_ns());
        }
    }

    /// A last look, then ships for a bounded time.
    pub fn end(&mut self, shared: &Shared) -> ExitCode {
        let is_spooled = self.pass(true).is_some();
        if !is_spooled {
            warn!(
                "last look",
                "what the rings still hold is not spooled; the next agent reads it"
            );
        }
        if let Err(e) = self.spool.sync() {
            warn!(
                "spool not synced",
                "spool {}: {e}",
                self.config.spool.display()
            );
        }
        ship_out(shared, &self.counters, self.mode, is_spooled)
    }
}

/// Ships for a bounded time what the spool holds. `is_spooled`: that is all there was.
pub(super) fn ship_out(
    shared: &Shared,
    counters: &Counters,
    mode: Mode,
    is_spooled: bool,
) -> ExitCode {
    shared.stop();
    let mut all = match mode {
        Mode::Watch => false,
        // The server was waited for before.
        Mode::Steps if !is_spooled => false,
        Mode::Once | Mode::Steps => shared.wait_while_heard(SHIP_ONCE, sys::stop_asked),
    };
    if mode == Mode::Watch || sys::stop_asked() {
        all = shared.wait_for_end(SHIP_AT_STOP);
    }
    shared.save();
    info!(
        "end",
        "{} operations seen, {} records, {} acknowledged{}",
        counters.seen.get(),
        counters.records.get(),
        counters.acknowledged.get(),
        if all {
            ""
        } else {
            "; the rest waits in the spool"
        }
    );
    match all && is_spooled || mode == Mode::Watch {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOT_SHIPPED),
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
