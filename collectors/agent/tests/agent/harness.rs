//! A small server, a program that is watched, and the agent between them.

use crate::scratch;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracepack::first_pass::{Limits, Outcome, Segment};
use tracepack::record::{Operation, LATENCY_BOUNDS_NS};
use tracepack::ring::*;

pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn temp_dir(name: &str) -> PathBuf {
    scratch::folder(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent"), name)
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stores events by (boot, seq): what comes twice must be the same.
#[derive(Clone)]
pub struct Server {
    pub address: String,
    pub stored: Arc<Mutex<BTreeMap<(String, u64), Value>>>,
}

impl Server {
    pub fn start() -> Server {
        Self::start_at("127.0.0.1:0")
    }

    pub fn start_at(address: &str) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self::at(address, move || listener.accept().unwrap().0)
    }

    /// On a Unix socket in `dir`, which may be deeper than an address is long.
    pub fn start_in(dir: &Path) -> Server {
        let handle = fs::File::open(dir).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&handle);
        let listener = UnixListener::bind(format!("/proc/self/fd/{fd}/ingest.sock")).unwrap();
        let address = format!("unix:{}", dir.join("ingest.sock").display());
        Self::at(address, move || listener.accept().unwrap().0)
    }

    /// Serves one connection after the other.
    pub fn at<S: Read + Write>(address: String, accept: impl Fn() -> S + Send + 'static) -> Server {
        let stored = Arc::default();
        let server = Server { address, stored };
        let own = server.clone();
        std::thread::spawn(move || loop {
            let _ = own.serve(accept()); // ends with its client
        });
        server
    }

    pub fn serve(&self, mut stream: impl Read + Write) -> io::Result<()> {
        loop {
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            assert_eq!((&head[..2], &head[6..8]), (&b"2W"[..], &b"2C"[..]));
            let length = u32::from_be_bytes(head[8..].try_into().unwrap());
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body)?;
            let mut raw = Vec::new();
            ZlibDecoder::new(&body[..]).read_to_end(&mut raw)?;
            let mut stored = self.stored.lock().unwrap();
            let mut rest = &raw[..];
            while !rest.is_empty() {
                let length = u32::from_be_bytes(rest[6..10].try_into().unwrap()) as usize;
                let event: Value = serde_json::from_slice(&rest[10..10 + length]).unwrap();
                let key = (
                    event["boot"].as_str().unwrap().to_string(),
                    event["seq"].as_u64().unwrap(),
                );
                if let Some(before) = stored.insert(key, event.clone()) {
                    assert_eq!(before, event, "a number was given twice");
                }
                rest = &rest[10 + length..];
            }
            drop(stored);
            stream.write_all(&[&b"2A"[..], &head[2..6]].concat())?;
        }
    }

    pub fn events(&self, kind: &str) -> Vec<Value> {
        let stored = self.stored.lock().unwrap();
        stored
            .values()
            .filter(|e| e["kind"] == kind)
            .cloned()
            .collect()
    }

    /// Samples of a component, in the order in which they were spooled.
    pub fn samples(&self, component: &str) -> Vec<Value> {
        let mut samples = self.events("sample");
        samples.retain(|e| e["component"] == component);
        samples
    }

    pub fn operations(&self) -> u64 {
        let runs = self.events("run");
        runs.iter()
            .filter(|e| e["op"] != "start")
            .map(|e| e["count"].as_u64().unwrap())
            .sum()
    }
}

/// A program: a child that only waits, and the ring that it would write, mapped as it would map it.
pub struct Program {
    pub child: Child,
    pub path: PathBuf,
    segment: Segment,
    limits: Limits,
    map: *mut libc::c_void,
}

impl Program {
    pub fn start(rings: &Path) -> Program {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let ticks: u64 = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .nth(19)
            .unwrap()
            .parse()
            .unwrap();
        let uid = fs::metadata(rings).unwrap().uid();
        let dir = rings.join(uid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{}-{ticks}-1.ring", child.id()));
        let made = path.with_extension("made");
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&made)
            .unwrap();
        file.set_len(segment_at(1) as u64).unwrap();
        // SAFETY: all zeroes are a valid header, and it is written out as bytes; the mapping is as long as the segment.
        let map = unsafe {
            let mut header: Header = std::mem::zeroed();
            header.magic = MAGIC;
            header.version = VERSION;
            header.clock = CLOCK_MONOTONIC;
            (header.pid, header.uid, header.rank, header.segments) =
                (child.id(), uid, -1, 1.into());
            header.pid_start_ticks = ticks;
            header.latency_bounds = LATENCY_BOUNDS_NS;
            header.program[..8].copy_from_slice(b"/bin/cat");
            let bytes = std::slice::from_raw_parts((&raw const header).cast(), size_of::<Header>());
            file.write_all_at(bytes, 0).unwrap();
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(
                std::ptr::null_mut(),
                SEGMENT_SIZE,
                protection,
                libc::MAP_SHARED,
                fd,
                segment_at(0) as i64,
            )
        };
        assert_ne!(map, libc::MAP_FAILED);
        fs::rename(&made, &path).unwrap();
        // SAFETY: a mapping of a whole segment that nobody else writes.
        let segment = unsafe { Segment::new(map.cast()) };
        let limits = Limits::new();
        limits.set(1_000_000_000, 3_600_000_000_000);
        Program {
            child,
            path,
            segment,
            limits,
            map,
        }
    }

    /// One write that merges with no other.
    pub fn operate(&self, number: u64) {
        self.record(Operation {
            offset: number * number,
            size: 1 + number % 7,
            start: 5,
            handle: 3,
            op: 2,
            ..Operation::default()
        });
    }

    /// One read that merges with all others, each tenth a slow one.
    pub fn operate_steadily(&self, number: u64) {
        self.record(Operation {
            start: if number % 10 == 0 { 2_000_000 } else { 5 },
            handle: 4,
            op: 1,
            ..Operation::default()
        });
    }

    /// Records an operation that ends now, `o.start` ns after its start.
    pub fn record(&self, o: Operation) {
        let mut now: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: a valid timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let end = (now.tv_sec * 1_000_000_000 + now.tv_nsec) as u64;
        let start = end - o.start;
        let o = Operation { start, end, ..o };
        if self.segment.record(&o, &self.limits) == Outcome::Full {
            self.segment.record_folding(&o, &self.limits);
        }
    }

    pub fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.map, SEGMENT_SIZE) };
    }
}

/// Operations of a run that took 1 to 10 ms. Without a histogram all are in the slowest one's bucket.
pub fn operations_of_ms(run: &Value) -> u64 {
    let all_slow = run["slow_ns"].as_u64().unwrap() >= 1_000_000;
    match run.get("latency") {
        Some(latency) => latency[3].as_u64().unwrap(),
        None if all_slow => run["count"].as_u64().unwrap(),
        None => 0,
    }
}

pub fn agent(dir: &Path, server: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellrock-agent"));
    command
        .arg("--rings")
        .arg(dir.join("rings"))
        .arg("--spool")
        .arg(dir.join("spool"));
    command
        .args(["--server", server, "--node", "n1"])
        .args(more)
        .stderr(Stdio::null());
    command
}

pub fn terminate(child: &mut Child) -> Option<i32> {
    // SAFETY: a child of ours that was not waited for yet.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    child.wait().unwrap().code()
}

/// An address where nobody listens any more.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
