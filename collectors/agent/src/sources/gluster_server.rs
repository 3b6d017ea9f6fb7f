//! Component `gluster_server`: what the bricks of GlusterFS on this node did, from the statistics that they write themselves.
//!
//! Only files are read, each as its brick wrote it; what `gluster volume profile … info incremental` tells stays to others. Calls under way are in no
//! file: `gluster_client` asks for them.

use super::gluster_client::Calls;
use super::samples::reading::{Found, Range, Reading};
use super::samples::text::{self, number};
use super::samples::Probe;
use crate::config::Config;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Bricks of a node.
const BRICKS_MAX: usize = 256;
/// Of a brick's file; one of Gluster 10 has 48 KiB.
const FILE_BYTES_MAX: usize = 512 << 10;
/// Looks in a row that may find a file half-written.
const HALF_WRITTEN_MAX: u32 = 5;
/// Bricks' files are called so; those of mounts and other servers are not bricks'.
const PREFIX: &str = "glusterfsd_";
const SUFFIX: &str = ".dump";

/// What a brick counts by operation; `null` is none.
#[rustfmt::skip]
const OPERATIONS: [&str; 55] = [
    "stat", "readlink", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename", "link",
    "truncate", "open", "read", "write", "statfs", "flush", "fsync", "setxattr", "getxattr",
    "removexattr", "opendir", "fsyncdir", "access", "create", "ftruncate", "fstat", "lk",
    "lookup", "readdir", "inodelk", "finodelk", "entrylk", "fentrylk", "xattrop", "fxattrop",
    "fgetxattr", "fsetxattr", "rchecksum", "setattr", "fsetattr", "readdirp", "forget",
    "release", "releasedir", "getspec", "fremovexattr", "fallocate", "discard", "zerofill",
    "ipc", "seek", "lease", "getactivelk", "setactivelk", "put", "icreate",
];
/// Bricks count reads and writes by size in powers of two: the first bucket is of one byte, the last of 1 GiB and more.
const SIZE_BUCKETS: u32 = 31;
/// Queues of the brick's threads, by priority.
const QUEUES: [(&str, &str); 4] = [
    ("HIGH", "queue_high"),
    ("NORMAL", "queue_normal"),
    ("LOW", "queue_low"),
    ("LEAST", "queue_least"),
];

pub struct GlusterServer {
    stats: PathBuf,
    latency_ns: u32,
    calls: Calls,
    read: BTreeMap<String, Last>,
    text: Vec<u8>,
}

/// What was read last of a file.
struct Last {
    reading: Reading,
    bytes: u64,
    /// How often it has been half-written since.
    times: u32,
}

impl GlusterServer {
    pub fn new(config: &Config, calls: &Calls) -> GlusterServer {
        GlusterServer {
            stats: config.under_root(&config.gluster_server_stats),
            latency_ns: config.gluster_server_latency_ns,
            calls: calls.clone(),
            read: BTreeMap::new(),
            text: Vec::new(),
        }
    }

    /// One brick's file. `Ok(None)`: there is none any more.
    fn brick(&mut self, name: &str) -> Result<Option<Reading>, String> {
        let path = self.stats.join(name);
        let seen = match path.symlink_metadata() {
            Ok(seen) if seen.is_file() => seen,
            Ok(_) => return Err("it is no regular file".into()),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let written_ns = super::log_file::place::modified_ns(&seen);
        if let Some(last) = self.read.get_mut(name) {
            if (last.reading.time_ns, last.bytes) == (Some(written_ns), seen.len()) {
                last.times = 0;
                return Ok(Some(last.reading.clone()));
            }
        }
        text::read(&path, FILE_BYTES_MAX, &mut self.text).map_err(|e| e.to_string())?;
        let Some(mut reading) = parse(&self.text, self.latency_ns)? else {
            // It is being written; what was read before holds until then.
            let before = self.read.get_mut(name);
            let last = before.ok_or("it is half-written")?;
            last.times += 1;
            return match last.times {
                ..=HALF_WRITTEN_MAX => Ok(Some(last.reading.clone())),
                times => Err(format!("it has been half-written {times} times")),
            };
        };
        reading.time_ns = Some(written_ns);
        if let Some(calls) = self.calls.of(&reading.instance) {
            reading.gauge("pending_calls", calls as f64);
        }
        let last = Last {
            reading: reading.clone(),
            bytes: seen.len(),
            times: 0,
        };
        self.read.insert(name.to_string(), last);
        Ok(Some(reading))
    }
}

impl Probe for GlusterServer {
    fn component(&self) -> &'static str {
        "gluster_server"
    }

    fn place(&self) -> String {
        format!(
            "{}/{PREFIX}*{SUFFIX}; bricks write it with: gluster volume set NAME diagnostics.stats-dump-interval 1",
            self.stats.display()
        )
    }

    fn read(&mut self, found: &mut Found) {
        let mut names = match bricks(&self.stats) {
            Ok(names) => names,
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => return found.error(|| format!("{}: {e}", self.stats.display())),
        };
        if names.len() > BRICKS_MAX {
            let count = names.len();
            found.error(|| {
                format!(
                    "{}: {count} bricks are more than {BRICKS_MAX}; the rest is not told",
                    self.stats.display()
                )
            });
            names.truncate(BRICKS_MAX);
        }
        self.read.retain(|name, _| names.contains(name));
        for name in names {
            match self.brick(&name) {
                Ok(reading) => found.readings.extend(reading),
                Err(e) => {
                    let path = self.stats.join(&name);
                    found.error(|| format!("{}: {e}; look at it with: head {0}", path.display()));
                }
            }
        }
    }
}

