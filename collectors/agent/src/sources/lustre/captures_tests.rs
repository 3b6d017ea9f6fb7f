//! Captures of real servers and clients, which the crate lustre_collector ships, read by it and by our parsers: both must say the same.

use super::histogram::{self, Histogram, Tables, ROWS};
use super::stats;
use crate::sources::samples::crowd::members::ABSENT;
use lustre_collector::{BrwStats, LustreServiceStats, Record, Stat, TargetStats};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where cargo has unpacked the crate.
fn fixtures() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.unwrap().join("registry/src");
    let entries = std::fs::read_dir(&registries)
        .unwrap_or_else(|e| panic!("{}: {e}; run: cargo fetch", registries.display()));
    let mut packages = entries
        .flatten()
        .map(|entry| entry.path().join("lustre_collector-0.12.1/src/fixtures"));
    let found = packages.find(|path| path.is_dir());
    found.unwrap_or_else(|| {
        panic!(
            "{}: no lustre_collector-0.12.1; run: cargo fetch",
            registries.display()
        )
    })
}

/// All texts below a folder that hold statistics; the crate reads the others in other ways.
fn texts(dir: &std::path::Path, found: &mut Vec<(PathBuf, String)>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => texts(&path, found),
            false => found.push((path.clone(), std::fs::read_to_string(&path).unwrap())),
        }
    }
    found.retain(|(_, text)| text.contains("stats="));
}

/// A capture's parameters: name and text. A name begins a line and ends with `=`.
fn parameters(text: &str) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let name = line
            .split_once('=')
            .filter(|(name, _)| name.contains('.') && !name.contains(char::is_whitespace));
        match (name, all.last_mut()) {
            (Some((name, rest)), _) => all.push((name, rest.trim_start_matches('\n').to_string())),
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => {}
        }
    }
    all
}

type Told = Vec<(String, u64, String, Option<u64>)>;

fn theirs(stats: &[Stat]) -> Told {
    let stat = |s: &Stat| (s.name.clone(), s.samples, s.units.clone(), s.sum);
    stats.iter().map(stat).collect()
}

#[test]
fn stats_are_read_as_the_crate_reads_them() {
    let (mut all, mut compared) = (Vec::new(), 0);
    texts(&fixtures().join("valid"), &mut all);
    for (path, text) in &all {
        let mut expected: Vec<Told> = Vec::new();
        for record in lustre_collector::parse_lctl_output(text.as_bytes()).unwrap() {
            match record {
                Record::Target(TargetStats::Stats(s)) => expected.push(theirs(&s.value)),
                Record::Target(TargetStats::Oss(s)) => expected.push(theirs(&s.stats)),
                Record::Target(TargetStats::Mds(s)) => expected.push(theirs(&s.stats)),
                Record::Target(TargetStats::Llite(s)) => expected.push(theirs(&s.stats)),
                Record::Target(TargetStats::ExportStats(s)) => {
                    expected.extend(s.value.iter().map(|export| theirs(&export.stats)))
                }
                Record::LustreService(
                    LustreServiceStats::LdlmCanceld(s) | LustreServiceStats::LdlmCbd(s),
                ) => expected.push(theirs(&s)),
                _ => {}
            }
        }
        let mut own: Vec<Told> = Vec::new();
        for (name, text) in parameters(text) {
            if !name.ends_with(".stats") && !name.ends_with(".md_stats") {
                continue;
            }
            let mut told = Told::new();
            let word = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let faults = stats::parse(text.as_bytes(), |s| {
                told.push((word(s.name), s.count, word(s.unit), s.sum))
            });
            assert_eq!(faults.first, None, "{}: {name}", path.display());
            own.push(told);
        }
        expected.sort();
        own.sort();
        compared += own.len();
        assert_eq!(own, expected, "{}", path.display());
    }
    assert!(all.len() >= 9 && compared > 150, "{} {compared}", all.len());
}

static TITLES: [Histogram; 8] = {
    const fn of(title: &'static [u8], is_log: bool) -> Histogram {
        Histogram {
            title,
            is_log,
            names: ["", ""],
            bounds: &[],
        }
    }
    [
        of(b"pages per bulk r/w", true),
        of(b"discontiguous pages", false),
        of(b"discontiguous blocks", false),
        of(b"disk fragmented I/Os", false),
        of(b"disk I/Os in flight", false),
        of(b"I/O time (1/1000s)", true),
        of(b"disk I/O size", true),
        of(b"block maps msec", true),
    ]
};
/// How the crate calls them.
const NAMES: [&str; 8] = [
    "pages",
    "discont_pages",
    "discont_blocks",
    "dio_frags",
    "rpc_hist",
    "io_time",
    "disk_iosize",
    "block_maps_msec",
];

/// Counts by table, label and way; those that are 0 left out.
type Rows = BTreeMap<(usize, u64, usize), u64>;

fn their_rows(stats: &[BrwStats]) -> Rows {
    let mut rows = Rows::new();
    for table in stats {
        let place = NAMES.iter().position(|name| *name == table.name).unwrap();
        for bucket in &table.buckets {
            for (way, count) in [bucket.read, bucket.write].into_iter().enumerate() {
                rows.insert((place, bucket.name, way), count);
            }
        }
    }
    rows.retain(|_, count| *count > 0);
    rows
}

#[test]
fn brw_stats_are_read_as_the_crate_reads_them() {
    let (mut all, mut compared, mut counted) = (Vec::new(), 0, 0);
    texts(&fixtures().join("valid"), &mut all);
    // Three are of the parameter alone.
    for name in [
        "brw_stats_with_data.txt",
        "brw_stats_empty.txt",
        "brw_stats_with_start_and_elapsed_time.txt",
    ] {
        let path = fixtures().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        all.push((path, format!("osd-ldiskfs.fs-OST0000.brw_stats={text}")));
    }
    for (path, text) in &all {
        let mut expected = Vec::new();
        for record in lustre_collector::parse_lctl_output(text.as_bytes()).unwrap() {
            if let Record::Target(TargetStats::BrwStats(s)) = record {
                expected.push(their_rows(&s.value));
            }
        }
        let mut own = Vec::new();
        for (name, text) in parameters(text) {
            if !name.ends_with(".brw_stats") {
                continue;
            }
            let mut tables = Tables::of(&TITLES);
            let faults = histogram::parse(text.as_bytes(), |line| tables.take(&line));
            assert_eq!(faults.first, None, "{}: {name}", path.display());
            let mut rows = Rows::new();
            for (at, count) in tables
                .rows
                .iter()
                .enumerate()
                .filter(|(_, count)| ![0, ABSENT].contains(count))
            {
                let (table, way, row) = (at / ROWS / 2, at / ROWS % 2, at % ROWS);
                let last = if TITLES[table].is_log {
                    1 << (ROWS - 1)
                } else {
                    ROWS as u64 - 1
                };
                rows.insert((table, TITLES[table].bound(row).min(last), way), *count);
            }
            counted += rows.len();
            own.push(rows);
        }
        own.sort();
        expected.sort();
        compared += own.len();
        assert_eq!(own, expected, "{}", path.display());
    }
    assert!(compared > 20 && counted > 100, "{compared} {counted}");
}
