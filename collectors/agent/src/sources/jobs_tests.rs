use super::super::user_dirs::UserDirs;
use super::*;
use crate::clock::Clock;
use crate::ship::batch::open_window;
use crate::sources::preload::process;
use crate::testing::{own_uid, rings_dir, temp_dir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use std::process::{Child, Command, Stdio};

struct Fixture {
    dir: PathBuf,
    jobs: Jobs,
    batch: Batch,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let (rings, dir) = rings_dir(name);
        let config = Config {
            rings,
            ..Config::default()
        };
        let jobs = Jobs::new(&config, Arc::new(Counters::default()));
        Fixture {
            dir,
            jobs,
            batch: Batch::new("n", 1, 1, 2, 1 << 20),
        }
    }

    /// A new agent on what the last one left.
    fn restart(&mut self) {
        let config = Config {
            rings: self.dir.parent().unwrap().into(),
            ..Config::default()
        };
        self.jobs = Jobs::new(&config, Arc::new(Counters::default()));
        self.batch = Batch::new("n", 1, 1, 2, 1 << 20);
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.dir).unwrap();
        let mut names: Vec<String> = names
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn pass(&mut self, unfinished: &[u32]) -> Vec<Value> {
        let mut pass = Pass::new(Clock::start().now(), true);
        self.jobs.begin(&mut pass);
        pass.unfinished.extend(unfinished);
        let mut found = Vec::new();
        loop {
            let progress = self.jobs.read(&mut pass, &mut self.batch);
            let window = self.batch.finish().unwrap();
            if window.events > 0 {
                found.extend(open_window(window.payload));
            }
            self.batch.restart(1);
            self.jobs.committed();
            if progress == Progress::Done {
                return found;
            }
        }
    }
}

const END: &str = r#"{"event":"end","job":"j","launch":"l","cluster":"c","program":"p","command":"p -x","user":"u","time":7,"exit_code":3,"more":1}"#;

#[test]
fn events_are_shipped_once_and_removed() {
    let mut f = Fixture::new("jobs");
    for name in ["a", "b", "c"] {
        fs::write(
            f.dir.join(format!("{name}.job")),
            END.replace("\"j\"", &format!("\"{name}\"")),
        )
        .unwrap();
    }
    fs::write(f.dir.join("d.tmp"), "half").unwrap();
    let events = f.pass(&[]);
    let jobs: Vec<&str> = events.iter().map(|e| e["job"].as_str().unwrap()).collect();
    assert_eq!(jobs, ["a", "b", "c"]);
    let e = &events[0];
    assert_eq!(
        (
            e["kind"].as_str(),
            e["event"].as_str(),
            e["exit_code"].as_i64()
        ),
        (Some("job"), Some("end"), Some(3))
    );
    assert_eq!(
        (e["uid"].as_u64(), e["time"].as_i64()),
        (Some(own_uid().into()), Some(7))
    );
    assert!(e.get("more").is_none());
    assert!(f.pass(&[]).is_empty());
    assert_eq!(fs::read_dir(&f.dir).unwrap().count(), 1);
}

#[test]
fn an_event_waits_until_its_users_rings_are_read() {
    let mut f = Fixture::new("waits");
    fs::write(f.dir.join("a.job"), END).unwrap();
    assert!(f.pass(&[own_uid()]).is_empty());
    assert!(f.dir.join("a.job").exists());
    assert_eq!(f.pass(&[own_uid() + 1]).len(), 1);
}

#[test]
fn an_event_that_was_not_committed_is_shipped_again() {
    let mut f = Fixture::new("again");
    fs::write(f.dir.join("a.job"), END).unwrap();
    let mut pass = Pass::new(Clock::start().now(), true);
    f.jobs.begin(&mut pass);
    assert_eq!(f.jobs.read(&mut pass, &mut f.batch), Progress::Done);
    drop(f.jobs);
    let config = Config {
        rings: f.dir.parent().unwrap().into(),
        ..Config::default()
    };
    f.jobs = Jobs::new(&config, Arc::new(Counters::default()));
    f.batch = Batch::new("n", 1, 1, 2, 1 << 20);
    assert_eq!(f.pass(&[]).len(), 1);
}

