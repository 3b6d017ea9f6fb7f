//! The source as the agent uses it: looks, commits, kills, reboots.

use super::reading::Range;
use super::*;
use crate::clock::Now;
use crate::ship::batch::{open_window, RAW_BYTES_MAX};
use crate::sources::cursors::{blocks_of, restore_one};
use crate::testing::{self, Random};
use serde_json::Value as Json;
use std::sync::Mutex;

const S: i64 = 1_000_000_000;

/// What the machine has, as the next look finds it.
type Shown = Arc<Mutex<(Vec<Reading>, u64)>>;

struct Show(Shown);

impl Probe for Show {
    fn component(&self) -> &'static str {
        "shown"
    }

    fn place(&self) -> String {
        "here".into()
    }

    fn read(&mut self, found: &mut Found) {
        let shown = self.0.lock().unwrap();
        found.readings = shown.0.clone();
        (0..shown.1).for_each(|_| found.error(|| "out of order".into()));
    }
}

/// A source, what the spool holds of it, and what came of it.
pub(super) struct Site {
    make: Box<dyn Fn() -> Box<dyn Probe>>,
    pub counters: Arc<Counters>,
    source: Sampled,
    spool: Vec<Vec<u8>>,
    pub events: Vec<Json>,
    boot: u64,
    /// Since the machine's start.
    pub time_ns: i64,
    /// UTC at its start.
    pub epoch_ns: i64,
    /// UTC at each later start.
    boots_ns: Vec<i64>,
}

impl Site {
    pub fn new(make: impl Fn() -> Box<dyn Probe> + 'static) -> Site {
        let counters = Arc::new(Counters::default());
        Site {
            source: Sampled::new(make(), 9, 1, 1, &counters),
            make: Box::new(make),
            counters,
            spool: Vec::new(),
            events: Vec::new(),
            boot: 1,
            time_ns: 100 * S,
            epoch_ns: 1_700_000_000 * S,
            boots_ns: Vec::new(),
        }
    }

    fn showing(shown: &Shown) -> Site {
        let shown = shown.clone();
        Self::new(move || Box::new(Show(shown.clone())))
    }

    fn now(&self) -> Now {
        Now {
            boot_utc_ns: self.epoch_ns,
            utc_offset_ns: self.epoch_ns + self.time_ns - testing::now().pair.monotonic_ns,
            ..testing::now()
        }
    }

    /// A pass in which the source looks; batches of so many events are committed until `commits` of them were. False: killed then.
    fn pass(&mut self, events_max: u32, mut commits: usize) -> bool {
        self.source.schedule = Schedule::every(Duration::from_secs(1));
        let mut pass = Pass::new(self.now(), false);
        self.source.begin(&mut pass);
        loop {
            let mut batch = Batch::new("n1", 1, 1, events_max, RAW_BYTES_MAX);
            let progress = self.source.read(&mut pass, &mut batch);
            if commits == 0 {
                return false;
            }
            commits -= 1;
            self.commit(batch);
            if progress == Progress::Done {
                return true;
            }
        }
    }

    fn commit(&mut self, mut batch: Batch) {
        let window = batch.finish().unwrap();
        // A segment of the spool begins now and then.
        let all = self.spool.len() % 4 == 0;
        if all {
            self.spool.clear();
        }
        let cursors = blocks_of(&self.source, all);
        self.spool.push(cursors);
        if window.events > 0 {
            self.events.extend(open_window(window.payload));
        }
        self.source.committed();
    }

    /// Some time later the source looks.
    pub fn look_after(&mut self, time_ns: i64) {
        self.time_ns += time_ns;
        assert!(self.pass(4096, usize::MAX));
    }

    /// The agent is gone; another one goes on from the spool.
    pub fn restart(&mut self) {
        self.source = Sampled::new((self.make)(), 9, 1, self.boot, &self.counters);
        for cursors in &self.spool {
            assert_eq!(restore_one(&mut self.source, false, cursors), 0);
        }
    }

    fn reboot(&mut self) {
        self.boot += 1;
        self.epoch_ns += self.time_ns;
        self.time_ns = 0;
        self.boots_ns.push(self.epoch_ns);
        self.restart();
    }
}

fn reading(instance: &str, a: u64) -> Reading {
    let mut reading = Reading::new(instance);
    reading.counter("a", a, Range::Bits64, 1);
    reading
}

fn show(shown: &Shown, readings: &[(&str, u64)]) {
    shown.lock().unwrap().0 = readings.iter().map(|(name, a)| reading(name, *a)).collect();
}

