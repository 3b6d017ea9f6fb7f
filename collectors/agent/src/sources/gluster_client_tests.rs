//! The source with programs in Gluster's place.

use super::*;
use crate::clock::Now;
use crate::sources::samples::golden::{self, repository};
use crate::testing::{self, temp_dir};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Answers that are there already, in files.
struct Captured {
    answers: PathBuf,
    at: At,
    known: BTreeMap<Brick, At>,
}

impl Probe for Captured {
    fn component(&self) -> &'static str {
        "gluster_client"
    }

    fn place(&self) -> String {
        String::new()
    }

    fn is_ready(&mut self, pass: &Pass) -> bool {
        self.at = At::of(&pass.now);
        true
    }

    fn read(&mut self, found: &mut Found) {
        for number in [1, 2] {
            let brick = Brick {
                volume: "lw".into(),
                host: format!("10.77.0.1{number}"),
                path: format!("/data/brick{number}"),
            };
            let mut answer = Answer::of(&brick);
            answer
                .feed(&fs::read(self.answers.join(format!("brick{number}-clients.xml"))).unwrap());
            assert_eq!(answer.fault(), None);
            let since = self.known.insert(brick, self.at);
            found.readings.extend(answer.readings(self.at, since));
        }
    }
}

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("gluster_client", |config| {
        Box::new(Captured {
            answers: config.root.join("answers"),
            at: At::default(),
            known: BTreeMap::new(),
        })
    });
}

/// A server with a brick, where `gluster` is a shell's program. `$W` in it is a folder of its own.
struct Host {
    probe: GlusterClient,
    calls: Calls,
    work: PathBuf,
}

impl Host {
    fn new(text: &str) -> Host {
        let work = temp_dir("gluster");
        let fixture = repository().join("tests/fixtures/gluster_client/10.3");
        let path = work.join("gluster");
        let head = format!(
            "#!/bin/sh\nW={}\nF={}\necho \"$@\" >> $W/asked\n",
            work.display(),
            fixture.display()
        );
        fs::write(&path, format!("{head}{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let config = Config {
            gluster_server_stats: fixture.join("1/var/lib/glusterd/stats"),
            gluster_client_period_s: 1,
            gluster_client_timeout_s: 1,
            gluster_client_command: path,
            ..Config::default()
        };
        let calls = Calls::default();
        Host {
            probe: GlusterClient::new(&config, &calls),
            calls,
            work,
        }
    }

    /// A round: what was found, and what was asked, a line each.
    fn round(&mut self) -> (Found, Vec<String>) {
        let asked = self.work.join("asked");
        let _ = fs::remove_file(&asked);
        let now: Now = testing::now();
        while !self.probe.is_ready(&Pass::new(now, false)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut found = Found::default();
        self.probe.read(&mut found);
        let asked = fs::read_to_string(asked).unwrap_or_default();
        (found, asked.lines().map(String::from).collect())
    }
}

const ANSWERS: &str = "for word; do last=$word; done; cat $F/2/answers/brick1-$last.xml";

#[test]
fn a_node_asks_of_its_own_brick_alone() {
    let mut host = Host::new(ANSWERS);
    for round in 0..2 {
        let (found, asked) = host.round();
        let words = "--mode=script --xml --log-file=/dev/null --log-level=NONE volume status lw 10.77.0.11:/data/brick1";
        assert_eq!(
            asked,
            [format!("{words} clients"), format!("{words} callpool")]
        );
        assert_eq!((found.first_error, found.readings.len()), (None, 2));
        // What is new in the second round began after the first.
        assert!(found
            .readings
            .iter()
            .all(|reading| reading.since.is_some() == (round == 1)));
        assert_eq!(host.calls.of("_data_brick1"), Some(0));
    }
}

#[test]
fn a_volume_that_is_locked_is_asked_of_again() {
    let mut host = Host::new(&format!(
        "if mkdir $W/locked; then sed 's/30800/30802/' $F/no-volume.xml; else {ANSWERS}; fi"
    ));
    let (found, asked) = host.round();
    assert_eq!((found.errors, found.readings.len(), asked.len()), (0, 2, 3));
    let mut host = Host::new("sed 's/30800/30802/' $F/no-volume.xml");
    let (found, asked) = host.round();
    assert_eq!(asked.len(), 2 * (LOCKED_TRIES_MAX as usize + 1));
    assert_eq!(found.errors, 2);
    assert!(found.first_error.unwrap().starts_with("another command held the volume's lock; look at it with: gluster volume status lw 10.77.0.11:/data/brick1 clients"));
}

#[test]
fn what_is_out_of_order_is_told_and_backs_off() {
    for (text, error, asked) in [
        ("exit 1", "it ended with exit status: 1", 2),
        ("cat $F/no-volume.xml", "`Volume nope does not exist`", 2),
        ("exec sleep 1000", "it took longer than 1 s", 2),
        ("exec yes '<a>'", "it printed more than", 2),
        (
            "head -c 700 $F/2/answers/brick1-clients.xml",
            "it breaks off",
            2,
        ),
        ("sleep 1000 & exit 1", "it ended with exit status: 1", 2),
    ] {
        let mut host = Host::new(text);
        let (found, lines) = host.round();
        let first = found.first_error.unwrap();
        assert!(first.contains(error), "{first}");
        assert_eq!((found.errors, lines.len()), (asked as u64, asked));
        let pause = host
            .probe
            .due()
            .unwrap()
            .saturating_duration_since(Instant::now());
        assert!(pause > Duration::from_secs(1), "{pause:?}");
        host.probe.rounds.next = Instant::now();
        host.round();
        let longer = host
            .probe
            .due()
            .unwrap()
            .saturating_duration_since(Instant::now());
        assert!(longer > pause, "{longer:?}");
    }
    // One that cannot be started is not tried for each brick.
    let mut host = Host::new("");
    fs::remove_file(host.work.join("gluster")).unwrap();
    let (found, _) = host.round();
    assert_eq!(found.errors, 1);
    assert!(found.first_error.unwrap().contains("No such file"));
}

#[test]
fn an_agent_that_ends_asks_nothing_and_ends_what_it_asked() {
    let mut host = Host::new("echo $$ > $W/new; mv $W/new $W/pid; exec sleep 1000");
    let pid = loop {
        assert!(!host.probe.is_ready(&Pass::new(testing::now(), false)));
        match fs::read_to_string(host.work.join("pid")) {
            Ok(pid) => break pid,
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(!host.probe.is_ready(&Pass::new(testing::now(), true)));
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    while fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(2));
    }
}
