//! Events that messages tell of: those that every agent knows (events.toml), and a site's own.
//!
//! A pattern is texts, one after the other; the first begins the message unless `*` stands before it. Regular expressions in their place take a thousand times as long, and what may be read of a log
//! each second is what a storm of messages costs.

use super::line::KERNEL;
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
/// Stands for every program, and in a pattern for any text.
const ANY: char = '*';
/// The kernel's name of a program, which its user chooses. Some of its lines begin with one: what fits into it tells of no event.
const NAMED_BYTES_MAX: usize = 15;

#[derive(Deserialize)]
struct File {
    event: Vec<Known>,
}

/// What stands there besides is for people and tests.
#[derive(Deserialize)]
struct Known {
    name: String,
    severity: u8,
    programs: Vec<String>,
    patterns: Vec<String>,
}

/// One event: how it is told.
pub struct Event {
    pub name: String,
    /// What its messages have where the log does not tell.
    pub severity: u8,
    /// Who may tell it; empty: anyone, as a site's own.
    programs: Vec<String>,
    patterns: Vec<Pattern>,
}

struct Pattern {
    /// The first part begins the text.
    is_begin: bool,
    parts: Vec<Finder<'static>>,
}

impl Pattern {
    fn new(pattern: &str) -> Pattern {
        let parts = pattern.split(ANY).filter(|part| !part.is_empty());
        Pattern {
            is_begin: !pattern.starts_with(ANY),
            parts: parts.map(|part| Finder::new(part).into_owned()).collect(),
        }
    }

    /// Where in a text the last of its parts ends, if all are there, one after the other.
    fn end(&self, text: &[u8]) -> Option<usize> {
        let mut end = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let rest = &text[end..];
            let at = match index == 0 && self.is_begin {
                true => rest.starts_with(part.needle()).then_some(0),
                false => part.find(rest),
            }?;
            end += at + part.needle().len();
        }
        Some(end)
    }
}

impl Event {
    fn new(name: String, severity: u8, programs: Vec<String>, patterns: &[String]) -> Event {
        Event {
            name,
            severity,
            programs,
            patterns: patterns.iter().map(|p| Pattern::new(p)).collect(),
        }
    }

    fn is_told(&self, program: &[u8], text: &[u8]) -> bool {
        let is_anyones = self.programs.is_empty();
        let is_kernels = !is_anyones && program == KERNEL;
        let named = if is_kernels { NAMED_BYTES_MAX } else { 0 };
        let is_held = |pattern: &Pattern| pattern.end(text).is_some_and(|end| end > named);
        (is_anyones || self.programs.iter().any(|own| own.as_bytes() == program))
            && !(is_kernels && is_of_program(text))
            && self.patterns.iter().any(is_held)
    }
}

/// Whether the kernel says something of a program, `NAME[PID]: …`: the name is its user's choice, and what follows may hold the name of its file.
fn is_of_program(text: &[u8]) -> bool {
    let name = &text[..text.len().min(NAMED_BYTES_MAX + 1)];
    let Some(at) = memchr::memchr(b'[', name) else {
        return false;
    };
    let after = &text[at + 1..];
    let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && after.get(digits) == Some(&b']')
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
        |text: &str| text.len() <= PATTERN_BYTES_MAX && !text.trim_matches(ANY).is_empty();
    if own.len() > OWN_MAX || !own.iter().all(|(n, p)| is_named(n) && is_pattern(p)) {
        return Err(format!(
            "{setting}: expected at most {OWN_MAX} names of a to z, 0 to 9 and _, each with a text of at most {PATTERN_BYTES_MAX} bytes; see agent.sample.toml"
        ));
    }
    Ok(())
}

