//! What of a log's messages is told: those of a severity, and those that tell of an event; the same one again is counted, and of more than so many
//! a minute the rest is only counted.
//!
//! Events, messages of users' programs and all others have a bound each, so that no chatter keeps an event from being told, and no user what the
//! kernel says. A minute is one of the log's own time, so that what is read late is told like what is read at once.

use super::events::Events;
use super::message::{shown, Message, Origin, PROGRAM_CHARACTERS_MAX, TEXT_CHARACTERS_MAX};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use std::collections::VecDeque;

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MINUTE: i64 = 60 * NS_PER_S;
/// How long the same message is counted before its count is told.
const AGAIN_MAX_NS: u64 = 10 * NS_PER_S as u64;
/// A message further ahead of the node's clock makes no sense, and no server would take it.
pub const AHEAD_MAX_NS: i64 = 23 * 3600 * NS_PER_S;
/// A log that goes back by more than so many minutes was written by a clock that was set back. That is believed once in so long: whoever can choose
/// the times of lines could else begin a minute with each.
const BACK_MINUTES: i64 = 2;
const BACK_EVERY_NS: i64 = 3600 * NS_PER_S;
/// The event of the message that says how many were left out.
const LEFT_OUT: &str = "messages_left_out";
const LEFT_OUT_SEVERITY: u8 = 4;
/// Messages that wait at once at most: a repeated one's count, what was left out, and the next.
const WAITING_MAX: u8 = 3;
/// What has a bound of its own: messages of users' programs, others, and events.
pub const KINDS: usize = 3;

/// One message as its log has it.
pub struct Said<'a> {
    /// ns since the epoch.
    pub time: i64,
    pub severity: Option<u8>,
    pub facility: Option<u8>,
    pub program: &'a [u8],
    pub text: &'a [u8],
    pub origin: Origin,
    pub count: u64,
}

/// What is told at all.
pub struct Wanted {
    /// Of a log that is met for the first time, what is older than this is passed over, ns; `None`: all of it is told.
    pub oldest_ns: Option<i64>,
    /// Up to this severity, 0 being the gravest.
    pub severity: u8,
    pub per_minute: u32,
    pub events: Events,
}

/// Owned by a log's reader, bounded by WAITING_MAX messages; all of it is in the cursor.
#[derive(Default)]
pub struct Teller {
    /// What the batch had no room for yet.
    waiting: VecDeque<Message>,
    /// The message that was told last, and in `count`, `start` and `end` how often it came again since.
    last: Option<Message>,
    /// The latest minute that anything was told of, and how many were of each kind that has a bound of its own.
    minute: i64,
    told: [u32; KINDS],
    /// How many were left out in this minute, the first and the last when.
    left_out: u64,
    left_out_since: i64,
    left_out_until: i64,
    /// What lies before is passed over, ns since the epoch. 0: the log has not been met.
    since: i64,
    /// As of the last look, what lies ahead of this makes no sense.
    until: i64,
    /// When the log was last believed to have gone back, by the node's clock.
    back_at: i64,
}

impl Teller {
    /// A look begins.
    pub fn look(&mut self, now_ns: i64, wanted: &Wanted) {
        self.until = now_ns + AHEAD_MAX_NS;
        let since = wanted
            .oldest_ns
            .map_or(1, |oldest| (now_ns - oldest).max(1));
        // A clock that was ahead when the log was met must not silence it until then.
        self.since = match self.since {
            0 => since,
            own => own.min(since),
        };
    }

    pub fn since_ns(&self) -> i64 {
        self.since
    }

    /// Takes a message. Only when nothing waits.
    pub fn take(&mut self, said: &Said, wanted: &Wanted, counters: &Counters) {
        if said.time < self.since {
            return;
        }
        if said.time > self.until {
            counters.bad_lines.add(1);
            return;
        }
        let event = match said.origin.is_believed() {
            true => wanted.events.find(said.program, said.text),
            false => None,
        };
        let severity = said.severity.or(event.map(|event| event.severity));
        let Some(severity) = severity.filter(|s| event.is_some() || *s <= wanted.severity) else {
            return;
        };
        let message = Message {
            start: said.time,
            end: said.time,
            count: said.count,
            severity,
            facility: said.facility,
            origin: said.origin,
            program: shown(said.program, PROGRAM_CHARACTERS_MAX),
            text: shown(said.text, TEXT_CHARACTERS_MAX),
            event: event.map_or_else(String::new, |event| event.name.clone()),
        };
        // An entry of the journal's need not say anything.
        if message.text.is_empty() || self.is_again(&message) {
            return;
        }
        self.tell_again();
        let minute = message.start.div_euclid(NS_PER_MINUTE);
        if minute > self.minute || self.goes_back(minute) {
            self.tell_left_out();
            (self.minute, self.told) = (minute, [0; KINDS]);
        }
        let kind = match (event, said.origin) {
            (Some(_), _) => 2,
            (None, Origin::User) => 0,
            (None, _) => 1,
        };
        let told = &mut self.told[kind];
        if *told >= wanted.per_minute {
            self.leave_out(&message, counters);
            return;
        }
        *told += 1;
        self.last = Some(Message {
            count: 0,
            ..message.clone()
        });
        self.waiting.push_back(message);
    }

