//! Follows one log over rotation: by renaming, by copying and truncating, by deletion; also while no agent ran.
//!
//! A log is a regular file of root's or of the agent's user; symbolic links and FIFOs are refused. Which file it was, the cursor says by its inode
//! and by its first bytes, which tell whether the file was begun anew since.

use super::owner::Owner;
use super::place::{has_print, modified_ns, print, Place, PRINT_BYTES_MAX, PRINT_BYTES_MIN};
use super::siblings::{self, Sibling};
use crate::{info, warn};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// How often the files beside a log are listed in one look, while they are being renamed.
const LISTS_MAX: u32 = 20;
/// Looks for which a file that was read to its end and left is still watched for more.
const LEFT_LOOKS: u32 = 10;

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// There is none to read.
    Nothing,
    /// It is the one before, or its copy.
    Same,
    /// Another one, or the same begun anew: reading begins at `place.offset`.
    Other,
}

/// A file that was listed has another name by now.
struct Moved;

/// Owned by the log's reader; holds one open file, and for a few looks the one before.
pub struct Tail {
    pub path: PathBuf,
    pub place: Place,
    /// Bytes that were gone before they were read, since this was last set to 0.
    pub lost: u64,
    owner: Owner,
    file: Option<File>,
    /// Whether the last look found more than there was.
    has_grown: bool,
    /// Left with so many bytes, to be watched for so many looks.
    left: Option<(File, u64, u32)>,
    /// As the last look found it.
    pub was_missing: bool,
}

impl Tail {
    pub fn new(path: PathBuf, owner: Owner) -> Tail {
        Tail {
            path,
            place: Place::default(),
            lost: 0,
            owner,
            file: None,
            has_grown: false,
            left: None,
            was_missing: false,
        }
    }

    /// Opens the log if it is not open, and sees what there is of it. `read_to`: where reading has come to in the open one.
    pub fn look(&mut self, read_to: u64) -> Look {
        self.watch_left();
        let Some(file) = &self.file else {
            return self.find();
        };
        let seen = file.metadata().ok();
        match seen.filter(|m| self.goes_on(file, m, read_to)) {
            Some(seen) => {
                self.has_grown = seen.len() > read_to;
                self.see(&seen);
                Look::Same
            }
            None => self.find_from(read_to),
        }
    }

    /// Whether the open file is still what was read as far as `read_to`, not begun anew.
    pub fn is_intact(&self, read_to: u64) -> bool {
        let goes_on = |file: &File| {
            let seen = file.metadata();
            seen.is_ok_and(|m| self.goes_on(file, &m, read_to))
        };
        self.file.as_ref().is_none_or(goes_on)
    }

    fn goes_on(&self, file: &File, seen: &Metadata, read_to: u64) -> bool {
        seen.len() >= read_to && has_print(file, &self.place)
    }

    /// Leaves the open file, and looks for what was read as far as `read_to`.
    pub fn find_from(&mut self, read_to: u64) -> Look {
        self.place.offset = read_to;
        self.file = None;
        self.find()
    }

    /// Reads at `at`, as far as the last look saw. 0: there is no more.
    pub fn read(&self, at: u64, room: &mut [u8]) -> io::Result<usize> {
        let bytes = room.len().min(self.place.size.saturating_sub(at) as usize);
        match &self.file {
            Some(file) if bytes > 0 => file.read_at(&mut room[..bytes], at),
            _ => Ok(0),
        }
    }

    /// Takes down what the open file is like now.
    fn see(&mut self, seen: &Metadata) {
        self.place.size = seen.len();
        self.place.modified_ns = modified_ns(seen);
        if self.place.print_bytes < PRINT_BYTES_MAX as u32 {
            if let Some(file) = &self.file {
                (self.place.print_bytes, self.place.print) = print(file, PRINT_BYTES_MAX);
            }
        }
    }

    /// Looks for the log that was read before, else for the one that follows it.
    fn find(&mut self) -> Look {
        if self.place.inode == 0 {
            return match self.owner.open(&self.path) {
                Some((file, seen)) => self.begin(file, &seen),
                None => Look::Nothing,
            };
        }
        self.settled(Self::find_among)
    }

    /// Lists what lies beside the log until nothing moves meanwhile: a rotation renames one after the other.
    fn settled(
        &mut self,
        mut choose: impl FnMut(&mut Self, &[Sibling]) -> Result<Look, Moved>,
    ) -> Look {
        let mut before = siblings::list(&self.path);
        for _ in 0..LISTS_MAX {
            let all = siblings::list(&self.path);
            if all == before {
                if let Ok(look) = choose(self, &all) {
                    return look;
                }
            }
            before = all;
        }
        Look::Nothing // at the next look, then
    }

