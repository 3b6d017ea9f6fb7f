//! The journal of systemd, by `journalctl`: every so often it is asked for what came after the last entry that was read.
//!
//! Not followed: a program that runs for ever would be one more on every node, and where its pipe ends would have to be found out by waiting.

use super::entry::{self, CURSOR_BYTES_MAX, FIELDS, SHORT_FIELD};
use super::teller::{Said, Teller, Wanted};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::back_off::BackOff;
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
    /// When the next command is begun.
    back_off: BackOff,
    /// What was printed and not taken yet, from `from` on.
    printed: Vec<u8>,
    from: usize,
    /// Of this command, so much was printed, and whether any entry beyond the last one was among it.
    read_bytes: usize,
    has_entries: bool,
    is_skipping: bool,
    /// Entries that were too long, since the last one that was read.
    long_entries: u64,
    /// The next entry is too long for a command to get past it: the next command asks for one short field of it.
    is_passing: bool,
    /// Of the last entry that was read; empty: none was.
    cursor: String,
    pub teller: Teller,
    pub has_changed: bool,
}

impl Journal {
    pub fn new(settings: &Settings) -> Journal {
        Journal {
            command: Command::new(settings.command.clone(), LIMIT),
            period: settings.period,
            is_running: false,
            back_off: BackOff::every(settings.period),
            printed: Vec::new(),
            from: 0,
            read_bytes: 0,
            has_entries: false,
            is_skipping: false,
            long_entries: 0,
            is_passing: false,
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
        if !self.is_running && !how.last && self.back_off.is_due(Instant::now()) {
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
                return self.rest(now_ns, how.last, counters, batch);
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
                    match (self.has_entries, self.is_passing) {
                        (true, _) => self.end_and_go_on(),
                        (false, false) => self.pass(),
                        (false, true) => self.end(Err("it printed no entry".into())),
                    }
                }
                None if got == 0 => return if how.last { Flow::Done } else { Flow::Spent },
                None => {}
            }
        }
    }

    /// Tells what is left to be told once all was read.
    pub fn rest(&mut self, now_ns: i64, all: bool, counters: &Counters, batch: &mut Batch) -> Flow {
        self.teller.rest(now_ns, all);
        match self.tell(counters, batch) {
            true => Flow::Done,
            false => Flow::Full,
        }
    }

    fn begin(&mut self) {
        let since = format!("--since=@{}", self.teller.since_ns().max(0) / 1_000_000_000);
        let after = format!("--after-cursor={}", self.cursor);
        let from = match self.cursor.is_empty() {
            true => &since,
            false => &after,
        };
        let names = match self.is_passing {
            true => SHORT_FIELD,
            false => FIELDS,
        };
        let fields = format!("--output-fields={names}");
        let arguments = ["--quiet", "--no-pager", "--output=json", &fields, from];
        self.back_off.next = Instant::now() + self.period;
        match self.command.start(&arguments) {
            Ok(()) => (self.is_running, self.read_bytes, self.has_entries) = (true, 0, false),
            Err(e) => self.failed(&e),
        }
    }

    /// The command is over, or is ended.
    fn end(&mut self, how: Result<(), String>) {
        self.stop();
        self.is_passing = false;
        match how {
            Ok(()) => self.back_off.worked(),
            Err(e) => self.failed(&e),
        }
    }

    fn stop(&mut self) {
        self.command.end();
        self.is_running = false;
        (self.printed, self.from) = (Vec::new(), 0);
        (self.is_skipping, self.long_entries) = (false, 0);
    }

    /// The command has ended, and all that it printed is there.
    fn end_reading(
        &mut self,
        how: Result<(), String>,
        wanted: &Wanted,
        counters: &Counters,
        batch: &mut Batch,
    ) {
        let is_whole = self.take_entries(wanted, counters, batch);
        if !self.is_running {
            return; // it was to get past an entry, and has
        }
        match how {
            Ok(()) if is_whole && self.long_entries > 0 && !self.is_passing => self.pass(),
            Ok(()) if is_whole => self.end(Ok(())),
            Err(e) if !self.has_entries => self.end(Err(e)),
            // There was no room for all of it, or it took too long: what is left is asked for again.
            _ => self.end_and_go_on(),
        }
    }

    fn end_and_go_on(&mut self) {
        self.end(Ok(()));
        self.back_off.next = Instant::now();
    }

    /// The next command is to get past an entry that is too long.
    fn pass(&mut self) {
        self.stop();
        (self.is_passing, self.back_off.next) = (true, Instant::now());
    }

    fn failed(&mut self, why: &str) {
        self.back_off.failed(Instant::now());
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
                    (self.is_skipping, self.from) = (true, self.printed.len());
                }
                return true;
            };
            let line = &rest[..length];
            self.from += length + 1;
            if std::mem::take(&mut self.is_skipping) || length > ENTRY_BYTES_MAX {
                self.long_entries += 1;
                continue;
            }
            let Some(entry) = entry::parse(line) else {
                counters.bad_lines.add(1);
                continue;
            };
            self.has_entries |= entry.cursor != self.cursor;
            if self.is_passing {
                self.passed(entry.cursor, counters);
                return true;
            }
            counters
                .bad_lines
                .add(std::mem::take(&mut self.long_entries));
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
            (self.cursor, self.has_changed) = (entry.cursor, true);
        }
    }

    /// This is the entry that is too long: goes on after it.
    fn passed(&mut self, cursor: String, counters: &Counters) {
        if !self.has_entries {
            return self.end(Err("it printed the last entry again".into()));
        }
        counters.bad_lines.add(1);
        (self.cursor, self.has_changed) = (cursor, true);
        self.end_and_go_on();
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
