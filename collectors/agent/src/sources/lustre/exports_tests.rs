//! `lustre_export` as fixtures say.

use super::*;
use crate::config::Config;
use crate::sources::samples::golden;
use crate::testing::temp_dir;
use std::fs;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check_members("lustre_export", |config| {
        Box::new(Exports::new(&Params::new(config)))
    });
}

#[test]
fn clients_of_object_storage_targets_are_not_told_where_they_are_too_many() {
    let root = temp_dir("exports");
    let config = Config {
        root: root.clone(),
        ..Config::default()
    };
    let mut exports = Exports::new(&Params::new(&config));
    let lustre = root.join("proc/fs/lustre");
    for (target, clients) in [
        ("obdfilter/a-OST0000", 15_000),
        ("obdfilter/a-OST0001", 5_000),
        ("mdt/a-MDT0000", 90_000),
    ] {
        fs::create_dir_all(lustre.join(target)).unwrap();
        fs::write(
            lustre.join(target).join("num_exports"),
            format!("{clients}\n"),
        )
        .unwrap();
    }
    let mut found = Found::default();
    assert_eq!(
        exports.groups(&mut found),
        ["a-OST0000", "a-OST0001", "a-MDT0000"]
    );
    fs::write(lustre.join("obdfilter/a-OST0001/num_exports"), "5001\n").unwrap();
    assert_eq!(exports.groups(&mut found), ["a-MDT0000"]);
    assert_eq!(found.first_error, None);
}

/// Versions differ in where clients' folders lie, and may have some of them in two places.
#[test]
fn a_client_is_read_once_wherever_its_text_lies_and_its_mark_is_of_what_was_counted() {
    let root = temp_dir("exports-roots");
    let config = Config {
        root: root.clone(),
        ..Config::default()
    };
    let text = |time: u32, opens: u32| {
        format!("snapshot_time {time}.5 secs.nsecs\nopen {opens} samples [usecs] 1 9 9 9\n")
    };
    let put = |place: &str, client: &str, text: Option<String>| {
        let dir = root.join(place).join("mdt/a-MDT0000/exports").join(client);
        fs::create_dir_all(&dir).unwrap();
        text.into_iter()
            .for_each(|text| fs::write(dir.join("stats"), text).unwrap());
    };
    let (proc, debug) = ("proc/fs/lustre", "sys/kernel/debug/lustre");
    let look = || {
        let (mut exports, mut found) = (Exports::new(&Params::new(&config)), Found::default());
        assert!(exports.open("a-MDT0000", &mut found));
        let mut all = Vec::new();
        while exports.next(0, &mut found) {
            let name = String::from_utf8(exports.name().to_vec()).unwrap();
            let mut values = [0; TARGET_COLUMNS];
            assert!(exports.values(&mut values, &mut found));
            all.push((name, exports.mark(), values));
        }
        assert_eq!(found.first_error, None);
        all.sort();
        all
    };
    put(proc, "1@tcp", Some(text(1, 7)));
    put(debug, "1@tcp", Some(text(1, 8)));
    put(proc, "2@tcp", None);
    put(debug, "2@tcp", Some(text(1, 7)));
    put(debug, "3@tcp", Some(text(9, 7)));
    put(debug, "4@tcp", None);
    let all = look();
    let names: Vec<&str> = all.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(names, ["1@tcp", "2@tcp", "3@tcp"]);
    // When it was read says nothing.
    assert!(all
        .iter()
        .all(|(_, mark, values)| (*mark, *values) == (all[0].1, all[0].2)));
    put(proc, "1@tcp", Some(text(2, 6)));
    let later = look();
    assert_ne!(later[0].1, all[0].1);
    assert_ne!(later[0].2, all[0].2);
    assert_eq!(later[1..], all[1..]);
}
