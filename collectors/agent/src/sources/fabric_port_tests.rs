//! The host's own ports: what their files tell, whoever made the port.

use super::*;
use crate::sources::samples::golden;
use crate::sources::samples::reading::What;
use crate::testing::temp_dir;
use std::fs;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("fabric_port", |config| Box::new(FabricPort::new(config)));
}

#[test]
fn a_rate_is_what_the_link_carries() {
    for (text, is_ethernet, expected) in [
        ("100 Gb/sec (4X EDR)\n", false, Some(12.5e9)),
        ("40 Gb/sec (4X QDR)\n", false, Some(4e9)),
        ("40 Gb/sec (4X QDR)\n", true, Some(5e9)),
        ("2.5 Gb/sec (1X SDR)\n", false, Some(0.25e9)),
        ("10 Gb/sec (4X)\n", false, Some(1e9)),
        ("10 Gb/sec (4X)\n", true, Some(1.25e9)),
        ("800 Gb/sec (4X ???)\n", false, Some(100e9)),
        ("100 Gb/sec\n", false, Some(12.5e9)),
        ("", false, None),
        ("Gb/sec (4X EDR)", true, None),
        ("x Gb/sec (4X EDR)", true, None),
    ] {
        assert_eq!(rate_of(text.as_bytes(), is_ethernet), expected, "{text:?}");
    }
}

/// A machine with one port, whose files are these.
fn read(files: &[(&str, &str)]) -> Found {
    let root = temp_dir("ports");
    for (file, text) in files {
        let path = root.join("sys/class/infiniband/mlx5_0/ports/1").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let config = Config {
        root,
        ..Config::default()
    };
    let mut found = Found::default();
    FabricPort::new(&config).read(&mut found);
    found
}

#[test]
fn a_file_that_makes_no_sense_is_an_error_and_the_rest_is_told() {
    for (file, text, values, errors) in [
        ("counters/port_rcv_data", "12\n", 3, 0),
        ("counters/port_rcv_data", "-12\n", 2, 1),
        ("counters/port_rcv_data", "", 2, 1),
        ("counters/port_rcv_data", "N/A (no PMA)\n", 2, 0),
        ("counters/port_rcv_data", "1 2\n", 2, 1),
        ("state", "1: DOWN\n", 3, 0),
        ("state", "4: ACTIVE\n", 2, 0),
    ] {
        let found = read(&[("counters/port_xmit_data", "7\n"), (file, text)]);
        let told = found.readings[0].values.len();
        assert_eq!((told, found.errors), (values, errors), "{file} {text:?}");
        assert_eq!(found.readings[0].instance, "mlx5_0/1");
    }
    let found = read(&[("counters/port_xmit_data/x", "")]);
    assert_eq!((found.readings.len(), found.errors), (0, 1));
    assert_eq!(read(&[]).readings.len(), 0);
    let long = "7".repeat(FILE_BYTES_MAX + 1);
    assert_eq!(read(&[("counters/port_xmit_data", &long)]).errors, 1);
}

#[test]
fn wide_counters_stand_for_narrow_ones_and_iwarps_for_those_that_are_missing() {
    let raw = |found: &Found, name: &str| -> Vec<u64> {
        let values = found.readings[0].values.iter();
        let values = values.filter(|value| value.name == name);
        values
            .filter_map(|value| match value.what {
                What::Counter { raw, scale, .. } => Some(raw * scale as u64),
                What::Gauge(_) => None,
            })
            .collect()
    };
    let found = read(&[
        ("counters/port_xmit_data", "4294967295\n"),
        ("counters_ext/port_xmit_data_64", "5000000000\n"),
        ("hw_counters/ip4OutOctets", "7\n"),
    ]);
    assert_eq!(raw(&found, "transmit_bytes"), [20_000_000_000]);
    let found = read(&[
        ("hw_counters/ip4OutOctets", "7\n"),
        ("hw_counters/ip6OutOctets", "8\n"),
    ]);
    assert_eq!(raw(&found, "transmit_bytes"), [7, 8]);
}