/// (instance, start, end, a), times in seconds since the machine's start.
fn brief(site: &Site) -> Vec<(&str, i64, i64, u64)> {
    let row = |event: &'_ Json| {
        let of = |key: &str| (event[key].as_i64().unwrap() - site.epoch_ns) / S;
        let a = event["values"]["a"].as_u64().unwrap();
        (of("start"), of("end"), a)
    };
    let named = site.events.iter().map(|event| {
        let (start, end, a) = row(event);
        (event["instance"].as_str().unwrap(), start, end, a)
    });
    named.collect()
}

#[test]
fn the_first_read_only_sets_the_base_and_what_stands_still_is_told_once_a_minute() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    show(&shown, &[("x", 1000)]);
    for _ in 0..=90 {
        site.look_after(S);
    }
    // Then it moves in every third second.
    for raw in [1000, 1000, 1005, 1005, 1005, 1006] {
        show(&shown, &[("x", raw)]);
        site.look_after(S);
    }
    let expected = [
        ("x", 101, 161, 0),
        ("x", 161, 193, 0),
        ("x", 193, 194, 5),
        ("x", 194, 196, 0),
        ("x", 196, 197, 1),
    ];
    assert_eq!(brief(&site), expected);
    assert_eq!(site.counters.records.get(), 5);
}

#[test]
fn an_instance_that_was_gone_begins_anew_and_one_that_could_not_be_read_goes_on() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    let seen = |readings: &[(&str, u64)], errors: u64, site: &mut Site| {
        show(&shown, readings);
        shown.lock().unwrap().1 = errors;
        site.look_after(S);
    };
    seen(&[("x", 10), ("y", 10)], 0, &mut site);
    seen(&[("x", 11)], 1, &mut site);
    seen(&[("x", 11), ("y", 15)], 0, &mut site);
    seen(&[("x", 12)], 0, &mut site);
    seen(&[("x", 12), ("y", 90)], 0, &mut site);
    seen(&[("x", 12), ("y", 91)], 0, &mut site);
    let expected = [
        ("x", 101, 102, 1),
        ("y", 101, 103, 5),
        ("x", 102, 103, 0),
        ("x", 103, 104, 1),
        ("y", 105, 106, 1),
    ];
    assert_eq!(brief(&site), expected);
    assert_eq!(site.counters.failed_reads.get(), 1);
}

/// Of these instances those that the spool was told of with the last commit.
fn kept(site: &Site, names: &str) -> String {
    let bytes = site.spool.last().unwrap();
    let is_there = |name: &char| {
        let begin = [&site.boot.to_le_bytes()[..], &[1, *name as u8]].concat();
        bytes.windows(begin.len()).any(|own| own == begin)
    };
    names.chars().filter(is_there).collect()
}

#[test]
fn the_spool_is_told_of_instances_that_changed_alone() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    let look = |readings: [(&str, u64); 4], site: &mut Site| {
        show(&shown, &readings);
        site.look_after(S);
        kept(site, "ABCD")
    };
    for (expected, [a, b, c, d]) in [
        ("ABCD", [1, 1, 1, 1]),
        ("C", [1, 1, 2, 1]),
        ("BD", [1, 2, 2, 3]),
        ("", [1, 2, 2, 3]),
        // A segment begins.
        ("ABCD", [1, 2, 2, 3]),
        ("AD", [2, 2, 2, 4]),
    ] {
        let readings = [("A", a), ("B", b), ("C", c), ("D", d)];
        assert_eq!(look(readings, &mut site), expected);
    }
}

/// Half of what is shown in each look: what is called before "m", then the rest.
struct Halves(Shown, bool);

impl Probe for Halves {
    fn component(&self) -> &'static str {
        "shown"
    }

    fn place(&self) -> String {
        "here".into()
    }

    fn read(&mut self, found: &mut Found) {
        self.1 = !self.1;
        found.more = self.1;
        let shown = self.0.lock().unwrap();
        let (before, errors) = &*shown;
        let is_now = |reading: &&Reading| (&*reading.instance < "m") == found.more;
        found.readings = before.iter().filter(is_now).cloned().collect();
        let errors = if found.more { 0 } else { *errors };
        (0..errors).for_each(|_| found.error(|| "out of order".into()));
    }
}

