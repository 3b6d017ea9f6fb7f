//! Lines on standard error: level, what, where, what to do. A kind of line that repeats is held back and counted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One line of a kind in this time; what comes between is counted.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

/// Lines kept while they cannot be written.
const UNSAID_LINES_MAX: usize = 16;

struct Kind {
    said: Instant,
    held_back: u64,
}

// Owned by this module; bounded by the number of kinds in the source, since a kind is a literal.
static KINDS: Mutex<BTreeMap<&'static str, Kind>> = Mutex::new(BTreeMap::new());

/// How many lines of this kind were held back since the last, or `None` if this one is to be held back too.
fn pass(kind: &'static str) -> Option<u64> {
    let mut kinds = KINDS.lock().unwrap_or_else(|e| e.into_inner());
    let now = Instant::now();
    match kinds.get_mut(kind) {
        Some(k) if now.duration_since(k.said) < REPEAT_AFTER => {
            k.held_back += 1;
            None
        }
        Some(k) => {
            k.said = now;
            Some(std::mem::take(&mut k.held_back))
        }
        None => {
            kinds.insert(
                kind,
                Kind {
                    said: now,
                    held_back: 0,
                },
            );
            Some(0)
        }
    }
}

/// Writes a line, unless one of its kind was written a moment ago. `text` may quote what users named: it is made printable.
pub fn line(level: &str, kind: &'static str, text: std::fmt::Arguments) {
    if let Some(held_back) = pass(kind) {
        let mut line = format!("bellrock-agent: {level}: ");
        for c in text.to_string().chars() {
            if c.is_control() {
                line.extend(c.escape_default());
            } else {
                line.push(c);
            }
        }
        if held_back > 0 {
            line.push_str(&format!(" ({held_back} more like it)"));
        }
        say(&line);
    }
}

/// Says why the agent ends.
pub fn error(text: &str) {
    say(&format!("bellrock-agent: error: {text}"));
}

/// Says now what could not be said before, if that is possible now. A disk that is full may be the log's, too: what was said of
/// that must be there once it has room again.
pub fn retry() {
    let mut unsaid = UNSAID.lock().unwrap_or_else(|e| e.into_inner());
    unsaid.say(&mut std::io::stderr());
}

fn say(line: &str) {
    let mut unsaid = UNSAID.lock().unwrap_or_else(|e| e.into_inner());
    unsaid.say_after(&mut std::io::stderr(), line);
}

/// Lines that standard error did not take.
static UNSAID: Mutex<Unsaid> = Mutex::new(Unsaid {
    lines: VecDeque::new(),
    dropped: 0,
    is_broken_off: false,
});

/// Owned by this module; bounded by UNSAID_LINES_MAX, of which the first stay, since they say what began it. Gone when the agent ends: a daemon
/// outlives whoever reads its standard error, and has no other place to tell of it.
struct Unsaid {
    lines: VecDeque<String>,
    dropped: u64,
    /// The line that was written last has no end.
    is_broken_off: bool,
}

impl Unsaid {
    /// Says a line after those that wait.
    fn say_after(&mut self, out: &mut impl Write, line: &str) {
        if self.say(out) && self.write_line(out, line) {
            return;
        }
        if self.lines.len() < UNSAID_LINES_MAX {
            self.lines.push_back(line.to_string());
        } else {
            self.dropped += 1;
        }
    }

    /// Says what waits. Answers whether nothing waits any more.
    fn say(&mut self, out: &mut impl Write) -> bool {
        while let Some(line) = self.lines.front() {
            let text = format!("{line} (said late: this log could not be written)");
            if !self.write_line(out, &text) {
                return false;
            }
            self.lines.pop_front();
        }
        if self.dropped > 0 {
            let text = format!(
                "bellrock-agent: warning: {} lines that came then are lost",
                self.dropped
            );
            if !self.write_line(out, &text) {
                return false;
            }
            self.dropped = 0;
        }
        true
    }

    /// Answers whether all of the line was taken. A disk that is nearly full takes a part: what comes next begins a line of its own.
    fn write_line(&mut self, out: &mut impl Write, line: &str) -> bool {
        let before = if self.is_broken_off { "\n" } else { "" };
        // In one piece, as two threads and other programs may write there.
        let text = format!("{before}{line}\n");
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match out.write(rest) {
                Ok(taken @ 1..) => rest = &rest[taken.min(rest.len())..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        let taken = &text.as_bytes()[..text.len() - rest.len()];
        if let Some(last) = taken.last() {
            self.is_broken_off = *last != b'\n';
        }
        rest.is_empty()
    }
}

/// `warn!("kind", "format", …)`: something is wrong and is lived with.
#[macro_export]
macro_rules! warn {
    ($kind:literal, $($text:tt)*) => { $crate::log::line("warning", $kind, format_args!($($text)*)) };
}

/// `info!("kind", "format", …)`
#[macro_export]
macro_rules! info {
    ($kind:literal, $($text:tt)*) => { $crate::log::line("info", $kind, format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log on a disk that has so many bytes left.
    struct Disk(usize, Vec<u8>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = self.0.min(bytes.len());
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.0 -= taken;
            self.1.extend(&bytes[..taken]);
            Ok(taken)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_did_not_take_is_said_when_it_has_room() {
        let mut unsaid = Unsaid {
            lines: VecDeque::new(),
            dropped: 0,
            is_broken_off: false,
        };
        let mut disk = Disk(6, Vec::new());
        unsaid.say_after(&mut disk, "first");
        for line in 0..UNSAID_LINES_MAX + 3 {
            unsaid.say_after(&mut disk, &format!("{line}"));
        }
        assert!(!unsaid.say(&mut disk));
        assert_eq!(disk.1, b"first\n");
        // It has room for three lines and a part of one, then for all.
        disk.0 = 150;
        assert!(!unsaid.say(&mut disk));
        disk.0 = 10_000;
        unsaid.say_after(&mut disk, "last");
        assert!(unsaid.say(&mut disk));
        let text = String::from_utf8(disk.1).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.remove(4), "3 (said late: t");
        assert_eq!(lines.len(), 1 + UNSAID_LINES_MAX + 2, "{text}");
        for (line, said) in lines[1..=UNSAID_LINES_MAX].iter().enumerate() {
            assert!(said.starts_with(&format!("{line} (said late")), "{said}");
        }
        assert!(lines[UNSAID_LINES_MAX + 1].contains("3 lines"), "{text}");
        assert_eq!(lines[UNSAID_LINES_MAX + 2], "last");
    }

    #[test]
    fn a_kind_that_repeats_is_held_back() {
        assert_eq!(super::pass("test: repeats"), Some(0));
        assert_eq!(super::pass("test: repeats"), None);
        assert_eq!(super::pass("test: another"), Some(0));
    }
}
