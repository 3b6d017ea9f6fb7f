//! Component `switch_port`: what the ports of the fabric's switches did, which `perfquery` asks of each switch over the fabric.
//!
//! `ibnetdiscover` tells once in a while which switches there are, and how fast their links; then one switch is asked after the other, by its LID.
//! Of a large fabric each agent asks a slice of its own.

mod answer;
mod capture;
mod map;
mod rounds;
mod slice;

pub use self::answer::Answer;
pub use self::capture::Capture;
pub use self::map::Map;
use self::rounds::{Looked, Rounds};
use self::slice::{Slice, Target};
use super::command::Command;
use super::fabric_port::link::{describe, BYTES_PER_MBIT};
use super::samples::reading::{Found, Reading};
use super::samples::{pattern, Probe};
use super::Pass;
use crate::config::Config;
use std::time::{Duration, Instant};

/// Looks at a program that runs are so far apart; most end sooner.
const LOOK: Duration = Duration::from_millis(5);
/// What `ibnetdiscover` may print: 100 MiB are a fabric of 200,000 nodes.
const MAP_BYTES_MAX: usize = 100 << 20;
/// How long a look at the whole fabric may take.
const DISCOVER_MAX: Duration = Duration::from_secs(120);
/// For how long `perfquery` waits for one answer, ms; it asks three times.
const ANSWER_MS: &str = "300";

/// Refuses settings that cannot be meant.
pub fn check(config: &Config) -> Result<(), String> {
    pattern::check("switch_port_switches", &config.switch_port_switches)?;
    let through = &config.switch_port_through;
    let is_good = |(device, port): (&str, &str)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        !device.is_empty() && device.chars().all(is_name) && port.parse::<u8>().is_ok_and(|p| p > 0)
    };
    if through.is_empty() || through.split_once('/').is_some_and(is_good) {
        return Ok(());
    }
    Err(format!(
        "switch_port_through: {through}: expected DEVICE/PORT, such as mlx5_0/1; see agent.sample.toml"
    ))
}

/// What a switch told of its ports, with what their links can carry.
fn readings(target: &Target, answer: &Answer) -> Vec<Reading> {
    let mut found = Vec::new();
    for (port, mut reading) in answer.readings(&target.name) {
        let link = target.ports.iter().find(|(own, _)| *own == port);
        let mbit = link.and_then(|(_, mbit)| *mbit);
        describe(&mut reading, mbit.map(|mbit| mbit as f64 * BYTES_PER_MBIT));
        found.push(reading);
    }
    found
}

/// What is under way.
enum Asked {
    Map(Map),
    Switch {
        target: Target,
        answer: Answer,
        is_wide: bool,
        /// Why the question before failed.
        failed: Option<String>,
    },
}

/// Owned by the agent's thread; bounded by the slice. At its end the command is killed.
pub struct SwitchPort {
    perfquery: Command,
    /// For how long it may run.
    limit: Duration,
    ibnetdiscover: Command,
    /// Through which port of this host, as arguments.
    through: Vec<String>,
    slice: Slice,
    rounds: Rounds,
    asked: Option<Asked>,
    began: Instant,
    /// What one switch has told.
    readings: Vec<Reading>,
    errors: Vec<String>,
}

