//! What `ibnetdiscover` says of the fabric's switches: their names, and of each port with a link how fast that is.
//!
//! A node says its own name, and in it may stand anything: what is read stands before the first quote, or behind the last.

use crate::sources::fabric_port::link::mbit_per_s;
use crate::sources::samples::text::{number, quote, words};

/// Switches of a fabric.
const SWITCHES_MAX: usize = 16_384;
/// Ports of a switch.
const PORTS_MAX: usize = 254;
/// A node's description has 64 bytes at most; who maps names may give longer ones.
const NAME_BYTES_MAX: usize = 128;
/// Of a line; what is longer is cut, and is none of ours.
const LINE_BYTES_MAX: usize = 1024;

/// One switch; of its ports those with a link, in order, and what it carries each way, Mbit/s. 0: nobody knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    pub guid: u64,
    pub lid: u16,
    pub name: String,
    pub ports: Vec<(u8, u32)>,
}

impl Switch {
    /// As the tools write it.
    pub fn guid_text(&self) -> String {
        format!("{:#018x}", self.guid)
    }
}

/// The text as it comes. Owned by its source; bounded by SWITCHES_MAX.
#[derive(Default)]
pub struct Map {
    line: Vec<u8>,
    row: usize,
    /// Lines that follow tell of its last one's ports.
    is_in_switch: bool,
    switches: Vec<Switch>,
    fault: Option<String>,
}

impl Map {
    pub fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES_MAX - self.line.len();
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                self.row += 1;
                let mut line = std::mem::take(&mut self.line);
                self.take(&line);
                line.clear();
                self.line = line;
            }
        }
    }

    /// All switches in the order of their GUIDs, and what of the text could not be understood. Of one that breaks off none.
    pub fn finish(mut self) -> (Vec<Switch>, Option<String>) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.row += 1;
            self.bad("expected a line's end", &line);
            self.switches.clear();
        }
        self.switches.sort_by_key(|switch| switch.guid);
        let count = self.switches.len();
        self.switches.dedup_by_key(|switch| switch.guid);
        if self.switches.len() < count {
            let fault = "a switch is there twice".to_string();
            self.fault.get_or_insert(fault);
        }
        for switch in &mut self.switches {
            switch.ports.sort();
            switch.ports.dedup_by_key(|(number, _)| *number);
        }
        (self.switches, self.fault)
    }

    fn bad(&mut self, what: &str, line: &[u8]) {
        let row = self.row;
        self.fault
            .get_or_insert_with(|| format!("line {row}: {what}, found {}", quote(line)));
    }

    fn take(&mut self, line: &[u8]) {
        if line.starts_with(b"Switch\t") {
            self.is_in_switch = false;
            match switch(line) {
                Some(_) if self.switches.len() == SWITCHES_MAX => {
                    self.bad(&format!("expected at most {SWITCHES_MAX} switches"), line);
                }
                Some(switch) => {
                    self.is_in_switch = true;
                    self.switches.push(switch);
                }
                None => self.bad(
                    "expected `Switch PORTS \"S-GUID\" # \"NAME\" … lid N`",
                    line,
                ),
            }
        } else if line.starts_with(b"[") {
            let last = self.switches.last_mut().filter(|_| self.is_in_switch);
            let Some(switch) = last else { return };
            match port(line) {
                Some(port) if switch.ports.len() < PORTS_MAX => switch.ports.push(port),
                Some(_) => self.bad(&format!("expected at most {PORTS_MAX} ports"), line),
                None => self.bad(
                    "expected `[PORT] \"NODE\"[PORT] # \"NAME\" lid N SPEED`",
                    line,
                ),
            }
        } else {
            // A host's lines look like a switch's.
            self.is_in_switch = false;
        }
    }
}

/// `Switch⇥36 "S-0002c902400a0b0c"⇥⇥# "leaf1" enhanced port 0 lid 3 lmc 0`, its ports to come.
fn switch(line: &[u8]) -> Option<Switch> {
    let (head, name, tail) = parts(line)?;
    let guid = head.split(|b| *b == b'"').nth(1)?;
    let guid = std::str::from_utf8(guid).ok()?.strip_prefix("S-")?;
    let guid = u64::from_str_radix(guid, 16)
        .ok()
        .filter(|guid| *guid != 0)?;
    let mut lid = words(tail).skip_while(|word| *word != b"lid");
    let lid = lid.nth(1).and_then(number)?;
    Some(Switch {
        guid,
        lid: u16::try_from(lid).ok().filter(|lid| *lid != 0)?,
        name: named(name),
        ports: Vec::new(),
    })
}

/// `[1]⇥"H-0002c903000e0b72"[1](2c903000e0b73) ⇥⇥# "cn1 HCA-1" lid 5 4xEDR`, a port and its link.
fn port(line: &[u8]) -> Option<(u8, u32)> {
    let (_, _, tail) = parts(line)?;
    let end = line.iter().position(|b| *b == b']')?;
    let port = number(&line[1..end]).and_then(|port| u8::try_from(port).ok())?;
    let link = words(tail).nth(2)?;
    let link = std::str::from_utf8(link).ok()?;
    let (width, speed) = link.split_at(link.find('x')? + 1);
    let mbit = mbit_per_s(width, speed).unwrap_or(0);
    (port != 0).then_some((port, mbit))
}

/// What stands before a line's name, in its quotes, and behind it.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let begin = memchr::memmem::find(line, b"# \"")?;
    let name = begin + 3;
    let end = memchr::memrchr(b'"', line).filter(|end| *end >= name)?;
    Some((&line[..begin], &line[name..end], &line[end + 1..]))
}

/// A name that can be a part of an instance's; empty if it cannot.
fn named(name: &[u8]) -> String {
    let text = std::str::from_utf8(name).map(str::trim).unwrap_or_default();
    match text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control) {
        true => text.into(),
        false => String::new(),
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
