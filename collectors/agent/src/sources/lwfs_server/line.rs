//! One line of an LWFS server's log: bytes in, what it says out. No input makes it panic.
//!
//! ```text
//! [2018-02-25 18:00:12]  [Trace]: Meta exe: 772065 72619 264959 22166 49937 74762 72 0
//! [2018-02-25 18:00:12]  [Trace]: queue length: 0
//! ```

use crate::sources::log_file::local_time::Stamp;
use crate::sources::samples::text::{number, words};
use memchr::memmem;

/// Buckets of a latency histogram.
pub const BUCKETS: usize = 8;

/// What is counted, in the order of `Counts::kind`.
pub const KINDS: [&str; 6] = [
    "read_exe",
    "read_wait",
    "write_exe",
    "write_wait",
    "meta_exe",
    "meta_wait",
];
const HEADS: [&[u8]; 6] = [
    b"Read exe:",
    b"Read wait:",
    b"Write exe:",
    b"Write wait:",
    b"Meta exe:",
    b"Meta wait:",
];
const QUEUE: &[u8] = b"queue length:";
const MARK: &[u8] = b"[Trace]:";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Operations of a kind by how long they took, since the server's start.
    Counts {
        kind: usize,
        counts: [u64; BUCKETS],
    },
    QueueLength(u64),
}

/// What one statement says, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    pub stamp: &'a Stamp,
    pub what: What,
}

/// Calls `take` with each statement of a line, of which there are several where one was written into another; `None` for one that is cut or
/// garbled. A line without statements is another message of the server's.
pub fn parse<'a>(line: &'a [u8], mut take: impl FnMut(Option<Said<'a>>)) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let marks: Vec<usize> = memmem::find_iter(line, MARK).collect();
    let stamps: Vec<Option<(usize, &Stamp)>> =
        marks.iter().map(|&mark| stamp_before(line, mark)).collect();
    let begins_well = line.first() == Some(&b'[') || line.is_empty();
    let first = stamps.first().copied().flatten();
    if (marks.is_empty() && !begins_well) || first.is_some_and(|(at, _)| at > 0) {
        take(None); // the end of a line whose beginning is elsewhere
    }
    for (place, (mark, stamp)) in marks.iter().zip(&stamps).enumerate() {
        let next = stamps.get(place + 1);
        let end = next.map_or(line.len(), |next| {
            next.map_or(marks[place + 1], |(at, _)| at)
        });
        let text = line.get(mark + MARK.len()..end).unwrap_or_default();
        take(stamp.and_then(|(_, stamp)| {
            let what = what(text.trim_ascii())?;
            Some(Said { stamp, what })
        }));
    }
}

/// Where the `[date time]` before a mark begins, and what stands in it.
fn stamp_before(line: &[u8], mark: usize) -> Option<(usize, &Stamp)> {
    let before = line[..mark].trim_ascii_end().strip_suffix(b"]")?;
    let at = before.len().checked_sub(size_of::<Stamp>() + 1)?;
    let (b'[', stamp) = before[at..].split_first()? else {
        return None;
    };
    Some((at, stamp.try_into().ok()?))
}

fn what(text: &[u8]) -> Option<What> {
    if let Some(rest) = text.strip_prefix(QUEUE) {
        return number(rest.trim_ascii()).map(What::QueueLength);
    }
    let of_kind = |head: &&[u8]| text.starts_with(head);
    let kind = HEADS.iter().position(of_kind)?;
    let mut counts = [0; BUCKETS];
    let mut rest = words(&text[HEADS[kind].len()..]);
    for count in &mut counts {
        *count = number(rest.next()?)?;
    }
    rest.next()
        .is_none()
        .then_some(What::Counts { kind, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Vec<Option<What>> {
        let mut out = Vec::new();
        parse(line.as_bytes(), |said| {
            assert!(said.is_none_or(|s| s.stamp == b"2018-02-25 18:00:12"));
            out.push(said.map(|s| s.what));
        });
        out
    }

    #[test]
    fn lines_say_what_they_say() {
        let at = "[2018-02-25 18:00:12]  [Trace]:";
        let counts = |kind, counts| Some(What::Counts { kind, counts });
        let meta = counts(4, [772065, 72619, 264959, 22166, 49937, 74762, 72, 0]);
        let queue = Some(What::QueueLength(7));
        let meta_text = "Meta exe: 772065 72619 264959 22166 49937 74762 72 0";
        for (line, expected) in [
            (format!("{at} {meta_text}"), vec![meta]),
            (format!("{at} {meta_text}\r"), vec![meta]),
            (format!("{at} queue length: 7"), vec![queue]),
            // Cut, at its end or its beginning.
            (format!("{at} Meta exe: 772065 72619 264959"), vec![None]),
            (format!("{at} Met"), vec![None]),
            (" 49937 74762 72 0".into(), vec![None]),
            (
                "2018-02-25 18:00:12]  [Trace]: queue length: 7".into(),
                vec![None],
            ),
            // Written into each other.
            (
                format!("{at} Meta exe: 7720{at} {meta_text}"),
                vec![None, meta],
            ),
            (
                format!("{at} {meta_text}{at} queue length: 7"),
                vec![meta, queue],
            ),
            (format!("4762 72 0{at} queue length: 7"), vec![None, queue]),
            (format!("[2018-02-2{at} queue length: 7"), vec![None, queue]),
            (format!("{at}[Trace]: queue length: 7"), vec![None, None]),
            // Nonsense.
            (format!("{at} {meta_text} 5"), vec![None]),
            (format!("{at} Meta exe: 1 2 3 4 5 6 7 -8"), vec![None]),
            (
                format!("{at} Meta exe: 1 2 3 4 5 6 7 99999999999999999999"),
                vec![None],
            ),
            (format!("{at} queue length: "), vec![None]),
            // Other messages.
            (
                "[2018-02-25 18:00:12] E server: no space left".into(),
                vec![],
            ),
            (String::new(), vec![]),
        ] {
            assert_eq!(all(&line), expected, "{line}");
        }
    }
}