#[test]
fn nonsense_is_put_out_of_the_way() {
    let mut f = Fixture::new("nonsense");
    let bad = [
        ("empty", String::new()),
        ("cut", END[..40].into()),
        ("type", END.replace("\"j\"", "7")),
        ("event", END.replace("\"end\"", "\"middle\"")),
        ("code", END.replace(":3", ":9999999999")),
        ("noid", END.replace("\"j\"", "\"\"")),
        ("long", END.replace("p -x", &"x".repeat(70_000))),
    ];
    for (name, text) in &bad {
        fs::write(f.dir.join(format!("{name}.job")), text).unwrap();
    }
    fs::write(f.dir.join("good"), END).unwrap();
    symlink("good", f.dir.join("link.job")).unwrap();
    fs::hard_link(f.dir.join("good"), f.dir.join("second.job")).unwrap();
    fs::create_dir(f.dir.join("dir.job")).unwrap();
    assert!(f.pass(&[]).is_empty());
    assert_eq!(f.jobs.counters.bad_jobs.get(), bad.len() as u64 + 3);
    for name in bad.iter().map(|b| b.0).chain(["link", "second", "dir"]) {
        assert!(
            f.dir
                .join(format!("{name}.job.bad"))
                .symlink_metadata()
                .is_ok(),
            "{name}"
        );
    }
}

#[test]
fn only_a_users_own_directory_counts() {
    let rings = temp_dir("owners");
    let uid = own_uid();
    for name in [(uid + 1).to_string(), format!("0{uid}"), "x".into()] {
        fs::create_dir(rings.join(&name)).unwrap();
        fs::write(rings.join(&name).join("a.job"), END).unwrap();
    }
    let counters = Arc::new(Counters::default());
    let mut dirs = UserDirs::new(rings.clone(), ".job", 10, 2, counters.clone());
    assert!(dirs.poll(false, |_| true).is_empty());
    assert_eq!(counters.bad_rings.get(), 1);
    // Nor one that is reached through a link.
    let elsewhere = temp_dir("elsewhere");
    symlink(&elsewhere, rings.join(uid.to_string())).unwrap();
    let mut dirs = UserDirs::new(rings.clone(), ".job", 10, 2, counters.clone());
    assert!(dirs.poll(false, |_| true).is_empty());
    fs::remove_file(rings.join(uid.to_string())).unwrap();
    fs::create_dir(rings.join(uid.to_string())).unwrap();
    for i in 0..3 {
        fs::write(rings.join(uid.to_string()).join(format!("{i}.job")), END).unwrap();
    }
    let mut dirs = UserDirs::new(rings.clone(), ".job", 10, 2, counters.clone());
    let listing = dirs.poll(false, |_| true).pop().unwrap();
    assert!(listing.cut && listing.names.len() == 2);
    fs::remove_dir_all(&rings).unwrap();
    let mut dirs = UserDirs::new(rings, ".job", 10, 2, counters);
    assert!(dirs.poll(false, |_| true).is_empty());
}

/// A launcher: it waits until it is killed.
struct Launcher(Child);

