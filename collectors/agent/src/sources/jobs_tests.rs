use super::super::user_dirs::UserDirs;
use super::*;
use crate::clock::Clock;
use crate::ship::batch::open_window;
use crate::testing::{own_uid, temp_dir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct Fixture {
    dir: PathBuf,
    jobs: Jobs,
    batch: Batch,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let rings = temp_dir(name);
        let dir = rings.join(own_uid().to_string());
        fs::create_dir(&dir).unwrap();
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
            self.batch.restart(1).unwrap();
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
    assert!(dirs.poll(|_| true).is_empty());
    assert_eq!(counters.bad_rings.get(), 1);
    // Nor one that is reached through a link.
    let elsewhere = temp_dir("elsewhere");
    symlink(&elsewhere, rings.join(uid.to_string())).unwrap();
    let mut dirs = UserDirs::new(rings.clone(), ".job", 10, 2, counters.clone());
    assert!(dirs.poll(|_| true).is_empty());
    fs::remove_file(rings.join(uid.to_string())).unwrap();
    fs::create_dir(rings.join(uid.to_string())).unwrap();
    for i in 0..3 {
        fs::write(rings.join(uid.to_string()).join(format!("{i}.job")), END).unwrap();
    }
    let mut dirs = UserDirs::new(rings.clone(), ".job", 10, 2, counters.clone());
    let listing = dirs.poll(|_| true).pop().unwrap();
    assert!(listing.cut && listing.names.len() == 2);
    fs::remove_dir_all(&rings).unwrap();
    let mut dirs = UserDirs::new(rings, ".job", 10, 2, counters);
    assert!(dirs.poll(|_| true).is_empty());
}
