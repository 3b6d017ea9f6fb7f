//! Component `gluster_client`: what the clients of each brick on this node sent to it and got from it, which only commands tell; and, for
//! `gluster_server`, the calls that are under way in it.
//!
//! `gluster volume status VOLUME HOST:PATH …` is asked of this node's own bricks, one command after the other. Gluster's answer about all bricks would
//! be shorter to ask for, but has every server ask every brick, and its `callpool` in XML ends after the first (10.3).

mod answer;
mod bricks;
mod xml;

pub use self::answer::Answer;
use self::answer::Fault;
pub use self::bricks::Brick;
use super::back_off::BackOff;
use super::command::Command;
use super::samples::reading::{Found, Reading};
use super::samples::track::At;
use super::samples::Probe;
use super::Pass;
use crate::config::Config;
use crate::sys;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Looks at a program that runs are so far apart.
const LOOK: Duration = Duration::from_millis(20);
/// How often a brick is asked again whose volume is locked, and the longest pause before that.
const LOCKED_TRIES_MAX: u32 = 8;
const LOCKED_PAUSE_MS_MAX: u64 = 500;
/// For how many periods a count of calls holds.
const CALLS_PERIODS: u32 = 3;

/// Calls under way by brick, and when they were counted: what `gluster_server` tells of them.
#[derive(Clone, Default)]
pub struct Calls(Rc<RefCell<BTreeMap<String, (Instant, u64)>>>);

impl Calls {
    pub fn of(&self, instance: &str) -> Option<u64> {
        let calls = self.0.borrow();
        let (until, count) = calls.get(instance)?;
        (*until > Instant::now()).then_some(*count)
    }

    pub fn set(&self, instance: String, until: Instant, count: u64) {
        self.0.borrow_mut().insert(instance, (until, count));
    }

    fn keep(&self, bricks: &[Brick]) {
        let is_there = |name: &String| bricks.iter().any(|brick| brick.instance() == *name);
        self.0.borrow_mut().retain(|name, _| is_there(name));
    }
}

/// What is asked of a brick.
#[derive(Clone)]
struct Ask {
    brick: Brick,
    what: &'static str,
    tries: u32,
}

const CLIENTS: &str = "clients";
const CALLPOOL: &str = "callpool";

/// Owned by the agent's thread; bounded by the bricks and their connections. At its end the command is killed.
pub struct GlusterClient {
    glusterd: PathBuf,
    command: Command,
    period: Duration,
    calls: Calls,
    /// A round is under way.
    is_asking: bool,
    to_ask: VecDeque<Ask>,
    asked: Option<(Ask, Answer)>,
    /// What this round has told.
    readings: Vec<Reading>,
    errors: Vec<String>,
    answers: u32,
    /// When all connections of a brick were known last.
    known: BTreeMap<Brick, At>,
    /// Rounds in which nothing answered come later each time.
    rounds: BackOff,
}

impl GlusterClient {
    pub fn new(config: &Config, calls: &Calls) -> GlusterClient {
        let stats = config.under_root(&config.gluster_server_stats);
        let limit = Duration::from_secs(config.gluster_client_timeout_s);
        GlusterClient {
            glusterd: stats.parent().unwrap_or(Path::new("/")).to_path_buf(),
            command: Command::new(config.gluster_client_command.clone(), limit),
            period: Duration::from_secs(config.gluster_client_period_s),
            calls: calls.clone(),
            is_asking: false,
            to_ask: VecDeque::new(),
            asked: None,
            readings: Vec::new(),
            errors: Vec::new(),
            answers: 0,
            known: BTreeMap::new(),
            rounds: BackOff::every(Duration::from_secs(config.gluster_client_period_s)),
        }
    }

    /// Begins a round.
    fn begin(&mut self) {
        self.is_asking = true;
        self.answers = 0;
        let bricks = bricks::own(&self.glusterd).unwrap_or_else(|e| {
            self.errors.push(e);
            Vec::new()
        });
        self.known.retain(|brick, _| bricks.contains(brick));
        self.calls.keep(&bricks);
        self.to_ask = bricks
            .into_iter()
            .flat_map(|brick| [CLIENTS, CALLPOOL].map(|what| (brick.clone(), what)))
            .map(|(brick, what)| Ask {
                brick,
                what,
                tries: 0,
            })
            .collect();
    }

