//! `--steps`: the agent's time is what standard input says, a line of decimal ns since 1970 a step. At each step it looks at all that is due by that
//! time, and answers with the same line. Between steps time stands still.
//!
//! What it found at the first step is spooled before the answer; later finds of up to STEPS_TOGETHER steps wait for each other, since the server takes a
//! window of few events no sooner than one of many. After a kill the next agent tells at once what counters moved in the steps that were lost.

use super::{Agent, EXIT_FAILED, EXIT_NOT_SHIPPED, EXIT_USAGE};
use crate::clock::Clock;
use crate::sys;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

/// Of a line without its end.
const LINE_BYTES_MAX: usize = 20;
/// What is read at once.
const PIECE_BYTES: usize = 4096;
/// So many steps are spooled together, unless the batch is full sooner.
const STEPS_TOGETHER: u32 = 30;
/// Nor do they lie further apart, ns of the time that is told. Whoever goes on after a kill gives the last step only, at most this much after those that
/// were lost: by then Lustre's servers have not forgotten a job that moved in them, which they do after 600 s without an operation.
const UNSPOOLED_NS_MAX: i64 = 300_000_000_000;
/// Steps lie before the year 2200.
const LATEST_NS: i64 = 7_258_118_400_000_000_000;

/// Why steps broke off: the exit code, and what is told.
pub type BrokenOff = (u8, String);

/// The steps that standard input tells. Bounded by PIECE_BYTES.
pub struct Steps {
    /// Not the standard library's, which would read ahead of what is waited for.
    input: File,
    text: Vec<u8>,
    /// What of `text` was taken.
    taken: usize,
    line: u64,
    last_ns: i64,
}

impl Steps {
    /// Waits for the first step and tells the clock. `Ok(None)`: a signal asks to end before it. `Err`: why there is none.
    pub fn begin(clock: &mut Clock) -> Result<Option<Steps>, BrokenOff> {
        let input = io::stdin().as_fd().try_clone_to_owned();
        let mut steps = Steps {
            input: input.map_err(unreadable)?.into(),
            text: Vec::new(),
            taken: 0,
            line: 0,
            last_ns: 0,
        };
        match steps.next()? {
            Some(first_ns) => clock.tell(first_ns),
            None if sys::stop_asked() => return Ok(None),
            None => {
                let why = "standard input tells no step; give a line of ns since 1970 for each";
                return Err((EXIT_USAGE, format!("--steps: {why}")));
            }
        }
        Ok(Some(steps))
    }

    /// Whether the next step can be taken at once.
    fn has_line(&self) -> bool {
        self.text[self.taken..].contains(&b'\n')
    }

    /// Waits for the next step. `Ok(None)`: no more come, or a signal asks to end. `Err`: what is wrong with it.
    fn next(&mut self) -> Result<Option<i64>, BrokenOff> {
        while !self.has_line() {
            if self.text.len() - self.taken > LINE_BYTES_MAX {
                break;
            }
            if !sys::wait_for_input(self.input.as_fd()) {
                return Ok(None);
            }
            let mut piece = [0; PIECE_BYTES];
            match self.input.read(&mut piece) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(e)),
                Ok(0) if self.taken == self.text.len() => return Ok(None),
                Ok(0) => self.text.push(b'\n'),
                Ok(count) => {
                    self.text.drain(..self.taken);
                    self.taken = 0;
                    self.text.extend_from_slice(&piece[..count]);
                }
            }
        }
        let rest = &self.text[self.taken..];
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let step = parse(&rest[..end], self.last_ns);
        self.taken += (end + 1).min(rest.len());
        self.line += 1;
        let bad = |why| (EXIT_USAGE, format!("--steps: line {}: {why}", self.line));
        self.last_ns = step.map_err(bad)?;
        Ok(Some(self.last_ns))
    }
}

fn unreadable(error: io::Error) -> BrokenOff {
    let why = format!("--steps: standard input cannot be read: {error}; give a pipe or a file");
    (EXIT_FAILED, why)
}

/// A line's instant, no earlier than the one before.
fn parse(line: &[u8], last_ns: i64) -> Result<i64, String> {
    let is_number = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(line).unwrap_or_default();
    let number = text
        .parse::<i64>()
        .ok()
        .filter(|ns| is_number && *ns <= LATEST_NS);
    match number {
        None => Err("expected whole ns since 1970, such as 1767225600000000000".into()),
        Some(ns) if ns < last_ns => Err(format!("{ns} is before {last_ns}; time does not go back")),
        Some(ns) => Ok(ns),
    }
}

impl Agent {
    /// Takes the steps, until there are no more or a signal asks to end; then `end` looks a last time. `Err`: why they broke off; what they gave is
    /// spooled all the same.
    pub(super) fn walk(&mut self, steps: Steps) -> Result<(), BrokenOff> {
        let walked = self.take(steps);
        self.no_more_since.get_or_insert_with(Instant::now);
        if walked.is_err() {
            self.commit();
        }
        walked
    }

    fn take(&mut self, mut steps: Steps) -> Result<(), BrokenOff> {
        let mut step = Some(steps.last_ns);
        let (mut spooled_ns, mut unspooled) = (None, 0);
        while let Some(now_ns) = step {
            self.clock.tell(now_ns);
            loop {
                let Some(pass) = self.look(false) else {
                    return not_spooled(&steps);
                };
                // A step without an answer is taken again by whoever goes on.
                if sys::stop_asked() {
                    return Ok(());
                }
                if !pass.more {
                    break;
                }
            }
            unspooled += 1;
            let is_long_ago = spooled_ns.is_none_or(|before| now_ns - before > UNSPOOLED_NS_MAX);
            if is_long_ago || unspooled == STEPS_TOGETHER {
                (spooled_ns, unspooled) = (Some(now_ns), 0);
                if !self.commit() {
                    return not_spooled(&steps);
                }
            }
            let mut out = io::stdout().lock();
            let answered = writeln!(out, "{now_ns}").and_then(|()| out.flush());
            match answered {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(e) => {
                    let why = format!("--steps: standard output cannot be written: {e}; the steps' answers go there");
                    return Err((EXIT_FAILED, why));
                }
                Ok(()) => {}
            }
            step = steps.next()?;
        }
        Ok(())
    }
}

/// The spool took nothing more: a signal asks to end, or it was given up.
fn not_spooled(steps: &Steps) -> Result<(), BrokenOff> {
    if sys::stop_asked() {
        return Ok(());
    }
    let why = "the spool takes nothing and nothing is acknowledged; see that the server runs, and give this step and those after it again";
    Err((
        EXIT_NOT_SHIPPED,
        format!("--steps: line {}: {why}", steps.line),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_number_no_earlier_than_the_one_before() {
        assert_eq!(
            parse(b"1767225600000000000", 0),
            Ok(1_767_225_600_000_000_000)
        );
        assert_eq!(parse(b"5", 5), Ok(5));
        assert!(parse(b"4", 5).unwrap_err().contains("4 is before 5"));
        for bad in [
            "",
            " 5",
            "5 ",
            "+5",
            "-5",
            "5.0",
            "1e9",
            "99999999999999999999",
            "7258118400000000001",
            "\u{ff15}",
        ] {
            assert!(
                parse(bad.as_bytes(), 0)
                    .unwrap_err()
                    .contains("expected whole ns"),
                "{bad:?}"
            );
        }
        assert!(parse(b"\xff\xff", 0).is_err());
    }
}
