//! A log of either kind, as the source's turns know them.

use super::clock::Clock;
use super::file::File;
use super::journal::{self, Journal};
use super::teller::{Teller, Wanted};
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::log_file::source::{self, Flow, How};
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Before the year 2000 the machine's clock was not set yet: no server takes such times, and what is told by it now would be thrown away.
const CLOCK_MIN_NS: i64 = 946_684_800 * 1_000_000_000;

pub struct Settings {
    pub zone: TimeZone,
    /// Tells when the machine was started: `/proc/stat`.
    pub stat: PathBuf,
    pub wanted: Rc<Wanted>,
    pub journal: journal::Settings,
    /// What the logs' paths begin with that is no part of their names.
    pub root: PathBuf,
}

enum Kind {
    File(Box<File>),
    Journal(Box<Journal>),
}

/// Owned by the source.
pub struct Log {
    kind: Kind,
    wanted: Rc<Wanted>,
    is_retired: bool,
}

impl Log {
    fn teller(&self) -> &Teller {
        match &self.kind {
            Kind::File(file) => &file.teller,
            Kind::Journal(journal) => &journal.teller,
        }
    }
}

impl source::Log for Log {
    type Settings = Settings;

    // Messages are of no job.
    const JOBS_WAIT: bool = false;

    fn new(path: PathBuf, settings: &Settings) -> Log {
        let kind = if path == Path::new(journal::PATH) {
            Kind::Journal(Box::new(Journal::new(&settings.journal)))
        } else {
            let inside = path.strip_prefix(&settings.root).unwrap_or(&path);
            let name = Path::new("/").join(inside).to_string_lossy().into_owned();
            let clock = Clock::new(settings.zone.clone(), settings.stat.clone());
            Kind::File(Box::new(File::new(path, name, clock)))
        };
        Log {
            kind,
            wanted: settings.wanted.clone(),
            is_retired: false,
        }
    }

    fn retired(path: PathBuf, settings: &Settings) -> Log {
        Log {
            is_retired: true,
            ..Self::new(path, settings)
        }
    }

    fn path(&self) -> &Path {
        match &self.kind {
            Kind::File(file) => file.path(),
            Kind::Journal(journal) => journal.path(),
        }
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }

    fn is_over(&self) -> bool {
        self.is_retired && !self.teller().has_rest()
    }

    fn read(&mut self, budget: &mut u64, how: How, counters: &Counters, batch: &mut Batch) -> Flow {
        let (now_ns, wanted) = (how.now.utc_ns(), &self.wanted);
        match &mut self.kind {
            Kind::File(file) if self.is_retired => file.rest(now_ns, true, counters, batch),
            Kind::Journal(journal) if self.is_retired => {
                journal.rest(now_ns, true, counters, batch)
            }
            _ if now_ns < CLOCK_MIN_NS => Flow::Done,
            Kind::File(file) => file.read(budget, how, now_ns, wanted, counters, batch),
            Kind::Journal(journal) => journal.read(how, now_ns, wanted, counters, batch),
        }
    }

    fn has_cursor(&self, all: bool) -> bool {
        match &self.kind {
            Kind::File(file) => file.has_changed || all && !file.is_blank(),
            Kind::Journal(journal) => journal.has_changed || all && !journal.is_blank(),
        }
    }

    fn write_cursor(&self, _all: bool, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::File(file) => file.write_cursor(out),
            Kind::Journal(journal) => journal.write_cursor(out),
        }
    }

    fn restore(&mut self, cursor: &mut Reader) -> Option<()> {
        match &mut self.kind {
            Kind::File(file) => file.restore(cursor),
            Kind::Journal(journal) => journal.restore(cursor),
        }
    }

    fn committed(&mut self) {
        match &mut self.kind {
            Kind::File(file) => file.has_changed = false,
            Kind::Journal(journal) => journal.has_changed = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Events;
    use super::source::Log as _;
    use super::*;
    use crate::ship::batch::{open_window, RAW_BYTES_MAX};
    use crate::testing::temp_dir;
    use std::time::Duration;

    /// What was written before a crash waits until the machine knows what time it is.
    #[test]
    fn nothing_is_read_before_the_clock_is_set() {
        let dir = temp_dir("unset");
        let path = dir.join("messages");
        std::fs::write(&path, "<3>2026-11-23T00:00:00Z oss1 app: the last words\n").unwrap();
        let settings = Settings {
            zone: TimeZone::UTC,
            stat: dir.join("stat"),
            wanted: Rc::new(Wanted {
                oldest_ns: Some(3600 * 1_000_000_000),
                severity: 4,
                per_minute: 1,
                events: Events::default(),
            }),
            journal: journal::Settings {
                command: "/nowhere".into(),
                period: Duration::from_secs(1),
            },
            root: dir,
        };
        let mut log = Log::new(path, &settings);
        let counters = Counters::default();
        let mut batch = Batch::new("n1", 1, 1, 10, RAW_BYTES_MAX);
        let now_ns = 1_795_392_060 * 1_000_000_000; // 2026-11-23 00:01
        for at in [7_000_000_000, now_ns] {
            let how = How {
                flush: true,
                last: true,
                now: crate::testing::now().told(at),
            };
            let flow = log.read(&mut (1 << 20), how, &counters, &mut batch);
            assert_eq!(flow, Flow::Done);
        }
        let told = open_window(batch.finish().unwrap().payload);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["text"], "the last words");
        assert_eq!(counters.bad_lines.get(), 0);
    }
}
