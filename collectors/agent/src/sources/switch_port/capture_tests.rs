//! The source on captures: it tells of them what it tells of the programs.

use super::*;
use crate::sources::samples::golden::{self, repository};
use crate::testing::temp_dir;
use std::fs;

#[test]
fn fixtures_are_read_as_the_programs_are() {
    golden::check("switch_port", |config| {
        Box::new(Capture::of(config, config.root.clone()))
    });
}

/// What is found in a capture that a change was made to.
fn found(change: impl FnOnce(&Path)) -> Found {
    look(change).0
}

/// The same, and who found it.
fn look(change: impl FnOnce(&Path)) -> (Found, Capture) {
    let root = temp_dir("capture");
    let folder = root.join("fabric");
    fs::create_dir(&folder).unwrap();
    let fixture = repository().join("tests/fixtures/switch_port/ibsim-0.10/1");
    for entry in fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    change(&folder);
    let config = Config {
        root,
        ..Config::default()
    };
    let (mut found, mut capture) = (Found::default(), Capture::new(&config));
    capture.read(&mut found);
    (found, capture)
}

#[test]
fn a_switch_without_a_whole_answer_is_told_of_and_the_others_too() {
    assert_eq!((found(|_| ()).readings.len(), found(|_| ()).errors), (7, 0));
    let half = found(|folder| {
        for name in ["perfquery-x-2", "perfquery-2"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    });
    assert_eq!((half.readings.len(), half.errors), (3, 1));
    let error = half.first_error.unwrap();
    assert!(error.contains("leaf1") && error.contains("does not tell of port 1"));
    let cut =
        found(|folder| fs::write(folder.join("perfquery-3"), "# Port counters: Lid 9\n").unwrap());
    assert_eq!((cut.readings.len(), cut.errors), (7, 1));
    let look_at = cut.first_error.unwrap();
    assert!(look_at.ends_with("/fabric/perfquery*-3"), "{look_at}");
}

#[test]
fn a_long_text_is_not_kept_until_the_next_look() {
    let (found, capture) = look(|folder| {
        let path = folder.join("ibnetdiscover");
        let mut text = fs::read(&path).unwrap();
        text.extend(b"#\n".repeat(KEEP_BYTES));
        fs::write(&path, text).unwrap();
    });
    assert_eq!((found.readings.len(), found.errors), (7, 0));
    assert!(capture.text.capacity() <= KEEP_BYTES);
}

#[test]
fn no_capture_is_no_error_and_a_bad_map_is_one() {
    let none = found(|folder| fs::remove_file(folder.join("ibnetdiscover")).unwrap());
    assert_eq!((none.readings.len(), none.errors), (0, 0));
    let bad = found(|folder| fs::write(folder.join("ibnetdiscover"), "Switch\t8 \"S-\n").unwrap());
    assert_eq!((bad.readings.len(), bad.errors), (0, 1));
    assert!(bad
        .first_error
        .unwrap()
        .contains("fabric/ibnetdiscover: line 1"));
}
