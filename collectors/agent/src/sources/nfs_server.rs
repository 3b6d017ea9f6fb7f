//! Component `nfs_server`: what the kernel's NFS server did, from /proc/net/rpc/nfsd.

mod operations;

use self::operations::{V3, V4, V4_PREFIX};
use super::samples::reading::{Found, Range, Reading};
use super::samples::text::{self, lines, number, quote, words};
use super::samples::Probe;
use crate::config::Config;
use std::io::ErrorKind;
use std::path::PathBuf;

const STATS: &str = "/proc/net/rpc/nfsd";
const STATS_BYTES_MAX: usize = 64 << 10;

/// Lines of counters: how they begin, and what stands behind. All are printed as 32 bits by older kernels. A kernel may print more
/// numbers, or lines, than these.
const LINES: [(&[u8], &[&str]); 6] = [
    (
        b"rc",
        &[
            "reply_cache_hits",
            "reply_cache_misses",
            "reply_cache_passed",
        ],
    ),
    (b"fh", &["stale_handles"]),
    (b"io", &["read_bytes", "write_bytes"]),
    (
        b"net",
        &["packets", "packets_udp", "packets_tcp", "connections"],
    ),
    (
        b"rpc",
        &[
            "calls",
            "calls_bad",
            "calls_bad_format",
            "calls_bad_auth",
            "calls_bad_client",
        ],
    ),
    // After the number of them.
    (b"proc4", &["", "v4_null", "v4_compounds"]),
];

pub struct NfsServer {
    stats: PathBuf,
    node: String,
    text: Vec<u8>,
}

impl NfsServer {
    pub fn new(config: &Config) -> NfsServer {
        NfsServer {
            stats: config.under_root(STATS.as_ref()),
            node: config.node.clone(),
            text: Vec::new(),
        }
    }
}

impl Probe for NfsServer {
    fn component(&self) -> &'static str {
        "nfs_server"
    }

    fn place(&self) -> String {
        format!("{}", self.stats.display())
    }

    fn read(&mut self, found: &mut Found) {
        match text::read(&self.stats, STATS_BYTES_MAX, &mut self.text) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => found.error(|| format!("{}: {e}", self.stats.display())),
        }
        parse(&self.text, &self.node, found);
    }
}

/// A reading of the server; a line that makes no sense is an error, one that is not known is passed over.
pub fn parse(text: &[u8], node: &str, found: &mut Found) {
    let mut reading = Reading::new(node);
    let mut seen: Vec<&[u8]> = Vec::new();
    for (row, line, is_whole) in lines(text) {
        let mut words = words(line);
        let Some(head) = words.next() else { continue };
        let is_new = !seen.contains(&head);
        let taken = is_whole && is_new && take(head, words, &mut reading).is_some();
        if is_known(head) {
            seen.push(head);
        }
        if !taken {
            found.error(|| format!("{STATS}: line {row}: expected the numbers of `{}`, once, found {}; look at it with: cat {STATS}", head.escape_ascii(), quote(line)));
        }
    }
    if !reading.values.is_empty() {
        found.readings.push(reading);
    }
}

fn is_known(head: &[u8]) -> bool {
    let others: [&[u8]; 3] = [b"th", b"proc3", b"proc4ops"];
    others.contains(&head) || LINES.iter().any(|(own, _)| *own == head)
}

/// Takes a line's numbers. `None`: there are too few, or they are none; then nothing was taken.
fn take<'a>(
    head: &[u8],
    words: impl Iterator<Item = &'a [u8]>,
    reading: &mut Reading,
) -> Option<()> {
    match head {
        // What follows the number of threads was dropped in Linux 2.6.
        b"th" => reading.gauge("threads", words.map(number).next()?? as f64),
        b"proc3" => {
            for (name, raw) in V3.iter().zip(operations(words)?) {
                reading.counter(format!("v3_{name}"), raw, Range::Bits32, 1);
            }
        }
        // Older kernels know fewer of them, newer ones perhaps more.
        b"proc4ops" => {
            for (name, raw) in V4
                .iter()
                .zip(operations(words)?.into_iter().skip(V4_PREFIX))
            {
                reading.counter(format!("v4_{name}"), raw, Range::Bits32, 1);
            }
        }
        _ => {
            let Some((_, names)) = LINES.iter().find(|(own, _)| *own == head) else {
                return Some(());
            };
            let numbers: Vec<u64> = words.take(names.len()).map(number).collect::<Option<_>>()?;
            if numbers.len() < names.len() {
                return None;
            }
            // Sums of bytes go round so often that a fall of theirs alone says nothing of the others.
            let range = match head {
                b"io" => Range::To(u32::MAX as u64),
                _ => Range::Bits32,
            };
            for (name, raw) in names
                .iter()
                .zip(numbers)
                .filter(|(name, _)| !name.is_empty())
            {
                reading.counter(*name, raw, range, 1);
            }
        }
    }
    Some(())
}

/// The number of operations, and so many counters.
fn operations<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u64>> {
    let count = number(words.next()?)?;
    let numbers: Vec<u64> = words.map(number).collect::<Option<_>>()?;
    (numbers.len() as u64 == count).then_some(numbers)
}

#[cfg(test)]
#[path = "nfs_server_tests.rs"]
mod tests;
