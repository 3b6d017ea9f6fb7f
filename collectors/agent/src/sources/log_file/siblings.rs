//! The files that a log became when it was rotated: `NAME.1`, `NAME.2`, …, or `NAME-20260131`, beside `NAME` itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files beside a log that are looked at.
const SIBLINGS_MAX: usize = 1024;
/// Numbers below this count rotations, the newest being 1; others are dates.
const COUNTS_END: i64 = 10_000;
/// The log itself, which is the newest.
const NEWEST: i64 = i64::MAX;

#[derive(Clone, Debug)]
pub struct Sibling {
    pub path: PathBuf,
    pub inode: u64,
    pub modified_ns: i64,
    /// Larger for a newer one; `None`: its name does not say (`NAME.old`).
    pub age: Option<i64>,
}

/// The same file under the same name.
impl PartialEq for Sibling {
    fn eq(&self, other: &Sibling) -> bool {
        (self.inode, &self.path) == (other.inode, &other.path)
    }
}

/// All regular files in the log's directory whose name begins with the log's.
pub fn list(log: &Path) -> Vec<Sibling> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name()) else {
        return Vec::new();
    };
    let name = name.as_encoded_bytes();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of_log = entries.filter_map(|entry| {
        let own = entry.file_name();
        let suffix = own.as_encoded_bytes().strip_prefix(name)?;
        let seen = entry.metadata().ok()?; // not through a symbolic link
        seen.is_file().then(|| Sibling {
            path: entry.path(),
            inode: seen.ino(),
            modified_ns: seen
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(seen.mtime_nsec()),
            age: age(suffix),
        })
    });
    let mut all: Vec<Sibling> = of_log.take(SIBLINGS_MAX).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// What a suffix says: "", ".2", "-20260131", ".2026-01-31".
fn age(suffix: &[u8]) -> Option<i64> {
    let [b'.' | b'-', rest @ ..] = suffix else {
        return suffix.is_empty().then_some(NEWEST);
    };
    let mut number = None;
    for b in rest {
        match b {
            b'0'..=b'9' => {
                let before: i64 = number.unwrap_or(0);
                number = Some(before.checked_mul(10)?.checked_add((b - b'0') as i64)?);
            }
            b'-' => {}
            _ => return None,
        }
    }
    number.map(|n| if n < COUNTS_END { -n } else { n })
}

/// Those newer than `age`, the oldest first.
pub fn after(all: &[Sibling], age: i64) -> Vec<&Sibling> {
    in_order(all, |s| s.age.is_some_and(|own| own > age))
}

/// Those that were changed after an instant, the oldest first; the log itself is always one.
pub fn after_time(all: &[Sibling], modified_ns: i64) -> Vec<&Sibling> {
    in_order(all, |s| {
        s.age == Some(NEWEST) || s.age.is_some() && s.modified_ns > modified_ns
    })
}

fn in_order(all: &[Sibling], is_wanted: impl Fn(&Sibling) -> bool) -> Vec<&Sibling> {
    let mut wanted: Vec<&Sibling> = all.iter().filter(|s| is_wanted(s)).collect();
    wanted.sort_by_key(|s| s.age);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_is_newer() {
        let order = [
            ".10",
            ".2",
            ".1",
            "-20250131",
            ".2026-01-31",
            "-20260201",
            "",
        ];
        let ages: Vec<i64> = order.iter().map(|s| age(s.as_bytes()).unwrap()).collect();
        assert!(ages.is_sorted() && ages[0] < ages[1], "{ages:?}");
        for other in [
            ".old",
            ".1.gz",
            "2",
            ".",
            "-",
            ".99999999999999999999",
            ".x1",
        ] {
            assert_eq!(age(other.as_bytes()), None, "{other}");
        }
    }
}