    fn find_among(&mut self, all: &[Sibling]) -> Result<Look, Moved> {
        let (mut of_inode, others): (Vec<&Sibling>, Vec<&Sibling>) =
            all.iter().partition(|s| s.inode == self.place.inode);
        if self.place.print_bytes >= PRINT_BYTES_MIN {
            of_inode.extend(others); // a copy
        }
        for sibling in of_inode {
            let found = self.open_sibling(sibling)?;
            let is_it = |(file, seen): &(File, Metadata)| {
                seen.len() >= self.place.offset && has_print(file, &self.place)
            };
            if let Some((file, seen)) = found.filter(is_it) {
                self.place.inode = seen.ino();
                self.file = Some(file);
                self.has_grown = seen.len() > self.place.offset;
                self.see(&seen);
                return Ok(Look::Same);
            }
        }
        // It is gone. What of it was not read is lost; which ones came after it, their times say.
        let next = siblings::after_time(all, self.place.modified_ns);
        let Some((file, seen)) = self.open_first(next)? else {
            return Ok(Look::Nothing);
        };
        let lost = self.place.size.saturating_sub(self.place.offset);
        self.lost += lost;
        if lost > 0 {
            warn!(
                "log lost",
                "{}: at least {lost} bytes were gone before they were read; keep the log that was rotated for longer than the agent may be away",
                self.path.display()
            );
        }
        Ok(self.begin(file, &seen))
    }

    /// Goes on to the file that follows, if this one was left by who writes it. Only when all that the last look saw was read.
    /// `now`: without waiting whether more will come. `Same`: more has come.
    pub fn follow(&mut self, now: bool) -> Look {
        if self.file.is_none() || (self.has_grown && !now) {
            return Look::Nothing;
        }
        // An empty one may have been made by who rotates; who writes it has not come to it.
        let is_next = |m: &Metadata| m.ino() != self.place.inode && m.len() > 0;
        if !std::fs::symlink_metadata(&self.path).is_ok_and(|m| is_next(&m)) {
            return Look::Nothing;
        }
        // Only now is it sure that no more comes to this one than it holds.
        if let Some(seen) = self.file.as_ref().and_then(|file| file.metadata().ok()) {
            let has_grown = seen.len() > self.place.size;
            self.see(&seen);
            if has_grown {
                self.has_grown = true;
                return Look::Same;
            }
        }
        self.settled(Self::follow_among)
    }

    fn follow_among(&mut self, all: &[Sibling]) -> Result<Look, Moved> {
        let own = all.iter().find(|s| s.inode == self.place.inode);
        let mut next = match own.and_then(|s| s.age) {
            Some(age) => siblings::after(all, age),
            None => siblings::after_time(all, self.place.modified_ns),
        };
        next.retain(|s| s.inode != self.place.inode);
        let Some((file, seen)) = self.open_first(next)? else {
            return Ok(Look::Nothing);
        };
        let left = self.file.take();
        self.left = left.map(|left| (left, self.place.size, LEFT_LOOKS));
        Ok(self.begin(file, &seen))
    }

    /// Opens the first that may be a log.
    fn open_first(&self, siblings: Vec<&Sibling>) -> Result<Option<(File, Metadata)>, Moved> {
        for sibling in siblings {
            let found = self.open_sibling(sibling)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Opens a file that was listed, if it may be a log.
    fn open_sibling(&self, sibling: &Sibling) -> Result<Option<(File, Metadata)>, Moved> {
        let found = self.owner.open(&sibling.path);
        let is_listed = |m: &Metadata| m.ino() == sibling.inode;
        match &found {
            Some((_, seen)) if !is_listed(seen) => Err(Moved),
            None if !std::fs::symlink_metadata(&sibling.path).is_ok_and(|m| is_listed(&m)) => {
                Err(Moved)
            }
            _ => Ok(found),
        }
    }

    /// What is written to a file after it was left is not read any more, but told.
    fn watch_left(&mut self) {
        if let Some((file, size, looks)) = &mut self.left {
            let now = file.metadata().map_or(*size, |m| m.len());
            self.lost += now.saturating_sub(*size);
            (*size, *looks) = (now.max(*size), *looks - 1);
            if *looks == 0 {
                self.left = None;
            }
        }
    }

    /// Begins a file.
    fn begin(&mut self, file: File, seen: &Metadata) -> Look {
        self.place = Place {
            inode: seen.ino(),
            ..Place::default()
        };
        self.file = Some(file);
        self.has_grown = true;
        self.see(seen);
        Look::Other
    }

    /// Tells once that there is no log, or that it has come.
    pub fn tell_missing(&mut self, is_missing: bool) {
        if is_missing != self.was_missing {
            self.was_missing = is_missing;
            let what = if is_missing {
                "not there; it is read when it comes"
            } else {
                "found"
            };
            info!("log", "{}: {what}", self.path.display());
        }
    }
}
