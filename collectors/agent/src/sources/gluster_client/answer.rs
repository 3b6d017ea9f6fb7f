//! What `gluster --xml volume status VOLUME HOST:PATH clients` and `… callpool` say of one brick.

use super::bricks::Brick;
use super::xml::Xml;
use crate::sources::samples::reading::{Range, Reading};
use crate::sources::samples::text::{number, quote};
use crate::sources::samples::track::At;
use std::collections::BTreeMap;

/// Connections of a brick.
pub const CONNECTIONS_MAX: usize = 4096;
const ADDRESS_BYTES_MAX: usize = 128;
/// By which glusterd says that somebody else holds the volume's lock.
const LOCKED: &str = "30802";

const NODE: &str = "cliOutput/volStatus/volumes/volume/node";
const CALLS: &str = "cliOutput/volStatus/volumes/volume/node/callpoolStatus";
const CLIENTS: &str = "cliOutput/volStatus/volumes/volume/node/clientsStatus";
const CLIENT: &str = "cliOutput/volStatus/volumes/volume/node/clientsStatus/client";

/// Why an answer does not tell all.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// Another command of the cluster is under way: it can be asked again soon.
    Locked,
    Other(String),
}

/// One connection; the bytes are those since it was made.
#[derive(Debug, PartialEq)]
struct Connection {
    address: String,
    port: String,
    received_bytes: u64,
    sent_bytes: u64,
}

/// An answer as it comes. Owned by its source; bounded by CONNECTIONS_MAX.
pub struct Answer {
    brick: Brick,
    xml: Xml,
    heard: Heard,
}

/// What was understood of it.
#[derive(Default)]
struct Heard {
    result: String,
    errno: String,
    error: String,
    /// Of the brick that it speaks of.
    host: String,
    pid: String,
    /// That brick is the one that was asked of.
    is_own: bool,
    was_named: bool,
    /// Of the client that it speaks of.
    address: String,
    received: String,
    sent: String,
    connections: Vec<Connection>,
    calls: Option<u64>,
    first_bad: Option<String>,
}

impl Answer {
    pub fn of(brick: &Brick) -> Answer {
        Answer {
            brick: brick.clone(),
            xml: Xml::default(),
            heard: Heard::default(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let (heard, brick) = (&mut self.heard, &self.brick);
        self.xml
            .feed(bytes, &mut |path, text| heard.take(brick, path, text));
    }

    /// Why this is not all that there is to be told.
    pub fn fault(&self) -> Option<Fault> {
        let heard = &self.heard;
        let other = |text: String| Some(Fault::Other(text));
        match heard.result.as_str() {
            "" | "0" => {}
            _ if heard.errno == LOCKED => return Some(Fault::Locked),
            _ => return other(heard.error.clone()),
        }
        match (self.xml.finish(), &heard.first_bad, heard.was_named) {
            (Err(e), _, _) => other(e),
            (_, Some(bad), _) => other(bad.clone()),
            (_, _, false) => other("it does not tell of this brick".into()),
            _ => None,
        }
    }

    /// Calls under way in the brick, without the one that asked.
    pub fn calls(&self) -> Option<u64> {
        self.heard.calls.map(|count| count.saturating_sub(1))
    }

    /// A reading of each client, its connections added up. `since`: when all of the brick's connections were known; those that are new began later.
    pub fn readings(&mut self, at: At, since: Option<At>) -> Vec<Reading> {
        let heard = &mut self.heard;
        // One that is there twice is written into another's lines.
        heard
            .connections
            .sort_by(|a, b| (&a.address, &a.port).cmp(&(&b.address, &b.port)));
        heard
            .connections
            .dedup_by(|a, b| (&a.address, &a.port) == (&b.address, &b.port));
        let mut all: BTreeMap<&str, Reading> = BTreeMap::new();
        for connection in &heard.connections {
            let reading = all.entry(&connection.address).or_insert_with(|| {
                let instance = format!("{} {}", self.brick.instance(), connection.address);
                let mut reading = Reading::new(instance);
                (reading.time_ns, reading.since) = (Some(at.utc_ns), since);
                reading
            });
            // A brick that began anew has other connections, even from the same ports.
            reading.part(&format!("{} {}", heard.pid, connection.port));
            reading.counter(
                "received_bytes",
                connection.received_bytes,
                Range::Bits64,
                1,
            );
            reading.counter("sent_bytes", connection.sent_bytes, Range::Bits64, 1);
        }
        all.into_values().collect()
    }
}

impl Heard {
    /// One element that ended.
    fn take(&mut self, brick: &Brick, path: &str, text: &str) {
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let place = match (parent, name) {
            ("cliOutput", "opRet") => &mut self.result,
            ("cliOutput", "opErrno") => &mut self.errno,
            ("cliOutput", "opErrstr") => {
                self.error = quote(text.as_bytes());
                return;
            }
            (NODE, "hostname") => &mut self.host,
            (NODE, "path") => {
                self.is_own = text == brick.path && self.host == brick.host;
                self.was_named |= self.is_own;
                return;
            }
            (NODE, "pid") => &mut self.pid,
            (CLIENT, "hostname") => &mut self.address,
            (CLIENT, "bytesRead") => &mut self.received,
            (CLIENT, "bytesWrite") => &mut self.sent,
            (CLIENTS, "client") => return self.client(),
            (CALLS, "count") => return self.count(text),
            _ if path == NODE => {
                self.is_own = false;
                &mut self.host
            }
            _ => return,
        };
        text.clone_into(place);
    }

    fn bad(&mut self, what: String) {
        self.first_bad.get_or_insert(what);
    }

    fn count(&mut self, text: &str) {
        match number(text.as_bytes()) {
            Some(count) if self.is_own => self.calls = Some(count),
            Some(_) => {}
            None => self.bad(format!(
                "count: expected a whole number, found {}",
                quote(text.as_bytes())
            )),
        }
    }

    fn client(&mut self) {
        let [address, received, sent] =
            [&mut self.address, &mut self.received, &mut self.sent].map(std::mem::take);
        if !self.is_own {
            return;
        }
        let numbers = (number(received.as_bytes()), number(sent.as_bytes()));
        let (Some(received_bytes), Some(sent_bytes), true) =
            (numbers.0, numbers.1, is_address(&address))
        else {
            let found = format!("{address} {received} {sent}");
            return self.bad(format!(
                "expected a client's address, bytesRead and bytesWrite, found {}",
                quote(found.as_bytes())
            ));
        };
        if self.connections.len() == CONNECTIONS_MAX {
            return self.bad(format!(
                "it has more than {CONNECTIONS_MAX} connections; the rest is not told"
            ));
        }
        let (address, port) = match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && number(port.as_bytes()).is_some() => {
                (host, port)
            }
            _ => (address.as_str(), ""),
        };
        self.connections.push(Connection {
            address: address.into(),
            port: port.into(),
            received_bytes,
            sent_bytes,
        });
    }
}

/// A part of an instance's name.
fn is_address(text: &str) -> bool {
    let is_good = |c: char| !c.is_control() && !c.is_whitespace();
    !text.is_empty() && text.len() <= ADDRESS_BYTES_MAX && text.chars().all(is_good)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
