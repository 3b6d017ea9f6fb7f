//! A node's own bricks, of the files that a real glusterd left.

use super::*;
use crate::sources::samples::golden::repository;
use crate::testing::temp_dir;
use std::fs;
use std::path::PathBuf;

/// A copy of what a server keeps.
fn glusterd() -> PathBuf {
    let from = repository().join("tests/fixtures/gluster_client/10.3/1/var/lib/glusterd");
    let to = temp_dir("glusterd");
    let status = std::process::Command::new("cp")
        .arg("-r")
        .arg(from.join("."))
        .arg(&to)
        .status();
    assert!(status.unwrap().success());
    to
}

#[test]
fn only_this_hosts_bricks_of_started_volumes_are_its_own() {
    let dir = glusterd();
    let expected = Brick {
        volume: "lw".into(),
        host: "10.77.0.11".into(),
        path: "/data/brick1".into(),
    };
    assert_eq!(own(&dir).unwrap(), std::slice::from_ref(&expected));
    assert_eq!(
        (expected.instance(), expected.name()),
        ("_data_brick1".into(), "10.77.0.11:/data/brick1".into())
    );
    let info = dir.join("vols/lw/info");
    let text = fs::read_to_string(&info).unwrap();
    fs::write(&info, text.replace("\nstatus=1\n", "\nstatus=2\n")).unwrap();
    assert_eq!(own(&dir).unwrap(), []);
    assert_eq!(own(&dir.join("away")).unwrap(), []);
}

#[test]
fn names_that_are_none_are_refused_with_their_file() {
    for (file, from, to, error) in [
        (
            "glusterd.info",
            "UUID",
            "UID",
            "glusterd.info: expected a line UUID=",
        ),
        ("vols/lw/info", "status=1", "status", "info: line"),
        (
            "vols/lw/bricks/10.77.0.11:-data-brick1",
            "path=/data",
            "path=data",
            "its hostname or path is none",
        ),
        (
            "vols/lw/bricks/10.77.0.11:-data-brick1",
            "hostname=",
            "hostname=--",
            "its hostname or path is none",
        ),
        (
            "vols/lw/bricks/10.77.0.11:-data-brick1",
            "path=/data",
            "path=/da\u{1b}ta",
            "its hostname or path is none",
        ),
    ] {
        let dir = glusterd();
        let path = dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let said = own(&dir).unwrap_err();
        assert!(said.contains(error), "{said}");
    }
}
