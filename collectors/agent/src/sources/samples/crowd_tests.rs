//! The source of many instances as the agent uses it: looks, full batches, members that come, go and begin anew; and what 40,000 cost.

use super::super::INSTANCE_BYTES_MAX;
use super::looks::LOOKS_MAX;
use super::members::ABSENT;
use super::*;
use crate::ship::batch::{open_window, RAW_BYTES_MAX};
use crate::testing::{self, Random};
use serde_json::{json, Value as Json};
use std::sync::Mutex;

const S: i64 = 1_000_000_000;

/// A source, and what came of it.
pub struct Site {
    pub source: Crowd,
    pub events: Vec<Json>,
    time_ns: i64,
    events_max: u32,
}

impl Site {
    pub fn new(members: Box<dyn Members>) -> Site {
        let counters = Arc::new(Counters::default());
        Site {
            source: Crowd::new(members, 9, 1, (1, 1 << 20), &counters),
            events: Vec::new(),
            time_ns: 1_700_000_100 * S,
            events_max: 4096,
        }
    }

    /// A second later the source looks.
    pub fn look(&mut self) {
        self.time_ns += S;
        let now = crate::clock::Now {
            boot_utc_ns: 1_700_000_000 * S,
            utc_offset_ns: self.time_ns - testing::now().pair.monotonic_ns,
            ..testing::now()
        };
        self.source.schedule = Schedule::every(Duration::from_secs(1));
        let mut pass = Pass::new(now, false);
        loop {
            let mut batch = Batch::new("n1", 1, 1, self.events_max, RAW_BYTES_MAX);
            let progress = self.source.read(&mut pass, &mut batch);
            let window = batch.finish().unwrap();
            if window.events > 0 {
                self.events.extend(open_window(window.payload));
            }
            if progress == Progress::Done {
                return;
            }
        }
    }

    /// What was told since the last call: instance, seconds of the interval, values.
    fn told(&mut self) -> Vec<(String, [i64; 2], Json)> {
        let second = |event: &Json, key: &str| event[key].as_i64().unwrap() / S - 1_700_000_100;
        let events = self.events.drain(..);
        events
            .map(|event| {
                let name = event["instance"].as_str().unwrap().to_string();
                (
                    name,
                    [second(&event, "start"), second(&event, "end")],
                    event["values"].clone(),
                )
            })
            .collect()
    }
}

pub type Member = (&'static str, u32, Vec<u64>);
/// Groups; of each its members, and whether it can be read to its end.
pub type Shown = Arc<Mutex<Vec<(&'static str, Vec<Member>, bool)>>>;

pub struct Show {
    shown: Shown,
    members: std::vec::IntoIter<Member>,
    is_whole: bool,
    now: Member,
    asked: Arc<Mutex<u64>>,
}

impl Show {
    pub fn new(shown: &Shown, asked: &Arc<Mutex<u64>>) -> Box<Show> {
        Box::new(Show {
            shown: shown.clone(),
            members: Vec::new().into_iter(),
            is_whole: true,
            now: ("", 0, Vec::new()),
            asked: asked.clone(),
        })
    }
}

impl Members for Show {
    fn component(&self) -> &'static str {
        "shown"
    }

    fn place(&self) -> String {
        "here".into()
    }

    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, scale| Column {
            name: name.into(),
            scale,
            part: 0,
        };
        vec![
            column("count", Some(1)),
            column("ns", Some(1000)),
            column("depth", None),
        ]
    }

    fn groups(&mut self, _found: &mut Found) -> Vec<String> {
        let shown = self.shown.lock().unwrap();
        shown.iter().map(|(name, ..)| name.to_string()).collect()
    }

    fn open(&mut self, group: &str, _found: &mut Found) -> bool {
        let shown = self.shown.lock().unwrap();
        let (_, members, is_whole) = shown.iter().find(|(name, ..)| *name == group).unwrap();
        (self.members, self.is_whole) = (members.clone().into_iter(), *is_whole);
        true
    }

    fn next(&mut self, _now: i64, found: &mut Found) -> bool {
        let next = self.members.next();
        if next.is_none() && !self.is_whole {
            found.error(|| "it breaks off".into());
        }
        next.map(|next| self.now = next).is_some()
    }

    fn name(&self) -> &[u8] {
        self.now.0.as_bytes()
    }

    fn mark(&self) -> u32 {
        self.now.1
    }

    fn values(&mut self, out: &mut [u64], _found: &mut Found) -> bool {
        *self.asked.lock().unwrap() += 1;
        out.copy_from_slice(&self.now.2);
        true
    }
}

fn site(events_max: u32) -> (Shown, Arc<Mutex<u64>>, Site) {
    let (shown, asked) = (Shown::default(), Arc::default());
    let mut site = Site::new(Show::new(&shown, &asked));
    site.events_max = events_max;
    (shown, asked, site)
}

fn show(shown: &Shown, members: &[Member], is_whole: bool) {
    *shown.lock().unwrap() = vec![("t", members.to_vec(), is_whole)];
}

