//! The journal of systemd, by `journalctl`: every so often it is asked for what came after the last entry that was read.
//!
//! Not followed: a program that runs for ever would be one more on every node, and where its pipe ends would have to be found out by waiting.

use super::entry::{self, CURSOR_BYTES_MAX, FIELDS};
use super::teller::{Said, Teller, Wanted};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::command::Command;
use crate::sources::cursors::Reader;
use crate::sources::log_file::source::{Flow, How};
use crate::warn;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Stands for the path of a log among the settings.
pub const PATH: &str = "journal";
/// For how long a command may run.
const LIMIT: Duration = Duration::from_secs(30);
/// Of what a command prints, so much is read until the next one is started: it must lie below what a command may print at all.
const READ_BYTES_MAX: usize = 4 << 20;
/// Longest entry; a longer one is passed over.
const ENTRY_BYTES_MAX: usize = 64 << 10;
/// After commands that fail the next one comes so much later at most.
const BACK_OFF_MAX: u32 = 6;

/// What the settings say of it.
#[derive(Clone)]
pub struct Settings {
    pub command: PathBuf,
    pub period: Duration,
}

/// Owned by the source. What is in memory at a kill is asked for again. Bounded by what one look takes and ENTRY_BYTES_MAX.
pub struct Journal {
    command: Command,
    period: Duration,
    is_running: bool,
    next: Instant,
    /// What was printed and not taken yet, from `from` on.
    printed: Vec<u8>,
    from: usize,
    /// Of this command, so much was printed, and whether any entry was among it.
    read_bytes: usize,
    has_entries: bool,
    is_skipping: bool,
    failures: u32,
    /// Of the last entry that was read; empty: none was.
    cursor: String,
    teller: Teller,
    pub has_changed: bool,
}

impl Journal {
    pub fn new(settings: &Settings) -> Journal {
        Journal {
            command: Command::new(settings.command.clone(), LIMIT),
            period: settings.period,
            is_running: false,
            next: Instant::now(),
            printed: Vec::new(),
            from: 0,
            read_bytes: 0,
            has_entries: false,
            is_skipping: false,
            failures: 0,
            cursor: String::new(),
            teller: Teller::default(),
            has_changed: false,
        }
    }

    pub fn path(&self) -> &Path {
        Path::new(PATH)
    }

    pub fn is_blank(&self) -> bool {
        self.teller.since_ns() == 0
    }

    /// Reads what the command has printed by now; begins one where it is time.
    pub fn read(
        &mut self,
        how: How,
        now_ns: i64,
        wanted: &Wanted,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        self.teller.look(now_ns, wanted);
        if !self.is_running && !how.last && Instant::now() >= self.next {
            self.begin();
        }
        let flow = self.read_on(how, now_ns, wanted, counters, batch);
        if how.last && self.is_running {
            self.end(Ok(()));
        }
        flow
    }

    fn read_on(
        &mut self,
        how: How,
        now_ns: i64,
        wanted: &Wanted,
        counters: &Counters,
        batch: &mut Batch,
    ) -> Flow {
        loop {
            if !self.take_entries(wanted, counters, batch) {
                return Flow::Full;
            }
            if !self.is_running {
                self.teller.rest(now_ns, how.last);
                return match self.tell(counters, batch) {
                    true => Flow::Done,
                    false => Flow::Full,
                };
            }
            self.printed.drain(..std::mem::take(&mut self.from));
            let (had, printed) = (self.printed.len(), &mut self.printed);
            let ended = self.command.look(|bytes| printed.extend_from_slice(bytes));
            let got = self.printed.len() - had;
            self.read_bytes += got;
            match ended {
                // What it has printed is taken first; then it is seen to be over.
                Some(ended) => self.end_reading(ended, wanted, counters, batch),
                None if self.read_bytes > READ_BYTES_MAX => {
                    // The next one goes on after the last entry that was whole.
                    match self.has_entries {
                        true => self.end_and_go_on(),
                        false => self.end(Err("it printed no entry".into())),
                    }
                }
                None if got == 0 => return if how.last { Flow::Done } else { Flow::Spent },
                None => {}
            }
        }
    }

