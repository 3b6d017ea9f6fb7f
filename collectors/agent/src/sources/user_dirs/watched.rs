//! When to list a directory anew.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A directory is listed anew when it changed, and at least this often.
const LIST_EVERY: Duration = Duration::from_millis(500);
/// A directory's time is coarse: changes this soon after a listing may not show in it.
const TIME_GRAIN: Duration = Duration::from_millis(20);
/// A directory that took long to list rests for this many times as long.
const REST_FACTOR: u32 = 20;

/// A directory that is watched for changes of its entries.
pub struct Watched {
    pub dir: OwnedFd,
    mtime: (i64, i64),
    listed: Option<Instant>,
    took: Duration,
}

impl Watched {
    pub fn new(dir: OwnedFd) -> Watched {
        Watched {
            dir,
            mtime: (0, 0),
            listed: None,
            took: Duration::ZERO,
        }
    }

    /// Whether to list it now. After `force` only a slow directory is left for later, and for the `last` time none.
    pub fn is_due(&mut self, force: bool, last: bool) -> bool {
        let Some(listed) = self.listed else {
            return true;
        };
        let since = listed.elapsed();
        if last {
            return true;
        }
        if since < self.took * REST_FACTOR {
            return false;
        }
        if force || since >= LIST_EVERY {
            return true;
        }
        let Ok(st) = sys::stat(&self.dir) else {
            return true;
        };
        (st.st_mtime, st.st_mtime_nsec) != self.mtime
    }

    pub fn list(&mut self, each: impl FnMut(&str) -> bool) -> io::Result<()> {
        let begin = Instant::now();
        let st = sys::stat(&self.dir)?;
        let now = sys::clock_ns(libc::CLOCK_REALTIME);
        let changed = st
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(st.st_mtime_nsec);
        // Changed a moment ago: let the next look list it again.
        let settled = now.saturating_sub(changed) > TIME_GRAIN.as_nanos() as i64;
        self.mtime = if settled {
            (st.st_mtime, st.st_mtime_nsec)
        } else {
            (-1, -1)
        };
        sys::list(&self.dir, each)?;
        self.took = begin.elapsed();
        self.listed = Some(begin);
        Ok(())
    }
}
