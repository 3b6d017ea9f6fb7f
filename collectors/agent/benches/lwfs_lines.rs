//! How fast LWFS logs are read: lines cut, parsed and merged, against a plain scan for line ends over the same bytes.
//!
//! Prints one JSON object: `lines`, `bytes`, `records`, and the least processor time of each over the turns, `scan_s` and `merge_s`. The two take turns, and each
//! turn's scan is that of the bytes as they lie; what else the machine does only adds.
//! Flags: `--requests-only` (else each request has its reply), `--bench` (from cargo).

use bellrock_agent::sources::log_file::lines::{Lines, Next};
use bellrock_agent::sources::log_file::local_time::{zone, LocalTime};
use bellrock_agent::sources::lwfs_client::trace::Trace;
use bellrock_agent::sys;
use random::Random;
use std::io::Write;

// The library as it is shipped has none.
#[path = "../src/random.rs"]
mod random;

const SEED: u64 = 20_180_910;
const LINES: u64 = 600_000;
const HANDLES: u64 = 128;
const FIRST_HANDLE: u64 = 0x1_200b_d3f0;
/// Lines in each second of the log.
const LINES_PER_S: u64 = 20_000;
/// Of each 100 lines so many are garbage.
const GARBAGE: u64 = 10;
const TURNS: usize = 60;
const WINDOW_NS: u64 = 10_000_000_000;
const TABLE_BYTES: usize = 1 << 20;

/// A log of HANDLES files, each read or written from its start on, one request here and one there; garbage between.
fn log(with_replies: bool) -> Vec<u8> {
    let mut random = Random::new(SEED);
    let mut out = Vec::new();
    let mut offsets = [0u64; HANDLES as usize];
    let (mut lines, mut id) = (0, 18_000);
    for file in 0..HANDLES {
        let handle = FIRST_HANDLE + file * 0xc20;
        writeln!(
            out,
            "[2018-09-10 14:09:59] T OPEN() /User146/run/part.{file} => {handle:#x}"
        )
        .expect("memory does not fail");
        lines += 1;
    }
    while lines < LINES {
        let second = lines / LINES_PER_S;
        let stamp = format!("[2018-09-10 14:{:02}:{:02}]", 10 + second / 60, second % 60);
        if random.below(100) < GARBAGE {
            lines += 1;
            match random.below(4) {
                0 => writeln!(out, "{stamp} T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: {id}: WRITE (0x1200bd3f0, size=1310"),
                1 => writeln!(out, "{stamp} T [client-protocol.c:402:client_ping_timer] remote1: pinging 172.16.0.7, all quiet on this connection"),
                2 => writeln!(out, "\u{fffd}\u{0}\u{7}garbage, as after a node's crash{}", "#".repeat(60)),
                _ => writeln!(out, "{stamp} T [fuse-bridge.c:1967:fuse_readv] lwfs-fuse: {id}: READ (0x12qq, size=18446744073709551616, offset=-1)"),
            }
            .expect("memory does not fail");
            continue;
        }
        let file = random.below(HANDLES);
        let (handle, is_write) = (FIRST_HANDLE + file * 0xc20, file % 2 == 0);
        let size = if file % 3 == 0 { 4096 } else { 131_072 };
        let offset = &mut offsets[file as usize];
        let (name, function) = if is_write {
            ("WRITE", "fuse_writev")
        } else {
            ("READ", "fuse_readv")
        };
        id += 1;
        writeln!(out, "{stamp} T [fuse-bridge.c:1967:{function}] lwfs-fuse: {id}: {name} ({handle:#x}, size={size}, offset={offset})")
            .expect("memory does not fail");
        *offset += size;
        lines += 1;
        if with_replies {
            writeln!(out, "{stamp} T [fuse-bridge.c:1967:{function}_cbk] lwfs-fuse: {id}: {name} => {size}/{size},{offset}/{offset}")
                .expect("memory does not fail");
            lines += 1;
        }
    }
    out
}

/// Reads a log as the agent does, from memory; answers lines and records.
fn merge(log: &[u8]) -> (u64, u64) {
    let clock = LocalTime::new(zone("Asia/Shanghai", "zone").expect("a zone"), 0);
    let mut trace = Trace::new(clock, WINDOW_NS, TABLE_BYTES);
    let mut lines = Lines::default();
    let (mut count, mut records, mut at) = (0, 0, 0);
    loop {
        match lines.next_line() {
            Next::Line(at, text) => {
                count += 1;
                trace.line(at, text);
                if !trace.runs.closed.is_empty() {
                    records += trace.runs.closed.drain(..).count() as u64;
                }
            }
            Next::TooLong(_) => count += 1,
            Next::Nothing if at == log.len() => break,
            Next::Nothing => {
                let room = lines.room();
                let bytes = room.len().min(log.len() - at);
                room[..bytes].copy_from_slice(&log[at..at + bytes]);
                lines.filled(bytes);
                at += bytes;
            }
        }
    }
    trace.stop_waiting();
    trace.runs.close_all();
    (count, records + trace.runs.closed.len() as u64)
}

/// Processor time, since others may want the core too, seconds.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let now_ns = || sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    let began_ns = now_ns();
    let result = std::hint::black_box(work());
    ((now_ns() - began_ns) as f64 * 1e-9, result)
}

fn main() {
    let with_replies = !std::env::args().any(|flag| flag == "--requests-only");
    let log = log(with_replies);
    let (mut scan_s, mut merge_s) = (f64::INFINITY, f64::INFINITY);
    let mut found = (0, 0);
    for _ in 0..TURNS {
        let (took, ends) = timed(|| memchr::memchr_iter(b'\n', std::hint::black_box(&log)).count());
        scan_s = scan_s.min(took);
        let (took, merged) = timed(|| merge(std::hint::black_box(&log)));
        merge_s = merge_s.min(took);
        assert_eq!(merged.0, ends as u64, "every line is read");
        found = merged;
    }
    let (lines, records) = found;
    println!(
        "{{\"lines\": {lines}, \"bytes\": {}, \"records\": {records}, \"scan_s\": {scan_s:.6}, \"merge_s\": {merge_s:.6}}}",
        log.len()
    );
}
