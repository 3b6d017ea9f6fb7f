//! The real binary, with a small server, killed and restarted.

use flate2::read::ZlibDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracepack::first_pass::{Limits, Outcome, Segment};
use tracepack::record::{Operation, LATENCY_BOUNDS_NS};
use tracepack::ring::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn temp_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stores events by (boot, seq): what comes twice must be the same.
#[derive(Clone)]
struct Server {
    address: String,
    stored: Arc<Mutex<BTreeMap<(String, u64), Value>>>,
}

impl Server {
    fn start() -> Server {
        Self::start_at("127.0.0.1:0")
    }

    fn start_at(address: &str) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self::at(address, move || listener.accept().unwrap().0)
    }

    /// On a Unix socket in `dir`, which may be deeper than an address is long.
    fn start_in(dir: &Path) -> Server {
        let handle = fs::File::open(dir).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&handle);
        let listener = UnixListener::bind(format!("/proc/self/fd/{fd}/ingest.sock")).unwrap();
        let address = format!("unix:{}", dir.join("ingest.sock").display());
        Self::at(address, move || listener.accept().unwrap().0)
    }

    /// Serves one connection after the other.
    fn at<S: Read + Write>(address: String, accept: impl Fn() -> S + Send + 'static) -> Server {
        let stored = Arc::default();
        let server = Server { address, stored };
        let own = server.clone();
        std::thread::spawn(move || loop {
            let _ = own.serve(accept()); // ends with its client
        });
        server
    }

    fn serve(&self, mut stream: impl Read + Write) -> io::Result<()> {
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

    fn events(&self, kind: &str) -> Vec<Value> {
        let stored = self.stored.lock().unwrap();
        stored
            .values()
            .filter(|e| e["kind"] == kind)
            .cloned()
            .collect()
    }

    fn operations(&self) -> u64 {
        let runs = self.events("run");
        runs.iter()
            .filter(|e| e["op"] != "start")
            .map(|e| e["count"].as_u64().unwrap())
            .sum()
    }
}

/// A program: a child that only waits, and the ring that it would write, mapped as it would map it.
struct Program {
    child: Child,
    path: PathBuf,
    segment: Segment,
    limits: Limits,
    map: *mut libc::c_void,
}

