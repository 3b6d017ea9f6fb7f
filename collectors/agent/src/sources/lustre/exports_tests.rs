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
