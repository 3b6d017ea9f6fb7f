//! `/sys/class/powercap`: the energy that processors and memory took (RAPL), added up over sockets.

use crate::config::Config;
use crate::info;
use crate::sources::samples::reading::{Found, Range, Reading};
use crate::sources::samples::schedule::Schedule;
use crate::sources::samples::text;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often zones are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const ZONES_MAX: usize = 256;
const FILE_BYTES_MAX: usize = 64;
/// `intel-rapl:0`, `intel-rapl:0:1`; AMD's are called so, too. `intel-rapl-mmio:0` is the same package once more.
const PREFIX: &str = "intel-rapl:";

/// A zone: its counter's file, its value, its range.
struct Zone {
    name: String,
    energy: PathBuf,
    value: &'static str,
    max_uj: u64,
}

pub struct Energy {
    zones_dir: PathBuf,
    look: Schedule,
    zones: Vec<Zone>,
    was_refused: bool,
    text: Vec<u8>,
}

impl Energy {
    pub fn new(config: &Config) -> Energy {
        Energy {
            zones_dir: config.under_root("/sys/class/powercap".as_ref()),
            look: Schedule::every(LOOK_EVERY),
            zones: Vec::new(),
            was_refused: false,
            text: Vec::new(),
        }
    }

    pub fn read(&mut self, reading: &mut Reading, found: &mut Found) {
        if self.look.is_due(found.now) {
            self.look.done(found.now);
            self.find();
        }
        for zone in &self.zones {
            match number(&zone.energy, &mut self.text) {
                Ok(uj) => {
                    reading.part(&zone.name);
                    reading.counter(zone.value, uj, Range::To(zone.max_uj), 1);
                }
                Err(e) => found
                    .error(|| format!("{}: {e}; look at it with: cat {0}", zone.energy.display())),
            }
        }
        reading.part("");
    }

    /// Zones that can be read. Since 2020 only root may read most of them: that is said once, and is no fault.
    fn find(&mut self) {
        self.zones.clear();
        let entries = std::fs::read_dir(&self.zones_dir).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names
            .filter(|name| name.starts_with(PREFIX))
            .take(ZONES_MAX)
            .collect();
        names.sort();
        for name in names {
            let dir = self.zones_dir.join(&name);
            let energy = dir.join("energy_uj");
            match number(&energy, &mut self.text) {
                Ok(_) => self
                    .zones
                    .extend(self::zone(name, &dir, energy, &mut self.text)),
                Err(e) if e.kind() == ErrorKind::PermissionDenied && !self.was_refused => {
                    self.was_refused = true;
                    info!(
                        "energy",
                        "node: {}: {e}; energy is not told unless the agent runs as root",
                        energy.display()
                    );
                }
                Err(_) => {} // no zone, or refused as was said
            }
        }
    }
}

/// `None`: it is of no kind that we know, or does not say how far it goes.
fn zone(name: String, dir: &Path, energy: PathBuf, text: &mut Vec<u8>) -> Option<Zone> {
    let max_uj = number(&dir.join("max_energy_range_uj"), text).ok()?;
    text::read(&dir.join("name"), FILE_BYTES_MAX, text).ok()?;
    let kind = text.trim_ascii();
    let value = match kind {
        b"dram" => "energy_memory_uj",
        b"psys" => "energy_platform_uj",
        b"core" => "energy_cores_uj",
        _ if kind.starts_with(b"package-") => "energy_package_uj",
        _ => return None,
    };
    Some(Zone {
        name,
        energy,
        value,
        max_uj,
    })
}

fn number(path: &Path, text: &mut Vec<u8>) -> io::Result<u64> {
    text::read(path, FILE_BYTES_MAX, text)?;
    text::number(text.trim_ascii())
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "expected a whole number"))
}
