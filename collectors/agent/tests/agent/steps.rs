//! Time from standard input: what is spooled when, and how it ends.

use crate::harness::*;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const START_S: u64 = 1_767_225_600;
const TARGET: &str = "proc/fs/lustre/obdfilter/work-OST0000";
const OFF: &str = "node_period_s = 0\nblock_device_period_s = 0\nlustre_job_period_s = 10\n";

/// An agent on a tree below `dir`.
struct Stepped {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn command(dir: &Path, server: &str, settings: &str) -> Command {
    let (root, config) = (dir.join("root"), dir.join("agent.toml"));
    fs::create_dir_all(root.join(TARGET)).unwrap();
    fs::write(&config, format!("{OFF}{settings}")).unwrap();
    let (root, config) = (root.to_str().unwrap(), config.to_str().unwrap());
    let more = ["--steps", "--root", root, "--config", config];
    let mut command = agent(dir, server, &more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Stepped {
    fn start(dir: &Path, server: &str, settings: &str) -> Stepped {
        let mut child = command(dir, server, settings).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Stepped {
            child,
            input,
            answers: BufReader::new(output),
        }
    }

    /// So many seconds after the start.
    fn step(&mut self, second: u64) {
        let line = format!("{}000000000\n", START_S + second);
        self.input.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, line);
    }

    fn end(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

/// A job has written so many times; or the target has forgotten it.
fn put(dir: &Path, writes: Option<u64>) {
    let job = |writes| {
        let count = format!("{{ samples: {writes}, unit: bytes, min: 1, max: 1, sum: {writes} }}");
        format!(
            "- job_id:          4711\n  snapshot_time:   {writes}\n  write_bytes:     {count}\n"
        )
    };
    let text = format!("job_stats:\n{}", writes.map(job).unwrap_or_default());
    fs::write(dir.join("root").join(TARGET).join("job_stats"), text).unwrap();
}

fn writes(server: &Server) -> u64 {
    let samples = server.samples("lustre_job");
    let values = samples.iter().map(|s| s["values"]["writes"].as_u64());
    values.map(Option::unwrap_or_default).sum()
}

fn spool(dir: &Path) -> PathBuf {
    dir.join("spool/0000000000000001.seg")
}

#[test]
fn what_a_step_found_is_safe_before_a_server_forgets_it() {
    let dir = temp_dir("steps-apart");
    let server = Server::start();
    let mut first = Stepped::start(&dir, &server.address, "");
    put(&dir, Some(1));
    first.step(0);
    put(&dir, Some(6));
    first.step(301);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut second = Stepped::start(&dir, &server.address, "");
    put(&dir, None);
    second.step(1000);
    assert_eq!(second.end(), Some(0));
    assert_eq!(writes(&server), 5);
}

#[test]
fn a_line_that_is_no_time_takes_nothing_along() {
    let dir = temp_dir("steps-line");
    let server = Server::start();
    let mut first = Stepped::start(&dir, &server.address, "");
    put(&dir, Some(1));
    first.step(0);
    put(&dir, Some(6));
    first.step(10);
    first.input.write_all(b"noon\n").unwrap();
    assert_eq!(first.end(), Some(2));
    let mut second = Stepped::start(&dir, &server.address, "");
    put(&dir, None);
    second.step(20);
    assert_eq!(second.end(), Some(0));
    assert_eq!(writes(&server), 5);
}

#[test]
fn streams_that_fail_are_no_wrong_flags() {
    let dir = temp_dir("steps-streams");
    let mut unreadable = command(&dir, &nobody(), "");
    unreadable.stdin(fs::File::open(&dir).unwrap());
    assert_eq!(unreadable.status().unwrap().code(), Some(1));
    let steps = dir.join("steps");
    fs::write(&steps, format!("{START_S}000000000\n")).unwrap();
    let mut unwritable = command(&dir, &nobody(), "");
    unwritable.stdin(fs::File::open(&steps).unwrap());
    unwritable.stdout(fs::File::create("/dev/full").unwrap());
    assert_eq!(unwritable.status().unwrap().code(), Some(1));
}

#[test]
fn a_signal_before_the_first_step_ends_it_as_asked() {
    let dir = temp_dir("steps-none");
    let mut stepped = Stepped::start(&dir, &nobody(), "");
    let lock = dir.join("spool/lock");
    until("its start", || {
        fs::read_to_string(&lock).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(terminate(&mut stepped.child), Some(0));
    assert!(!spool(&dir).exists(), "it looked at no time");
}

#[test]
fn a_signal_during_a_step_leaves_it_without_an_answer() {
    let dir = temp_dir("steps-signal");
    let log: String = (0..300_000)
        .map(|n| format!("[2026-01-01 00:00:01] T READ ({n:#x}, size=4096, offset=0)\n"))
        .collect();
    fs::create_dir(dir.join("root")).unwrap();
    fs::write(dir.join("root/log"), log).unwrap();
    let settings = "lwfs_client_logs = [\"/log\"]\nbatch_max_events = 64\n";
    let mut stepped = Stepped::start(&dir, &nobody(), settings);
    let line = format!("{}000000000\n", START_S + 60);
    stepped.input.write_all(line.as_bytes()).unwrap();
    until("a part of the log in the spool", || spool(&dir).exists());
    assert_eq!(
        terminate(&mut stepped.child),
        Some(4),
        "nobody acknowledged it"
    );
    let mut answers = String::new();
    stepped.answers.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "");
}
