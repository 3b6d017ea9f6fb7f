//! Events that messages tell of: those that every agent knows (events.toml), and a site's own.
//!
//! A pattern is texts, one after the other. Regular expressions in their place take a thousand times as long, and what may be read of a log
//! each second is what a storm of messages costs.

use memchr::memmem::Finder;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Those that every agent knows.
const KNOWN: &str = include_str!("events.toml");
/// Of a setting, and the longest of its names and patterns, bytes.
const OWN_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 255;
/// What a site's own event has for severity where its log does not tell: a warning.
const OWN_SEVERITY: u8 = 4;
/// Stands for every program.
const ANYONE: &str = "*";

#[derive(Deserialize)]
struct File {
    event: Vec<Known>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    name: String,
    #[allow(dead_code)] // for people
    what: String,
    severity: u8,
    programs: Vec<String>,
    patterns: Vec<String>,
    #[cfg_attr(not(test), allow(dead_code))]
    lines: Vec<String>,
}

/// One event: how it is told.
pub struct Event {
    pub name: String,
    /// What its messages have where the log does not tell.
    pub severity: u8,
    /// Who may tell it; empty: anyone.
    programs: Vec<String>,
    patterns: Vec<Vec<Finder<'static>>>,
}

impl Event {
    fn new(name: String, severity: u8, programs: Vec<String>, patterns: &[String]) -> Event {
        let parts = |pattern: &String| {
            let parts = pattern.split('*').filter(|part| !part.is_empty());
            parts.map(|part| Finder::new(part).into_owned()).collect()
        };
        Event {
            name,
            severity,
            programs: programs.into_iter().filter(|p| p != ANYONE).collect(),
            patterns: patterns.iter().map(parts).collect(),
        }
    }

    fn is_told(&self, program: &[u8], text: &[u8]) -> bool {
        (self.programs.is_empty() || self.programs.iter().any(|own| own.as_bytes() == program))
            && self.patterns.iter().any(|parts| holds(parts, text))
    }
}

/// Whether a text holds all parts, one after the other.
fn holds(parts: &[Finder], mut text: &[u8]) -> bool {
    parts.iter().all(|part| match part.find(text) {
        Some(at) => {
            text = &text[at + part.needle().len()..];
            true
        }
        None => false,
    })
}

/// Refuses what cannot be a site's own events.
pub fn check(setting: &str, own: &BTreeMap<String, String>) -> Result<(), String> {
    let is_named = |name: &str| {
        (1..=NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let is_pattern =
        |text: &str| text.len() <= PATTERN_BYTES_MAX && !text.trim_matches('*').is_empty();
    if own.len() > OWN_MAX || !own.iter().all(|(n, p)| is_named(n) && is_pattern(p)) {
        return Err(format!(
            "{setting}: expected at most {OWN_MAX} names of a to z, 0 to 9 and _, each with a text of at most {PATTERN_BYTES_MAX} bytes; see agent.sample.toml"
        ));
    }
    Ok(())
}

/// Owned by the source. Finds the event that a message tells of.
pub struct Events(Vec<Event>);

impl Events {
    /// `own`: a site's, name → pattern.
    pub fn new(own: &BTreeMap<String, String>) -> Events {
        let own = own.iter().map(|(name, pattern)| {
            let patterns = std::slice::from_ref(pattern);
            Event::new(name.clone(), OWN_SEVERITY, Vec::new(), patterns)
        });
        let known: File = toml::from_str(KNOWN).expect("events.toml is as the tests had it");
        let known = known
            .event
            .into_iter()
            .map(|e| Event::new(e.name, e.severity, e.programs, &e.patterns));
        Events(own.chain(known).collect())
    }

    pub fn find(&self, program: &[u8], text: &[u8]) -> Option<&Event> {
        self.0.iter().find(|event| event.is_told(program, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_event_is_told_by_its_own_lines() {
        let events = Events::new(&BTreeMap::new());
        let known: File = toml::from_str(KNOWN).unwrap();
        assert!(known.event.len() > 20);
        for event in known.event {
            let name = &event.name;
            assert!(event.severity <= 7 && !event.what.is_empty(), "{name}");
            assert!(
                !event.lines.is_empty() && !event.programs.is_empty(),
                "{name}"
            );
            for line in &event.lines {
                let said_by = |program: &str| {
                    let found = events.find(program.as_bytes(), line.as_bytes());
                    found.map(|event| event.name.as_str())
                };
                let teller = event.programs[0].as_str();
                assert_eq!(said_by(teller), Some(name.as_str()), "{line}");
                if teller != ANYONE {
                    assert_eq!(said_by("logger"), None, "{line}");
                }
            }
        }
        for other in [
            "",
            "EXT4-fs (sda2): mounted filesystem",
            "Lustre: Lustre: Build Version: 2.15.4",
        ] {
            assert!(
                events.find(b"kernel", other.as_bytes()).is_none(),
                "{other}"
            );
        }
    }

    #[test]
    fn a_sites_own_events_come_first_and_are_anyones() {
        let own = BTreeMap::from([("pump_failed".into(), "pump *failed".into())]);
        check("syslog_patterns", &own).unwrap();
        let events = Events::new(&own);
        let found = |text: &str| {
            let event = events.find(b"coolingd", text.as_bytes());
            event.map(|event| (event.name.as_str(), event.severity))
        };
        assert_eq!(found("the pump 3 has failed"), Some(("pump_failed", 4)));
        assert_eq!(found("failed: the pump 3"), None);
        let io_error = Events::new(&BTreeMap::from([("ours".into(), "I/O error".into())]));
        let found = io_error
            .find(b"kernel", b"I/O error, dev sdb, sector 1")
            .unwrap();
        assert_eq!(found.name, "ours");
        for (name, pattern) in [("", "x"), ("Pump", "x"), ("pump", ""), ("pump", "**")] {
            let own = BTreeMap::from([(name.to_string(), pattern.to_string())]);
            assert!(check("syslog_patterns", &own).is_err(), "{name} {pattern}");
        }
    }
}
