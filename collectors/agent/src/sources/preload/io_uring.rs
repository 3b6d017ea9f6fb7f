//! Which watched processes use an io_uring, past every call that could be seen: it stands among their descriptors.

use super::life::Life;
use super::ring::Ring;
use super::{is_due, process};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a process is looked at. One that sets it up and ends sooner is missed, unless it did so through the C library.
const EVERY: Duration = Duration::from_secs(2);
/// Descriptors of one process in one look; a ring among later ones is not found.
const DESCRIPTORS_MAX: usize = 256;
/// Descriptors in a second, after which the rest of the processes wait for the next one.
const SECOND_DESCRIPTORS_MAX: usize = 512;
const SECOND: Duration = Duration::from_secs(1);
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

    /// When it was last looked. `None`: never.
    fn looked(self) -> Option<Instant> {
        match self {
            IoUring::NotSeen(last) => last,
            _ => None,
        }
    }

    fn is_due(self) -> bool {
        match self {
            IoUring::NotSeen(last) => last.is_none_or(|t| t.elapsed() >= EVERY),
            _ => false,
        }
    }
}

/// Looks at processes as often as it may. Owned by the source.
#[derive(Default)]
pub struct Looks {
    /// When the second began, and what was spent in it.
    second: Option<Instant>,
    spent: usize,
}

impl Looks {
    /// Looks at the living processes of this pid namespace that it is time for, beginning with those that were looked at longest ago.
    pub fn look<'a>(
        &mut self,
        proc: &Path,
        own: Option<u64>,
        rings: impl Iterator<Item = &'a mut Ring>,
    ) {
        if is_due(&mut self.second, SECOND) {
            self.spent = 0;
        }
        if self.spent >= SECOND_DESCRIPTORS_MAX {
            return;
        }
        // A process that executed another program has a ring for each; what it has now is the newest one's.
        let mut newest: HashMap<(u32, u32, u64), &mut Ring> = HashMap::new();
        for ring in rings.filter(|r| r.is_identified() && r.life == Life::Lives) {
            if ring.is_foreign(own) {
                continue;
            }
            let key = (ring.uid, ring.pid, ring.start_ticks);
            let is_newer = |before: &&mut Ring| ring.began_ns() > before.began_ns();
            if newest.get(&key).is_none_or(is_newer) {
                newest.insert(key, ring);
            }
        }
        let due = newest.into_values().filter(|r| r.io_uring.is_due());
        let mut due: Vec<&mut Ring> = due.collect();
        due.sort_unstable_by_key(|r| r.io_uring.looked());
        for ring in due {
            if self.spent >= SECOND_DESCRIPTORS_MAX {
                return;
            }
            ring.io_uring = IoUring::NotSeen(Some(Instant::now()));
            let is_there = has_one(proc, ring.pid, &mut self.spent);
            // Still the same process: its number may be another's by now.
            if is_there && process::has_ended(proc, ring.pid, ring.start_ticks).is_ok_and(|e| !e) {
                ring.io_uring = IoUring::Found;
            }
        }
    }
}

/// Whether there is one among the process's first descriptors. What may not be looked at has none.
fn has_one(proc: &Path, pid: u32, spent: &mut usize) -> bool {
    let Ok(entries) = fs::read_dir(proc.join(pid.to_string()).join("fd")) else {
        return false;
    };
    for entry in entries.flatten().take(DESCRIPTORS_MAX) {
        *spent += 1;
        if fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str().as_bytes() == LINK) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::sources::preload::cursor::Cursor;
    use crate::testing::{own_uid, temp_dir, RingFile};
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
        let mut spent = 0;
        with(1, &["/dev/null", "socket:[12]", "anon_inode:[eventfd]"]);
        assert!(!has_one(&proc, 1, &mut spent));
        assert_eq!(spent, 3);
        with(2, &["/dev/null", "anon_inode:[io_uring]"]);
        assert!(has_one(&proc, 2, &mut spent));
        assert!(!has_one(&proc, 3, &mut spent));
        with(4, &["/dev/null"; DESCRIPTORS_MAX + 10]);
        let before = spent;
        assert!(!has_one(&proc, 4, &mut spent));
        assert_eq!(spent - before, DESCRIPTORS_MAX);
    }

    /// A process with so many descriptors, the last of them an io_uring, and a ring of it.
    fn process(dir: &Path, pid: u32, descriptors: usize, began_ns: u64) -> Ring {
        let fd = dir.join(pid.to_string()).join("fd");
        if !fd.exists() {
            fs::create_dir_all(&fd).unwrap();
            for number in 1..descriptors {
                symlink("/dev/null", fd.join(number.to_string())).unwrap();
            }
            symlink("anon_inode:[io_uring]", fd.join("0")).unwrap();
            let stat = format!("{pid} (x) S{} 1 0 5", " 0".repeat(16));
            fs::write(dir.join(pid.to_string()).join("stat"), stat).unwrap();
        }
        let file = RingFile::with_header(dir, pid, 5, |h| h.anchor_monotonic_ns = began_ns);
        let mut ring = Ring::new(own_uid(), file.name.clone(), 1, Cursor::default()).unwrap();
        ring.file = Some(file.reader());
        ring.identify(&Clock::start().now(), None).unwrap();
        ring
    }

    #[test]
    fn every_process_has_its_turn_and_a_second_its_bound() {
        let proc = temp_dir("io_uring_turns");
        let mut rings: Vec<Ring> = (1..=8).map(|pid| process(&proc, pid, 200, 1)).collect();
        let mut looks = Looks::default();
        for second in 0..4 {
            looks.second = None;
            for _ in 0..2 {
                looks.look(&proc, None, rings.iter_mut());
                // Every one is due again at once, and none is done with.
                for ring in &mut rings {
                    if let IoUring::NotSeen(Some(t)) = ring.io_uring {
                        ring.io_uring = IoUring::NotSeen(t.checked_sub(EVERY));
                    }
                }
            }
            assert!(looks.spent < SECOND_DESCRIPTORS_MAX + DESCRIPTORS_MAX);
            assert!(second < 3 || rings.iter().all(|r| r.io_uring.is_news()));
        }
    }

    #[test]
    fn the_program_that_a_process_executed_before_has_no_part_in_it() {
        let proc = temp_dir("io_uring_images");
        let mut rings = [
            process(&proc, 1, 1, 10),
            process(&proc, 1, 1, 20),
            process(&proc, 1, 1, 15),
        ];
        Looks::default().look(&proc, None, rings.iter_mut());
        assert_eq!(rings.map(|r| r.io_uring.is_news()), [false, true, false]);
    }
}
