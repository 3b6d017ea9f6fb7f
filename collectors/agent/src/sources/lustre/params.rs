//! Where Lustre's parameters lie: which file is under which of three roots differs by version, so that the first that has it is taken. Or a capture.

use super::super::samples::text;
use super::capture::Capture;
use crate::config::Config;
use crate::sys;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, ReadDir};
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const ROOTS: [&str; 3] = [
    "/proc/fs/lustre",
    "/sys/fs/lustre",
    "/sys/kernel/debug/lustre",
];
/// Targets, services or mounts of a node.
pub const NAMES_MAX: usize = 2048;

/// Parameters of this node, or of a copy of its files under `--root`; or of captures, one after the other. A parameter is called by its path:
/// `obdfilter/work-OST0001/stats`.
#[derive(Clone)]
pub enum Params {
    Files([PathBuf; ROOTS.len()]),
    Capture(Rc<RefCell<Capture>>),
}

impl Params {
    pub fn new(config: &Config) -> Params {
        Params::Files(ROOTS.map(|root| config.under_root(Path::new(root))))
    }

    fn roots(&self) -> &[PathBuf] {
        match self {
            Params::Files(roots) => roots,
            Params::Capture(_) => &[],
        }
    }

    /// Where it looks.
    pub fn place(&self, what: &str) -> String {
        let roots: Vec<String> = self
            .roots()
            .iter()
            .map(|root| root.display().to_string())
            .collect();
        match roots.is_empty() {
            true => format!("{what} in the capture"),
            false => format!("{what} in {}", roots.join(", ")),
        }
    }

    /// The folders in a folder, of all roots, in order. Fails if there are more than NAMES_MAX.
    pub fn folders(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut found = BTreeSet::new();
        if let Params::Capture(capture) = self {
            found.extend(capture.borrow().folders(dir));
        }
        for root in self.roots() {
            let entries = match std::fs::read_dir(root.join(dir)) {
                Ok(entries) => entries,
                Err(e) if is_none(&e) => continue,
                Err(e) => return Err(e),
            };
            for entry in entries.flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let name = entry.file_name().into_string().ok().filter(|_| is_folder);
                found.extend(name);
                if found.len() > NAMES_MAX {
                    let text = format!("more than {NAMES_MAX} are there");
                    return Err(io::Error::other(text));
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The folders in a folder, one after the other, for there may be many. `Ok(None)`: there is no such folder.
    pub fn entries(&self, dir: &str) -> io::Result<Option<Entries>> {
        if let Params::Capture(capture) = self {
            let names: Vec<String> = capture.borrow().folders(dir).collect();
            return Ok((!names.is_empty()).then(|| Entries {
                names: names.into_iter(),
                ..Entries::default()
            }));
        }
        let mut all = Vec::new();
        for root in self.roots() {
            match Folder::open(&root.join(dir)) {
                Ok(folder) => all.push(folder),
                Err(e) if is_none(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let entries = Entries {
            all,
            ..Entries::default()
        };
        Ok((!entries.all.is_empty()).then_some(entries))
    }

    /// Reads a parameter as `read` does, of a folder whose `entries` are looked at: `below` is the rest of its path.
    pub fn read_below(
        &self,
        entries: &Entries,
        (dir, below): (&str, &str),
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if let Params::Capture(_) = self {
            return self.read(&format!("{dir}/{below}"), bytes_max, out);
        }
        for folder in &entries.all {
            match text::read_below(&folder.open, below, bytes_max, out) {
                Err(e) if is_none(&e) => {}
                read => return read.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Reads a parameter of at most so many bytes in place of what `out` holds. `Ok(false)`: there is no such.
    pub fn read(&self, param: &str, bytes_max: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        if let Params::Capture(capture) = self {
            let capture = capture.borrow();
            let text = capture.text(param);
            out.clear();
            out.extend_from_slice(text.unwrap_or_default());
            return match out.len() > bytes_max {
                true => Err(io::Error::other(format!(
                    "it is longer than {bytes_max} bytes"
                ))),
                false => Ok(text.is_some()),
            };
        }
        for root in self.roots() {
            match text::read(&root.join(param), bytes_max, out) {
                Err(e) if is_none(&e) => {}
                read => return read.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Opens one that may be long. `Ok(None)`: there is no such.
    pub fn open(&self, param: &str) -> io::Result<Option<Box<dyn Read>>> {
        if let Params::Capture(capture) = self {
            let text = capture.borrow().text(param).map(<[u8]>::to_vec);
            return Ok(text.map(|text| Box::new(Cursor::new(text)) as Box<dyn Read>));
        }
        for root in self.roots() {
            // A FIFO in a capture must not hold the agent.
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(root.join(param));
            match opened {
                Err(e) if is_none(&e) => {}
                opened => return opened.map(|file: File| Some(Box::new(file) as Box<dyn Read>)),
            }
        }
        Ok(None)
    }
}

/// A folder under one root, and what is left to be looked at of it.
struct Folder {
    open: File,
    entries: ReadDir,
}

impl Folder {
    fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder {
            entries: std::fs::read_dir(path)?,
            open: OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(path)?,
        })
    }

    fn has(&self, name: &str) -> bool {
        sys::open_below(&self.open, name, libc::O_PATH).is_ok()
    }
}

/// What is left to be looked at of a folder, under each root.
#[derive(Default)]
pub struct Entries {
    all: Vec<Folder>,
    at: usize,
    /// Of a capture.
    names: std::vec::IntoIter<String>,
}

impl Iterator for Entries {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if let Some(name) = self.names.next() {
            return Some(name);
        }
        loop {
            let (before, rest) = self.all.split_at_mut_checked(self.at)?;
            let Some(entry) = rest.first_mut()?.entries.next() else {
                self.at += 1;
                continue;
            };
            // One that goes while we look is none; what cannot be a text is no name of Lustre's.
            let Ok(entry) = entry else { continue };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if is_folder && !before.iter().any(|folder| folder.has(&name)) {
                return Some(name);
            }
        }
    }
}

/// A target that is stopped while it is looked at takes its files along.
fn is_none(e: &io::Error) -> bool {
    let gone = [libc::ENODEV, libc::ENXIO, libc::ESTALE];
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || e.raw_os_error()
            .is_some_and(|number| gone.contains(&number))
}

/// As `lctl get_param` calls it.
pub fn lctl(param: &str) -> String {
    param.replace('/', ".")
}
