//! The real binary, with a small server, killed and restarted.

mod flags;
mod harness;
mod samples;
#[path = "../../src/scratch.rs"]
mod scratch;
mod spool;
mod steps;

use harness::*;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

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
    let own = server.samples("agent");
    let seen: u64 = own
        .iter()
        .filter_map(|e| e["values"]["seen"].as_u64())
        .sum();
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

/// A server that is connected to, and never says a word.
#[test]
fn a_signal_is_heard_while_it_ships_at_the_end() {
    let dir = temp_dir("heard");
    fs::create_dir(dir.join("rings")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut child = agent(&dir, &address, &["--once"]).spawn().unwrap();
    let mut window = [0; 12];
    let mut stream = listener.accept().unwrap().0;
    stream.read_exact(&mut window).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    until("its wait for the answer", || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "))
    });
    let begin = Instant::now();
    assert_eq!(terminate(&mut child), Some(4));
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}
