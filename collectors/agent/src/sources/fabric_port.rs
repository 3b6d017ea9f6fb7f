//! Component `fabric_port`: what this host's own ports of InfiniBand, Omni-Path, RoCE and iWARP did, from /sys/class/infiniband.

pub mod link;

use self::link::{
    count, describe, mbit_per_s, BITS16, BITS32, BITS4, BITS8, BYTES_PER_MBIT, WORD_BYTES,
};
use super::samples::reading::{Found, Reading};
use super::samples::text::{self, decimal, number, quote};
use super::samples::Probe;
use crate::config::Config;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const PORTS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;
/// A number, or `100 Gb/sec (4X EDR)`.
const FILE_BYTES_MAX: usize = 128;

/// How the kernel writes that a port carries data.
const ACTIVE: &[u8] = b"4:";
/// Of a file that is there for devices that do count it.
const CANNOT: [i32; 2] = [libc::EINVAL, libc::EOPNOTSUPP];

/// A file in a port's folder, the value that it tells, where it ends, and what one is in the value's unit.
struct Column(&'static str, &'static str, u64, u32);

/// What the port itself counts.
#[rustfmt::skip]
const COLUMNS: [Column; 17] = [
    Column("counters/port_xmit_data", "transmit_bytes", BITS32, WORD_BYTES),
    Column("counters/port_rcv_data", "receive_bytes", BITS32, WORD_BYTES),
    Column("counters/port_xmit_packets", "transmit_packets", BITS32, 1),
    Column("counters/port_rcv_packets", "receive_packets", BITS32, 1),
    Column("counters/port_xmit_wait", "transmit_wait", BITS32, 1),
    Column("counters/port_xmit_discards", "transmit_discards", BITS16, 1),
    Column("counters/port_xmit_constraint_errors", "transmit_constraint_errors", BITS8, 1),
    Column("counters/port_rcv_errors", "receive_errors", BITS16, 1),
    Column("counters/port_rcv_remote_physical_errors", "receive_remote_physical_errors", BITS16, 1),
    Column("counters/port_rcv_switch_relay_errors", "receive_switch_relay_errors", BITS16, 1),
    Column("counters/port_rcv_constraint_errors", "receive_constraint_errors", BITS8, 1),
    Column("counters/symbol_error", "symbol_errors", BITS16, 1),
    Column("counters/link_error_recovery", "link_error_recoveries", BITS8, 1),
    Column("counters/link_downed", "link_downed", BITS8, 1),
    Column("counters/local_link_integrity_errors", "local_link_integrity_errors", BITS4, 1),
    Column("counters/excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors", BITS4, 1),
    Column("counters/VL15_dropped", "vl15_dropped", BITS16, 1),
];
/// Of those before, in 64 bits, where an older kernel keeps such apart.
const WIDE: [Column; 4] = [
    Column(
        "counters_ext/port_xmit_data_64",
        "transmit_bytes",
        u64::MAX,
        WORD_BYTES,
    ),
    Column(
        "counters_ext/port_rcv_data_64",
        "receive_bytes",
        u64::MAX,
        WORD_BYTES,
    ),
    Column(
        "counters_ext/port_xmit_packets_64",
        "transmit_packets",
        u64::MAX,
        1,
    ),
    Column(
        "counters_ext/port_rcv_packets_64",
        "receive_packets",
        u64::MAX,
        1,
    ),
];
/// What drivers count of RoCE, mlx5's name and irdma's.
#[rustfmt::skip]
const DRIVERS: [Column; 13] = [
    Column("hw_counters/np_ecn_marked_roce_packets", "congestion_marked_packets", u64::MAX, 1),
    Column("hw_counters/RxECNMrkd", "congestion_marked_packets", u64::MAX, 1),
    Column("hw_counters/np_cnp_sent", "congestion_notifications_sent", u64::MAX, 1),
    Column("hw_counters/cnpSent", "congestion_notifications_sent", u64::MAX, 1),
    Column("hw_counters/rp_cnp_handled", "congestion_notifications_handled", u64::MAX, 1),
    Column("hw_counters/cnpHandled", "congestion_notifications_handled", u64::MAX, 1),
    Column("hw_counters/out_of_sequence", "out_of_sequence_packets", u64::MAX, 1),
    Column("hw_counters/packet_seq_err", "sequence_errors", u64::MAX, 1),
    Column("hw_counters/local_ack_timeout_err", "acknowledgement_timeouts", u64::MAX, 1),
    Column("hw_counters/rnr_nak_retry_err", "receiver_not_ready_errors", u64::MAX, 1),
    Column("hw_counters/out_of_buffer", "out_of_buffer_packets", u64::MAX, 1),
    Column("hw_counters/retransSegs", "retransmitted_segments", u64::MAX, 1),
    Column("hw_counters/tcpRetransSegs", "retransmitted_segments", u64::MAX, 1),
];
/// Of iWARP, whose ports have no other counters: those of IPv4 and IPv6 are added up.
#[rustfmt::skip]
const IWARP: [Column; 8] = [
    Column("hw_counters/ip4OutOctets", "transmit_bytes", u64::MAX, 1),
    Column("hw_counters/ip6OutOctets", "transmit_bytes", u64::MAX, 1),
    Column("hw_counters/ip4InOctets", "receive_bytes", u64::MAX, 1),
    Column("hw_counters/ip6InOctets", "receive_bytes", u64::MAX, 1),
    Column("hw_counters/ip4OutPkts", "transmit_packets", u64::MAX, 1),
    Column("hw_counters/ip6OutPkts", "transmit_packets", u64::MAX, 1),
    Column("hw_counters/ip4InPkts", "receive_packets", u64::MAX, 1),
    Column("hw_counters/ip6InPkts", "receive_packets", u64::MAX, 1),
];

