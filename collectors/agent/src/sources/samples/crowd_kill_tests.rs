//! What the spool keeps of the tables: an agent that goes on from it tells what happened meanwhile, once.

use super::tests::{Show, Shown};
use super::*;
use crate::ship::batch::{open_window, RAW_BYTES_MAX};
use crate::sources::cursors::{blocks_of, restore_one};
use crate::testing::{self, Random};
use serde_json::Value as Json;

const S: i64 = 1_000_000_000;
const EPOCH_NS: i64 = 1_700_000_000 * S;

/// A source, what the spool holds of it, and what came of it.
struct Machine {
    shown: Shown,
    counters: Arc<Counters>,
    source: Crowd,
    spool: Vec<Vec<u8>>,
    events: Vec<Json>,
    bytes_max: usize,
    kernel_boot: u64,
    booted_ns: i64,
    time_ns: i64,
}

impl Machine {
    fn new(bytes_max: usize) -> Machine {
        let (shown, counters) = (Shown::default(), Arc::default());
        let source = Self::source(&shown, bytes_max, 1, &counters);
        Machine {
            shown,
            counters,
            source,
            spool: Vec::new(),
            events: Vec::new(),
            bytes_max,
            kernel_boot: 1,
            booted_ns: EPOCH_NS,
            time_ns: EPOCH_NS,
        }
    }

    fn source(shown: &Shown, bytes_max: usize, boot: u64, counters: &Arc<Counters>) -> Crowd {
        let members = Show::new(shown, &Arc::default());
        Crowd::new(members, 9, 1, (boot, bytes_max), counters)
    }

    /// A second later the source looks; batches of so many events are committed until `commits` of them were. False: killed then.
    fn look(&mut self, events_max: u32, mut commits: usize) -> bool {
        self.time_ns += S;
        let now = crate::clock::Now {
            boot_utc_ns: self.booted_ns,
            utc_offset_ns: self.time_ns - testing::now().pair.monotonic_ns,
            ..testing::now()
        };
        self.source.schedule = Schedule::every(Duration::from_secs(1));
        let mut pass = Pass::new(now, false);
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
        // A segment of the spool begins now and then.
        let all = self.spool.len() % 7 == 0;
        if all {
            self.spool.clear();
        }
        let cursors = blocks_of(&self.source, all);
        assert!(cursors.len() <= self.bytes_max + 1024);
        self.spool.push(cursors);
        let window = batch.finish().unwrap();
        if window.events > 0 {
            self.events.extend(open_window(window.payload));
        }
        self.source.committed();
    }

    /// The agent is gone; another one goes on from the spool. Answers how much of it made no sense.
    fn restart(&mut self) -> u64 {
        self.source = Self::source(
            &self.shown,
            self.bytes_max,
            self.kernel_boot,
            &self.counters,
        );
        let source = &mut self.source;
        let entries = self.spool.iter().enumerate();
        entries
            .map(|(at, cursors)| restore_one(source, at == 0, cursors))
            .sum()
    }

    fn reboot(&mut self) {
        (self.kernel_boot, self.booted_ns) = (self.kernel_boot + 1, self.time_ns);
        assert_eq!(self.restart(), 0);
    }

    fn show(&self, group: &'static str, members: &[(&'static str, u64)]) {
        let members = members
            .iter()
            .map(|(name, count)| (*name, 0, vec![*count, 0, 0]));
        let mut shown = self.shown.lock().unwrap();
        shown.retain(|(own, ..)| *own != group);
        shown.push((group, members.collect(), true));
    }

    /// What was told of an instance, added up; its samples do not overlap.
    fn sum(&self, instance: &str) -> u64 {
        let (mut sum, mut end) = (0, 0);
        for event in self.events.iter().filter(|e| e["instance"] == instance) {
            let time = |key: &str| event[key].as_i64().unwrap();
            assert!(
                time("start") >= end && time("end") > time("start"),
                "{event}"
            );
            end = time("end");
            sum += event["values"]["count"].as_u64().unwrap_or(0);
        }
        sum
    }
}

