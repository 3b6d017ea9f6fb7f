//! Flags, settings, exit codes.

use crate::harness::*;
use std::fs;
use std::process::{Command, Output, Stdio};

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