    fn goes_back(&mut self, minute: i64) -> bool {
        let now = self.until - AHEAD_MAX_NS;
        // A clock that was ahead then is no reason to wait for it.
        let is_soon = (0..=BACK_EVERY_NS).contains(&(now - self.back_at));
        let is_back = minute < self.minute - BACK_MINUTES && !is_soon;
        if is_back {
            self.back_at = now;
        }
        is_back
    }

    /// Whether it is the last one again, which is counted then. After a pause, and where the log's time goes back, it is news, which has its bound.
    fn is_again(&mut self, message: &Message) -> bool {
        let is_again = |last: &&mut Message| {
            last.is_again(message) && message.start.abs_diff(last.start) <= AGAIN_MAX_NS
        };
        let Some(last) = self.last.as_mut().filter(is_again) else {
            return false;
        };
        if last.count == 0 {
            (last.start, last.end) = (message.start, message.start);
        }
        last.count = last.count.saturating_add(message.count);
        last.start = last.start.min(message.start);
        last.end = last.end.max(message.end);
        true
    }

    /// The last message did not come again: tells how often it did before.
    fn tell_again(&mut self) {
        if let Some(last) = self.last.take().filter(|last| last.count > 0) {
            self.waiting.push_back(last);
        }
    }

    fn leave_out(&mut self, message: &Message, counters: &Counters) {
        counters.left_out_messages.add(message.count);
        if self.left_out == 0 {
            (self.left_out_since, self.left_out_until) = (message.start, message.start);
        }
        self.left_out = self.left_out.saturating_add(message.count);
        self.left_out_since = self.left_out_since.min(message.start);
        self.left_out_until = self.left_out_until.max(message.start);
    }

    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            self.waiting.push_back(Message {
                start: self.left_out_since,
                end: self.left_out_until,
                count,
                severity: LEFT_OUT_SEVERITY,
                facility: None,
                origin: Origin::Root,
                program: "bellrock-agent".into(),
                text: "more messages came in this minute than syslog_per_minute: the rest was left out".into(),
                event: LEFT_OUT.into(),
            });
        }
    }

    /// All that is there was read. `all`: nothing is to wait for what may come.
    pub fn rest(&mut self, now_ns: i64, all: bool) {
        let is_long = |last: &Message| now_ns.abs_diff(last.start) > AGAIN_MAX_NS;
        let is_due = |last: &Message| last.count > 0 && (all || is_long(last));
        if self.last.as_ref().is_some_and(is_due) {
            self.tell_again();
        }
        if all || now_ns.div_euclid(NS_PER_MINUTE) > self.minute {
            self.tell_left_out();
        }
    }

    /// Whether `rest` would leave something to be told.
    pub fn has_rest(&self) -> bool {
        self.waits() || self.left_out > 0 || self.last.as_ref().is_some_and(|last| last.count > 0)
    }

    /// Whether anything waits to be told.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells what waits; `log`: where it stood. False: the batch has no room for it.
    pub fn tell(&mut self, log: &str, counters: &Counters, batch: &mut Batch) -> bool {
        while let Some(message) = self.waiting.front() {
            if !batch.push("message", |out| message.write_fields(log, out)) {
                return false;
            }
            counters.records.add(1);
            self.waiting.pop_front();
        }
        true
    }

    pub fn write_cursor(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.minute,
            self.left_out_since,
            self.left_out_until,
            self.since,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.left_out.to_le_bytes());
        for told in self.told {
            out.extend_from_slice(&told.to_le_bytes());
        }
        out.push(self.last.is_some() as u8);
        out.push(self.waiting.len() as u8);
        for message in self.last.iter().chain(&self.waiting) {
            message.write_cursor(out);
        }
    }

    /// `None`: it breaks off or makes no sense.
    pub fn read_cursor(cursor: &mut Reader) -> Option<Teller> {
        let [minute, left_out_since, left_out_until, since] = cursor.u64s()?.map(|n: u64| n as i64);
        let left_out = cursor.u64()?;
        let told = [cursor.u32()?, cursor.u32()?, cursor.u32()?];
        let (has_last, waiting) = (cursor.u8()? != 0, cursor.u8()?);
        let last = match has_last {
            true => Some(Message::read_cursor(cursor)?),
            false => None,
        };
        let waiting = (0..Some(waiting).filter(|n| *n <= WAITING_MAX)?)
            .map(|_| Message::read_cursor(cursor))
            .collect::<Option<_>>()?;
        Some(Teller {
            waiting,
            last,
            minute,
            told,
            left_out,
            left_out_since,
            left_out_until,
            since,
            until: 0,
            back_at: 0,
        })
    }
}

#[cfg(test)]
#[path = "teller_tests.rs"]
mod tests;