impl Program {
    fn start(rings: &Path) -> Program {
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
    fn operate(&self, number: u64) {
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
    fn operate_steadily(&self, number: u64) {
        self.record(Operation {
            start: if number % 10 == 0 { 2_000_000 } else { 5 },
            handle: 4,
            op: 1,
            ..Operation::default()
        });
    }

    /// Records an operation that ends now, `o.start` ns after its start.
    fn record(&self, o: Operation) {
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

    fn end(&mut self) {
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
fn operations_of_ms(run: &Value) -> u64 {
    let all_slow = run["slow_ns"].as_u64().unwrap() >= 1_000_000;
    match run.get("latency") {
        Some(latency) => latency[3].as_u64().unwrap(),
        None if all_slow => run["count"].as_u64().unwrap(),
        None => 0,
    }
}

fn agent(dir: &Path, server: &str, more: &[&str]) -> Command {
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

fn terminate(child: &mut Child) -> Option<i32> {
    // SAFETY: a child of ours that was not waited for yet.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    child.wait().unwrap().code()
}

#[test]
fn nothing_is_lost_or_doubled_when_the_agent_is_killed_again_and_again() {
    let dir = temp_dir("killed");
    fs::create_dir(dir.join("rings")).unwrap();
    let server = Server::start();
    let mut program = Program::start(&dir.join("rings"));
    // Open runs are shipped at nearly every look.
    let config = dir.join("agent.toml");
    fs::write(&config, "window_ms = 10\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let mut done = 0;
    for round in 0..12u64 {
        let mut child = agent(&dir, &server.address, &config).spawn().unwrap();
        // Killed at another moment in each round, while the program goes on.
        let alive = Duration::from_millis(15 + 37 * (round % 5));
        let begin = Instant::now();
        while begin.elapsed() < alive {
            for _ in 0..20 {
                program.operate(done);
                program.operate_steadily(done);
                done += 1;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = agent(&dir, &server.address, &config).spawn().unwrap();
    program.end();
    let uid_dir = program.path.parent().unwrap().to_path_buf();
    let event = r#"{"event":"end","job":"j","launch":"l","time":1,"exit_code":0}"#;
    fs::write(uid_dir.join("end.tmp"), event).unwrap();
    fs::rename(uid_dir.join("end.tmp"), uid_dir.join("end.job")).unwrap();
    until("the job's end", || !server.events("job").is_empty());
    // Settled: the end comes after everything that the process did.
    assert_eq!(server.operations(), 2 * done);
    assert_eq!(terminate(&mut child), Some(0));
    assert_eq!(server.operations(), 2 * done);
    let runs = server.events("run");
    let pieces: Vec<&Value> = runs.iter().filter(|e| e["op"] == "read").collect();
    assert!(pieces.len() > 1, "the steady run came in pieces");
    let slow: u64 = pieces.iter().map(|e| operations_of_ms(e)).sum();
    assert_eq!(slow, done.div_ceil(10));
    let starts = server
        .events("run")
        .iter()
        .filter(|e| e["op"] == "start")
        .count();
    assert_eq!(starts, 1);
    let stored = server.stored.lock().unwrap();
    let seqs: Vec<u64> = stored.keys().map(|k| k.1).collect();
    assert_eq!(
        seqs,
        (1..=seqs.len() as u64).collect::<Vec<_>>(),
        "one boot, no gap"
    );
    assert!(!program.path.exists() && !uid_dir.join("end.job").exists());
}

#[test]
fn a_server_that_is_away_for_a_while_gets_everything_later() {
    let dir = temp_dir("away");
    fs::create_dir(dir.join("rings")).unwrap();
    let mut program = Program::start(&dir.join("rings"));
    let nobody = nobody();
    let mut child = agent(&dir, &nobody, &[]).spawn().unwrap();
    (0..500).for_each(|i| program.operate(i));
    program.end();
    until("the ring's removal", || !program.path.exists());
    assert_eq!(
        terminate(&mut child),
        Some(0),
        "it ends in time although it cannot ship"
    );
    let not_shipped = agent(&dir, &nobody, &["--once"]).status().unwrap();
    assert_eq!(not_shipped.code(), Some(4));
    let server = Server::start();
    assert_eq!(
        agent(&dir, &server.address, &["--once"])
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
    assert_eq!(server.operations(), 500);
    // The first sample may tell of a part only.
    let samples = server.events("sample");
    let own = samples.iter().filter(|e| e["component"] == "agent");
    let seen: u64 = own.filter_map(|e| e["values"]["seen"].as_u64()).sum();
    assert_eq!(seen, 500);
}

#[test]
fn a_socket_takes_the_records_however_long_its_path_is() {
    let dir = temp_dir("socket");
    let state = dir.join("d".repeat(120)).join("state");
    fs::create_dir_all(&state).unwrap();
    fs::create_dir(dir.join("rings")).unwrap();
    let program = Program::start(&dir.join("rings"));
    (0..500).for_each(|i| program.operate(i));
    let address = format!("unix:{}", state.join("ingest.sock").display());
    let away = agent(&dir, &address, &["--once"]).status().unwrap();
    assert_eq!(away.code(), Some(4), "nobody listens yet");
    let server = Server::start_in(&state);
    assert_eq!(server.address, address);
    let shipped = agent(&dir, &address, &["--once"]).status().unwrap();
    assert_eq!(shipped.code(), Some(0));
    assert_eq!(server.operations(), 500);
}

#[test]
fn a_server_that_is_away_at_the_start_is_worth_a_word_and_a_warning_only_later() {
    let dir = temp_dir("first-word");
    fs::create_dir(dir.join("rings")).unwrap();
    let said = dir.join("said");
    let mut child = agent(&dir, &nobody(), &[])
        .stderr(fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let tried = || {
        fs::read_to_string(&said)
            .unwrap()
            .matches(": server ")
            .count()
    };
    while tried() < 2 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(terminate(&mut child), Some(0));
    let said = fs::read_to_string(&said).unwrap();
    let tries: Vec<&str> = said.lines().filter(|l| l.contains(": server ")).collect();
    assert!(tries[0].starts_with("bellrock-agent: info: "), "{said}");
    assert!(tries[1].starts_with("bellrock-agent: warning: "), "{said}");
}

/// Resident pages of files that cannot be written: code and constants, KiB.
fn resident_file_kib(pid: u32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut sum, mut counts) = (0, false);
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, mode, _, _, _, path] => counts = !mode.contains('w') && path.starts_with('/'),
            ["Rss:", kib, _] if counts => sum += kib.parse::<u64>().unwrap(),
            _ => {}
        }
    }
    sum
}

#[test]
fn what_only_the_start_needed_is_let_go() {
    let dir = temp_dir("pages");
    fs::create_dir(dir.join("rings")).unwrap();
    let server = Server::start();
    let mut program = Program::start(&dir.join("rings"));
    let mut child = agent(&dir, &server.address, &[]).spawn().unwrap();
    let mut most = 0;
    until("fewer resident pages", || {
        let now = resident_file_kib(child.id());
        most = most.max(now);
        now < most * 9 / 10
    });
    // It works on.
    (0..100).for_each(|i| program.operate(i));
    program.end();
    until("the ring's removal", || !program.path.exists());
    assert_eq!(terminate(&mut child), Some(0));
    assert_eq!(server.operations(), 100);
}

#[test]
fn a_spool_that_could_not_be_written_is_told_when_it_can() {
    let dir = temp_dir("unwritable");
    fs::create_dir(dir.join("rings")).unwrap();
    let config = dir.join("agent.toml");
    let settings = "segment_max_bytes = 65536\nbatch_max_events = 64\nsample_period_s = 1\n";
    fs::write(&config, settings).unwrap();
    let server = Server::start();
    let mut program = Program::start(&dir.join("rings"));
    let mut command = agent(
        &dir,
        &server.address,
        &["--config", config.to_str().unwrap()],
    );
    let log = fs::File::create(dir.join("log")).unwrap();
    let mut child = command.stderr(log).spawn().unwrap();
    let said = |what: &str| fs::read_to_string(dir.join("log")).unwrap().contains(what);
    let spool = dir.join("spool");
    until("the spool", || spool.join("0000000000000001.seg").exists());
    // The next segment cannot be begun.
    let in_the_way = spool.join("0000000000000002.seg");
    fs::create_dir(&in_the_way).unwrap();
    let mut done = 0u64;
    until("a segment that cannot be begun", || {
        for _ in 0..300 {
            program.operate(done);
            done += 1;
        }
        said("Is a directory")
    });
    fs::remove_dir(&in_the_way).unwrap();
    until("the word that it can be written", || {
        said("written again after")
    });
    program.end();
    until("the ring's removal", || !program.path.exists());
    assert_eq!(terminate(&mut child), Some(0));
    assert_eq!(server.operations(), done);
    let samples = server.events("sample");
    let sum = |name: &str| -> u64 {
        let values = samples.iter().map(|e| e["values"][name].as_u64().unwrap());
        values.sum()
    };
    assert!(sum("spool_full_seconds") > 0 && sum("spool_errors") > 0);
}

#[test]
fn a_full_spool_stops_the_reading_and_loses_nothing() {
    let dir = temp_dir("full");
    fs::create_dir(dir.join("rings")).unwrap();
    let settings = "spool_max_bytes = 1048576\nsegment_max_bytes = 65536\nbatch_max_events = 64\n";
    let config = dir.join("agent.toml");
    fs::write(&config, settings).unwrap();
    let more = ["--config", config.to_str().unwrap()];
    let mut program = Program::start(&dir.join("rings"));
    let nobody = nobody();
    let mut child = agent(&dir, &nobody, &more).spawn().unwrap();
    let spool_bytes = || -> u64 {
        let length =
            |file: io::Result<fs::DirEntry>| file.unwrap().metadata().map_or(0, |m| m.len());
        fs::read_dir(dir.join("spool")).map_or(0, |files| files.map(length).sum())
    };
    let mut done = 0u64;
    until("a full spool", || {
        for _ in 0..300 {
            program.operate(done);
            done += 1;
        }
        spool_bytes() > 1_000_000
    });
    // Now the ring fills and operations fold, for longer than a time may lie ahead of a look at the clock.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1500) {
        program.operate(done);
        done += 1;
        std::thread::sleep(Duration::from_micros(100));
    }
    assert!(spool_bytes() <= 1_048_576 + 64);
    let server = Server::start_at(&nobody);
    program.end();
    until("the ring's removal", || !program.path.exists());
    assert_eq!(terminate(&mut child), Some(0));
    assert_eq!(server.operations(), done);
    let runs = server.events("run");
    assert!(
        runs.iter().any(|e| e["flags"].as_u64().unwrap() & 1 == 1),
        "some were folded"
    );
    let samples = server.events("sample");
    let sum = |name: &str| -> u64 {
        samples
            .iter()
            .map(|e| e["values"][name].as_u64().unwrap())
            .sum()
    };
    assert_eq!(
        (sum("clamped_times"), sum("bad_runs"), sum("seen")),
        (0, 0, done)
    );
    assert!(sum("spool_full_seconds") > 0 && sum("folded") > 0);
}

/// An address where nobody listens any more.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn flags_settings_and_exit_codes() {
    let dir = temp_dir("flags");
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_bellrock-agent"))
            .args(args)
            .output()
            .unwrap()
    };
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Examples:"));
    assert!(run(&["--version"]).status.success());
    assert!(run(&["--check"]).status.success());
    for (args, told) in [
        (vec!["--nonsense"], "--help"),
        (vec!["--server", "192.0.2.1:5044", "--check"], "server"),
        (vec!["--config", "/nonexistent", "--check"], "/nonexistent"),
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(told), "{}", text(&output));
    }
    // A FIFO would be waited for.
    let fifo = dir.join("fifo");
    assert!(Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap()
        .success());
    let output = run(&["--print", "--lwfs-log", fifo.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("no regular file"),
        "{}",
        text(&output)
    );
    // A zone that cannot be read matters to logs alone, and does not keep the agent from starting.
    let mut without_zone = Command::new(env!("CARGO_BIN_EXE_bellrock-agent"));
    without_zone.env("TZ", "Mars/Olympus").arg("--check");
    let output = without_zone.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(!text(&output).contains("UTC"), "{}", text(&output));
    let output = without_zone.args(["--lwfs-log", "/a"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("UTC"), "{}", text(&output));
    let config = dir.join("agent.toml");
    fs::write(&config, "spool_max_byte = 1\n").unwrap();
    let output = run(&["--config", config.to_str().unwrap(), "--check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("spool_max_byte"),
        "{}",
        text(&output)
    );
    let output = run(&["--spool", "/proc/nowhere", "--once"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    // One agent a spool.
    let mut first = agent(&dir, "127.0.0.1:9", &[]).spawn().unwrap();
    until("the first agent's lock", || {
        fs::read_to_string(dir.join("spool/lock")).is_ok_and(|t| t.ends_with('\n'))
    });
    let second = agent(&dir, "127.0.0.1:9", &[])
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    assert!(
        text(&second).contains(&first.id().to_string()),
        "{}",
        text(&second)
    );
    assert_eq!(terminate(&mut first), Some(0));
}

#[test]
fn under_a_root_it_reads_a_capture() {
    let root = temp_dir("root");
    let rings = root.join("dev/shm/bellrock");
    fs::create_dir_all(&rings).unwrap();
    fs::create_dir(root.join("proc")).unwrap();
    let program = Program::start(&rings); // it lives, but the capture's /proc knows no such process
    (0..5).for_each(|i| program.operate(i));
    let server = Server::start();
    let status = Command::new(env!("CARGO_BIN_EXE_bellrock-agent"))
        .arg("--root")
        .arg(&root)
        .arg("--spool")
        .arg(root.join("spool"))
        .args(["--server", &server.address, "--once"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(server.operations(), 5);
    assert!(!program.path.exists());
}