#[test]
fn a_look_that_comes_in_parts_is_one_and_nothing_is_gone_before_its_end() {
    let shown = Shown::default();
    let own = shown.clone();
    let mut site = Site::new(move || Box::new(Halves(own.clone(), false)));
    let seen = |readings: &[(&str, u64)], site: &mut Site| {
        let now = site.now().instant;
        show(&shown, readings);
        site.look_after(S);
        // Only a whole look is done.
        assert!(site.source.schedule.is_due(now));
        site.time_ns += S;
        site.pass(4096, usize::MAX);
        assert!(!site.source.schedule.is_due(now));
    };
    seen(&[("a", 10), ("b", 10), ("x", 10)], &mut site);
    seen(&[("a", 11), ("b", 11), ("x", 11)], &mut site);
    seen(&[("a", 12), ("x", 12)], &mut site);
    seen(&[("a", 13), ("b", 99), ("x", 13)], &mut site);
    seen(&[("a", 14), ("b", 100), ("x", 14)], &mut site);
    let of = |name: &str| -> Vec<_> {
        let own = brief(&site).into_iter().filter(|row| row.0 == name);
        own.map(|row| (row.1, row.2, row.3)).collect()
    };
    assert_eq!(
        of("a"),
        [(101, 103, 1), (103, 105, 1), (105, 107, 1), (107, 109, 1)]
    );
    assert_eq!(
        of("x"),
        [(102, 104, 1), (104, 106, 1), (106, 108, 1), (108, 110, 1)]
    );
    assert_eq!(of("b"), [(101, 103, 1), (107, 109, 1)]);
}

#[test]
fn names_that_come_twice_or_are_too_long_and_what_is_beyond_the_bound_are_not_told() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    let long = "l".repeat(256);
    for raw in [1, 2] {
        let mut readings: Vec<Reading> = (0..INSTANCES_MAX)
            .map(|n| reading(&format!("{n:05}"), raw))
            .collect();
        readings.extend([reading("00000", 7 * raw), reading(&long, raw)]);
        readings.push(reading("z", raw));
        shown.lock().unwrap().0 = readings;
        site.look_after(S);
    }
    assert_eq!(site.events.len(), INSTANCES_MAX);
    assert!(brief(&site).iter().all(|row| row.3 == 1 && row.0 != "z"));
    assert_eq!(site.counters.failed_reads.get(), 2);
}

#[test]
fn what_is_not_there_is_looked_for_again_after_a_while() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    site.look_after(S);
    assert!(site.source.due().unwrap() >= site.now().instant + LOOK_AGAIN);
    show(&shown, &[("x", 1)]);
    site.look_after(S);
    assert!(site.source.due().unwrap() < site.now().instant + LOOK_AGAIN / 2);
    assert_eq!(site.counters.failed_reads.get(), 0);
}

/// A counter of a machine as it truly is, and as it is printed.
struct Truth {
    range: Range,
    end: u128,
    /// As it is printed.
    raw: u64,
    /// All that it moved since the base was set.
    moved: u128,
}

