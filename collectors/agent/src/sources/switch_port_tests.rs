//! The source with programs in the place of the fabric's.

use super::rounds::DISCOVER_AGAIN;
use super::*;
use crate::clock::Now;
use crate::sources::samples::golden::{self, repository};
use crate::sources::samples::reading::What;
use crate::testing::{self, temp_dir};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Programs that answer with what a folder holds; before that lines of the shell's. `$W`: a folder of its own.
fn programs(answers: &Path, map: &str, query: &str) -> (PathBuf, Config) {
    let work = temp_dir("fabric");
    let from = format!("W={}; D={}", work.display(), answers.display());
    let log = "echo \"${0##*/} $@\" >> $W/asked";
    let answer = "x=; for word; do lid=$ports; ports=$word; [ $word = -x ] && x=x-; done; exec cat $D/perfquery-$x$lid";
    for (name, text) in [
        ("ibnetdiscover", format!("{map}\nexec cat $D/ibnetdiscover")),
        ("perfquery", format!("{query}\n{answer}")),
    ] {
        let path = work.join(name);
        fs::write(&path, format!("#!/bin/sh\n{from}\n{log}\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let config = Config {
        switch_port_period_s: 1,
        switch_port_timeout_s: 1,
        switch_port_ibnetdiscover: work.join("ibnetdiscover"),
        switch_port_perfquery: work.join("perfquery"),
        ..Config::default()
    };
    (work, config)
}

/// All of a round in one look, as a golden wants it.
struct Whole(SwitchPort);

impl Probe for Whole {
    fn component(&self) -> &'static str {
        "switch_port"
    }

    fn place(&self) -> String {
        self.0.place()
    }

    fn read(&mut self, found: &mut Found) {
        self.0.rounds.discovery.next = Instant::now();
        *found = round(&mut self.0);
    }
}

fn round(probe: &mut SwitchPort) -> Found {
    let now: Now = testing::now();
    let mut all = Found::default();
    loop {
        while !probe.is_ready(&Pass::new(now, false)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut found = Found::default();
        probe.read(&mut found);
        assert!(!found.more || found.errors == 0 && !found.readings.is_empty());
        all.readings.append(&mut found.readings);
        if !found.more {
            (all.errors, all.first_error) = (found.errors, found.first_error);
            return all;
        }
    }
}

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("switch_port", |config| {
        let (_, own) = programs(&config.root, "", "");
        Box::new(Whole(SwitchPort::new(&own)))
    });
}

struct Fabric {
    probe: SwitchPort,
    work: PathBuf,
}

impl Fabric {
    fn new(map: &str, query: &str) -> Fabric {
        Self::set(map, query, |_| ())
    }

    fn set(map: &str, query: &str, set: impl FnOnce(&mut Config)) -> Fabric {
        let fixture = repository().join("tests/fixtures/switch_port/ibsim-0.10/1");
        let (work, mut config) = programs(&fixture, map, query);
        set(&mut config);
        let probe = SwitchPort::new(&config);
        Fabric { probe, work }
    }

    /// A round: what was found, and what was asked, a line each.
    fn round(&mut self) -> (Found, Vec<String>) {
        let asked = self.work.join("asked");
        let _ = fs::remove_file(&asked);
        self.probe.rounds.round.next = Instant::now();
        let found = round(&mut self.probe);
        let asked = fs::read_to_string(asked).unwrap_or_default();
        (found, asked.lines().map(String::from).collect())
    }
}

#[test]
fn the_fabric_is_looked_at_once_and_each_switch_is_asked_in_each_round() {
    let mut fabric = Fabric::set("", "", |config| {
        config.switch_port_through = "mlx5_0/1".into();
    });
    let ask = |lid_and_ports: &str| {
        ["-x ", ""].map(|x| format!("perfquery -C mlx5_0 -P 1 -t 300 -l {x}{lid_and_ports}"))
    };
    let each = [ask("2 1,2,7,8"), ask("3 1,2,5")].concat();
    let (found, asked) = fabric.round();
    assert_eq!(asked[0], "ibnetdiscover -C mlx5_0 -P 1");
    assert_eq!(asked[1..], each);
    assert_eq!((found.first_error, found.readings.len()), (None, 7));
    let (_, asked) = fabric.round();
    assert_eq!(asked, each);
}

#[test]
fn a_switch_is_asked_no_more_than_it_can_answer() {
    let fixture = repository().join("tests/fixtures/switch_port/made-switches/1");
    let (work, config) = programs(&fixture, "", "");
    let probe = SwitchPort::new(&config);
    let mut fabric = Fabric { probe, work };
    let (found, asked) = fabric.round();
    assert_eq!(
        (found.first_error, found.readings.len(), asked.len()),
        (None, 5, 6)
    );
    // Those without wide counters are not asked for such again.
    let (found, asked) = fabric.round();
    let expected =
        ["-l 7 1", "-l 10 24", "-l -x 12 1,2,41"].map(|ask| format!("perfquery -t 300 {ask}"));
    assert_eq!((found.errors, asked), (0, expected.to_vec()));
}

#[test]
fn a_switch_that_does_not_answer_costs_only_its_own_ports_and_is_looked_for_soon() {
    let mut fabric = Fabric::new("", "case \"$*\" in *' 2 '*) exit 255; esac");
    let (found, asked) = fabric.round();
    assert_eq!((found.readings.len(), found.errors, asked.len()), (3, 1, 5));
    let error = found.first_error.unwrap();
    assert!(
        error.starts_with("leaf1 (0x0000000000200000): ")
            && error
                .contains("it ended with exit status: 255; look at it with: perfquery -x -a -l 2"),
        "{error}"
    );
    // The fabric is looked at again, but less and less often where that does not help.
    for pause_s in [30, 60, 120] {
        let pause = fabric.probe.rounds.discovery.next - Instant::now();
        assert!(
            (pause_s - 5..=pause_s).contains(&pause.as_secs()),
            "{pause:?}"
        );
        fabric.probe.rounds.discovery.next = Instant::now();
        let (found, asked) = fabric.round();
        assert_eq!((found.readings.len(), asked.len()), (3, 5));
        assert_eq!(asked[0], "ibnetdiscover ");
        let (_, asked) = fabric.round();
        assert_eq!(asked.len(), 4);
    }
    // Half an answer.
    let mut fabric = Fabric::new(
        "",
        "case \"$*\" in *-x*) ;; *) echo '# Port counters'; exit 1; esac",
    );
    let (found, _) = fabric.round();
    assert_eq!((found.readings.len(), found.errors), (7, 2));
    let wide = |reading: &Reading| {
        let counters = reading
            .values
            .iter()
            .filter(|value| matches!(value.what, What::Counter { .. }));
        counters.count() == 4
    };
    assert!(found.readings.iter().all(wide));
}

#[test]
fn one_that_hangs_ends_the_round_and_the_next_begins_behind_it() {
    let mut fabric = Fabric::new("", "case \"$*\" in *' 2 '*) exec sleep 1000; esac");
    let (found, asked) = fabric.round();
    assert_eq!((found.readings.len(), found.errors, asked.len()), (0, 1, 2));
    assert!(found
        .first_error
        .unwrap()
        .contains("it took longer than 1 s"));
    let (found, asked) = fabric.round();
    assert_eq!((found.readings.len(), found.errors, asked.len()), (3, 1, 3));
}

#[test]
fn a_fabric_that_cannot_be_looked_at_is_told_and_what_was_known_stays() {
    let mut fabric = Fabric::new("mkdir $W/before || exit 1", "");
    let (found, _) = fabric.round();
    assert_eq!((found.errors, found.readings.len()), (0, 7));
    fabric.probe.rounds.discovery.next = Instant::now();
    let (found, asked) = fabric.round();
    assert_eq!((found.readings.len(), asked.len()), (7, 5));
    let error = found.first_error.unwrap();
    assert!(
        error.ends_with("it ended with exit status: 1; look at it with: ibnetdiscover"),
        "{error}"
    );
    assert!(fabric.probe.rounds.discovery.next <= Instant::now() + DISCOVER_AGAIN);
    for (map, error) in [
        ("exit 1", "it ended with exit status: 1"),
        (
            "head -c 500 $D/ibnetdiscover; exit 0",
            "expected a line's end",
        ),
        ("exec true", "nothing"),
    ] {
        let mut fabric = Fabric::new(map, "");
        let (found, asked) = fabric.round();
        assert_eq!((found.readings.len(), asked.len()), (0, 1), "{map}");
        match found.first_error {
            None => assert_eq!(error, "nothing"),
            Some(told) => assert!(told.contains(error), "{told}"),
        }
        // There is nothing to ask before the fabric is looked at again.
        let pause = fabric.probe.due().unwrap() - Instant::now();
        assert!(pause > DISCOVER_AGAIN / 2, "{pause:?}");
    }
    // A line that is not understood costs what it tells of, and no more looks.
    let mut fabric = Fabric::new("sed 's/ lid 3 / lid 0 /' $D/ibnetdiscover; exit", "");
    let (found, _) = fabric.round();
    assert_eq!((found.errors, found.readings.len()), (1, 4));
    let (found, asked) = fabric.round();
    assert_eq!((found.errors, asked.len()), (0, 2));
    let pause = fabric.probe.rounds.discovery.next - Instant::now();
    assert!(pause > 2 * DISCOVER_AGAIN, "{pause:?}");
    let mut fabric = Fabric::new("", "");
    fs::remove_file(fabric.work.join("perfquery")).unwrap();
    let (found, asked) = fabric.round();
    assert_eq!((found.errors, asked.len()), (1, 1));
    assert!(found.first_error.unwrap().contains("No such file"));
    let pause = fabric.probe.due().unwrap() - Instant::now();
    assert!(pause > Duration::from_secs(1), "{pause:?}");
}

#[test]
fn an_agent_that_ends_asks_nothing_and_ends_what_it_asked() {
    let mut fabric = Fabric::new("", "echo $$ > $W/new; mv $W/new $W/pid; exec sleep 1000");
    let pid = loop {
        assert!(!fabric.probe.is_ready(&Pass::new(testing::now(), false)));
        match fs::read_to_string(fabric.work.join("pid")) {
            Ok(pid) => break pid,
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(!fabric.probe.is_ready(&Pass::new(testing::now(), true)));
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    while fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    for (through, is_good) in [
        ("", true),
        ("mlx5_0/1", true),
        ("mlx5_0", false),
        ("mlx5_0/0", false),
        ("mlx5_0/x", false),
        ("/1", false),
        ("a b/1", false),
        ("a/1/2", false),
    ] {
        let config = Config {
            switch_port_through: through.into(),
            ..Config::default()
        };
        assert_eq!(check(&config).is_ok(), is_good, "{through}");
    }
}
