//! For how long the spool has been full, or could not be written, as on a disk that is full. Kept in the spool's directory, so that an agent which is killed or replaced meanwhile
//! does not take it along: the next one goes on counting where the spool was found full.

use crate::warn;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What an earlier agent left is believed for so long.
const BEFORE_MAX: Duration = Duration::from_secs(300 * 24 * 3600);

/// An error that an ending agent saw for less than this is not worth a note.
const SEEN_MIN: Duration = Duration::from_secs(1);

/// Owned by the draining thread.
pub struct Overflow {
    /// Holds the instant since when the spool is full, UTC in ns; after it, where it need not have lasted, the instant up to which an
    /// agent saw that it did. Is not there while the spool has room.
    path: PathBuf,
    since: Option<Since>,
}

struct Since {
    utc_ns: i64,
    /// How long it had been full when this agent learned of it.
    before: Duration,
    known: Instant,
    /// Only what an agent saw of it counts, should this one end.
    is_seen_only: bool,
}

impl Overflow {
    /// What an earlier agent left in the spool's directory, if anything. Nonsense counts as nothing.
    pub fn open(spool: &Path, now_ns: i64) -> Overflow {
        let path = spool.join("full_since");
        let since = fs::read_to_string(&path).ok().and_then(|text| {
            let mut instants = text.split_whitespace().map(|word| word.parse::<i64>().ok());
            let utc_ns = instants.next()??;
            let seen_ns = match instants.next() {
                Some(seen_ns) => Some(seen_ns?),
                None => None,
            };
            let until_ns = seen_ns.unwrap_or(now_ns).min(now_ns);
            let before = Duration::from_nanos(until_ns.checked_sub(utc_ns)?.try_into().ok()?);
            (utc_ns > 0 && before <= BEFORE_MAX).then(|| Since {
                utc_ns,
                before,
                known: Instant::now(),
                is_seen_only: seen_ns.is_some(),
            })
        });
        Overflow { path, since }
    }

    /// Since when the spool has been full, UTC in ns.
    pub fn since_ns(&self) -> Option<i64> {
        self.since.as_ref().map(|since| since.utc_ns)
    }

    /// The spool is full or cannot be written; a second call changes nothing.
    pub fn begin(&mut self, now_ns: i64) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(Since {
            utc_ns: now_ns,
            before: Duration::ZERO,
            known: Instant::now(),
            is_seen_only: true,
        });
        self.note(&format!("{now_ns}\n"));
    }

    /// The agent ends while the spool cannot be written. A full spool stays full without an agent; what an error was, nobody knows of
    /// the time until the next one: only what this one saw counts, and less than a second is forgotten.
    pub fn leave_off(&mut self) {
        let Some(since) = self.since.as_ref().filter(|since| since.is_seen_only) else {
            return;
        };
        let lasted = since.before + since.known.elapsed();
        if lasted < SEEN_MIN {
            self.remove_note();
        } else {
            let until_ns = since.utc_ns.saturating_add(lasted.as_nanos() as i64);
            self.note(&format!("{} {until_ns}\n", since.utc_ns));
        }
    }

    fn note(&self, text: &str) {
        if let Err(e) = fs::write(&self.path, text) {
            warn!(
                "overflow not noted",
                "{}: {e}; should this agent be killed now, nobody will tell how long the spool was full",
                self.path.display()
            );
        }
    }

    fn remove_note(&self) {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                warn!("overflow not ended", "{}: {e}", self.path.display())
            }
            _ => {}
        }
    }

    /// The spool was written. Answers for how many seconds it had not been.
    pub fn end(&mut self) -> u64 {
        let Some(since) = self.since.take() else {
            return 0;
        };
        self.remove_note();
        (since.before + since.known.elapsed()).as_secs_f64().ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    const NOW: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn how_long_a_spool_was_full_outlives_the_agent() {
        let dir = temp_dir("overflow");
        let mut first = Overflow::open(&dir, NOW);
        assert_eq!((first.since_ns(), first.end()), (None, 0));
        first.begin(NOW);
        first.begin(NOW + 5);
        drop(first); // killed
        let mut second = Overflow::open(&dir, NOW + 90_000_000_000);
        assert_eq!(second.since_ns(), Some(NOW));
        second.begin(NOW + 90_000_000_000);
        assert!((90..100).contains(&second.end()));
        assert_eq!(second.end(), 0);
        assert_eq!(Overflow::open(&dir, NOW).since_ns(), None);
    }

    #[test]
    fn of_an_error_only_what_an_agent_saw_outlives_it() {
        let dir = temp_dir("overflow-error");
        let week_ns = 7 * 24 * 3600 * 1_000_000_000;
        // As `--once` meets it: for a moment.
        let mut first = Overflow::open(&dir, NOW);
        first.begin(NOW);
        first.leave_off();
        assert_eq!(Overflow::open(&dir, NOW + week_ns).since_ns(), None);
        // For ninety seconds, and after a week two agents see it again.
        fs::write(
            dir.join("full_since"),
            format!("{NOW} {}\n", NOW + 90_000_000_000),
        )
        .unwrap();
        for _ in 0..2 {
            let mut next = Overflow::open(&dir, NOW + week_ns);
            next.begin(NOW + week_ns);
            next.leave_off();
        }
        let mut last = Overflow::open(&dir, NOW + week_ns);
        assert_eq!(last.since_ns(), Some(NOW));
        assert!((90..100).contains(&last.end()));
        // A spool that was full stays so.
        fs::write(dir.join("full_since"), format!("{NOW}\n")).unwrap();
        Overflow::open(&dir, NOW + 1).leave_off();
        let mut after = Overflow::open(&dir, NOW + week_ns);
        assert!(after.end() >= 7 * 24 * 3600);
    }

    #[test]
    fn what_makes_no_sense_counts_as_nothing() {
        let dir = temp_dir("overflow-nonsense");
        let future = format!("{}", NOW + 1);
        let backwards = format!("{NOW} {}", NOW - 1);
        let half = format!("{} x", NOW - 1);
        for text in [
            "",
            "x",
            "-5",
            "0",
            "9999999999999999999999",
            "1",
            &future,
            &backwards,
            &half,
        ] {
            fs::write(dir.join("full_since"), text).unwrap();
            assert_eq!(Overflow::open(&dir, NOW).since_ns(), None, "{text}");
        }
    }
}
