//! Bricks' files: whole, half-written, forged.

use super::*;
use crate::sources::samples::golden::{self, repository};
use crate::testing::temp_dir;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn fixtures_are_read_as_they_say() {
    // Commands tell of calls; here each brick was asked once.
    golden::check("gluster_server", |config| {
        let calls = Calls::default();
        let until = Instant::now() + Duration::from_secs(600);
        calls.set("_data_brick1".into(), until, 3);
        Box::new(GlusterServer::new(config, &calls))
    });
}

const FILE: &str = "glusterfsd__data_brick1.dump";

fn captured() -> Vec<u8> {
    let dir = repository().join("tests/fixtures/gluster_server/10.3/1/var/lib/glusterd/stats");
    fs::read(dir.join(FILE)).unwrap()
}

#[test]
fn a_file_cut_at_any_byte_is_whole_or_waited_for() {
    let text = captured();
    let whole = parse(&text, 1).unwrap().unwrap();
    assert_eq!(whole.instance, "_data_brick1");
    let first_part = text.iter().position(|b| *b == b'}').unwrap() + 2;
    for end in (0..text.len())
        .step_by(11)
        .chain(first_part - 3..first_part + 3)
    {
        let expected = (end >= first_part).then_some(&whole);
        assert_eq!(parse(&text[..end], 1).unwrap().as_ref(), expected, "{end}");
    }
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_where() {
    let key = |name: &str, value: &str| format!("\"gluster.brick.b.aggr.{name}\": {value},\n");
    for (text, error) in [
        ("{\n}\n".to_string(), "it names no brick"),
        ("{\nnonsense\n}\n".into(), "line 2: expected"),
        (
            key("bytes_read", "-5") + "}\n",
            "bytes_read: expected a whole number",
        ),
        (
            key("x", "1") + &key("y", "2").replace(".b.", ".c.") + "}\n",
            "line 2: expected",
        ),
        (
            key("x", "1").replace("gluster.brick", "gluster") + "}\n",
            "line 1: expected",
        ),
    ] {
        let said = parse(text.as_bytes(), 1).unwrap_err();
        assert!(said.starts_with(error), "{said}");
    }
    // A name with dots in it, values that we do not know.
    let odd = key("bytes_read", "7").replace(".b.", ".a.aggr.b.") + "}\n";
    let reading = parse(odd.as_bytes(), 1).unwrap().unwrap();
    assert_eq!(
        (reading.instance.as_str(), reading.values.len()),
        ("a.aggr.b", 1)
    );
}

#[test]
fn latencies_of_releases_that_count_microseconds_are_told_in_ns() {
    let line =
        |name: &str, value: &str| format!("\"gluster.brick.b.aggr.fop.read.{name}\": {value},\n");
    let text = line("count", "4") + &line("latency_ave_usec", "2.50") + "}\n";
    let reading = parse(text.as_bytes(), 1000).unwrap().unwrap();
    let sum = reading.values.iter().find(|value| value.name == "read_ns");
    assert_eq!(sum.unwrap().what.bits(), 10_000);
}

/// While a brick writes, what it wrote before stands; only one that never ends is a fault.
#[test]
fn a_file_that_is_being_written_is_no_fault_until_it_stays_so() {
    let dir = temp_dir("bricks");
    let config = Config {
        gluster_server_stats: dir.clone(),
        ..Config::default()
    };
    let mut probe = GlusterServer::new(&config, &Calls::default());
    let mut look = || {
        let mut found = Found::default();
        probe.read(&mut found);
        (found.readings.len(), found.errors)
    };
    assert_eq!(look(), (0, 0));
    fs::write(dir.join("glusterfs_mount.dump"), "{").unwrap();
    fs::write(dir.join(FILE), "{").unwrap();
    assert_eq!(look(), (0, 1), "it was never whole");
    fs::write(dir.join(FILE), captured()).unwrap();
    assert_eq!(look(), (1, 0));
    fs::write(dir.join(FILE), &captured()[..500]).unwrap();
    for _ in 0..HALF_WRITTEN_MAX {
        assert_eq!(look(), (1, 0));
    }
    assert_eq!(look(), (0, 1));
    fs::write(dir.join(FILE), captured()).unwrap();
    assert_eq!(look(), (1, 0));
    fs::remove_file(dir.join(FILE)).unwrap();
    assert_eq!(look(), (0, 0));
    std::os::unix::fs::symlink("/etc/passwd", dir.join(FILE)).unwrap();
    assert_eq!(look(), (0, 1), "links are not followed");
}
