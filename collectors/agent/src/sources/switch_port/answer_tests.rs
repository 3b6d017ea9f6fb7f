//! What `perfquery` says.

use super::*;
use crate::sources::samples::reading::{Range, What};

const WIDE: &str = "# Port extended counters: Lid 2 port 1 (CapMask: 0x1300 CapMask2: 0x0000000)\nPortSelect:......................1\nPortXmitData:....................9000000000\nPortRcvData:.....................7\nPortXmitPkts:....................4\nPortRcvPkts:.....................3\n";
const NARROW: &str = "# Port counters: Lid 2 port 1 (CapMask: 0x1300)\nSymbolErrorCounter:..............5\nPortXmitData:....................4294967295\nPortXmitWait:....................17\n";

/// What both answers tell of port 1, by name.
fn told(wide: &str, narrow: &str) -> (Vec<(String, u64, Range)>, Option<String>) {
    let mut answer = Answer::of(2, [1].into_iter());
    for (is_wide, text) in [(true, wide), (false, narrow)] {
        answer.begin(is_wide);
        text.as_bytes().chunks(5).for_each(|part| answer.feed(part));
    }
    let readings = answer.readings("leaf1");
    let values = readings.iter().flat_map(|(_, reading)| &reading.values);
    let told = values.filter_map(|value| match value.what {
        What::Counter { raw, range, scale } => {
            Some((value.name.to_string(), raw * scale as u64, range))
        }
        What::Gauge(_) => None,
    });
    (told.collect(), answer.fault())
}

fn names(wide: &str, narrow: &str) -> Vec<String> {
    told(wide, narrow).0.into_iter().map(|one| one.0).collect()
}

#[test]
fn wide_counters_stand_for_narrow_ones() {
    let (values, fault) = told(WIDE, NARROW);
    assert_eq!(fault, None);
    assert_eq!(
        values[0],
        ("transmit_bytes".into(), 36_000_000_000, Range::Bits64)
    );
    assert_eq!(values[4], ("transmit_wait".into(), 17, Range::UpTo(BITS32)));
    assert_eq!(values[5], ("symbol_errors".into(), 5, Range::UpTo(BITS16)));
    assert_eq!(values.len(), 6);
    // In whichever of both.
    let all = format!(
        "{WIDE}SymbolErrorCounter:..............70000\nPortXmitWait:....................18\n"
    );
    let (values, _) = told(&all, NARROW);
    assert_eq!(values[4], ("transmit_wait".into(), 18, Range::Bits64));
    assert_eq!(values[5], ("symbol_errors".into(), 70_000, Range::Bits64));
    let mut answer = Answer::of(2, [1].into_iter());
    answer.begin(true);
    answer.feed(all.as_bytes());
    assert!(answer.is_whole() && answer.has_wide() == Some(true));
}

#[test]
fn narrow_counters_are_told_only_where_there_are_no_others() {
    let data = [
        "transmit_bytes",
        "receive_bytes",
        "transmit_packets",
        "receive_packets",
    ];
    // The wide ones were not heard this time: their narrow twins would be another series.
    assert_eq!(names("", NARROW), ["transmit_wait", "symbol_errors"]);
    let old = NARROW.replace("0x1300", "0x100");
    let without = WIDE.replace("0x1300", "0x0");
    for wide in ["", &without] {
        assert_eq!(names(wide, &old), ["transmit_bytes", "symbol_errors"]);
    }
    let (values, _) = told("", &old);
    assert_eq!(values[0].2, Range::UpTo(BITS32));
    assert_eq!(names(WIDE, ""), data);
}

#[test]
fn what_is_no_answer_to_the_question_is_told_and_left_out() {
    for (text, fault) in [
        (WIDE.replace("Lid 2", "Lid 3"), "`Lid LID port PORT"),
        (WIDE.replace("port 1", "port 2"), "`Lid LID port PORT"),
        (WIDE.replace("port 1", "port 300"), "`Lid LID port PORT"),
        (WIDE.replace("0x1300", "0xzz"), "`Lid LID port PORT"),
        (WIDE.replace("\n", "\r\r"), "does not tell of port 1"),
        (String::new(), "does not tell of port 1"),
        ("PortXmitData:...7\n".into(), "does not tell of port 1"),
        (
            WIDE.replace("9000000000", "9e9"),
            "a whole number, found `PortXmitData",
        ),
        (
            WIDE.replace("9000000000", "-1"),
            "a whole number, found `PortXmitData",
        ),
        (
            WIDE.replace("....9000000000", ""),
            "a whole number, found `PortXmitData",
        ),
    ] {
        let (values, told) = told(&text, "");
        assert!(told.unwrap().contains(fault), "{text}");
        assert!(!values.iter().any(|one| one.1 == 36_000_000_000), "{text}");
    }
    // A line without an end is cut.
    assert_eq!(names(&WIDE[..WIDE.len() - 1], "").len(), 3);
    let mut answer = Answer::of(2, [1, 2].into_iter());
    answer.begin(true);
    answer.feed(WIDE.as_bytes());
    assert_eq!(answer.fault().unwrap(), "it does not tell of port 2");
    assert_eq!(answer.readings("a").len(), 1);
}