/// Owned by the source. Finds the event that a message tells of; the default knows none.
#[derive(Default)]
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

    /// All that stands in events.toml.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        name: String,
        what: String,
        severity: u8,
        programs: Vec<String>,
        patterns: Vec<String>,
        lines: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Rows {
        event: Vec<Row>,
    }

    #[test]
    fn every_known_event_is_told_by_its_own_lines() {
        let events = Events::new(&BTreeMap::new());
        let known: Rows = toml::from_str(KNOWN).unwrap();
        assert!(known.event.len() > 20);
        for event in known.event {
            let name = &event.name;
            assert!(event.severity <= 7 && !event.what.is_empty(), "{name}");
            assert!(
                !event.lines.is_empty() && !event.programs.is_empty(),
                "{name}"
            );
            let is_kernels = event.programs.iter().any(|p| p.as_bytes() == KERNEL);
            let is_amid = event.patterns.iter().any(|p| p.starts_with(ANY));
            assert!(
                !(is_kernels && is_amid),
                "{name}: anyone's words may stand amid the kernel's"
            );
            for line in &event.lines {
                let said_by = |program: &str, line: &str| {
                    let found = events.find(program.as_bytes(), line.as_bytes());
                    found.map(|event| event.name.clone())
                };
                let teller = &event.programs[0];
                assert_eq!(said_by(teller, line).as_ref(), Some(name), "{line}");
                assert_eq!(said_by("logger", line), None, "{line}");
                if is_kernels {
                    assert_eq!(said_by(teller, &format!("user's {line}")), None, "{line}");
                }
            }
        }
        for other in [
            "",
            "EXT4-fs (sda2): mounted filesystem",
            "Lustre: Lustre: Build Version: 2.15.4",
            "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
        ] {
            assert!(
                events.find(b"kernel", other.as_bytes()).is_none(),
                "{other}"
            );
        }
    }

    /// Programs are called as their users want, and the kernel names them in what it says of them.
    #[test]
    fn the_name_of_a_program_makes_no_event() {
        let events = Events::new(&BTreeMap::new());
        for name in [
            "EDAC MC: 1 CE x",
            "nfs: server  OK",
            "LustreError: LB",
            ": reinstated",
        ] {
            assert!(name.len() <= NAMED_BYTES_MAX);
            for line in [
                format!("{name}[4711]: segfault at 0 ip 0 sp 0 error 4 in x LBUG[400000+1000]"),
                format!("traps: {name}[4711] general protection fault in I/O error, dev sda[400000+1000]"),
                format!("{name} invoked oom-killer: gfp_mask=0x100cca, order=0, oom_score_adj=0"),
            ] {
                let found = events.find(b"kernel", line.as_bytes());
                assert!(found.is_none(), "{line}: {}", found.unwrap().name);
            }
        }
        // A site may want to know of just these.
        let own = Events::new(&BTreeMap::from([("fault".into(), "*segfault at".into())]));
        assert!(own.find(b"kernel", b"x[4711]: segfault at 0").is_some());
    }

    #[test]
    fn a_sites_own_events_come_first_and_are_anyones() {
        let own = BTreeMap::from([("pump_failed".into(), "*pump *failed".into())]);
        check("syslog_patterns", &own).unwrap();
        let events = Events::new(&own);
        let found = |text: &str| {
            let event = events.find(b"coolingd", text.as_bytes());
            event.map(|event| (event.name.as_str(), event.severity))
        };
        assert_eq!(found("the pump 3 has failed"), Some(("pump_failed", 4)));
        assert_eq!(found("failed: the pump 3"), None);
        let begun = Events::new(&BTreeMap::from([("pump".into(), "pump *failed*".into())]));
        assert!(begun.find(b"coolingd", b"pump 3 failed again").is_some());
        assert!(begun.find(b"sudo", b"bob: said pump 3 failed").is_none());
        let io_error = Events::new(&BTreeMap::from([("ours".into(), "I/O error".into())]));
        let found = io_error
            .find(b"coolingd", b"I/O error, dev sdb, sector 1")
            .unwrap();
        assert_eq!(found.name, "ours");
        for (name, pattern) in [("", "x"), ("Pump", "x"), ("pump", ""), ("pump", "**")] {
            let own = BTreeMap::from([(name.to_string(), pattern.to_string())]);
            assert!(check("syslog_patterns", &own).is_err(), "{name} {pattern}");
        }
    }
}