    fn begin(&mut self) {
        let since = format!("--since=@{}", self.teller.since_ns().max(0) / 1_000_000_000);
        let after = format!("--after-cursor={}", self.cursor);
        let from = if self.cursor.is_empty() {
            &since
        } else {
            &after
        };
        let fields = format!("--output-fields={FIELDS}");
        let arguments = [
            "--quiet",
            "--no-pager",
            "--all",
            "--output=json",
            &fields,
            from,
        ];
        self.next = Instant::now() + self.period;
        match self.command.start(&arguments) {
            Ok(()) => (self.is_running, self.read_bytes, self.has_entries) = (true, 0, false),
            Err(e) => self.failed(&e),
        }
    }

    /// The command is over, or is ended.
    fn end(&mut self, how: Result<(), String>) {
        self.command.end();
        self.is_running = false;
        (self.printed, self.from, self.is_skipping) = (Vec::new(), 0, false);
        match how {
            Ok(()) => self.failures = 0,
            Err(e) => self.failed(&e),
        }
    }

    /// The command has ended, and all that it printed is there.
    fn end_reading(
        &mut self,
        how: Result<(), String>,
        wanted: &Wanted,
        counters: &Counters,
        batch: &mut Batch,
    ) {
        if self.take_entries(wanted, counters, batch) || how.is_err() {
            self.end(how);
        } else {
            // There is no room for all of it: what is left is asked for again.
            self.end_and_go_on();
        }
    }

    fn end_and_go_on(&mut self) {
        self.end(Ok(()));
        self.next = Instant::now();
    }

    fn failed(&mut self, why: &str) {
        self.failures = (self.failures + 1).min(BACK_OFF_MAX);
        self.next = Instant::now() + self.period * (1 << self.failures);
        warn!(
            "journal not read",
            "{why}; it is tried again; look at it with: journalctl --output=json --lines=1"
        );
    }

    /// Takes the entries that are whole. False: the batch is full.
    fn take_entries(&mut self, wanted: &Wanted, counters: &Counters, batch: &mut Batch) -> bool {
        loop {
            if !self.tell(counters, batch) {
                return false;
            }
            let rest = &self.printed[self.from..];
            let Some(length) = memchr::memchr(b'\n', rest) else {
                if rest.len() > ENTRY_BYTES_MAX {
                    counters.bad_lines.add(!self.is_skipping as u64);
                    (self.is_skipping, self.from) = (true, self.printed.len());
                }
                return true;
            };
            let line = &rest[..length];
            self.from += length + 1;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            let Some(entry) = entry::parse(line).filter(|_| length <= ENTRY_BYTES_MAX) else {
                counters.bad_lines.add(1);
                continue;
            };
            let said = Said {
                time: entry.time,
                severity: entry.severity,
                facility: entry.facility,
                program: &entry.program,
                text: &entry.text,
                origin: entry.origin,
                count: 1,
            };
            self.teller.take(&said, wanted, counters);
            (self.has_entries, self.has_changed) = (true, true);
            self.cursor = entry.cursor;
        }
    }

    fn tell(&mut self, counters: &Counters, batch: &mut Batch) -> bool {
        self.has_changed |= self.teller.waits();
        self.teller.tell(PATH, counters, batch)
    }

    pub fn write_cursor(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.cursor.len() as u16).to_le_bytes());
        out.extend_from_slice(self.cursor.as_bytes());
        self.teller.write_cursor(out);
    }

    pub fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        let length = Some(cursor.u16()? as usize).filter(|n| *n <= CURSOR_BYTES_MAX)?;
        let text = String::from_utf8(cursor.take(length)?.to_vec()).ok()?;
        let teller = Teller::read_cursor(cursor)?;
        self.end(Ok(()));
        (self.cursor, self.teller, self.has_changed) = (text, teller, false);
        Some(())
    }
}
