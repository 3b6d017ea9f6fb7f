//! The directory of ring files and job events: `<rings>/<uid>/`. Anybody may have made what lies in it, so a user's directory
//! counts only if that user owns it, and nothing is reached through a symbolic link.

mod watched;

use self::watched::Watched;
use crate::counters::Counters;
use crate::{sys, warn};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the rings' directory where it is missing and `uid` is root, whose it should be: the first user to run anything would
/// own it else, and whoever owns it can move others' directories away. `Err`: why it cannot be used, and what to do.
pub fn prepare_base(path: &Path, uid: u32) -> Result<(), String> {
    let shown = path.display();
    if uid == 0 {
        let made = fs::create_dir(path)
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o1777)));
        match made {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!(
                    "{shown}: cannot be made: {e}; make it with: mkdir -p -m 1777 {shown}"
                ))
            }
            _ => {}
        }
    }
    let found = match fs::symlink_metadata(path) {
        // Whoever runs as its user's agent may come before the first program.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| format!("{shown}: {e}; give another one with --rings DIR"))?,
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let others_may_move = mode & 0o022 != 0 && mode & 0o1000 == 0;
    if !found.is_dir() || (owner != 0 && owner != uid) || others_may_move {
        return Err(format!(
            "{shown}: belongs to user {owner}, mode {mode:04o}; expected a directory of root{} that is sticky or that nobody \
             else writes; as root, run: mv {shown} {shown}.old && mkdir -m 1777 {shown}",
            if uid == 0 { "" } else { " or of yours" }
        ));
    }
    Ok(())
}

/// What one user's directory holds.
pub struct Listing {
    pub uid: u32,
    pub names: Vec<String>,
    /// There is more than the bound lets in.
    pub cut: bool,
}

/// Owned by a source, with the suffix of the files that it reads.
pub struct UserDirs {
    path: PathBuf,
    suffix: &'static str,
    users_max: usize,
    files_max: usize,
    counters: Arc<Counters>,
    base: Option<Watched>,
    users: Vec<(u32, Watched)>,
    /// Entries that the last listing passed over since they are not their user's.
    foreign: u64,
    told_denied: bool,
}

impl UserDirs {
    pub fn new(
        path: PathBuf,
        suffix: &'static str,
        users_max: usize,
        files_max: usize,
        counters: Arc<Counters>,
    ) -> UserDirs {
        UserDirs {
            path,
            suffix,
            users_max,
            files_max,
            counters,
            base: None,
            users: Vec::new(),
            foreign: 0,
            told_denied: false,
        }
    }

    /// The directory of a user, as it was last opened.
    pub fn dir(&self, uid: u32) -> Option<&OwnedFd> {
        self.users
            .iter()
            .find(|(u, _)| *u == uid)
            .map(|(_, w)| &w.dir)
    }

    /// The directories that changed, and those that `force` names. A user whose directory is gone gets an empty listing.
    /// `last`: nobody looks after this, so slow ones are listed too.
    pub fn poll(&mut self, last: bool, force: impl Fn(u32) -> bool) -> Vec<Listing> {
        let mut listings = Vec::new();
        if self
            .base
            .as_mut()
            .is_none_or(|base| base.is_due(false, last))
        {
            self.list_base(&mut listings);
        }
        let mut gone = Vec::new();
        for (uid, watched) in &mut self.users {
            if !watched.is_due(force(*uid), last) {
                continue;
            }
            let mut listing = Listing {
                uid: *uid,
                names: Vec::new(),
                cut: false,
            };
            let listed = watched.list(|name| {
                if name.ends_with(self.suffix) {
                    listing.cut = listing.names.len() >= self.files_max;
                    if !listing.cut {
                        listing.names.push(name.to_string());
                    }
                }
                !listing.cut
            });
            match listed {
                Ok(()) => {
                    if listing.cut {
                        let (path, max) = (self.path.display(), self.files_max);
                        warn!("too many files", "{path}/{uid}: more than {max} files; the rest waits; raise rings_per_user_max");
                    }
                    listings.push(listing);
                }
                Err(e) => {
                    warn!("user directory", "{}/{uid}: {e}", self.path.display());
                    gone.push(*uid);
                }
            }
        }
        self.users.retain(|(uid, _)| !gone.contains(uid));
        listings
    }

