//! For how long the spool has been full, or could not be written, as on a disk that is full. Kept in the spool's directory, so that an agent which is killed or replaced meanwhile
//! does not take it along: the next one goes on counting where the spool was found full.

use crate::warn;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What an earlier agent left is believed for so long.
const BEFORE_MAX: Duration = Duration::from_secs(300 * 24 * 3600);

/// Owned by the draining thread.
pub struct Overflow {
    /// Holds the instant since when the spool is full, UTC in ns; is not there while it has room.
    path: PathBuf,
    since: Option<Since>,
}

struct Since {
    utc_ns: i64,
    /// How long it had been full when this agent learned of it.
    before: Duration,
    known: Instant,
}

impl Overflow {
    /// What an earlier agent left in the spool's directory, if anything. Nonsense counts as nothing.
    pub fn open(spool: &Path, now_ns: i64) -> Overflow {
        let path = spool.join("full_since");
        let left = fs::read_to_string(&path)
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok());
        let since = left.and_then(|utc_ns| {
            let before = Duration::from_nanos(now_ns.checked_sub(utc_ns)?.try_into().ok()?);
            (utc_ns > 0 && before <= BEFORE_MAX).then(|| Since {
                utc_ns,
                before,
                known: Instant::now(),
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
        });
        if let Err(e) = fs::write(&self.path, format!("{now_ns}\n")) {
            warn!(
                "overflow not noted",
                "{}: {e}; should this agent be killed now, nobody will tell how long the spool was full",
                self.path.display()
            );
        }
    }

    /// The spool was written. Answers for how many seconds it had not been.
    pub fn end(&mut self) -> u64 {
        let Some(since) = self.since.take() else {
            return 0;
        };
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                warn!("overflow not ended", "{}: {e}", self.path.display())
            }
            _ => {}
        }
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
    fn what_makes_no_sense_counts_as_nothing() {
        let dir = temp_dir("overflow-nonsense");
        let future = format!("{}", NOW + 1);
        for text in ["", "x", "-5", "0", "9999999999999999999999", "1", &future] {
            fs::write(dir.join("full_since"), text).unwrap();
            assert_eq!(Overflow::open(&dir, NOW).since_ns(), None, "{text}");
        }
    }
}
