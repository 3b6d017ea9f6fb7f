use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::event;
use crate::ship::spool::Spool;
use crate::testing::{temp_dir, Random};
use std::sync::{mpsc, Arc};
use std::thread;

const SPOOL_BYTES_MAX: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(30);

/// An agent of steps with a window that its spool has no room for.
fn stuck(name: &str) -> Agent {
    let config = Config {
        spool: temp_dir(name),
        ..Config::default()
    };
    let counters = Arc::new(Counters::default());
    let restore = |_, _: &[u8]| ();
    let spool = Spool::open(&config.spool, SPOOL_BYTES_MAX, 1 << 20, &counters, restore);
    let mut clock = Clock::start();
    clock.tell(5);
    let spool = spool.unwrap();
    let mut agent = Agent::new(config, counters, clock, Vec::new(), spool, Mode::Steps);
    let mut random = Random::new(1);
    for _ in 0..2 {
        let full = agent.batch.push("x", |out| {
            (0..SPOOL_BYTES_MAX / 8).for_each(|_| event::integer(out, "x", random.number() as i64))
        });
        assert!(full);
        if agent.spool.bytes() == 0 {
            // Where nothing waits an entry may go beyond the bound.
            assert!(agent.commit() && agent.spool.bytes() > SPOOL_BYTES_MAX);
        }
    }
    agent
}

#[test]
fn a_spool_that_takes_nothing_is_given_up_once_no_more_steps_come() {
    let (told, heard) = mpsc::channel();
    let left = Duration::from_millis(200);
    thread::spawn(move || {
        let mut agent = stuck("given-up");
        let begin = Instant::now();
        agent.no_more_since = begin.checked_sub(SHIP_ONCE - left);
        let is_spooled = agent.commit();
        told.send((is_spooled, begin.elapsed())).unwrap();
    });
    let (is_spooled, after) = heard.recv_timeout(PATIENCE).expect("it is given up");
    assert!(!is_spooled && after >= left, "{after:?}");
}

#[test]
fn what_is_acknowledged_makes_room_for_what_waits() {
    let mut agent = stuck("room");
    agent.no_more_since = Some(Instant::now());
    let shared = agent.spool.shared();
    thread::scope(|scope| {
        scope.spawn(|| shared.acknowledge(1));
        assert!(agent.commit());
    });
}
