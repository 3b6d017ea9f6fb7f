//! What one log tells: its lines in, closed runs out. Knows no files.
//!
//! An operation is a request line. It waits until its reply may have said that it failed or did less, and then goes into a run; so
//! do opens and releases, since the order counts. What waits is in no run and under no handle: the log is simply read again
//! from the oldest line that waits.

use super::line::{self, Data, Line, Outcome, What};
use super::runs::{Handles, Named, OpenRuns, Stream, NO_HANDLE};
use crate::counters::Counters;
use crate::sources::log_file::local_time::LocalTime;
use std::collections::VecDeque;
use std::rc::Rc;
use tracepack::record::{Op, Operation, FLAG_DIRECTORY, FLAG_SECONDS};

/// Requests that wait for their replies; beyond, the oldest is taken for done as asked.
pub const WAITING_MAX: usize = 1024;

/// An operation's flags.
const IN_FILE: u8 = FLAG_SECONDS as u8;
const IN_DIRECTORY: u8 = (FLAG_SECONDS | FLAG_DIRECTORY) as u8;

/// A line that is to take effect.
#[derive(Debug)]
struct Waiting {
    /// Where the line begins in the log.
    at: u64,
    id: u64,
    time_ns: u64,
    /// Bytes for each operation, as the reply says, or as asked.
    size: u64,
    errno: u16,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    Data(Data),
    Meta {
        op: Op,
        directory: bool,
        file: Option<Rc<Named>>,
    },
    Opened {
        file: Option<Rc<Named>>,
        handle: u64,
    },
    Release {
        directory: bool,
        handle: u64,
    },
}

/// What was counted since the counters were last told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub bad_lines: u64,
    pub other_operations: u64,
    pub late_replies: u64,
}

impl Tally {
    /// Tells the counters, and begins anew.
    pub fn tell(&mut self, counters: &Counters) {
        counters.bad_lines.add(self.bad_lines);
        counters.other_operations.add(self.other_operations);
        counters.late_replies.add(self.late_replies);
        *self = Tally::default();
    }
}

/// Owned by the log's reader. Bounded by WAITING_MAX and the tables' bounds.
pub struct Trace {
    pub clock: LocalTime,
    pub handles: Handles,
    pub runs: OpenRuns,
    pub tally: Tally,
    /// Lines that begin before this were counted, perhaps by an agent that was killed before it told: read again, they do not count
    /// again, so each counts at most once.
    pub counted_to: u64,
    /// What such lines would count; nobody asks.
    counted_before: Tally,
    waiting: VecDeque<Waiting>,
    wait_ns: u64,
}

impl Trace {
    /// `window_ns`: how long operations go into one run, and how long they wait for their reply. `bytes_max`: of the open runs
    /// and of the handles, each.
    pub fn new(clock: LocalTime, window_ns: u64, bytes_max: usize) -> Trace {
        Trace {
            clock,
            handles: Handles::new(bytes_max),
            runs: OpenRuns::new(window_ns, bytes_max),
            tally: Tally::default(),
            counted_to: 0,
            counted_before: Tally::default(),
            waiting: VecDeque::with_capacity(WAITING_MAX + 1),
            wait_ns: window_ns,
        }
    }

    /// Where to count what is said by a line that begins at `at`.
    pub fn tally_at(&mut self, at: u64) -> &mut Tally {
        match at < self.counted_to {
            true => &mut self.counted_before,
            false => &mut self.tally,
        }
    }

    /// All lines before `at` were counted.
    pub fn counted(&mut self, at: u64) {
        self.counted_to = self.counted_to.max(at);
    }

    /// The instant of the line before the one that is read first after a kill, s since the epoch. Where lines wait it is that of the oldest
    /// of them: what came later may lie on the other side of a change of the clocks.
    pub fn resume_s(&self) -> i64 {
        let oldest = self.waiting.front();
        oldest.map_or(self.clock.last_s(), |w| (w.time_ns / 1_000_000_000) as i64)
    }

    /// Takes the next line, which begins at `at` in the log.
    #[inline]
    pub fn line(&mut self, at: u64, text: &[u8]) {
        let parsed = line::parse(text);
        let timed = parsed.and_then(|line| Some((line, self.clock.utc_ns(line.stamp)?)));
        match timed {
            Some((line, time_ns)) => self.take(at, line, time_ns),
            None => self.tally_at(at).bad_lines += 1,
        }
    }