/// Over kills at any instant, resets, reboots, wraps, full batches and silent stretches: what samples say adds up to what was, and one instance's
/// samples follow each other without gap or overlap.
#[test]
fn sums_are_exact_whatever_happens() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let shown = Shown::default();
        let mut site = Site::showing(&shown);
        let instances = ["x", "y", "z"];
        let ranges = [
            (Range::Bits64, 1 << 64, 1 << 40),
            (Range::Bits32, 1 << 32, 1 << 32),
            (Range::To(999_999), 1_000_000, 1_000_000),
        ];
        let mut truth: Vec<Vec<Truth>> = instances
            .map(|_| {
                let begun = ranges.map(|(range, end, below)| Truth {
                    range,
                    end,
                    raw: random.below(below),
                    moved: 0,
                });
                begun.into_iter().collect()
            })
            .into();
        let show = |truth: &Vec<Vec<Truth>>| {
            let readings = instances.iter().zip(truth).map(|(name, counters)| {
                let mut reading = Reading::new(*name);
                for (value, counter) in ["a", "b", "c"].into_iter().zip(counters) {
                    reading.counter(value, counter.raw, counter.range, 1);
                }
                reading
            });
            shown.lock().unwrap().0 = readings.collect();
        };
        show(&truth);
        site.look_after(S);
        for _ in 0..60 {
            for counters in &mut truth {
                if random.below(2) == 0 {
                    continue;
                }
                for counter in counters.iter_mut() {
                    let by = random.below(1000).pow(random.below(3) as u32);
                    let by = by % (counter.end / 40) as u64;
                    counter.moved += by as u128;
                    counter.raw = ((counter.raw as u128 + by as u128) % counter.end) as u64;
                }
            }
            show(&truth);
            site.time_ns += S;
            match random.below(12) {
                0 => {
                    site.pass(1 + random.below(2) as u32, random.below(4) as usize);
                    site.restart();
                }
                1 => site.restart(),
                2 => {
                    assert!(site.pass(4096, usize::MAX));
                    // The machine begins anew, and with it all that counts; the agent's first look there says from where.
                    for counter in truth.iter_mut().flatten() {
                        counter.raw = random.below(1000);
                    }
                    show(&truth);
                    site.reboot();
                    site.look_after(S);
                }
                3 => {
                    // A device is replaced: what the new one counts, counts from 0. It is seen by the first counter, which falls.
                    assert!(site.pass(4096, usize::MAX));
                    let of = &mut truth[random.below(3) as usize];
                    if of[0].raw > 0 {
                        of[0].raw = random.below(of[0].raw);
                        of[1].raw = random.below(1000);
                        of[2].raw = random.below(1000);
                        for counter in of {
                            counter.moved += counter.raw as u128;
                        }
                    }
                    show(&truth);
                    site.look_after(S);
                }
                _ => assert!(site.pass(1 + random.below(5) as u32, usize::MAX)),
            }
        }
        site.look_after(S);
        for (name, counters) in instances.iter().zip(&truth) {
            let of_it = |event: &&Json| event["instance"] == *name;
            for (value, counter) in ["a", "b", "c"].into_iter().zip(counters) {
                let told = site.events.iter().filter(of_it);
                let sum: u128 = told
                    .map(|e| e["values"][value].as_u64().unwrap() as u128)
                    .sum();
                assert_eq!(sum, counter.moved, "seed {seed}: {name} {value}");
            }
            let mut last = None;
            for event in site.events.iter().filter(of_it) {
                let [start, end] = ["start", "end"].map(|key| event[key].as_i64().unwrap());
                assert!(start < end, "{event}");
                // What was counted between a machine's start and the first look nobody saw.
                let is_boot = |last: i64| site.boots_ns.iter().any(|b| (last..start).contains(b));
                assert!(
                    last.is_none_or(|last| start == last || is_boot(last)),
                    "{event}"
                );
                last = Some(end);
            }
        }
    }
}

/// Connections come and go; some of them from the same port, and over a restart of the agent.
#[test]
fn what_is_new_since_all_was_known_counts_from_0_and_else_from_then_on() {
    let shown = Shown::default();
    let mut site = Site::showing(&shown);
    let mut next = |since_s: Option<i64>, clients: &[(&str, &[(&str, u64)])]| {
        let since = since_s.map(|s| At {
            boot_ns: s * S,
            utc_ns: site.epoch_ns + s * S,
        });
        let read = |(client, connections): &(&str, &[(&str, u64)])| {
            let mut reading = Reading::new(*client);
            reading.since = since;
            for (port, raw) in *connections {
                reading.part(port);
                reading.counter("a", *raw, Range::Bits64, 1);
            }
            reading
        };
        shown.lock().unwrap().0 = clients.iter().map(read).collect();
        site.look_after(S);
        let told: Vec<(String, i64, i64, u64)> = brief(&site)
            .into_iter()
            .map(|(name, start, end, a)| (name.to_string(), start, end, a))
            .collect();
        site.events.clear();
        told
    };
    let x = |start: i64, end: i64, a: u64| ("x".to_string(), start, end, a);
    assert_eq!(next(None, &[("x", &[("1", 1000)])]), []);
    // One more connection; then only that one; then a third in its place that has counted less, and a new client.
    assert_eq!(
        next(Some(101), &[("x", &[("1", 1001), ("2", 30)])]),
        [x(101, 102, 31)]
    );
    assert_eq!(next(Some(102), &[("x", &[("2", 35)])]), [x(102, 103, 5)]);
    let told = next(Some(103), &[("x", &[("2", 7)]), ("y", &[("9", 50)])]);
    assert_eq!(told, [x(103, 104, 7), ("y".into(), 103, 104, 50)]);
    // Nobody knows since when these are there.
    assert_eq!(
        next(
            None,
            &[("x", &[("2", 8), ("3", 4000)]), ("z", &[("1", 900)])]
        ),
        [x(104, 105, 1)]
    );
    assert_eq!(
        next(Some(105), &[("x", &[("3", 4001)]), ("z", &[("1", 901)])]).len(),
        2
    );
}