    /// Opens the users' directories anew, in case they were replaced.
    fn list_base(&mut self, listings: &mut Vec<Listing>) {
        let opened = sys::open_dir(&self.path).map(Watched::new);
        let mut base = match opened {
            Ok(base) => base,
            Err(e) => {
                if e.kind() != io::ErrorKind::NotFound {
                    warn!(
                        "rings",
                        "{}: {e}; give the directory of BELLROCK_RINGS with --rings",
                        self.path.display()
                    );
                }
                self.forget_all(listings);
                return;
            }
        };
        let uids = match self.choose(&mut base) {
            Ok(uids) => uids,
            Err(e) => {
                warn!("rings", "{}: {e}", self.path.display());
                return;
            }
        };
        let mut users = Vec::new();
        for uid in uids {
            let known = self
                .users
                .iter()
                .position(|(u, _)| *u == uid)
                .map(|at| self.users.swap_remove(at).1);
            match self.open_user(&base.dir, uid) {
                Ok(Some(dir)) => {
                    let same = |w: &Watched| match (sys::stat(&w.dir), sys::stat(&dir)) {
                        (Ok(a), Ok(b)) => a.st_ino == b.st_ino && a.st_dev == b.st_dev,
                        _ => false,
                    };
                    users.push((uid, known.filter(same).unwrap_or_else(|| Watched::new(dir))));
                }
                Ok(None) => {}
                // An agent that is not root reads its own user's files: worth one word.
                Err(e)
                    if e.kind() == io::ErrorKind::PermissionDenied
                        && std::mem::replace(&mut self.told_denied, true) => {}
                Err(e) => warn!(
                    "user directory",
                    "{}/{uid}: {e}; its files are not read",
                    self.path.display()
                ),
            }
        }
        let left: Vec<u32> = self.users.iter().map(|(uid, _)| *uid).collect();
        listings.extend(left.into_iter().map(|uid| Listing {
            uid,
            names: Vec::new(),
            cut: false,
        }));
        self.users = users;
        self.base = Some(base);
    }

    /// Whose directories to read: those of users who are known already and, up to `users_max`, new ones, the smallest uid first.
    /// A directory counts only for the user who owns it, so that nobody crowds others out by making many.
    fn choose(&mut self, base: &mut Watched) -> io::Result<Vec<u32>> {
        let known: BTreeSet<u32> = self.users.iter().map(|(uid, _)| *uid).collect();
        let (mut old, mut new) = (Vec::new(), BTreeSet::new());
        let (mut foreign, mut example, mut cut) = (0, String::new(), false);
        base.list(|name| {
            // Decimal and nothing else: "007" and "7" must not both be user 7.
            let uid = name.parse::<u32>().ok();
            let Some(uid) = uid.filter(|uid| uid.to_string() == name) else {
                return true;
            };
            match fs::symlink_metadata(self.path.join(name)) {
                Ok(m) if m.is_dir() && m.uid() == uid => {
                    if known.contains(&uid) {
                        old.push(uid);
                    } else {
                        new.insert(uid);
                    }
                }
                Ok(_) => {
                    foreign += 1;
                    example = name.to_string();
                }
                Err(_) => {} // gone again
            }
            if known.len() + new.len() > self.users_max {
                cut |= new.pop_last().is_some();
            }
            true
        })?;
        if foreign > self.foreign {
            self.counters.bad_rings.add(foreign - self.foreign);
            warn!(
                "user directory's owner",
                "{}/{example}: no directory that belongs to the user of its name (one of {foreign}); it is not read",
                self.path.display()
            );
        }
        self.foreign = foreign;
        if cut {
            warn!(
                "too many users",
                "{}: more than {} users; the rest waits; raise users_max",
                self.path.display(),
                self.users_max
            );
        }
        old.extend(new);
        Ok(old)
    }

    fn open_user(&self, base: &OwnedFd, uid: u32) -> io::Result<Option<OwnedFd>> {
        let dir = sys::open_dir_at(base, &uid.to_string())?;
        // Looked at again: another one may have taken its place.
        if sys::stat(&dir)?.st_uid != uid {
            return Ok(None);
        }
        Ok(Some(dir))
    }

    fn forget_all(&mut self, listings: &mut Vec<Listing>) {
        self.base = None;
        listings.extend(self.users.drain(..).map(|(uid, _)| Listing {
            uid,
            names: Vec::new(),
            cut: false,
        }));
    }
}

#[cfg(test)]
#[path = "user_dirs_tests.rs"]
mod tests;
