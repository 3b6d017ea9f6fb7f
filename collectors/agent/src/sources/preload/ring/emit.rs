//! From a run to an event: its times and its file's path.

use super::super::io_uring::IoUring;
use super::super::life::Life;
use super::fields::{base_name, latency, write_run, write_unseen, Times};
use super::{Context, Flow, Ring};
use crate::clock::Scale;
use crate::event;
use crate::ship::batch::Batch;
use std::time::{Duration, Instant};
use tracepack::record::{Op, Run, LATENCY_BUCKETS, UNSEEN_IO_URING};

/// Bytes of names that are looked through in one step.
const STEP_NAMES_BYTES: usize = 4 << 10;
/// How long a run waits for its file's name, where another thread is just writing one.
const NAME_WAIT: Duration = Duration::from_secs(1);

impl Ring {
    /// Writes the process's `start` to the batch. Answers false if that is full.
    pub(super) fn emit_start(&mut self, c: &Context, batch: &mut Batch) -> bool {
        let Some(facts) = &self.facts else {
            return true;
        };
        let (start, moved) = c.now.process_start_ns(self.start_ticks);
        let run = Run {
            op: Op::Start as u8,
            count: 1,
            handle: -1,
            ..Run::default()
        };
        let path = Some(&facts.program[..]).filter(|p| !p.is_empty()).map(|p| {
            let mut json = Vec::new();
            event::string(&mut json, p);
            json
        });
        let times = Times {
            start,
            end: start,
            busy: 0,
            slow: 0,
            latency: run.histogram(),
        };
        if !batch.push("run", |out| {
            write_run(
                out,
                &facts.claims,
                &facts.program_name,
                &run,
                path.as_deref(),
                &times,
            )
        }) {
            return false;
        }
        c.counters.clamped_times.add(moved as u64);
        c.counters.records.add(1);
        self.cursor.started = true;
        self.dirty = true;
        true
    }

    /// Writes to the batch that the process has set up an io_uring, if that was found. Answers false if the batch is full.
    pub(super) fn emit_io_uring(&mut self, c: &Context, batch: &mut Batch) -> bool {
        let Some(facts) = self.facts.as_ref().filter(|_| self.io_uring.is_news()) else {
            return true;
        };
        let (program, now_ns) = (&facts.program, c.now.utc_ns());
        if !batch.push("run", |out| {
            write_unseen(out, &facts.claims, program, UNSEEN_IO_URING, now_ns)
        }) {
            return false;
        }
        c.counters.records.add(1);
        self.io_uring = IoUring::Told;
        true
    }

    /// Writes a run to the batch.
    pub(super) fn emit(
        &mut self,
        run: &Run,
        names_fresh: &mut bool,
        scale: &Scale,
        c: &mut Context,
        batch: &mut Batch,
    ) -> Flow {
        if !batch.has_room() {
            return Flow::Full;
        }
        let mut path = None;
        if run.file != 0 {
            if c.paths.get(self.serial, run.file).is_none() {
                match self.find_path(run.file, names_fresh, c) {
                    Flow::Done => {}
                    other => return other,
                }
            }
            path = c.paths.get(self.serial, run.file);
            c.counters.unknown_names.add(path.is_none() as u64);
        }
        let (start, start_moved) = scale.utc_ns(run.start);
        let (end, end_moved) = scale.utc_ns(run.end);
        c.counters
            .clamped_times
            .add((start_moved || end_moved || end < start) as u64);
        let busy = scale.span_ns(run.busy);
        let slow = scale.span_ns(run.slowest).min(busy);
        let times = Times {
            start,
            end: end.max(start),
            busy,
            slow,
            latency: latency(run, slow),
        };
        let Some(facts) = &self.facts else {
            return Flow::Done;
        };
        if run.op == Op::Unseen as u8 {
            // No operation: however often it is found, it is told as one.
            let name = path.map(base_name).unwrap_or_else(|| b"\"\"".to_vec());
            let once = Run {
                count: 1,
                stride: 0,
                ..*run
            };
            let at = Times {
                end: start,
                busy: 0,
                slow: 0,
                latency: [0; LATENCY_BUCKETS],
                ..times
            };
            if !batch.push("run", |out| {
                write_run(out, &facts.claims, &name, &once, path, &at)
            }) {
                return Flow::Full;
            }
            if run.handle == UNSEEN_IO_URING {
                self.io_uring = IoUring::Told;
            }
            c.counters.records.add(1);
            return Flow::Done;
        }
        if !batch.push("run", |out| {
            write_run(out, &facts.claims, &facts.program_name, run, path, &times)
        }) {
            return Flow::Full;
        }
        c.counters.seen.add(run.count);
        c.counters.merged.add(run.count - 1);
        c.counters.records.add(1);
        Flow::Done
    }

    /// Brings a file's path into the cache, if it can be found. A name is complete before its first run can be seen, so the
    /// names are looked through again after a run with an unknown one was read.
    fn find_path(&mut self, id: u64, names_fresh: &mut bool, c: &mut Context) -> Flow {
        let Some(file) = &self.file else {
            return Flow::Done;
        };
        loop {
            if let Some(path) = self.names.path(file, id, &mut c.buffers.path) {
                c.paths.put(self.serial, id, path);
                self.waiting_since = None;
                return Flow::Done;
            }
            if *names_fresh {
                break;
            }
            let budget = self.pass.scan_budget;
            let is_final = self.life != Life::Lives;
            let whole = self.names.scan(file, is_final, &mut self.pass.scan_budget);
            let read = budget - self.pass.scan_budget;
            c.steps = c.steps.saturating_sub((read / STEP_NAMES_BYTES) as u64);
            if !whole {
                return Flow::Later;
            }
            *names_fresh = true;
        }
        if self.names.has_hole
            && self
                .waiting_since
                .get_or_insert_with(Instant::now)
                .elapsed()
                < NAME_WAIT
        {
            return Flow::Later;
        }
        Flow::Done
    }
}
