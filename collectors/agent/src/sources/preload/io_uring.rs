//! Which watched processes use an io_uring, past every call that could be seen: it stands among their descriptors.

use super::life::Life;
use super::process;
use super::ring::Ring;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a process is looked at. One that sets it up and ends sooner is missed, unless it did so through the C library.
const EVERY: Duration = Duration::from_secs(2);
/// Descriptors of one process in one look; a ring among later ones is not found.
const DESCRIPTORS_MAX: usize = 256;
/// Descriptors in one pass, after which the rest of the processes wait for the next one.
const PASS_DESCRIPTORS_MAX: usize = 512;
/// What /proc shows for it.
const LINK: &[u8] = b"anon_inode:[io_uring]";

/// What is known of a process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUring {
    /// None was found; `None`: not looked yet.
    NotSeen(Option<Instant>),
    /// To be told.
    Found,
    Told,
}

impl Default for IoUring {
    fn default() -> IoUring {
        IoUring::NotSeen(None)
    }
}

impl IoUring {
    pub fn is_news(self) -> bool {
        self == IoUring::Found
    }

    fn is_due(self) -> bool {
        match self {
            IoUring::NotSeen(last) => last.is_none_or(|t| t.elapsed() >= EVERY),
            _ => false,
        }
    }
}

/// Looks at the living processes of this pid namespace that it is time for.
pub fn look<'a>(proc: &Path, own: Option<u64>, rings: impl Iterator<Item = &'a mut Ring>) {
    let mut budget = PASS_DESCRIPTORS_MAX;
    for ring in rings.filter(|r| r.is_identified() && r.life == Life::Lives && r.io_uring.is_due())
    {
        if budget == 0 {
            return;
        }
        if ring.is_foreign(own) {
            continue;
        }
        ring.io_uring = IoUring::NotSeen(Some(Instant::now()));
        let is_there = has_one(proc, ring.pid, &mut budget);
        // Still the same process: its number may be another's by now.
        if is_there && process::has_ended(proc, ring.pid, ring.start_ticks).is_ok_and(|e| !e) {
            ring.io_uring = IoUring::Found;
        }
    }
}

/// Whether there is one among the process's first descriptors. What may not be looked at has none.
fn has_one(proc: &Path, pid: u32, budget: &mut usize) -> bool {
    let Ok(entries) = fs::read_dir(proc.join(pid.to_string()).join("fd")) else {
        return false;
    };
    for entry in entries.flatten().take(DESCRIPTORS_MAX) {
        *budget = budget.saturating_sub(1);
        if fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str().as_bytes() == LINK) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;
    use std::os::unix::fs::symlink;

    #[test]
    fn one_among_the_first_descriptors_is_found() {
        let proc = temp_dir("io_uring");
        let with = |pid: u32, targets: &[&str]| {
            let fd = proc.join(pid.to_string()).join("fd");
            fs::create_dir_all(&fd).unwrap();
            for (number, target) in targets.iter().enumerate() {
                symlink(target, fd.join(number.to_string())).unwrap();
            }
        };
        let mut budget = PASS_DESCRIPTORS_MAX;
        with(1, &["/dev/null", "socket:[12]", "anon_inode:[eventfd]"]);
        assert!(!has_one(&proc, 1, &mut budget));
        assert_eq!(budget, PASS_DESCRIPTORS_MAX - 3);
        with(2, &["/dev/null", "anon_inode:[io_uring]"]);
        assert!(has_one(&proc, 2, &mut budget));
        assert!(!has_one(&proc, 3, &mut budget));
        with(4, &["/dev/null"; DESCRIPTORS_MAX + 10]);
        let before = budget;
        assert!(!has_one(&proc, 4, &mut budget));
        assert_eq!(before - budget, DESCRIPTORS_MAX);
    }
}
