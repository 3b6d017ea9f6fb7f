//! Spools that are full or cannot be written.

use crate::harness::*;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

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
    let samples = server.samples("agent");
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
    let samples = server.samples("agent");
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
