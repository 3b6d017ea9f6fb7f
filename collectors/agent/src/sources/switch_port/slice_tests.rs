//! Whose switches are whose.

use super::*;

fn switch(guid: u64, name: &str, ports: u8) -> Switch {
    Switch {
        guid,
        lid: guid as u16,
        name: name.into(),
        ports: (1..=ports).map(|port| (port, 8_000)).collect(),
    }
}

fn slice(partition: u64, partitions: u64, patterns: &[&str]) -> Slice {
    Slice::new(&Config {
        switch_port_partition: partition,
        switch_port_partitions: partitions,
        switch_port_switches: patterns.iter().map(|p| p.to_string()).collect(),
        ..Config::default()
    })
}

fn names(slice: &Slice) -> Vec<&str> {
    slice.targets().iter().map(|target| &*target.name).collect()
}

#[test]
fn each_switch_is_in_one_slice() {
    for count in [0, 1, 7, 80, 333] {
        let fabric: Vec<Switch> = (1..=count)
            .map(|n| switch(n, &format!("s{n}"), 1))
            .collect();
        let mut told = Vec::new();
        for partition in 1..=5 {
            let mut slice = slice(partition, 5, &["*"]);
            assert_eq!(slice.take(fabric.clone()), None);
            assert!(slice.targets().len() as u64 <= count / 5 + 1);
            told.extend(slice.targets().iter().map(|target| target.lid as u64));
        }
        assert_eq!(told, (1..=count).collect::<Vec<_>>());
    }
}

#[test]
fn the_settings_choose_by_name_or_guid_before_slices_are_cut() {
    let fabric = vec![
        switch(1, "leaf1", 1),
        switch(2, "leaf2", 1),
        switch(3, "spine", 1),
        switch(16, "", 1),
    ];
    for (patterns, expected) in [
        (&["leaf*"][..], &["leaf1", "leaf2"][..]),
        (
            &["*", "!leaf*"],
            &["leaf1", "leaf2", "spine", "0x0000000000000010"],
        ),
        (&["0x0000000000000001", "spine"], &["leaf1", "spine"]),
        (&["0x*10"], &["0x0000000000000010"]),
        (&[], &[]),
    ] {
        let mut slice = slice(1, 1, patterns);
        assert_eq!(slice.take(fabric.clone()), None);
        assert_eq!(names(&slice), expected, "{patterns:?}");
    }
    let mut slice = slice(2, 2, &["leaf*"]);
    slice.take(fabric);
    assert_eq!(names(&slice), ["leaf2"]);
}

#[test]
fn a_name_that_does_not_tell_switches_apart_is_not_used() {
    let mut slice = slice(1, 1, &["*"]);
    slice.take(vec![
        switch(1, "SX6036", 1),
        switch(2, "SX6036", 1),
        switch(3, "0x0000000000000001", 1),
        switch(4, "a/b", 1),
    ]);
    let guid = |n: u64| format!("{n:#018x}");
    assert_eq!(names(&slice), [&*guid(1), &guid(2), &guid(3), "a/b"]);
}

#[test]
fn a_port_whose_link_went_is_asked_of_still() {
    let mut slice = slice(1, 1, &["*"]);
    slice.take(vec![switch(1, "a", 3)]);
    slice.is_narrow("0x0000000000000001");
    let mut later = switch(1, "a", 1);
    (later.lid, later.ports[0].1) = (9, 0);
    slice.take(vec![later]);
    let target = &slice.targets()[0];
    // Who answered at its old LID may have been another.
    assert_eq!((target.lid, target.is_narrow), (9, false));
    // Of an unknown speed; gone; gone.
    assert_eq!(target.ports, [(1, None), (2, Some(0)), (3, Some(0))]);
    slice.is_narrow("0x0000000000000001");
    let mut still = switch(1, "a", 1);
    still.lid = 9;
    slice.take(vec![still]);
    assert!(slice.targets()[0].is_narrow);
    slice.take(vec![switch(2, "b", 0)]);
    assert!(slice.targets().is_empty());
}

#[test]
fn more_than_can_be_asked_are_told() {
    let mut small = slice(1, 1, &["*"]);
    let fault = small.take((1..=81).map(|n| switch(n, "", 36)).collect());
    assert!(fault.unwrap().starts_with(
        "81 switches with 2916 ports are in this agent's slice, of which 80 are asked"
    ));
    assert_eq!(small.targets().len(), 80);
    let mut wide = slice(1, 1, &["*"]);
    let fault = wide.take((1..=80).map(|n| switch(n, "", 64)).collect());
    assert!(fault.unwrap().contains("of which 64 are asked"));
    let ports = wide.targets().iter().map(|target| target.ports.len());
    assert_eq!(ports.sum::<usize>(), INSTANCES_MAX);
}
