//! What the fabric's programs said, in files of a capture: `fabric/ibnetdiscover`, `fabric/perfquery-x-LID` and, of a switch that has not all counters in
//! 64 bits, `fabric/perfquery-LID`. Nothing is asked; at each look they are read anew.

use super::slice::{Slice, Target};
use super::{readings, Answer, Map, MAP_BYTES_MAX};
use crate::config::Config;
use crate::sources::samples::reading::Found;
use crate::sources::samples::text;
use crate::sources::samples::Probe;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What a switch's ports say.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Memory of a text that is kept for the next look; a fabric's map may be a hundred times as long.
const KEEP_BYTES: usize = 1 << 20;

/// Owned by the agent's thread; bounded by the slice and a file's text, between looks by KEEP_BYTES.
pub struct Capture {
    folder: PathBuf,
    slice: Slice,
    text: Vec<u8>,
}

impl Capture {
    pub fn new(config: &Config) -> Capture {
        Capture::of(config, config.under_root("/fabric".as_ref()))
    }

    fn of(config: &Config, folder: PathBuf) -> Capture {
        Capture {
            folder,
            slice: Slice::new(config),
            text: Vec::new(),
        }
    }

    /// Reads a file into `text`. False: there is none.
    fn take(&mut self, path: &Path, bytes_max: usize, found: &mut Found) -> bool {
        match text::read(path, bytes_max, &mut self.text) {
            Ok(()) => true,
            Err(e) => {
                if e.kind() != ErrorKind::NotFound {
                    found.error(|| format!("{}: {e}", path.display()));
                }
                false
            }
        }
    }

    /// Takes what the fabric was found to be. Where that cannot be understood, what was known stays.
    fn map(&mut self, found: &mut Found) {
        let path = self.folder.join("ibnetdiscover");
        if !self.take(&path, MAP_BYTES_MAX, found) {
            return;
        }
        let mut map = Map::default();
        map.feed(&self.text);
        let (switches, fault) = map.finish();
        let too_much = match switches.is_empty() {
            true => None,
            false => self.slice.take(switches),
        };
        for why in fault.into_iter().chain(too_much) {
            found.error(|| format!("{}: {why}", path.display()));
        }
    }

    fn switch(&mut self, target: &Target, found: &mut Found) {
        let ports = target.ports.iter().map(|(port, _)| *port);
        let mut answer = Answer::of(target.lid, ports);
        for (is_wide, x) in [(true, "x-"), (false, "")] {
            let path = self.folder.join(format!("perfquery-{x}{}", target.lid));
            if !answer.is_whole() && self.take(&path, ANSWER_BYTES_MAX, found) {
                answer.begin(is_wide);
                answer.feed(&self.text);
            }
        }
        if let Some(why) = answer.fault() {
            let folder = self.folder.display();
            found.error(|| {
                format!(
                    "{} ({}): {why}; look at it with: cat {folder}/perfquery*-{}",
                    target.name, target.guid, target.lid
                )
            });
        }
        found.readings.extend(readings(target, &answer));
    }
}

impl Probe for Capture {
    fn component(&self) -> &'static str {
        "switch_port"
    }

    fn place(&self) -> String {
        format!(
            "no switch with a link is in this agent's slice of what {}/ibnetdiscover tells",
            self.folder.display()
        )
    }

    fn read(&mut self, found: &mut Found) {
        self.map(found);
        for target in self.slice.targets().to_vec() {
            self.switch(&target, found);
        }
        if self.text.capacity() > KEEP_BYTES {
            self.text = Vec::new();
        }
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
