//! `lustre_job` as fixtures say; texts that are long, cut or forged.

use super::*;
use crate::config::Config;
use crate::sources::samples::crowd::members::ABSENT;
use crate::sources::samples::golden;
use crate::testing::Random;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check_members("lustre_job", |config| {
        Box::new(JobStats::new(&Params::new(config)))
    });
}

fn entry(name: &str, time: u64, reads: u64) -> String {
    format!("- job_id:          {name}\n  snapshot_time:   {time}\n  read_bytes:      {{ samples: {reads:>11}, unit: bytes, min: 1, max: 9, sum: {} }}\n  punch:           {{ samples:           0, unit:  reqs }}\n", reads * 7)
}

/// A text that comes in pieces of any size.
struct Pieces(Vec<u8>, usize, Random);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(self.0.len() - self.1);
        let count = most.min(1 + self.2.below(9000) as usize);
        out[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
        self.1 += count;
        Ok(count)
    }
}

/// Names, marks and reads of a text's entries, and what was wrong with it.
fn read(text: &str, seed: u64) -> (Vec<(String, u32, u64)>, Found) {
    let mut jobs = JobStats::new(&Params::new(&Config::default()));
    let pieces = Pieces(text.into(), 0, Random::new(seed));
    jobs.begin("obdfilter/fs-OST0000/job_stats", Box::new(pieces));
    let (mut all, mut found) = (Vec::new(), Found::default());
    while jobs.next(1_000_000_000_000, &mut found) {
        let mut values = vec![ABSENT; columns().len()];
        if jobs.values(&mut values, &mut found) {
            let name = String::from_utf8_lossy(jobs.name()).into_owned();
            all.push((name, jobs.mark(), values[2]));
        }
    }
    (all, found)
}

#[test]
fn a_long_text_is_read_piece_by_piece_and_each_entry_once() {
    let entries = (0..5000).map(|n| entry(&format!("job.{n}"), 500 + n % 499, n));
    let text = "job_stats:\n".to_string() + &entries.collect::<String>();
    assert!(text.len() > 10 * PIECE_BYTES);
    for seed in 0..5 {
        let (all, found) = read(&text, seed);
        assert_eq!(found.first_error, None);
        let expected: Vec<_> = (0..5000)
            .map(|n| (format!("job.{n}"), (500 + n % 499) as u32, n))
            .collect();
        assert_eq!(all, expected);
    }
}

#[test]
fn what_is_cut_or_garbled_costs_its_entry_alone() {
    let whole =
        "job_stats:\n".to_string() + &entry("a", 5, 1) + &entry("b", 6, 2) + &entry("c", 7, 3);
    let names = |text: &str| {
        let (all, found) = read(text, 1);
        let names: Vec<String> = all.into_iter().map(|(name, ..)| name).collect();
        (names.join(" "), found.errors)
    };
    assert_eq!(names(&whole), ("a b c".into(), 0));
    assert_eq!(names("job_stats:\n"), (String::new(), 0));
    assert_eq!(names(""), (String::new(), 0));
    assert_eq!(names(&whole[..whole.len() - 1]), ("a b".into(), 1));
    // Cut where a line ends: the last entry has fewer operations than those before.
    let line = whole.trim_end().rfind('\n').unwrap() + 1;
    assert_eq!(names(&whole[..line]), ("a b".into(), 1));
    assert_eq!(
        names(&whole.replace("snapshot_time:   6", "snap")),
        ("a c".into(), 1)
    );
    assert_eq!(
        names(&whole.replace("samples:           2", "samples: -2")),
        ("a c".into(), 1)
    );
    assert_eq!(
        names(&whole.replace("- job_id:          b", "- job_id:")),
        ("a c".into(), 1)
    );
    assert_eq!(
        names(&whole.replace("- job_id:          b\n", "- job_id:")),
        ("a c".into(), 1)
    );
    let (_, found) = read(&whole[..whole.len() - 5], 1);
    let error = found.first_error.unwrap();
    assert!(
        error.contains("job c") && error.contains("lctl get_param obdfilter.fs-OST0000.job_stats"),
        "{error}"
    );
}

#[test]
fn an_entry_without_an_end_costs_no_memory() {
    let long = "x".repeat(3 * ENTRY_BYTES_MAX);
    let text = format!(
        "job_stats:\n{}{long}\n{}",
        entry("a", 5, 1),
        entry("b", 6, 2)
    );
    let mut jobs = JobStats::new(&Params::new(&Config::default()));
    jobs.begin("p", Box::new(Pieces(text.into(), 0, Random::new(2))));
    let mut found = Found::default();
    let mut names = Vec::new();
    while jobs.next(1_000_000_000_000, &mut found) {
        assert!(jobs.text.capacity() <= 4 * (ENTRY_BYTES_MAX + PIECE_BYTES));
        names.push(jobs.name().to_vec());
    }
    assert_eq!(names.last().unwrap(), b"b");
    assert!(found.first_error.unwrap().contains("more than 65536 bytes"));
}

#[test]
fn an_entry_of_the_last_seconds_has_no_mark() {
    for (time, mark) in [(997, 997), (998, 998), (999, 0), (1000, 0), (2000, 0)] {
        let (all, _) = read(&("job_stats:\n".to_string() + &entry("a", time, 1)), 1);
        assert_eq!(all[0].1, mark, "{time}");
    }
}

#[test]
fn names_are_as_the_site_gives_them() {
    for (text, name) in [
        ("4711", "4711"),
        ("cp.1000", "cp.1000"),
        ("\"a b: c\"", "a b: c"),
        ("a - job_id: b", "a - job_id: b"),
        ("\"", "\""),
        ("{ samples: 1 }", "{ samples: 1 }"),
    ] {
        let (all, found) = read(&("job_stats:\n".to_string() + &entry(text, 5, 1)), 1);
        assert_eq!((&*all[0].0, found.errors), (name, 0));
    }
}