fn bricks(dir: &Path) -> std::io::Result<Vec<String>> {
    let names = std::fs::read_dir(dir)?
        .flatten()
        .map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
        .take(BRICKS_MAX + 1)
        .collect();
    names.sort();
    Ok(names)
}

/// What a brick's file says of all since the brick's start, which is its first part; the second, of the last interval, is not looked at.
/// `Ok(None)`: the first part has no end yet. An error says which line cannot be.
pub fn parse(text: &[u8], latency_ns: u32) -> Result<Option<Reading>, String> {
    let mut values: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    let mut brick: Option<&[u8]> = None;
    let mut is_whole = false;
    for (row, line, has_end) in text::lines(text) {
        match line.trim_ascii() {
            b"{" | b"" => continue,
            b"}" if has_end => {
                is_whole = true;
                break;
            }
            _ if !has_end => break,
            line => {
                let bad = || {
                    format!("line {row}: expected `\"gluster.brick.NAME.aggr.VALUE\": NUMBER`, found {}", text::quote(line))
                };
                let (own, name, value) = split(line).ok_or_else(bad)?;
                if *brick.get_or_insert(own) != own {
                    return Err(bad());
                }
                values.insert(name, value);
            }
        }
    }
    let name = brick.and_then(|brick| std::str::from_utf8(brick).ok());
    match (is_whole, name) {
        (true, Some(name)) => reading(name, &values, latency_ns).map(Some),
        (true, None) => Err("it names no brick".into()),
        (false, _) => Ok(None),
    }
}

/// `"gluster.brick.NAME.aggr.VALUE": NUMBER,` → NAME, VALUE, NUMBER. A brick's name may hold dots.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    const AGGR: &[u8] = b".aggr.";
    let rest = line.strip_prefix(b"\"gluster.brick.")?;
    let end = rest.iter().rposition(|b| *b == b'"')?;
    let value = rest[end + 1..]
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii();
    let key = &rest[..end];
    let at = memchr::memmem::rfind(key, AGGR)?;
    Some((
        &key[..at],
        &key[at + AGGR.len()..],
        value.strip_suffix(b",").unwrap_or(value),
    ))
}

fn reading(
    brick: &str,
    values: &BTreeMap<&[u8], &[u8]>,
    latency_ns: u32,
) -> Result<Reading, String> {
    let mut reading = Reading::new(brick);
    let text = |name: &str| values.get(name.as_bytes()).copied();
    // Of another release it may be missing.
    let whole = |name: &str| match text(name) {
        None => Ok(None),
        Some(value) => number(value).map(Some).ok_or_else(|| {
            format!(
                "{name}: expected a whole number, found {}",
                text::quote(value)
            )
        }),
    };
    for (own, name) in [
        ("bytes_read", "read_bytes"),
        ("bytes_written", "write_bytes"),
    ] {
        if let Some(raw) = whole(own)? {
            reading.counter(name, raw, Range::Bits64, 1);
        }
    }
    for name in OPERATIONS {
        let Some(count) = whole(&format!("fop.{name}.count"))? else {
            continue;
        };
        reading.counter(name, count, Range::Bits64, 1);
        // It is told as a mean since the start, with two digits: so the sum may seem to go back a little.
        let mean = text(&format!("fop.{name}.latency_ave_usec")).and_then(text::decimal);
        let sum_ns = mean.unwrap_or(0.0) * count as f64 * latency_ns as f64;
        reading.counter(format!("{name}_ns"), sum_ns as u64, Range::Unsteady, 1);
    }
    for way in ["read", "write"] {
        for bucket in 0..SIZE_BUCKETS {
            if let Some(raw) = whole(&format!("{way}_{}", size(bucket)))? {
                let bound = match bucket + 1 {
                    SIZE_BUCKETS => "inf".to_string(),
                    next => ((1u64 << next) - 1).to_string(),
                };
                reading.counter(format!("{way}_size_to_{bound}"), raw, Range::Bits64, 1);
            }
        }
    }
    let mut length = None;
    for (own, name) in QUEUES {
        if let Some(queue) = whole(&format!("{own}.queue_size"))? {
            reading.gauge(name, queue as f64);
            length = Some(length.unwrap_or(0.0) + queue as f64);
        }
    }
    if let Some(length) = length {
        reading.gauge("queue_length", length);
    }
    if let Some(open) = whole("fds.open_count")? {
        reading.gauge("open_files", open as f64);
    }
    Ok(reading)
}

/// How a brick calls the bucket that begins at 2^`bucket` bytes.
fn size(bucket: u32) -> String {
    let (unit, digits) = match bucket {
        0..10 => ("b", bucket),
        10..20 => ("kb", bucket - 10),
        _ => ("mb", bucket - 20),
    };
    format!("{}{unit}", 1u64 << digits)
}

#[cfg(test)]
#[path = "gluster_server_tests.rs"]
mod tests;