/// However agents are killed, segments begin, members and groups come and go, counters begin anew and looks fail: what is told of each is what it counted.
#[test]
fn kills_lose_nothing_and_count_nothing_twice() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    const GROUPS: [&str; 2] = ["s", "t"];
    let mut random = Random::new(5);
    let (mut kills, mut reboots) = (0, 0);
    for _ in 0..300 {
        let mut machine = Machine::new(1 << 20);
        let mut counts = [[None; NAMES.len()]; GROUPS.len()];
        let mut truth = [[0; NAMES.len()]; GROUPS.len()];
        let mut is_whole = true;
        for look in 0..40 {
            let is_cut = look > 0 && random.below(6) == 0;
            let commits = match random.below(4) {
                0 if look > 0 => random.below(4) as usize,
                _ => usize::MAX,
            };
            // What a member did before it goes or begins anew is told, and the next look sees that.
            let may_end = is_whole && !is_cut && commits == usize::MAX;
            for (group, name) in
                (0..GROUPS.len()).flat_map(|g| (0..NAMES.len()).map(move |n| (g, n)))
            {
                let more = random.below(3) * random.below(100);
                let count = &mut counts[group][name];
                match (*count, random.below(8)) {
                    (Some(_), 0) if may_end => *count = None,
                    (Some(was), 1) if may_end && more < was => *count = Some(more),
                    (Some(was), _) => *count = Some(was + more),
                    (None, 2 | 3) => *count = Some(more),
                    (None, _) => continue,
                }
                // At the first look it was there before.
                truth[group][name] += if look > 0 && count.is_some() { more } else { 0 };
            }
            machine.shown.lock().unwrap().clear();
            for (group, counts) in GROUPS.iter().zip(&counts) {
                let there: Vec<(&'static str, u64)> = (NAMES.iter().zip(counts))
                    .filter_map(|(name, count)| Some((*name, (*count)?)))
                    .collect();
                if look == 0 || !there.is_empty() {
                    machine.show(group, &there);
                }
            }
            if is_cut {
                // From somewhere on a group cannot be read.
                for (_, members, is_whole) in machine.shown.lock().unwrap().iter_mut() {
                    (*is_whole, _) = (false, members.truncate(random.below(5) as usize));
                }
            }
            let is_done = machine.look(1 + random.below(5) as u32, commits);
            is_whole = is_done && !is_cut;
            if !is_done {
                kills += 1;
                assert_eq!(machine.restart(), 0);
            } else if is_whole && random.below(12) == 0 {
                reboots += 1;
                counts = Default::default();
                machine.reboot();
            } else if random.below(6) == 0 {
                assert_eq!(machine.restart(), 0);
            }
        }
        // A last look that reads all.
        let groups = machine.shown.lock().unwrap().len();
        machine.shown.lock().unwrap().clear();
        for (group, counts) in GROUPS.iter().zip(&counts) {
            let there = NAMES.iter().zip(counts);
            let there: Vec<_> = there
                .filter_map(|(name, count)| Some((*name, (*count)?)))
                .collect();
            machine.show(group, &there);
        }
        assert!(groups <= GROUPS.len() && machine.look(4096, usize::MAX));
        for (group, truth) in GROUPS.iter().zip(&truth) {
            for (name, truth) in NAMES.iter().zip(truth) {
                assert_eq!(
                    machine.sum(&format!("{group} {name}")),
                    *truth,
                    "{group} {name}"
                );
            }
        }
    }
    assert!(kills > 500 && reboots > 100, "{kills} {reboots}");
}

#[test]
fn what_counted_since_the_machine_started_is_told_after_a_reboot() {
    let mut machine = Machine::new(1 << 20);
    machine.show("t", &[("a", 1000)]);
    assert!(machine.look(9, 9));
    machine.time_ns += 50 * S;
    machine.reboot();
    machine.show("t", &[("a", 7), ("b", 3)]);
    machine.time_ns += 20 * S;
    assert!(machine.look(9, 9));
    assert_eq!((machine.sum("t a"), machine.sum("t b")), (7, 3));
    for event in &machine.events {
        assert_eq!(event["start"], machine.booted_ns);
        assert_eq!(event["end"], machine.booted_ns + 21 * S);
    }
}

