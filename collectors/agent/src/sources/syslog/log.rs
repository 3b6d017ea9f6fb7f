//! A log of either kind, as the source's turns know them.

use super::clock::Clock;
use super::file::File;
use super::journal::{self, Journal};
use super::teller::Wanted;
use crate::counters::Counters;
use crate::ship::batch::Batch;
use crate::sources::cursors::Reader;
use crate::sources::log_file::source::{self, Flow, How};
use crate::sys;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub struct Settings {
    pub zone: TimeZone,
    /// When the machine was started, ns since the epoch.
    pub boot_ns: Option<i64>,
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
            let clock = Clock::new(settings.zone.clone(), settings.boot_ns);
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
        self.is_retired
    }

    fn read(&mut self, budget: &mut u64, how: How, counters: &Counters, batch: &mut Batch) -> Flow {
        if self.is_retired {
            return Flow::Done;
        }
        let now_ns = sys::clock_ns(libc::CLOCK_REALTIME);
        let wanted = &self.wanted;
        match &mut self.kind {
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
