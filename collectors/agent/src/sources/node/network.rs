//! `/proc/net/dev`: what passed the network interfaces, added up.

use crate::config::Config;
use crate::sources::samples::pattern::{is_wanted, Chosen};
use crate::sources::samples::reading::{Found, Range, Reading};
use crate::sources::samples::schedule::Schedule;
use crate::sources::samples::text::{lines, number, quote, words};
use std::path::PathBuf;
use std::time::Duration;

/// Lines before the interfaces.
const HEAD_LINES: usize = 2;
const INTERFACES_MAX: usize = 128;
/// Of a name, bytes; the kernel's own bound is 15.
const NAME_BYTES_MAX: usize = 64;
/// Numbers of an interface, of which these are told; the driver says how far they go.
const NUMBERS: usize = 16;
const TOLD: [(usize, &str); 8] = [
    (0, "network_receive_bytes"),
    (1, "network_receive_packets"),
    (2, "network_receive_errors"),
    (3, "network_receive_drops"),
    (8, "network_transmit_bytes"),
    (9, "network_transmit_packets"),
    (10, "network_transmit_errors"),
    (11, "network_transmit_drops"),
];
const LOOPBACK: &str = "lo";
/// How long it is believed that an interface is hardware, or that there is none.
const CHOSEN_FOR: Duration = Duration::from_secs(60);

pub struct Network {
    interfaces: PathBuf,
    patterns: Vec<String>,
    chosen: Chosen,
    choose_again: Schedule,
    /// There is hardware, so only that is told.
    has_hardware: bool,
}

impl Network {
    pub fn new(config: &Config) -> Network {
        Network {
            interfaces: config.under_root("/sys/class/net".as_ref()),
            patterns: config.node_interfaces.clone(),
            chosen: Chosen::default(),
            choose_again: Schedule::every(CHOSEN_FOR),
            has_hardware: false,
        }
    }

    pub fn read(&mut self, text: &[u8], reading: &mut Reading, found: &mut Found) {
        let is_hardware = |name: &str| self.interfaces.join(name).join("device").exists();
        if self.choose_again.is_due(found.now) {
            self.choose_again.done(found.now);
            self.chosen.forget();
            let mut all = lines(text).skip(HEAD_LINES);
            self.has_hardware =
                all.any(|(_, line, _)| split(line).is_some_and(|(name, _)| is_hardware(name)));
        }
        let (patterns, has_hardware) = (&self.patterns, self.has_hardware);
        let find_out = |name: &str| match patterns[..] {
            [] if has_hardware => is_hardware(name),
            [] => name != LOOPBACK,
            _ => is_wanted(patterns, name),
        };
        parse(text, |name| self.chosen.is(name, find_out), reading, found);
    }
}

/// An interface's name and what follows it. `None`: it is no name, or none that could be a path.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().rposition(|b| *b == b':')?;
    let name = std::str::from_utf8(&line[..at]).ok()?.trim();
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    (is_name && !name.contains('/') && name != "..").then_some((name, &line[at + 1..]))
}

pub fn parse(
    text: &[u8],
    mut is_chosen: impl FnMut(&str) -> bool,
    reading: &mut Reading,
    found: &mut Found,
) {
    let mut interfaces = 0;
    for (row, line, is_whole) in lines(text).skip(HEAD_LINES) {
        let parts = split(line).filter(|_| is_whole);
        let numbers =
            parts.and_then(|(_, rest)| words(rest).map(number).collect::<Option<Vec<u64>>>());
        let (Some((name, _)), Some(numbers)) = (parts, numbers.filter(|n| n.len() == NUMBERS))
        else {
            found.error(|| format!("/proc/net/dev: line {row}: expected an interface and {NUMBERS} numbers, found {}; look at it with: cat /proc/net/dev", quote(line)));
            continue;
        };
        if !is_chosen(name) {
            continue;
        }
        interfaces += 1;
        if interfaces > INTERFACES_MAX {
            return found.error(|| format!("/proc/net/dev: more than {INTERFACES_MAX} interfaces are chosen, and the rest is not told; choose fewer with node_interfaces"));
        }
        reading.part(name);
        for (place, value) in TOLD {
            reading.counter(value, numbers[place], Range::Bits64, 1);
        }
    }
    reading.part("");
}