impl Launcher {
    fn start() -> Launcher {
        Launcher(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
    }

    /// The event that it leaves at its start.
    fn event(&self) -> String {
        let pid = self.0.id();
        let more = format!(
            "\"exit_code\":null,\"pid\":{pid},\"pid_start_ticks\":{}",
            process::start_ticks(pid)
        );
        END.replace("\"end\"", "\"start\"")
            .replace("\"exit_code\":3", &more)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_launcher_in_another_pid_namespace_is_not_looked_after() {
    let own = process::namespace(Path::new("/proc"));
    let start = |namespace: u64| {
        let more = format!("\"exit_code\":null,\"pid\":4194304,\"pid_start_ticks\":1,\"pid_namespace\":{namespace}");
        let text = END
            .replace("\"end\"", "\"start\"")
            .replace("\"exit_code\":3", &more);
        parse(text.as_bytes()).unwrap()
    };
    assert_eq!(start(own.unwrap()).launcher(own), Some((4194304, 1)));
    assert_eq!(start(own.unwrap() + 1).launcher(own), None);
    assert_eq!(start(1).launcher(None), Some((4194304, 1)));
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect()
}

#[test]
fn a_launch_whose_launcher_was_killed_is_ended() {
    let mut f = Fixture::new("killed");
    let launcher = Launcher::start();
    f.write("l.1-start.job", &launcher.event());
    let began = f.pass(&[]);
    assert_eq!(kinds(&began), ["start"]);
    assert!(began[0].get("pid").is_none());
    assert_eq!(f.files(), ["l.1-start.running.job"]);
    assert!(f.pass(&[]).is_empty(), "it lives");
    f.restart();
    assert!(f.pass(&[]).is_empty() && f.pass(&[]).is_empty());
    drop(launcher);
    // What its processes did comes first.
    assert!(f.pass(&[own_uid()]).is_empty());
    let ended = f.pass(&[]);
    assert_eq!(kinds(&ended), ["end"]);
    let end = &ended[0];
    assert!(end["exit_code"].is_null() && end["time"].as_i64() > Some(7));
    for same in [
        "job", "launch", "cluster", "program", "command", "user", "uid",
    ] {
        assert_eq!(end[same], began[0][same], "{same}");
    }
    assert!(f.files().is_empty() && f.pass(&[]).is_empty());
}

#[test]
fn its_user_is_settled_before_an_abandoned_launch_ends() {
    let mut f = Fixture::new("settled");
    f.write("l.1-start.job", &Launcher::start().event());
    f.pass(&[]);
    let mut pass = Pass::new(Clock::start().now(), true);
    f.jobs.begin(&mut pass);
    assert!(pass.settle.contains(&own_uid()));
}

#[test]
fn an_end_that_the_launcher_told_is_the_only_one() {
    let mut f = Fixture::new("told");
    let launcher = Launcher::start();
    f.write("l.1-start.job", &launcher.event());
    f.pass(&[]);
    f.write("l.2-end.job", END);
    drop(launcher);
    let ended = f.pass(&[]);
    assert_eq!(
        (kinds(&ended), ended[0]["exit_code"].as_i64()),
        (vec!["end"], Some(3))
    );
    assert!(f.files().is_empty() && f.pass(&[]).is_empty());
    // Both in one look, in one batch and in two.
    for others in 0..2 {
        let launcher = Launcher::start();
        for i in 0..others {
            f.write(&format!("a{i}.job"), &END.replace("\"l\"", "\"other\""));
        }
        f.write("l.1-start.job", &launcher.event());
        f.write("l.2-end.job", END);
        drop(launcher);
        assert_eq!(f.pass(&[]).len(), 2 + others);
        assert!(f.files().is_empty() && f.pass(&[]).is_empty());
    }
}

#[test]
fn a_kill_at_any_instant_ends_an_abandoned_launch_all_the_same() {
    let mut f = Fixture::new("instants");
    let reads = |f: &mut Fixture| {
        let mut pass = Pass::new(Clock::start().now(), true);
        f.jobs.begin(&mut pass);
        assert_eq!(f.jobs.read(&mut pass, &mut f.batch), Progress::Done);
        let events = open_window(f.batch.finish().unwrap().payload);
        f.restart(); // killed before it committed, or after it and before the files were touched
        events
    };
    let launcher = Launcher::start();
    f.write("l.1-start.job", &launcher.event());
    assert_eq!(kinds(&reads(&mut f)), ["start"]);
    assert_eq!(kinds(&f.pass(&[])), ["start"]);
    drop(launcher);
    f.restart();
    assert!(f.pass(&[]).is_empty(), "the first look only finds the file");
    assert_eq!(kinds(&reads(&mut f)), ["end"]);
    assert!(f.pass(&[]).is_empty());
    assert_eq!(kinds(&f.pass(&[])), ["end"]);
    assert!(f.files().is_empty());
}

#[test]
fn a_start_without_a_launcher_is_not_kept_nor_is_nonsense() {
    let mut f = Fixture::new("not-kept");
    f.write("a.job", &END.replace("\"end\"", "\"start\""));
    f.write("b.running.job", END);
    f.write("c.running.job", "{");
    assert_eq!(f.pass(&[]).len(), 1);
    assert_eq!(f.files(), ["b.running.job.bad", "c.running.job.bad"]);
}

#[test]
fn a_launch_of_a_program_that_cannot_be_seen_leaves_a_run_before_its_start() {
    let mut f = Fixture::new("unseen");
    let start =
        |fields: &str| format!(r#"{{"event":"start","job":"j","launch":"l","time":7{fields}}}"#);
    // Batches of two: the second one's start finds no room.
    f.write("a.job", &start(""));
    f.write("b.job", &start(r#","executable":"/opt/prog","unseen":128"#));
    f.write("c.job", &start(r#","executable":"/opt/prog","unseen":3"#));
    f.write(
        "d.job",
        &END.replace("\"more\":1", r#""executable":"/opt/prog","unseen":128"#),
    );
    let events = f.pass(&[]);
    let order: Vec<_> = events.iter().map(|e| e["event"].as_str()).collect();
    let expected = [
        Some("start"),
        None,
        Some("start"),
        Some("start"),
        Some("end"),
    ];
    assert_eq!(order, expected);
    let e = &events[1];
    assert_eq!((&e["kind"], &e["op"]), (&"run".into(), &"unseen".into()));
    assert_eq!((&e["job"], &e["process"]), (&"j".into(), &"0.0".into()));
    assert_eq!(
        (&e["program"], &e["file"]),
        (&"prog".into(), &"/opt/prog".into())
    );
    assert_eq!(
        (&e["flags"], &e["start"], &e["end"]),
        (&128.into(), &7.into(), &7.into())
    );
    assert!(f.files().is_empty());
}