#[test]
fn members_are_told_when_they_change_and_what_is_new_counts_from_0() {
    // However small the batches, the same comes of it, and nothing twice.
    for events_max in [1, 2, 4096] {
        let (shown, asked, mut site) = site(events_max);
        show(
            &shown,
            &[("a", 1, vec![5, 50, 1]), ("b", 1, vec![7, 0, 0])],
            true,
        );
        site.look(); // 1: the base
        site.look();
        assert_eq!(site.told(), []);
        assert_eq!(
            *asked.lock().unwrap(),
            2,
            "the mark says that nothing has changed"
        );
        show(
            &shown,
            &[
                ("a", 2, vec![6, 53, 1]),
                ("b", 1, vec![7, 0, 0]),
                ("c", 1, vec![3, 1, 0]),
            ],
            true,
        );
        site.look(); // 3
        let quiet = json!({"count": 0, "ns": 0, "depth": 1});
        assert_eq!(
            site.told(),
            [
                ("t a".into(), [1, 2], quiet),
                (
                    "t a".into(),
                    [2, 3],
                    json!({"count": 1, "ns": 3000, "depth": 1})
                ),
                (
                    "t c".into(),
                    [2, 3],
                    json!({"count": 3, "ns": 1000, "depth": 0})
                ),
            ]
        );
        // One that is gone and comes back is another; one that falls began anew, also what was not read of it.
        show(
            &shown,
            &[("a", 3, vec![2, ABSENT, 0]), ("c", 1, vec![3, 1, 0])],
            true,
        );
        site.look(); // 4
        show(
            &shown,
            &[
                ("a", 4, vec![2, 4, 9]),
                ("b", 1, vec![8, 0, 0]),
                ("c", 1, vec![3, 1, 0]),
            ],
            true,
        );
        site.look(); // 5
        assert_eq!(
            site.told(),
            [
                ("t a".into(), [3, 4], json!({"count": 2, "depth": 0})),
                (
                    "t a".into(),
                    [4, 5],
                    json!({"count": 0, "ns": 4000, "depth": 9})
                ),
                ("t b".into(), [4, 5], json!({"count": 8, "depth": 0})),
            ]
        );
    }
}

#[test]
fn what_could_not_be_read_stays_as_it_was() {
    let (shown, _, mut site) = site(4096);
    show(
        &shown,
        &[("a", 0, vec![5, 0, 0]), ("b", 0, vec![7, 9, 0])],
        true,
    );
    site.look();
    show(
        &shown,
        &[("a", 0, vec![6, 0, 0]), ("new", 0, vec![1, 0, 0])],
        false,
    );
    site.look();
    show(
        &shown,
        &[
            ("a", 0, vec![8, 0, 0]),
            ("b", 0, vec![9, ABSENT, 0]),
            ("new", 0, vec![1, 0, 0]),
        ],
        true,
    );
    site.look();
    assert_eq!(
        site.told(),
        [
            ("t a".into(), [1, 2], json!({"count": 1, "depth": 0})),
            ("t new".into(), [1, 2], json!({"count": 1, "depth": 0})),
            ("t a".into(), [2, 3], json!({"count": 2, "depth": 0})),
            (
                "t b".into(),
                [1, 3],
                json!({"count": 2, "ns": 0, "depth": 0})
            ),
        ]
    );
    assert_eq!(site.source.counters.failed_reads.get(), 1);
}

#[test]
fn a_name_that_is_there_twice_or_too_long_is_not_told() {
    let (shown, _, mut site) = site(4096);
    let long: &'static str = "x".repeat(INSTANCE_BYTES_MAX).leak();
    show(
        &shown,
        &[
            ("a", 0, vec![5, 0, 0]),
            ("a", 0, vec![9, 0, 0]),
            (long, 0, vec![1, 0, 0]),
        ],
        true,
    );
    site.look();
    show(
        &shown,
        &[
            ("a", 0, vec![6, 0, 0]),
            ("a", 0, vec![19, 0, 0]),
            (long, 0, vec![2, 0, 0]),
        ],
        true,
    );
    site.look();
    assert_eq!(
        site.told(),
        [("t a".into(), [1, 2], json!({"count": 1, "depth": 0}))]
    );
    assert_eq!(site.source.counters.failed_reads.get(), 4);
}

#[test]
fn one_that_stands_still_for_long_is_told_before_its_time_is_forgotten() {
    let (shown, _, mut site) = site(4096);
    show(&shown, &[("a", 1, vec![5, 0, 0])], true);
    for _ in 0..LOOKS_MAX - 1 {
        site.look();
    }
    assert_eq!(site.told(), []);
    for _ in 0..LOOKS_MAX {
        site.look();
    }
    let end = LOOKS_MAX as i64;
    let quiet = json!({"count": 0, "depth": 0});
    assert_eq!(
        site.told(),
        [
            ("t a".into(), [1, end], quiet.clone()),
            ("t a".into(), [end, 2 * end - 1], quiet),
        ]
    );
    assert_eq!(site.source.looks.len(), LOOKS_MAX);
}

/// However looks fail and batches fill: what is told of each member adds up to what it counted, and its samples follow each other.
#[test]
fn what_is_told_adds_up() {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    const LOOKS: i64 = 20;
    let mut random = Random::new(11);
    for _ in 0..200 {
        let (shown, _, mut site) = site(1 + random.below(5) as u32);
        let mut counts = [1000; NAMES.len()];
        for look in 1..=LOOKS {
            let is_whole = look == 1 || look == LOOKS || random.below(4) > 0;
            let mut members = Vec::new();
            for (name, count) in NAMES.iter().zip(&mut counts) {
                if look > 1 {
                    *count += random.below(3) * random.below(100);
                }
                if is_whole || random.below(2) == 0 {
                    members.push((*name, 0, vec![*count, 0, 0]));
                }
            }
            show(&shown, &members, is_whole);
            site.look();
        }
        let told = site.told();
        for (name, count) in NAMES.iter().zip(counts) {
            let instance = format!("t {name}");
            let (mut sum, mut end) = (0, 1);
            for (_, [since, until], values) in told.iter().filter(|(own, ..)| *own == instance) {
                assert_eq!(*since, end, "{name}");
                sum += values["count"].as_u64().unwrap();
                end = *until;
            }
            assert_eq!(sum, count - 1000, "{name}");
        }
    }
}
