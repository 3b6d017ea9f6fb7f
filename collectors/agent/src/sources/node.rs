//! Component `node`: the machine as a whole, from /proc and /sys: processors, load, memory, network, pressure of I/O, energy.

mod energy;
mod network;
mod parse;

use self::energy::Energy;
use self::network::Network;
use super::samples::reading::{Found, Reading};
use super::samples::text;
use super::samples::Probe;
use crate::config::Config;
use crate::sys;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Of one file in /proc; the part beyond its beginning is wanted of none of the long ones.
const FILE_BYTES_MAX: usize = 4 << 20;
const NS_PER_S: i64 = 1_000_000_000;

/// What is read of one file, and how.
type Parse = fn(&[u8], &mut Reading, &mut Found);

pub struct Node {
    root: PathBuf,
    name: String,
    ns_per_tick: u32,
    network: Network,
    energy: Energy,
    text: Vec<u8>,
}

impl Node {
    pub fn new(config: &Config) -> Node {
        Node {
            root: config.under_root("/".as_ref()),
            name: config.node.clone(),
            ns_per_tick: (NS_PER_S / sys::ticks_per_second()) as u32,
            network: Network::new(config),
            energy: Energy::new(config),
            text: Vec::new(),
        }
    }

    /// Reads a file, if it is there.
    fn file(&mut self, path: &str, found: &mut Found) -> bool {
        match text::read(&self.root.join(path), FILE_BYTES_MAX, &mut self.text) {
            Ok(()) => return true,
            // Kernels without pressure figures have the folder, or not even that.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(e) => found.error(|| format!("/{path}: {e}; look at it with: cat /{path}")),
        }
        false
    }
}

/// All texts of /proc that a node's sample is made of, one after the other behind a byte of 1 each, as the fuzz target gives them.
#[cfg(any(test, feature = "fuzz"))]
pub fn parse_all(text: &[u8], found: &mut Found) {
    let mut reading = Reading::new("n1");
    let mut texts = text.split(|b| *b == 1);
    let mut next = || texts.next().unwrap_or_default();
    parse::processors(next(), 10_000_000, &mut reading, found);
    for parse in [parse::load as Parse, parse::memory, parse::pressure] {
        parse(next(), &mut reading, found);
    }
    network::parse(next(), |name| name != "lo", &mut reading, found);
    found.readings.push(reading);
}

impl Probe for Node {
    fn component(&self) -> &'static str {
        "node"
    }

    fn place(&self) -> String {
        format!("{}", self.root.join("proc").display())
    }

    fn read(&mut self, found: &mut Found) {
        let mut reading = Reading::new(self.name.clone());
        if self.file("proc/stat", found) {
            parse::processors(&self.text, self.ns_per_tick, &mut reading, found);
        }
        let files: [(&str, Parse); 3] = [
            ("proc/loadavg", parse::load),
            ("proc/meminfo", parse::memory),
            ("proc/pressure/io", parse::pressure),
        ];
        for (path, parse) in files {
            if self.file(path, found) {
                parse(&self.text, &mut reading, found);
            }
        }
        if self.file("proc/net/dev", found) {
            self.network.read(&self.text, &mut reading, found);
        }
        self.energy.read(&mut reading, found);
        if !reading.values.is_empty() {
            found.readings.push(reading);
        }
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
