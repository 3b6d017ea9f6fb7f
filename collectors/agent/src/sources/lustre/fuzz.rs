//! The parsers of Lustre's texts as the fuzz target of samples asks them. Of an instance with two texts 1 lies between them.

use super::super::samples::crowd::members::{Members, ABSENT};
use super::super::samples::reading::{Found, Range, Reading};
use super::histogram;
use super::job_stats::JobStats;
use super::look::{take_stats, take_tables};
use super::osc::{self, Osc};
use super::params::Params;
use super::stats::Faults;
use super::{mdt, ost, service};
use crate::config::Config;
use std::io::{Cursor, Read};

fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    let at = text.iter().position(|b| *b == 1).unwrap_or(text.len());
    (&text[..at], text.get(at + 1..).unwrap_or_default())
}

fn tell(faults: Faults, found: &mut Found) {
    assert_eq!(faults.count > 0, faults.first.is_some());
    faults.tell("obdfilter/fs-OST0000/stats", found);
}

/// A target's `stats` and `brw_stats`.
pub fn target(text: &[u8], found: &mut Found) {
    let (stats, tables) = cut(text);
    let mut reading = Reading::new("fs-OST0000");
    let (mut counts, mut rows) = (None, Vec::new());
    for _ in 0..2 {
        // Once more, of which nothing comes.
        tell(take_stats(stats, &mut counts), found);
        tell(
            take_tables(tables, &ost::HISTOGRAMS, &mut rows, |_, _| ()),
            found,
        );
    }
    if let Some(counts) = &counts {
        counts.tell(&ost::NAMES, &mut reading);
        reading.part("mdt");
        counts.tell(&mdt::NAMES, &mut reading);
    }
    reading.part("brw_stats");
    histogram::tell(&ost::HISTOGRAMS, &ost::BUCKETS, &rows, &mut reading);
    found.readings.push(reading);
}

pub fn service(text: &[u8], found: &mut Found) {
    let mut reading = Reading::new("ost_io");
    tell(service::take(text, &mut reading), found);
    found.readings.push(reading);
}

/// Reads by a few bytes.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(7);
        self.0.read(&mut out[..most])
    }
}

/// `job_stats`, in whatever pieces it comes.
pub fn jobs(text: &[u8], found: &mut Found) {
    let text = Cursor::new(text.to_vec());
    let mut slow = Found::default();
    all_jobs(Box::new(text.clone()), found);
    all_jobs(Box::new(Slow(text)), &mut slow);
    assert_eq!(
        (&found.readings, found.errors),
        (&slow.readings, slow.errors)
    );
}

fn all_jobs(text: Box<dyn Read>, found: &mut Found) {
    let mut jobs = JobStats::new(&Params::new(&Config::default()));
    jobs.begin("obdfilter/fs-OST0000/job_stats", text);
    members(&mut jobs, found);
}

fn members(members: &mut dyn Members, found: &mut Found) {
    let columns = members.columns();
    while members.next(1_000_000_000_000, found) {
        let mut values = vec![ABSENT; columns.len()];
        if members.values(&mut values, found) {
            let mut reading = Reading::new(members.name().escape_ascii().to_string());
            for (column, raw) in columns.iter().zip(values).filter(|(_, raw)| *raw != ABSENT) {
                let scale = column.scale.unwrap_or(1);
                reading.counter(column.name.clone(), raw, Range::Bits64, scale);
            }
            found.readings.push(reading);
        }
    }
}

/// A connection's `rpc_stats` and `stats`.
pub fn connection(text: &[u8], found: &mut Found) {
    let (tables, stats) = cut(text);
    let columns = Osc::new(&Params::new(&Config::default())).columns();
    let mut values = vec![ABSENT; columns.len()];
    tell(osc::take_rpc_stats(tables, &mut values), found);
    tell(osc::take_stats(stats, &mut values), found);
    let mut reading = Reading::new("fs-OST0000");
    for (column, raw) in columns
        .into_iter()
        .zip(values)
        .filter(|(_, raw)| *raw != ABSENT)
    {
        match column.scale {
            Some(scale) => reading.counter(column.name, raw, Range::Bits64, scale),
            None => reading.gauge(column.name, raw as f64),
        }
    }
    found.readings.push(reading);
}
