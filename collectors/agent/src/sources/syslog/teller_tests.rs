//! What the times of messages, and of the node's clock, do to what is told.

use super::*;
use crate::ship::batch::{open_window, RAW_BYTES_MAX};
use serde_json::Value as Json;

const DAY_NS: i64 = 24 * 3600 * NS_PER_S;
const NOW_NS: i64 = 1_795_392_000 * NS_PER_S; // 2026-11-23 00:00

struct Heard {
    teller: Teller,
    wanted: Wanted,
    counters: Counters,
    batch: Batch,
}

impl Heard {
    fn new(per_minute: u32) -> Heard {
        Heard {
            teller: Teller::default(),
            wanted: Wanted {
                oldest_ns: Some(DAY_NS),
                severity: 4,
                per_minute,
                events: Events::new(&Default::default()),
            },
            counters: Counters::default(),
            batch: Batch::new("n1", 1, 1, 10_000, RAW_BYTES_MAX),
        }
    }

    fn look(&mut self, now_ns: i64) {
        self.teller.look(now_ns, &self.wanted);
    }

    fn say(&mut self, time: i64, origin: Origin, text: &str) {
        let said = Said {
            time,
            severity: Some(3),
            facility: None,
            program: b"kernel",
            text: text.as_bytes(),
            origin,
            count: 1,
        };
        self.teller.take(&said, &self.wanted, &self.counters);
        assert!(self.teller.tell("/log", &self.counters, &mut self.batch));
    }

    /// Texts and how often each was said, as they were told.
    fn told(mut self, now_ns: i64) -> Vec<(String, u64)> {
        self.teller.rest(now_ns, true);
        assert!(self.teller.tell("/log", &self.counters, &mut self.batch));
        assert!(!self.teller.has_rest());
        let of = |event: &Json| {
            let text = event["event"].as_str().or(event["text"].as_str()).unwrap();
            (text.to_string(), event["count"].as_u64().unwrap())
        };
        let window = self.batch.finish().unwrap();
        open_window(window.payload).iter().map(of).collect()
    }
}

fn once(texts: &[&str]) -> Vec<(String, u64)> {
    texts.iter().map(|text| (text.to_string(), 1)).collect()
}

#[test]
fn a_clock_that_was_ahead_at_the_first_look_silences_nothing() {
    let mut heard = Heard::new(10);
    heard.look(NOW_NS + 2 * DAY_NS);
    heard.say(NOW_NS, Origin::Kernel, "long ago");
    heard.look(NOW_NS);
    heard.say(NOW_NS, Origin::Kernel, "now");
    heard.say(NOW_NS - DAY_NS - 1, Origin::Kernel, "a day ago");
    // Set again, it does not forget what was said before it was.
    heard.look(NOW_NS + DAY_NS);
    heard.say(NOW_NS - DAY_NS, Origin::Kernel, "within a day");
    assert_eq!(heard.told(NOW_NS), once(&["now", "within a day"]));
}

#[test]
fn a_clock_that_was_ahead_as_a_log_went_back_leaves_nothing_out() {
    let mut heard = Heard::new(1);
    let ahead = NOW_NS + 30 * DAY_NS;
    heard.look(ahead);
    heard.say(ahead, Origin::Kernel, "ahead");
    heard.say(ahead - 600 * NS_PER_S, Origin::Kernel, "back once");
    heard.say(ahead + 60 * NS_PER_S, Origin::Kernel, "ahead again");
    heard.look(NOW_NS);
    heard.say(NOW_NS, Origin::Kernel, "now");
    let told = once(&["ahead", "back once", "ahead again", "now"]);
    assert_eq!(heard.told(NOW_NS), told);
}

/// The same text at times that go to and fro must not get round the bound.
#[test]
fn the_same_message_at_times_to_and_fro_has_its_bound() {
    const PER_MINUTE: u32 = 5;
    let mut heard = Heard::new(PER_MINUTE);
    heard.look(NOW_NS);
    for n in 0..1000 {
        heard.say(NOW_NS + n % 2 * 11 * NS_PER_S, Origin::User, "again");
    }
    assert_eq!(heard.counters.left_out_messages.get(), 1000 - 5);
    let told = heard.told(NOW_NS);
    assert!(told.len() <= 2 * PER_MINUTE as usize + 1, "{told:?}");
    assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), 1000);
}

/// What is said steadily is told with its count every ten seconds, also where the node's clock is not the log's.
#[test]
fn what_comes_again_is_told_with_its_count() {
    let mut heard = Heard::new(10);
    heard.look(NOW_NS);
    for second in 0..20 {
        heard.say(NOW_NS + second * NS_PER_S, Origin::Kernel, "again");
    }
    heard.teller.rest(NOW_NS + 14 * NS_PER_S, false);
    assert!(!heard.teller.waits());
    for far in [NOW_NS - DAY_NS, NOW_NS + DAY_NS] {
        heard.teller.rest(far, false);
    }
    assert!(heard.teller.waits());
    let told: Vec<u64> = heard.told(NOW_NS).into_iter().map(|(_, n)| n).collect();
    assert_eq!(told, [1, 11, 1, 7]);
}

#[test]
fn no_users_messages_keep_others_from_being_told() {
    let mut heard = Heard::new(2);
    heard.look(NOW_NS);
    for n in 0..100 {
        heard.say(NOW_NS, Origin::User, &format!("user {n}"));
    }
    heard.say(NOW_NS, Origin::Kernel, "kernel");
    heard.say(NOW_NS, Origin::Root, "root");
    heard.say(NOW_NS, Origin::Root, "more of root");
    heard.say(
        NOW_NS,
        Origin::Kernel,
        "Lustre: Failing over scratch-OST0001",
    );
    let mut expected = once(&["user 0", "user 1", "kernel", "root", "lustre_failover"]);
    expected.push(("messages_left_out".into(), 99));
    assert_eq!(heard.told(NOW_NS), expected);
}
