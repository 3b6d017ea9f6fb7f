//! Programs that end, fail, hang, print without end, leave children: what is said, and that nothing stays.

use super::*;
use crate::testing::temp_dir;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;

const LIMIT: Duration = Duration::from_secs(1);

/// A program that a shell runs.
fn program(text: &str) -> PathBuf {
    let path = temp_dir("command").join("program");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Looks until it has ended; what it printed, how it ended, and how long the longest look took.
fn run(command: &mut Command) -> (Vec<u8>, Result<(), String>, Duration) {
    let (mut printed, mut longest) = (Vec::new(), Duration::ZERO);
    loop {
        let began = Instant::now();
        let ended = command.look(|bytes| printed.extend_from_slice(bytes));
        longest = longest.max(began.elapsed());
        match ended {
            Some(ended) => return (printed, ended, longest),
            None => sleep(Duration::from_millis(2)),
        }
    }
}

fn ask(text: &str, arguments: &[&str]) -> (String, Result<(), String>) {
    let mut command = Command::new(program(text), LIMIT);
    command.start(arguments).unwrap();
    let (printed, ended, longest) = run(&mut command);
    assert!(longest < LIMIT / 2, "a look took {longest:?}");
    (String::from_utf8(printed).unwrap(), ended)
}

/// Waits until a process is no more, or only its number is left.
fn is_gone(pid: &str) -> bool {
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    (0..500).any(|_| {
        let gone = fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        if !gone {
            sleep(Duration::from_millis(10));
        }
        gone
    })
}

#[test]
fn what_a_program_prints_is_given_whole() {
    let (printed, ended) = ask(
        "printf '%s;' \"$@\"; env | sort; nice; cat",
        &["a b", "$HOME"],
    );
    assert_eq!(ended, Ok(()));
    assert!(
        printed.starts_with("a b;$HOME;"),
        "no shell reads the arguments"
    );
    for variable in ["HOME=", "CARGO"] {
        assert!(!printed.contains(variable), "{printed}");
    }
    assert!(
        printed.ends_with("10\n"),
        "of low priority, and without input: {printed}"
    );
    // More than a pipe holds.
    let (printed, ended) = ask("seq 100000", &[]);
    assert_eq!((printed.lines().count(), ended), (100_000, Ok(())));
}

#[test]
fn one_that_fails_or_is_missing_says_so() {
    let (printed, ended) = ask("echo so; echo why >&2; exit 3", &[]);
    assert_eq!(printed, "so\n");
    assert!(ended.unwrap_err().ends_with("it ended with exit status: 3"));
    let mut command = Command::new("/no/such/program".into(), LIMIT);
    let error = command.start(&[]).unwrap_err();
    assert!(
        error.starts_with("/no/such/program: No such file"),
        "{error}"
    );
    assert!(command.look(|_| ()).is_none());
}

#[test]
fn one_that_hangs_is_killed_with_its_group_and_another_can_be_asked() {
    let mut command = Command::new(
        program("echo $$; sleep 1000 & echo $!; trap '' TERM; wait"),
        LIMIT,
    );
    for _ in 0..2 {
        while command.is_leaving() {
            sleep(Duration::from_millis(2));
        }
        command.start(&[]).unwrap();
        let (printed, ended, _) = run(&mut command);
        assert!(ended.unwrap_err().ends_with("it took longer than 1 s"));
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(printed.lines().count(), 2);
        assert!(printed.lines().all(is_gone));
    }
}

#[test]
fn one_that_prints_without_end_is_ended() {
    let (_, ended) = ask("exec yes", &[]);
    let error = ended.unwrap_err();
    assert!(
        error.ends_with(&format!("it printed more than {OUTPUT_BYTES_MAX} bytes")),
        "{error}"
    );
}

#[test]
fn a_child_that_holds_the_pipe_open_is_not_waited_for() {
    let began = Instant::now();
    let (printed, ended) = ask("sleep 1000 & echo $!", &[]);
    assert_eq!(ended, Ok(()));
    assert!(began.elapsed() < LIMIT);
    assert!(is_gone(&printed));
}

#[test]
fn nothing_runs_on_when_its_owner_goes() {
    let file = temp_dir("command").join("pid");
    let path = file.display();
    let mut command = Command::new(
        program(&format!(
            "echo $$ > {path}.new; mv {path}.new {path}; exec sleep 1000"
        )),
        LIMIT,
    );
    command.start(&[]).unwrap();
    assert!(command.start(&[]).is_err(), "one at a time");
    let pid = (0..500).find_map(|_| {
        sleep(Duration::from_millis(10));
        fs::read_to_string(&file).ok()
    });
    drop(command);
    assert!(is_gone(&pid.unwrap()));
}

/// Whoever starts it handles some signals, ignores others, and may hold all of them back while it does.
#[test]
fn a_program_begins_with_nothing_of_the_agents() {
    // Two that the C library lets nobody set.
    const LIBRARYS: u64 = 3 << 31;
    let signals = |status: &str, name: &str| {
        let mut lines = status.lines();
        let own = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(own.trim(), 16).unwrap() & !LIBRARYS
    };
    let own = || fs::read_to_string("/proc/thread-self/status").unwrap();
    let before = own();
    let (status, ended) = ask("exec cat /proc/self/status", &[]);
    assert_eq!(ended, Ok(()));
    assert_ne!(signals(&before, "SigIgn:"), 0);
    for name in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        assert_eq!(signals(&status, name), 0, "{name}");
        assert_eq!(signals(&own(), name), signals(&before, name), "{name}");
    }
    let (found, _) = ask("pwd; readlink /proc/self/fd/[02]", &[]);
    assert_eq!(found, "/\n/dev/null\n/dev/null\n");
}

#[test]
fn a_text_without_a_first_line_is_the_shells_and_what_cannot_run_says_why() {
    let path = temp_dir("command").join("program");
    fs::write(&path, "echo $1\n").unwrap();
    let mut command = Command::new(path.clone(), LIMIT);
    let error = command.start(&["so"]).unwrap_err();
    assert!(error.contains("Permission denied"), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    command.start(&["so"]).unwrap();
    assert_eq!(run(&mut command).0, b"so\n");
    let error = command.start(&["a\0b"]).unwrap_err();
    assert!(error.contains("invalid input parameter"), "{error}");
}
