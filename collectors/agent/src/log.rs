//! Lines on standard error: level, what, where, what to do. A kind of line that repeats is held back and counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One line of a kind in this time; what comes between is counted.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

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

fn say(line: &str) {
    // A daemon outlives whoever reads its standard error, and has no other place to tell of it.
    let _ = writeln!(std::io::stderr(), "{line}");
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
    #[test]
    fn a_kind_that_repeats_is_held_back() {
        assert_eq!(super::pass("test: repeats"), Some(0));
        assert_eq!(super::pass("test: repeats"), None);
        assert_eq!(super::pass("test: another"), Some(0));
    }
}
