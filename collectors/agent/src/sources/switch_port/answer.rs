//! What `perfquery` says of a switch's ports: `-x` counters of 64 bits, without it narrow ones, of which errors often have no others.

use crate::sources::fabric_port::link::{count, BITS16, BITS32, BITS4, BITS8, WORD_BYTES};
use crate::sources::samples::reading::Reading;
use crate::sources::samples::text::{number, quote};

/// A counter as the tool calls it, the value that it tells, where it ends if it is narrow, and what one is in the value's unit.
struct Column(&'static [u8], &'static str, u64, u32);

#[rustfmt::skip]
const COLUMNS: [Column; 18] = [
    Column(b"PortXmitData", "transmit_bytes", BITS32, WORD_BYTES),
    Column(b"PortRcvData", "receive_bytes", BITS32, WORD_BYTES),
    Column(b"PortXmitPkts", "transmit_packets", BITS32, 1),
    Column(b"PortRcvPkts", "receive_packets", BITS32, 1),
    Column(b"PortXmitWait", "transmit_wait", BITS32, 1),
    Column(b"PortXmitDiscards", "transmit_discards", BITS16, 1),
    Column(b"PortXmitConstraintErrors", "transmit_constraint_errors", BITS8, 1),
    Column(b"PortRcvErrors", "receive_errors", BITS16, 1),
    Column(b"PortRcvRemotePhysicalErrors", "receive_remote_physical_errors", BITS16, 1),
    Column(b"PortRcvSwitchRelayErrors", "receive_switch_relay_errors", BITS16, 1),
    Column(b"PortRcvConstraintErrors", "receive_constraint_errors", BITS8, 1),
    Column(b"SymbolErrorCounter", "symbol_errors", BITS16, 1),
    Column(b"LinkErrorRecoveryCounter", "link_error_recoveries", BITS8, 1),
    Column(b"LinkDownedCounter", "link_downed", BITS8, 1),
    Column(b"LocalLinkIntegrityErrors", "local_link_integrity_errors", BITS4, 1),
    Column(b"ExcessiveBufferOverrunErrors", "excessive_buffer_overrun_errors", BITS4, 1),
    Column(b"VL15Dropped", "vl15_dropped", BITS16, 1),
    Column(b"QP1Dropped", "qp1_dropped", BITS16, 1),
];
/// The first ones of these: data, which wide counters always tell.
const DATA: usize = 4;
const WAIT: usize = 4;
const LINE_BYTES_MAX: usize = 256;

/// Of the capabilities that an answer names: there are counters of 64 bits; waiting is counted.
const HAS_WIDE: u32 = 0x0600;
const HAS_WAIT: u32 = 0x1000;

/// One port's counters, in the order of COLUMNS.
#[derive(Clone, Default)]
struct Port {
    number: u8,
    raw: [u64; COLUMNS.len()],
    /// A bit each: it was told; by a wide counter.
    told: u32,
    wide: u32,
}

/// Answers of one switch as they come. Owned by its source; bounded by the ports that were asked of.
pub struct Answer {
    lid: u16,
    ports: Vec<Port>,
    /// Where the port stands of which the text speaks.
    port: Option<usize>,
    is_wide: bool,
    /// What the switch can, once it was told.
    capabilities: Option<u32>,
    line: Vec<u8>,
    fault: Option<String>,
}

impl Answer {
    pub fn of(lid: u16, ports: impl Iterator<Item = u8>) -> Answer {
        let port = |number| Port {
            number,
            ..Port::default()
        };
        Answer {
            lid,
            ports: ports.map(port).collect(),
            port: None,
            is_wide: false,
            capabilities: None,
            line: Vec::new(),
            fault: None,
        }
    }

