//! One instance: what a sample says of it.

use super::*;
use crate::ship::batch::{open_window, RAW_BYTES_MAX};
use crate::sources::samples::reading::Range;
use serde_json::Value as Json;

const S: i64 = 1_000_000_000;

fn at(boot_s: i64, utc_s: i64) -> At {
    At {
        boot_ns: boot_s * S,
        utc_ns: utc_s * S,
    }
}

fn counters(values: &[(&'static str, u64)]) -> Reading {
    let mut reading = Reading::new("x");
    for (name, raw) in values {
        reading.counter(*name, *raw, Range::Bits64, 10);
    }
    reading
}

fn sample(tell: impl FnOnce(Fields)) -> Json {
    let mut out = b"{\"kind\":\"sample\"".to_vec();
    tell(Fields {
        out: &mut out,
        component: "part",
    });
    out.push(b'}');
    serde_json::from_slice(&out).unwrap()
}

fn told(track: &mut Track, reading: &Reading, at: At) -> Json {
    let change = track.compare(reading);
    sample(|fields| track.tell(reading, &change, at, true, fields))
}

#[test]
fn a_sample_says_what_moved_and_when() {
    let mut first = counters(&[("a", 5), ("b", 7)]);
    first.gauge("open", 2.5);
    let mut track = Track::begin(&first, at(10, 1000));
    assert!(track.compare(&first).is_none);
    let mut second = counters(&[("a", 6), ("b", 7)]);
    second.gauge("open", 3.0);
    let event = told(&mut track, &second, at(12, 1002));
    assert_eq!(
        event,
        serde_json::json!({"kind": "sample", "component": "part", "instance": "x", "start": 1000 * S, "end": 1002 * S,
            "values": {"a": 10, "b": 0, "open": 3}})
    );
    assert!(track.compare(&second).is_none);
    let third = counters(&[("a", 6)]);
    assert!(!track.compare(&third).is_none);
}

#[test]
fn a_value_that_comes_later_counts_from_then_on() {
    let mut track = Track::begin(&counters(&[("a", 5)]), at(1, 1));
    let both = counters(&[("b", 100), ("a", 6)]);
    assert_eq!(
        told(&mut track, &both, at(2, 2))["values"],
        serde_json::json!({"a": 10})
    );
    let both = counters(&[("b", 103), ("a", 6)]);
    assert_eq!(
        told(&mut track, &both, at(3, 3))["values"],
        serde_json::json!({"a": 0, "b": 30})
    );
}

#[test]
fn what_could_not_be_read_once_is_told_later() {
    let mut track = Track::begin(&counters(&[("a", 5), ("b", 7)]), at(1, 1));
    let part = counters(&[("a", 6)]);
    let change = track.compare(&part);
    let event = sample(|fields| track.tell(&part, &change, at(2, 2), false, fields));
    assert_eq!(event["values"], serde_json::json!({"a": 10}));
    let event = told(&mut track, &counters(&[("a", 6), ("b", 9)]), at(3, 3));
    assert_eq!(event["values"], serde_json::json!({"a": 0, "b": 20}));
}

#[test]
fn what_was_not_read_when_all_began_anew_counts_from_0() {
    let mut track = Track::begin(&counters(&[("a", 50), ("b", 70)]), at(1, 1));
    let part = counters(&[("a", 6)]);
    let change = track.compare(&part);
    let event = sample(|fields| track.tell(&part, &change, at(2, 2), false, fields));
    assert_eq!(event["values"], serde_json::json!({"a": 60}));
    let event = told(&mut track, &counters(&[("a", 8), ("b", 9)]), at(3, 3));
    assert_eq!(event["values"], serde_json::json!({"a": 20, "b": 90}));
}

/// One that fell says that all of the same part count from 0, also those that are beyond where they were.
#[test]
fn a_part_begins_anew_as_a_whole_and_by_itself() {
    let reading = |a: [u64; 2], b: [u64; 2]| {
        let mut reading = Reading::new("x");
        for (part, values) in [("eth0", a), ("eth1", b)] {
            reading.part(part);
            reading.counter("bytes", values[0], Range::Bits64, 1);
            reading.counter("errors", values[1], Range::Bits64, 1);
        }
        reading
    };
    let mut track = Track::begin(&reading([100, 0], [50, 9]), at(1, 1));
    let event = told(&mut track, &reading([130, 0], [20, 10]), at(2, 2));
    assert_eq!(
        event["values"],
        serde_json::json!({"bytes": 30 + 20, "errors": 10})
    );
}

#[test]
fn what_goes_back_by_itself_is_not_counted_twice() {
    let reading = |raw: u64| {
        let mut reading = Reading::new("x");
        reading.counter("iowait", raw, Range::Unsteady, 1);
        reading
    };
    let mut track = Track::begin(&reading(100), at(1, 1));
    let mut sum = 0;
    for (second, raw) in [(2, 110), (3, 105), (4, 109), (5, 112)] {
        let event = told(&mut track, &reading(raw), at(second, second));
        sum += event["values"]["iowait"].as_u64().unwrap();
    }
    assert_eq!(sum, 12);
}

#[test]
fn a_counter_that_stands_at_its_end_is_left_out_until_it_is_cleared() {
    let reading = |raw: u64| {
        let mut reading = Reading::new("x");
        reading.part("errors");
        reading.counter("errors", raw, Range::UpTo(255), 1);
        reading.part("data");
        reading.counter("data", 7, Range::Bits64, 1);
        reading
    };
    let mut track = Track::begin(&reading(100), at(1, 1));
    let values = |track: &mut Track, raw: u64, second: i64| {
        told(track, &reading(raw), at(second, second))["values"].clone()
    };
    assert_eq!(
        values(&mut track, 254, 2),
        serde_json::json!({"errors": 154, "data": 0})
    );
    assert_eq!(values(&mut track, 255, 3), serde_json::json!({"data": 0}));
    // It stands still as far as anybody knows.
    let end = reading(255);
    assert!(track.compare(&end).is_none);
    track.seen = at(4, 4);
    let quiet = sample(|fields| track.tell_quiet(&end, fields));
    assert_eq!(quiet["values"], serde_json::json!({"data": 0}));
    // Others do not begin anew with it.
    assert_eq!(
        values(&mut track, 9, 5),
        serde_json::json!({"errors": 9, "data": 0})
    );
}

/// A switch that has counters of 64 bits is asked for its narrow ones where an answer is lost: these stand at their end.
#[test]
fn a_counter_that_is_told_narrow_for_once_goes_on_where_it_was() {
    let reading = |raw: u64, range: Range| {
        let mut reading = Reading::new("x");
        reading.counter("wait", raw, range, 1);
        reading
    };
    let wide = |raw: u64| reading(raw, Range::Bits64);
    let mut track = Track::begin(&wide(6_000_000_000), at(1, 1));
    let end = u32::MAX as u64;
    let event = told(&mut track, &reading(end, Range::UpTo(end)), at(2, 2));
    assert_eq!(event["values"], serde_json::json!({}));
    let event = told(&mut track, &wide(6_000_000_100), at(3, 3));
    assert_eq!(event["values"], serde_json::json!({"wait": 100}));
}

/// Where a subnet manager gives a switch's LID to another, the other's counters are read under its name, and then its own again.
#[test]
fn what_no_link_can_have_moved_is_not_told() {
    let reading = |bytes: u64, packets: u64| {
        let mut reading = Reading::new("leaf1/1");
        for (name, raw, scale) in [("transmit_bytes", bytes, 4), ("packets", packets, 1)] {
            reading.part(name);
            reading.counter(name, raw, Range::Bits64, scale);
        }
        reading.gauge("open", 1.0);
        reading.bytes_per_s_max = Some(1000.0);
        reading
    };
    let counters = Counters::default();
    let mut track = Track::begin(&reading(10_000, 10), at(1, 1));
    let mut values = |second: i64, bytes: u64, packets: u64| {
        let mut batch = Batch::new("n1", 1, 1, 4096, RAW_BYTES_MAX);
        let to = To {
            component: "part",
            counters: &counters,
            batch: &mut batch,
        };
        assert!(track.go_on(&reading(bytes, packets), at(second, second), true, to));
        let events = open_window(batch.finish().unwrap().payload);
        (events[0]["values"].clone(), counters.failed_reads.get())
    };
    let gauges = serde_json::json!({"open": 1});
    // 10 s: 10,000 bytes, and no word more.
    let most = serde_json::json!({"transmit_bytes": 10_000, "packets": 1, "open": 1});
    assert_eq!(values(11, 12_500, 11), (most, 0));
    assert_eq!(values(21, 15_001, 12), (gauges.clone(), 1));
    assert_eq!(values(31, 1 << 50, 1 << 40), (gauges.clone(), 2));
    assert_eq!(values(41, 15_002, 12), (gauges, 3));
    let next = serde_json::json!({"transmit_bytes": 4, "packets": 1, "open": 1});
    assert_eq!(values(51, 15_003, 13), (next, 3));
}

/// A brick's sum of times may go back by itself; when the brick begins anew it counts from 0 at once, and not once it passes where it was.
#[test]
fn what_goes_back_with_its_part_counts_from_there() {
    let reading = |count: u64, time: u64| {
        let mut reading = Reading::new("x");
        reading.counter("writes", count, Range::Bits64, 1);
        reading.counter("write_ns", time, Range::Unsteady, 1);
        reading
    };
    let mut track = Track::begin(&reading(1000, 50_000), at(1, 1));
    let event = told(&mut track, &reading(4, 200), at(2, 2));
    assert_eq!(
        event["values"],
        serde_json::json!({"writes": 4, "write_ns": 200})
    );
    let event = told(&mut track, &reading(6, 300), at(3, 3));
    assert_eq!(
        event["values"],
        serde_json::json!({"writes": 2, "write_ns": 100})
    );
}

#[test]
fn an_intervals_length_is_true_when_the_clock_is_set() {
    for (utc_s, start_s) in [
        (1005, 1000),   // it was not set
        (4605, 4600),   // forward by an hour
        (-2595, -2600), // back by an hour
    ] {
        let mut track = Track::begin(&counters(&[("a", 5)]), at(10, 1000));
        let event = told(&mut track, &counters(&[("a", 6)]), at(15, utc_s));
        assert_eq!(
            (event["start"].as_i64(), event["end"].as_i64()),
            (Some(start_s * S), Some(utc_s * S))
        );
    }
    // A clock that is slewed leaves neither gap nor overlap.
    let mut track = Track::begin(&counters(&[("a", 5)]), at(10, 1000));
    let end = At {
        boot_ns: 70 * S,
        utc_ns: 1060 * S + 30_000_000,
    };
    let event = told(&mut track, &counters(&[("a", 6)]), end);
    assert_eq!(event["start"], 1000 * S);
    // A log's own time that steps back makes no interval that ends before it began.
    let mut track = Track::begin(&counters(&[("a", 5)]), At::told(1000 * S));
    for end_s in [999, 1001, 5] {
        let event = told(&mut track, &counters(&[("a", 6)]), At::told(end_s * S));
        assert!(event["start"].as_i64() <= event["end"].as_i64(), "{event}");
    }
}

#[test]
fn numbers_stay_within_what_the_wire_bears() {
    let mut track = Track::begin(&counters(&[("a", 0)]), at(1, 1));
    let mut reading = counters(&[("a", u64::MAX / 2)]);
    reading.gauge("huge", 1e300);
    reading.gauge("none", f64::NAN);
    reading.gauge("part", 0.1);
    let event = told(&mut track, &reading, at(2, 2));
    assert_eq!(
        event["values"],
        serde_json::json!({"a": 1u64 << 53, "part": 0.1})
    );
}

#[test]
fn a_quiet_stretch_bears_what_was() {
    let mut first = counters(&[("a", 5)]);
    first.gauge("open", 2.0);
    let mut track = Track::begin(&first, at(10, 1000));
    track.seen = at(13, 1003);
    let mut second = counters(&[("a", 6)]);
    second.gauge("open", 9.0);
    let quiet = sample(|fields| track.tell_quiet(&second, fields));
    assert_eq!(quiet["values"], serde_json::json!({"a": 0, "open": 2}));
    assert_eq!(
        (quiet["start"].as_i64(), quiet["end"].as_i64()),
        (Some(1000 * S), Some(1003 * S))
    );
    let moved = told(&mut track, &second, at(14, 1004));
    assert_eq!(
        (&moved["start"], &moved["values"]["a"]),
        (&quiet["end"], &10.into())
    );
}

#[test]
fn a_cursor_that_breaks_off_is_none() {
    let track = Track::begin(&counters(&[("a", 5), ("b", 7)]), at(10, 1000));
    let mut bytes = Vec::new();
    track.write_cursor(&mut bytes);
    let back = Track::read_cursor(&mut Reader(&bytes)).unwrap();
    assert_eq!(
        (back.told, back.base.values()),
        (track.told, track.base.values())
    );
    for end in 0..bytes.len() {
        assert!(Track::read_cursor(&mut Reader(&bytes[..end])).is_none());
    }
    bytes[16..18].copy_from_slice(&u16::MAX.to_le_bytes());
    bytes.resize(1 << 20, 0);
    assert!(Track::read_cursor(&mut Reader(&bytes)).is_none());
}
