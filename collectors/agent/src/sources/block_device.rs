//! Component `block_device`: what each block device did, from /proc/diskstats.

use super::samples::pattern::{is_wanted, Chosen};
use super::samples::reading::{Found, Range, Reading};
use super::samples::schedule::Schedule;
use super::samples::text::{self, lines, number, quote, words};
use super::samples::Probe;
use crate::config::Config;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

const STATS: &str = "/proc/diskstats";
const STATS_BYTES_MAX: usize = 4 << 20;
/// How long it is believed that what was a whole device is one.
const CHOSEN_FOR: Duration = Duration::from_secs(60);
/// Of a name, bytes; the kernel's own bound is 32.
const NAME_BYTES_MAX: usize = 64;
/// The kernel counts in sectors of this size, whatever the device's are.
const SECTOR_BYTES: u32 = 512;
const NS_PER_MS: u32 = 1_000_000;

/// The numbers after a device's name: what each is, how far it goes, and what one is in our unit. Kernels before 4.18 have the first 11, those
/// before 5.5 the first 15. Sums of milliseconds are printed as 32 bits. `None`: a gauge.
const COLUMNS: [(&str, Option<(Range, u32)>); 17] = [
    ("reads", Some((Range::Bits64, 1))),
    ("reads_merged", Some((Range::Bits64, 1))),
    ("read_bytes", Some((Range::Bits64, SECTOR_BYTES))),
    ("read_ns", Some((Range::Bits32, NS_PER_MS))),
    ("writes", Some((Range::Bits64, 1))),
    ("writes_merged", Some((Range::Bits64, 1))),
    ("write_bytes", Some((Range::Bits64, SECTOR_BYTES))),
    ("write_ns", Some((Range::Bits32, NS_PER_MS))),
    ("in_flight", None),
    ("busy_ns", Some((Range::Bits32, NS_PER_MS))),
    ("queue_ns", Some((Range::Bits32, NS_PER_MS))),
    ("discards", Some((Range::Bits64, 1))),
    ("discards_merged", Some((Range::Bits64, 1))),
    ("discard_bytes", Some((Range::Bits64, SECTOR_BYTES))),
    ("discard_ns", Some((Range::Bits32, NS_PER_MS))),
    ("flushes", Some((Range::Bits64, 1))),
    ("flush_ns", Some((Range::Bits32, NS_PER_MS))),
];
const COUNTS: [usize; 3] = [11, 15, 17];

pub struct BlockDevice {
    stats: PathBuf,
    devices: PathBuf,
    patterns: Vec<String>,
    with_partitions: bool,
    chosen: Chosen,
    choose_again: Schedule,
    text: Vec<u8>,
}

impl BlockDevice {
    pub fn new(config: &Config) -> BlockDevice {
        BlockDevice {
            stats: config.under_root(STATS.as_ref()),
            devices: config.under_root("/sys/block".as_ref()),
            patterns: config.block_devices.clone(),
            with_partitions: config.block_device_partitions,
            chosen: Chosen::default(),
            choose_again: Schedule::every(CHOSEN_FOR),
            text: Vec::new(),
        }
    }
}

impl Probe for BlockDevice {
    fn component(&self) -> &'static str {
        "block_device"
    }

    fn place(&self) -> String {
        format!("{}, devices that block_devices names", self.stats.display())
    }

    fn read(&mut self, found: &mut Found) {
        if self.choose_again.is_due(found.now) {
            self.choose_again.done(found.now);
            self.chosen.forget();
        }
        match text::read(&self.stats, STATS_BYTES_MAX, &mut self.text) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => found.error(|| format!("{}: {e}", self.stats.display())),
        }
        let (patterns, devices, with_partitions) =
            (&self.patterns, &self.devices, self.with_partitions);
        let is_chosen = |name: &str| {
            let find_out = |name: &str| {
                // A slash in a name is an exclamation mark in the path.
                let is_whole = || devices.join(name.replace('/', "!")).exists();
                is_wanted(patterns, name) && (with_partitions || is_whole())
            };
            self.chosen.is(name, find_out)
        };
        parse(&self.text, is_chosen, found);
    }
}

/// A reading of each chosen device; a line that makes no sense is an error.
pub fn parse(text: &[u8], mut is_chosen: impl FnMut(&str) -> bool, found: &mut Found) {
    for (row, line, is_whole) in lines(text) {
        let mut words = words(line);
        let (_major, _minor) = (words.next(), words.next());
        let name = words.next().and_then(|word| std::str::from_utf8(word).ok());
        let name = name.filter(|name| name.len() <= NAME_BYTES_MAX);
        if name.is_some_and(|name| is_whole && !is_chosen(name)) {
            continue;
        }
        // Kernels to come may have more.
        let numbers: Option<Vec<u64>> = words.take(COLUMNS.len()).map(number).collect();
        let numbers = numbers.filter(|numbers| is_whole && COUNTS.contains(&numbers.len()));
        let (Some(name), Some(numbers)) = (name, numbers) else {
            found.error(|| format!("{STATS}: line {row}: expected a device's name and 11, 15 or 17 numbers, found {}; look at it with: cat {STATS}", quote(line)));
            continue;
        };
        let mut reading = Reading::new(name);
        for ((value, column), raw) in COLUMNS.iter().zip(&numbers) {
            match column {
                Some((range, scale)) => reading.counter(*value, *raw, *range, *scale),
                None => reading.gauge(*value, *raw as f64),
            }
        }
        found.readings.push(reading);
    }
}

#[cfg(test)]
#[path = "block_device_tests.rs"]
mod tests;