impl SwitchPort {
    pub fn new(config: &Config) -> SwitchPort {
        let seconds = Duration::from_secs;
        let ibnetdiscover = config.switch_port_ibnetdiscover.clone();
        let limit = seconds(config.switch_port_timeout_s);
        let through = match config.switch_port_through.split_once('/') {
            Some((device, port)) => ["-C", device, "-P", port].map(String::from).to_vec(),
            None => Vec::new(),
        };
        SwitchPort {
            perfquery: Command::new(config.switch_port_perfquery.clone(), limit),
            limit,
            ibnetdiscover: Command::new(ibnetdiscover, DISCOVER_MAX).printing(MAP_BYTES_MAX),
            through,
            slice: Slice::new(config),
            rounds: Rounds::new(
                seconds(config.switch_port_period_s),
                seconds(config.switch_port_discover_s),
            ),
            asked: None,
            began: Instant::now(),
            readings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Begins a round. True: a look at the fabric comes first.
    fn begin(&mut self) -> bool {
        if !self.rounds.begin(Instant::now()) {
            return false;
        }
        let arguments: Vec<&str> = self.through.iter().map(String::as_str).collect();
        match self.ibnetdiscover.start(&arguments) {
            Ok(()) => self.asked = Some(Asked::Map(Map::default())),
            Err(e) => self.mapped(Map::default(), Err(e)),
        }
        self.asked.is_some()
    }

    /// Takes what the fabric was found to be. Where that failed, what was known stays.
    fn mapped(&mut self, map: Map, ended: Result<(), String>) {
        let (mut switches, fault) = map.finish();
        if ended.is_err() {
            switches.clear(); // there may be more
        }
        if let Some(why) = ended.err().or(fault) {
            self.errors
                .push(format!("{why}; look at it with: ibnetdiscover"));
        }
        let known = self.slice.addresses();
        let is_taken = !switches.is_empty();
        if is_taken {
            self.errors.extend(self.slice.take(switches));
        }
        let found = match self.slice.addresses() {
            now if !is_taken || now.is_empty() => Looked::Nothing,
            now if now == known => Looked::Same,
            _ => Looked::New,
        };
        self.rounds.looked(found, Instant::now());
    }

    /// Begins to ask a switch for its wide counters, or for its narrow ones.
    fn ask(&mut self, target: Target, answer: Option<Answer>, failed: Option<String>) {
        let is_wide = answer.is_none() && !target.is_narrow;
        let ports = target.ports.iter().map(|(port, _)| *port);
        let mut answer = answer.unwrap_or_else(|| Answer::of(target.lid, ports.clone()));
        answer.begin(is_wide);
        self.began = Instant::now();
        let lid = target.lid.to_string();
        let ports: Vec<String> = ports.map(|port| port.to_string()).collect();
        let ports = ports.join(",");
        let mut arguments: Vec<&str> = self.through.iter().map(String::as_str).collect();
        arguments.extend(["-t", ANSWER_MS, "-l"]);
        arguments.extend(is_wide.then_some("-x"));
        arguments.extend([lid.as_str(), ports.as_str()]);
        match self.perfquery.start(&arguments) {
            Ok(()) => {
                self.asked = Some(Asked::Switch {
                    target,
                    answer,
                    is_wide,
                    failed,
                })
            }
            Err(e) => {
                // What cannot be started will not be for the others either.
                self.errors.push(e);
                self.rounds.cut(false);
            }
        }
    }

    /// Takes one answer of a switch; asks on, or has its ports to tell.
    fn answered(
        &mut self,
        target: Target,
        answer: Answer,
        is_wide: bool,
        failed: Option<String>,
        ended: Result<(), String>,
    ) {
        let is_hung = ended.is_err() && self.began.elapsed() >= self.limit;
        if is_wide && !is_hung && !(ended.is_ok() && answer.is_whole()) {
            // Where it failed, too: only so can be known whether the switch has such counters at all.
            return self.ask(target, Some(answer), ended.err());
        }
        if is_hung {
            // So might the next ones: the round is over, and another begins with them.
            self.rounds.cut(true);
        }
        if answer.has_wide() == Some(false) {
            self.slice.is_narrow(&target.guid);
        }
        let failed = failed.filter(|_| answer.has_wide() != Some(false));
        let why = failed.or(ended.err()).or(answer.fault());
        let readings = readings(&target, &answer);
        self.rounds.asked(!readings.is_empty(), why.is_some());
        self.readings.extend(readings);
        let Some(why) = why else { return };
        self.errors.push(format!(
            "{} ({}): {why}; look at it with: perfquery -x -a -l {}",
            target.name, target.guid, target.lid
        ));
    }

    /// Takes what a program said, once it has ended. False: it is under way.
    fn look(&mut self) -> bool {
        let ended = match &mut self.asked {
            None => return true,
            Some(Asked::Map(map)) => self.ibnetdiscover.look(|bytes| map.feed(bytes)),
            Some(Asked::Switch { answer, .. }) => self.perfquery.look(|bytes| answer.feed(bytes)),
        };
        let Some(ended) = ended else { return false };
        match self.asked.take() {
            Some(Asked::Map(map)) => self.mapped(map, ended),
            Some(Asked::Switch {
                target,
                answer,
                is_wide,
                failed,
            }) => self.answered(target, answer, is_wide, failed, ended),
            None => {}
        }
        self.asked.is_none()
    }
}

impl Probe for SwitchPort {
    fn component(&self) -> &'static str {
        "switch_port"
    }

    fn place(&self) -> String {
        "no switch with a link is in this agent's slice of what ibnetdiscover tells; it is asked less and less often".into()
    }

    fn is_ready(&mut self, pass: &Pass) -> bool {
        if pass.last {
            self.perfquery.end();
            self.ibnetdiscover.end();
            return false;
        }
        let now = Instant::now();
        if !self.look() || !self.rounds.round.is_due(now) {
            return false;
        }
        if self.perfquery.is_leaving() || self.ibnetdiscover.is_leaving() {
            self.rounds.round.next = now + LOOK;
            return false;
        }
        if !self.rounds.is_under_way() && self.begin() {
            return false;
        }
        let switches = self.slice.targets().len();
        // The next switch is asked while this one's ports are told.
        while self.asked.is_none() {
            let Some(place) = self.rounds.switch(switches) else {
                self.rounds
                    .end(switches, !self.errors.is_empty(), Instant::now());
                return true;
            };
            self.ask(self.slice.targets()[place].clone(), None, None);
        }
        !self.readings.is_empty()
    }

    fn due(&self) -> Option<Instant> {
        match self.asked {
            Some(_) => Some(Instant::now() + LOOK),
            None => Some(self.rounds.round.next),
        }
    }

    fn read(&mut self, found: &mut Found) {
        found.readings.append(&mut self.readings);
        found.more = self.rounds.is_under_way();
        if !found.more {
            for error in self.errors.drain(..) {
                found.error(|| error);
            }
        }
    }
}

#[cfg(test)]
#[path = "switch_port_tests.rs"]
mod tests;