    /// What follows answers another question.
    pub fn begin(&mut self, is_wide: bool) {
        self.is_wide = is_wide;
        self.port = None;
        self.line.clear();
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES_MAX - self.line.len();
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                let mut line = std::mem::take(&mut self.line);
                self.take(&line);
                line.clear();
                self.line = line;
            }
        }
    }

    /// Whether the switch has counters of 64 bits; none: it was not heard.
    pub fn has_wide(&self) -> Option<bool> {
        self.capabilities.map(|own| own & HAS_WIDE != 0)
    }

    /// Whether wide counters have told everything.
    pub fn is_whole(&self) -> bool {
        self.ports.iter().all(|port| port.wide & 1 << WAIT != 0)
    }

    /// Why the answers so far do not tell all.
    pub fn fault(&self) -> Option<String> {
        let silent = self.ports.iter().find(|port| port.told == 0);
        let silent = silent.map(|port| format!("it does not tell of port {}", port.number));
        self.fault.clone().or(silent)
    }

    /// A reading of each port that was told of; `name`: of the switch.
    pub fn readings(&self, name: &str) -> Vec<(u8, Reading)> {
        let told = self.ports.iter().filter(|port| port.told != 0);
        let reading = |port: &Port| {
            let mut reading = Reading::new(format!("{name}/{}", port.number));
            for (place, Column(_, value, top, scale)) in COLUMNS.iter().enumerate() {
                let top = match port.wide & 1 << place {
                    0 => *top,
                    _ => u64::MAX,
                };
                if port.told & 1 << place != 0 {
                    count(&mut reading, value, value, port.raw[place], top, *scale);
                }
            }
            (port.number, reading)
        };
        told.map(reading).collect()
    }

    fn take(&mut self, line: &[u8]) {
        if line.starts_with(b"# ") {
            self.port = self.head(line);
            if self.port.is_none() {
                self.bad(
                    "`Lid LID port PORT (CapMask: MASK`, of one that was asked of",
                    line,
                );
            }
            return;
        }
        let Some(at) = line.iter().position(|b| *b == b':') else {
            return;
        };
        let known = COLUMNS.iter().position(|column| column.0 == &line[..at]);
        let (Some(place), Some(port)) = (known, self.port) else {
            return;
        };
        let digits = line[at + 1..].trim_ascii_start();
        let dots = digits.iter().take_while(|b| **b == b'.').count();
        let Some(raw) = number(digits[dots..].trim_ascii()) else {
            return self.bad("a counter's name and a whole number", line);
        };
        self.tell(place, port, raw);
    }

    fn tell(&mut self, place: usize, port: usize, raw: u64) {
        let capabilities = self.capabilities.unwrap_or(0);
        // The narrow counters of data of a switch that has wide ones are soon at their end.
        let is_other = !self.is_wide && place < DATA && capabilities & HAS_WIDE != 0;
        let is_void = self.is_wide && capabilities & HAS_WIDE == 0;
        let is_none = !self.is_wide && place == WAIT && capabilities & HAS_WAIT == 0;
        let Some(port) = self
            .ports
            .get_mut(port)
            .filter(|_| !(is_other || is_void || is_none))
        else {
            return;
        };
        let bit = 1 << place;
        if port.wide & bit == 0 {
            (port.raw[place], port.told) = (raw, port.told | bit);
            port.wide |= if self.is_wide { bit } else { 0 };
        }
    }

    /// `# Port extended counters: Lid 2 port 1 (CapMask: 0x1300 CapMask2: 0x0000000)`: where that port stands.
    fn head(&mut self, line: &[u8]) -> Option<usize> {
        let text = std::str::from_utf8(line).ok()?;
        let (_, text) = text.split_once(": Lid ")?;
        let (lid, text) = text.split_once(" port ")?;
        let (port, text) = text.split_once(" (CapMask: 0x")?;
        let mask = text.split([' ', ')']).next()?;
        let capabilities = u32::from_str_radix(mask, 16).ok()?;
        let (lid, port): (u16, u8) = (lid.parse().ok()?, port.parse().ok()?);
        let place = self.ports.iter().position(|own| own.number == port)?;
        let is_own = lid == self.lid;
        self.capabilities = is_own.then_some(capabilities).or(self.capabilities);
        is_own.then_some(place)
    }

    fn bad(&mut self, expected: &str, line: &[u8]) {
        self.fault
            .get_or_insert_with(|| format!("expected {expected}, found {}", quote(line)));
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