    #[inline]
    fn take(&mut self, at: u64, line: Line, time_ns: u64) {
        let (size, effect) = match line.what {
            What::Data(data) => (data.size, Effect::Data(data)),
            What::Done => return self.answered(line.id),
            What::Other => {
                self.tally_at(at).other_operations += 1;
                return;
            }
            What::Reply(outcome) => return self.reply(at, line.id, outcome),
            What::Meta {
                op,
                directory,
                path,
            } => {
                let file = path.and_then(Named::new);
                let effect = Effect::Meta {
                    op,
                    directory,
                    file,
                };
                (0, effect)
            }
            What::Opened { path, handle } => {
                let file = Named::new(path);
                (0, Effect::Opened { file, handle })
            }
            What::Release { directory, handle } => (0, Effect::Release { directory, handle }),
        };
        self.waiting.push_back(Waiting {
            at,
            id: line.id,
            time_ns,
            size,
            errno: 0,
            effect,
        });
        while self.waiting.len() > WAITING_MAX || self.has_waited(time_ns) {
            self.take_effect();
        }
    }

    /// Whether the oldest has waited long enough.
    #[inline]
    fn has_waited(&self, now_ns: u64) -> bool {
        let oldest = self.waiting.front();
        oldest.is_some_and(|w| w.time_ns.saturating_add(self.wait_ns) < now_ns)
    }

    /// The request that a reply of this number is for: the newest, as numbers begin anew when the file system is mounted again.
    #[inline]
    fn asked(&mut self, id: u64) -> Option<&mut Waiting> {
        if id == 0 {
            return None;
        }
        self.waiting.iter_mut().rev().find(|w| w.id == id)
    }

    /// A request did what was asked: no later reply of its number is its own.
    #[inline]
    fn answered(&mut self, id: u64) {
        if let Some(asked) = self.asked(id) {
            asked.id = 0;
        }
    }

    /// A request did not do what was asked.
    #[cold]
    fn reply(&mut self, at: u64, id: u64, outcome: Outcome) {
        let Some(asked) = self.asked(id) else {
            self.tally_at(at).late_replies += 1;
            return;
        };
        let is_one = matches!(&asked.effect, Effect::Data(data) if data.count == 1);
        match outcome {
            Outcome::Failed(errno) => (asked.size, asked.errno) = (0, errno),
            Outcome::Bytes(bytes) if is_one && bytes <= asked.size => asked.size = bytes,
            Outcome::Bytes(_) => {
                self.tally_at(at).bad_lines += 1;
                return;
            }
        }
        asked.id = 0;
    }

    /// Where the log must be read again from, if no more than this is kept. `None`: nothing waits.
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.front().map(|w| w.at)
    }

    /// Nobody waits any longer: what was asked is taken for done.
    pub fn stop_waiting(&mut self) {
        while !self.waiting.is_empty() {
            self.take_effect();
        }
    }

    /// The oldest line that waits takes effect.
    #[inline]
    fn take_effect(&mut self) {
        let Some(w) = self.waiting.pop_front() else {
            return;
        };
        match w.effect {
            Effect::Data(data) => {
                let (mut o, stream) = operation(&w, data.op, data.handle, false, None);
                o.offset = data.offset;
                // An open run of a handle is of its file: it is closed when the handle ends. One of failures may be of an earlier file.
                if w.errno != 0 || !self.runs.extend(&stream, o, data.count) {
                    let file = self.handles.get(&data.handle).and_then(Option::as_ref);
                    o.file = file.map_or(0, |f| f.id);
                    self.runs.record(stream, &o, data.count, file);
                }
            }
            Effect::Meta {
                op,
                directory,
                ref file,
            } => {
                let file = file.as_ref();
                let (o, stream) = operation(&w, op, NO_HANDLE, directory, file);
                self.runs.record(stream, &o, 1, file);
            }
            Effect::Opened { file, handle } => {
                self.end_handle(handle);
                self.handles.insert(handle, file);
                while self.handles.is_over() {
                    self.handles.pop_oldest();
                }
            }
            Effect::Release { directory, handle } => {
                let file = self.end_handle(handle).flatten();
                let file = file.as_ref();
                // Closes of one file merge, whatever their handles were.
                let (o, stream) = operation(&w, Op::Close, NO_HANDLE, directory, file);
                self.runs.record(stream, &o, 1, file);
            }
        }
        self.runs.advance(w.time_ns);
    }

    /// What a handle stood for ends, and so do its runs.
    fn end_handle(&mut self, handle: u64) -> Option<Option<Rc<Named>>> {
        for op in [Op::Read, Op::Write] {
            self.runs.close(&Stream {
                handle,
                file: 0,
                errno: 0,
                op: op as u8,
            });
        }
        self.handles.remove(&handle)
    }
}

/// The operation of a line, and its stream.
#[inline]
fn operation(
    w: &Waiting,
    op: Op,
    handle: u64,
    directory: bool,
    file: Option<&Rc<Named>>,
) -> (Operation, Stream) {
    let file = file.map_or(0, |f| f.id);
    let o = Operation {
        file,
        size: w.size,
        start: w.time_ns,
        end: w.time_ns,
        handle: -1,
        errno: w.errno,
        op: op as u8,
        flags: if directory { IN_DIRECTORY } else { IN_FILE },
        ..Operation::default()
    };
    let stream = Stream {
        handle,
        file,
        errno: w.errno,
        op: op as u8,
    };
    (o, stream)
}