    /// Begins to ask what comes next.
    fn ask(&mut self, ask: Ask) {
        let name = ask.brick.name();
        // Nothing of it goes into the command's own log.
        #[rustfmt::skip]
        let arguments = [
            "--mode=script", "--xml", "--log-file=/dev/null", "--log-level=NONE",
            "volume", "status", &ask.brick.volume, &name, ask.what,
        ];
        match self.command.start(&arguments) {
            Ok(()) => self.asked = Some((ask.clone(), Answer::of(&ask.brick))),
            Err(e) => {
                // What cannot be started will not be for the others either.
                self.errors.push(e);
                self.to_ask.clear();
            }
        }
    }

    /// Takes the answer to what was asked, which is all there.
    fn answered(&mut self, ask: Ask, mut answer: Answer, ended: Result<(), String>, at: At) {
        let fault = match ended {
            Err(e) => Some(Fault::Other(e)),
            Ok(()) => answer.fault(),
        };
        if fault == Some(Fault::Locked) && ask.tries < LOCKED_TRIES_MAX {
            let tries = ask.tries + 1;
            self.to_ask.push_front(Ask { tries, ..ask });
            // Of any length, so that two nodes do not meet again.
            let pause = sys::random_u64().map_or(LOCKED_PAUSE_MS_MAX, |n| n % LOCKED_PAUSE_MS_MAX);
            let pause = Duration::from_millis(pause);
            self.rounds.next = Instant::now() + pause;
            return;
        }
        match ask.what {
            CLIENTS => {
                let since = self.known.get(&ask.brick).copied();
                self.readings.extend(answer.readings(at, since));
                if fault.is_none() {
                    self.known.insert(ask.brick.clone(), at);
                }
            }
            _ => {
                if let Some(count) = answer.calls() {
                    let until = Instant::now() + CALLS_PERIODS * self.period;
                    self.calls.set(ask.brick.instance(), until, count);
                }
            }
        }
        let why = match fault {
            None => {
                self.answers += 1;
                return;
            }
            Some(Fault::Locked) => "another command held the volume's lock".into(),
            Some(Fault::Other(why)) => why,
        };
        let (volume, name) = (&ask.brick.volume, ask.brick.name());
        self.errors.push(format!(
            "{why}; look at it with: gluster volume status {volume} {name} {}",
            ask.what
        ));
    }

    /// Ends the round.
    fn end(&mut self) {
        self.is_asking = false;
        match self.answers == 0 && !self.errors.is_empty() {
            true => self.rounds.failed(Instant::now()),
            false => self.rounds.worked(),
        }
    }
}

impl Probe for GlusterClient {
    fn component(&self) -> &'static str {
        "gluster_client"
    }

    fn place(&self) -> String {
        format!(
            "no started volume in {}/vols has a brick on this host",
            self.glusterd.display()
        )
    }

    fn is_ready(&mut self, pass: &Pass) -> bool {
        if pass.last {
            self.command.end();
            return false;
        }
        if let Some((_, answer)) = &mut self.asked {
            let Some(ended) = self.command.look(|bytes| answer.feed(bytes)) else {
                return false;
            };
            if let Some((ask, answer)) = self.asked.take() {
                self.answered(ask, answer, ended, At::of(&pass.now));
            }
        }
        if !self.rounds.is_due(Instant::now()) {
            return false;
        }
        if self.command.is_leaving() {
            self.rounds.next = Instant::now() + LOOK;
            return false;
        }
        if !self.is_asking {
            self.begin();
        }
        if let Some(ask) = self.to_ask.pop_front() {
            self.ask(ask);
            return false;
        }
        self.end();
        true
    }

    fn due(&self) -> Option<Instant> {
        match self.asked {
            Some(_) => Some(Instant::now() + LOOK),
            None => Some(self.rounds.next),
        }
    }

    fn read(&mut self, found: &mut Found) {
        found.readings.append(&mut self.readings);
        for error in self.errors.drain(..) {
            found.error(|| error);
        }
    }
}

#[cfg(test)]
#[path = "gluster_client_tests.rs"]
mod tests;
