//! Tables from look to look.

use super::super::super::samples::reading::{Reading, What};
use super::super::look::take_tables;
use super::super::ost::{BUCKETS, HISTOGRAMS};
use super::*;

const HEAD: &str = "snapshot_time: 1.000000000 (secs.nsecs)\n\n";
const TITLE: &str = "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %\n";

/// What is told of RPCs of up to 32 pages, written, at each look. `None`: nothing.
fn told(texts: &[&str]) -> Vec<Option<u64>> {
    let mut before = Vec::new();
    let look = |text: &&str| {
        let faults = take_tables(text.as_bytes(), &HISTOGRAMS, &mut before, |_, _| ());
        assert_eq!(faults.count, 0, "{text}");
        let mut reading = Reading::new("work-OST0000");
        tell(&HISTOGRAMS, &BUCKETS, &before, &mut reading);
        let mut all = reading.values.iter();
        let own = all.find(|value| value.name == "write_rpc_pages_to_32")?;
        match own.what {
            What::Counter { raw, .. } => Some(raw),
            What::Gauge(_) => None,
        }
    };
    texts.iter().map(look).collect()
}

#[test]
fn a_table_that_is_empty_at_first_counts_from_0() {
    let empty = format!("{HEAD}{TITLE}");
    let used = format!("{HEAD}{TITLE}32:\t\t 0 0 0 | 128 100 100\n");
    // Its last rows may be missing at times.
    assert_eq!(
        told(&[&empty, &used, &empty, &used]),
        [Some(0), Some(128), Some(128), Some(128)]
    );
    // One that is not there says nothing; of one that comes later it is not known since when it counts.
    assert_eq!(told(&[HEAD, &used]), [None, Some(128)]);
    assert_eq!(told(&[&used, &empty]), [Some(128), Some(128)]);
}
