//! The switches that this agent asks: those that the settings choose, and of these its slice by their GUIDs' order.

use super::map::Switch;
use crate::config::Config;
use crate::sources::samples::pattern::is_wanted;
use crate::sources::samples::INSTANCES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Switches of one agent.
pub const SWITCHES_MAX: usize = 80;

/// A switch to be asked. Of a port: what its link carries, Mbit/s; 0 where it has none now, none where nobody knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub guid: String,
    pub lid: u16,
    pub name: String,
    pub ports: Vec<(u8, Option<u32>)>,
    /// It has no counters of 64 bits, as far as it is known.
    pub is_narrow: bool,
}

/// Owned by its source; bounded by SWITCHES_MAX and INSTANCES_MAX.
pub struct Slice {
    patterns: Vec<String>,
    partition: usize,
    partitions: usize,
    targets: Vec<Target>,
}

impl Slice {
    pub fn new(config: &Config) -> Slice {
        Slice {
            patterns: config.switch_port_switches.clone(),
            partition: config.switch_port_partition as usize,
            partitions: config.switch_port_partitions as usize,
            targets: Vec::new(),
        }
    }

    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The GUID of each, and where it is asked.
    pub fn addresses(&self) -> Vec<(String, u16)> {
        let address = |target: &Target| (target.guid.clone(), target.lid);
        self.targets.iter().map(address).collect()
    }

    /// One of them has no counters of 64 bits.
    pub fn is_narrow(&mut self, guid: &str) {
        let target = self.targets.iter_mut().find(|own| own.guid == guid);
        target.into_iter().for_each(|own| own.is_narrow = true);
    }

    /// Takes the fabric's switches, in the order of their GUIDs. Says what of the slice is too much.
    pub fn take(&mut self, switches: Vec<Switch>) -> Option<String> {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        for switch in &switches {
            *names.entry(&switch.name).or_default() += 1;
        }
        // A name tells a switch apart if no other has it and it is no other's GUID.
        let is_own = |name: &str| !name.is_empty() && names[name] == 1 && !name.starts_with("0x");
        let name = |switch: &Switch| match is_own(&switch.name) {
            true => switch.name.clone(),
            false => switch.guid_text(),
        };
        let named = switches.iter().map(|switch| (switch, name(switch)));
        let is_chosen = |(switch, name): &(&Switch, String)| {
            let guid = switch.guid_text();
            is_wanted(&self.patterns, name) || is_wanted(&self.patterns, &guid)
        };
        let chosen: Vec<(&Switch, String)> = named.filter(is_chosen).collect();
        let place = |part: usize| chosen.len() * part / self.partitions;
        let slice = &chosen[place(self.partition - 1)..place(self.partition)];
        let mut targets: Vec<Target> = Vec::new();
        let mut ports = 0;
        let mut is_too_much = false;
        for (switch, name) in slice {
            let target = self.target(switch, name);
            ports += target.ports.len();
            is_too_much |= targets.len() == SWITCHES_MAX || ports > INSTANCES_MAX;
            if !is_too_much && !target.ports.is_empty() {
                targets.push(target);
            }
        }
        let (count, asked) = (slice.len(), targets.len());
        self.targets = targets;
        is_too_much.then(|| {
            format!(
                "{count} switches with {ports} ports are in this agent's slice, of which {asked} are asked: at most {SWITCHES_MAX} and \
                 {INSTANCES_MAX} can be; give them to more agents (switch_port_partitions)"
            )
        })
    }

    /// Ports that had a link once are still asked of: what they counted when it went is of interest.
    fn target(&self, switch: &Switch, name: &str) -> Target {
        let guid = switch.guid_text();
        let known = |mbit: u32| (mbit > 0).then_some(mbit);
        let now = switch
            .ports
            .iter()
            .map(|(port, mbit)| (*port, known(*mbit)));
        let before = self.targets.iter().find(|target| target.guid == guid);
        let linked: BTreeSet<u8> = switch.ports.iter().map(|(port, _)| *port).collect();
        let gone = before.into_iter().flat_map(|before| &before.ports);
        let gone = gone.map(|(port, _)| (*port, Some(0)));
        let gone = gone.filter(|(port, _)| !linked.contains(port));
        let mut ports: Vec<(u8, Option<u32>)> = now.chain(gone).collect();
        ports.sort();
        Target {
            guid,
            lid: switch.lid,
            name: name.into(),
            ports,
            // At another LID another switch may have answered.
            is_narrow: before.is_some_and(|before| before.is_narrow && before.lid == switch.lid),
        }
    }
}

#[cfg(test)]
#[path = "slice_tests.rs"]
mod tests;