/// Where time is told there is no clock since the machine's start: nothing began in 1970.
#[test]
fn what_counted_since_a_start_that_nobody_knows_is_not_told() {
    let mut machine = Machine::new(1 << 20);
    machine.show("t", &[("a", 1000)]);
    assert!(machine.look(9, 9));
    machine.reboot();
    machine.booted_ns = 0;
    machine.show("t", &[("a", 7)]);
    assert!(machine.look(9, 9));
    assert!(machine.events.is_empty(), "{:?}", machine.events);
    machine.show("t", &[("a", 9), ("b", 3)]);
    assert!(machine.look(9, 9));
    assert_eq!((machine.sum("t a"), machine.sum("t b")), (2, 3));
    for event in &machine.events {
        assert_eq!(event["start"], machine.time_ns - S);
    }
}

#[test]
fn a_target_that_comes_to_this_node_counts_from_0() {
    let mut machine = Machine::new(1 << 20);
    machine.show("t", &[("a", 1000)]);
    assert!(machine.look(9, 9));
    assert_eq!(machine.restart(), 0);
    machine.show("u", &[("a", 5)]);
    assert!(machine.look(9, 9));
    machine
        .shown
        .lock()
        .unwrap()
        .retain(|(group, ..)| *group == "t");
    assert!(machine.look(9, 9) && machine.restart() == 0);
    machine.show("u", &[("a", 6)]);
    assert!(machine.look(9, 9));
    assert_eq!((machine.sum("t a"), machine.sum("u a")), (0, 11));
}

#[test]
fn a_spool_without_room_keeps_nothing_and_says_so_once() {
    let names: Vec<&'static str> = (0..200).map(|n| &*format!("job {n}").leak()).collect();
    let members = |count: u64| -> Vec<_> { names.iter().map(|name| (*name, count)).collect() };
    let mut machine = Machine::new(4096);
    machine.show("t", &members(1000));
    for count in 1001..1004 {
        assert!(machine.look(4096, 9));
        machine.show("t", &members(count));
    }
    assert_eq!(machine.counters.unkept_tables.get(), 1);
    assert_eq!(machine.restart(), 0);
    assert!(machine.look(4096, 9));
    assert_eq!(machine.sum("t job 7"), 2, "the rest went with the agent");
    // Once it fits again it is kept, in a segment that has begun.
    machine.show("t", &members(1004)[..20]);
    assert!(machine.look(4096, 9));
    assert_eq!(machine.restart(), 0);
    machine.show("t", &members(1009)[..20]);
    assert!(machine.look(4096, 9));
    assert_eq!(machine.sum("t job 7"), 8);
    assert_eq!(
        machine.counters.unkept_tables.get(),
        2,
        "once for each agent"
    );
}

/// Of what breaks off nothing is taken for new: better a base anew than counts of days told as those of a second.
#[test]
fn what_makes_no_sense_in_the_spool_counts_nothing_twice() {
    let mut machine = Machine::new(1 << 20);
    machine.show("s", &[("a", 1000), ("b", 2000)]);
    machine.show("t", &[("a", 3000)]);
    assert!(machine.look(9, 9));
    let whole = machine.spool[0].clone();
    for length in 0..whole.len() {
        machine.spool = vec![whole[..length].to_vec()];
        machine.restart();
        assert!(machine.look(9, 9));
        assert!(machine.events.is_empty(), "{length}");
    }
    machine.spool = vec![whole];
    assert_eq!(machine.restart(), 0);
    machine.show("s", &[("a", 1000), ("b", 2000), ("c", 5)]);
    assert!(machine.look(9, 9));
    assert_eq!(machine.sum("s c"), 5);
}