/// Owned by the agent's thread; keeps nothing but a buffer.
pub struct FabricPort {
    devices: PathBuf,
    text: Vec<u8>,
}

impl FabricPort {
    pub fn new(config: &Config) -> FabricPort {
        FabricPort {
            devices: config.under_root("/sys/class/infiniband".as_ref()),
            text: Vec::new(),
        }
    }

    /// All that one port's folder tells.
    fn port(&mut self, folder: &Path, reading: &mut Reading, found: &mut Found) {
        for column in WIDE.iter().chain(&COLUMNS) {
            if !tells(reading, column.1) {
                self.column(folder, column, reading, found);
            }
        }
        let others = match tells(reading, "transmit_bytes") {
            true => &[][..],
            false => &IWARP[..],
        };
        for column in others.iter().chain(&DRIVERS) {
            self.column(folder, column, reading, found);
        }
        if !reading.values.is_empty() {
            let bandwidth = self.bandwidth(folder, found);
            describe(reading, bandwidth);
        }
    }

    /// Adds one counter, if there is such.
    fn column(
        &mut self,
        folder: &Path,
        Column(file, name, top, scale): &Column,
        reading: &mut Reading,
        found: &mut Found,
    ) {
        let path = folder.join(file);
        // So the kernel says that the port counts nothing.
        if !self.take(&path, found) || self.text.starts_with(b"N/A") {
            return;
        }
        match number(self.text.trim_ascii()) {
            Some(raw) => count(reading, file, name, raw, *top, *scale),
            None => self.is_bad(&path, "a whole number", found),
        }
    }

    /// Bytes a second each way; 0: the link is down.
    fn bandwidth(&mut self, folder: &Path, found: &mut Found) -> Option<f64> {
        let (state, rate) = (folder.join("state"), folder.join("rate"));
        if !self.take(&state, found) {
            return None;
        }
        if !self.text.starts_with(ACTIVE) {
            return Some(0.0);
        }
        let is_ethernet =
            self.take(&folder.join("link_layer"), found) && self.text.starts_with(b"Ethernet");
        if !self.take(&rate, found) {
            return None;
        }
        let bandwidth = rate_of(&self.text, is_ethernet);
        if bandwidth.is_none() {
            self.is_bad(&rate, "`100 Gb/sec (4X EDR)`", found);
        }
        bandwidth
    }

    /// Reads a file into `text`. False: there is none, or the device cannot tell.
    fn take(&mut self, path: &Path, found: &mut Found) -> bool {
        let Err(e) = text::read(path, FILE_BYTES_MAX, &mut self.text) else {
            return true;
        };
        let cannot = e.raw_os_error().is_some_and(|code| CANNOT.contains(&code));
        if !cannot && e.kind() != ErrorKind::NotFound {
            found.error(|| format!("{}: {e}; look at it with: cat {0}", path.display()));
        }
        false
    }

    fn is_bad(&self, path: &Path, expected: &str, found: &mut Found) {
        found.error(|| {
            format!(
                "{}: expected {expected}, found {}; look at it with: cat {0}",
                path.display(),
                quote(self.text.trim_ascii())
            )
        });
    }
}

impl Probe for FabricPort {
    fn component(&self) -> &'static str {
        "fabric_port"
    }

    fn place(&self) -> String {
        format!("{}", self.devices.display())
    }

    fn read(&mut self, found: &mut Found) {
        let mut ports = 0;
        for device in names(&self.devices, found) {
            let folder = self.devices.join(&device).join("ports");
            for port in names(&folder, found) {
                ports += 1;
                if ports > PORTS_MAX {
                    let place = self.devices.display();
                    return found.error(|| {
                        format!("{place}: more than {PORTS_MAX} ports; the rest is not told")
                    });
                }
                let mut reading = Reading::new(format!("{device}/{port}"));
                self.port(&folder.join(&port), &mut reading, found);
                if !reading.values.is_empty() {
                    found.readings.push(reading);
                }
            }
        }
    }
}

fn tells(reading: &Reading, name: &str) -> bool {
    reading.values.iter().any(|value| value.name == name)
}

/// What `100 Gb/sec (4X EDR)` stands for, bytes a second. Ethernet is called by the number alone.
fn rate_of(text: &[u8], is_ethernet: bool) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (gbit, link) = text.split_once(" Gb/sec")?;
    let link = link.trim().trim_start_matches('(').trim_end_matches(')');
    // Older kernels do not name the slowest.
    let (width, speed) = link.split_once(' ').unwrap_or((link, "SDR"));
    let known = mbit_per_s(width, speed);
    let mbit = match known.filter(|_| !is_ethernet) {
        Some(known) => known as f64,
        None => decimal(gbit.as_bytes())? * 1000.0,
    };
    Some(mbit * BYTES_PER_MBIT)
}

/// Names in a folder that can be an instance's, in order. No folder: none.
fn names(folder: &Path, found: &mut Found) -> Vec<String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(e) => {
            found.error(|| format!("{}: {e}", folder.display()));
            return Vec::new();
        }
    };
    let is_good = |name: &String| name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
    let names = entries.flatten().take(PORTS_MAX + 1);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(is_good).collect();
    names.sort();
    names
}

#[cfg(test)]
#[path = "fabric_port_tests.rs"]
mod tests;
