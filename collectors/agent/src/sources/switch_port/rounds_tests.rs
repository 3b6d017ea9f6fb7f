//! When the fabric is looked at, by a clock of the test's own.

use super::*;

const PERIOD: Duration = Duration::from_secs(10);
const DISCOVER: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A day of a fabric of 3 switches: when it was looked at, s. `found`: by each look; `is_silent`: whether a switch is, at that time.
fn day(found: impl Fn(usize) -> Looked, is_silent: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut rounds = Rounds::new(PERIOD, DISCOVER);
    let start = Instant::now();
    (rounds.discovery.next, rounds.round.next) = (start, start);
    let (mut now, mut looks, mut switches) = (start, Vec::new(), 0);
    while now - start < DAY {
        if rounds.round.is_due(now) {
            let second = (now - start).as_secs();
            if rounds.begin(now) {
                let found = found(looks.len());
                switches = if found == Looked::Nothing {
                    switches
                } else {
                    3
                };
                looks.push(second);
                rounds.looked(found, now);
            }
            while let Some(place) = rounds.switch(switches) {
                let is_silent = place == 1 && is_silent(second);
                rounds.asked(!is_silent, is_silent);
            }
            rounds.end(switches, false, now);
        }
        now += PERIOD;
    }
    looks
}

fn first_new(look: usize) -> Looked {
    match look {
        0 => Looked::New,
        _ => Looked::Same,
    }
}

#[test]
fn a_fabric_whose_switches_answer_is_looked_at_every_so_often() {
    let looks = day(first_new, |_| false);
    assert_eq!(looks, (0..24).map(|n| n * 3600).collect::<Vec<_>>());
}

#[test]
fn a_switch_that_never_answers_makes_no_more_looks_than_help() {
    let looks = day(first_new, |_| true);
    assert_eq!(looks[..5], [0, 30, 90, 210, 450]);
    // As often as without it, and those of the first hours.
    assert!(looks.len() <= 24 + 8, "{looks:?}");
    let end = &looks[looks.len() - 10..];
    assert!(end.windows(2).all(|pair| pair[1] - pair[0] == 3600));
}

#[test]
fn a_switch_that_answers_now_and_then_makes_few_looks() {
    let looks = day(first_new, |second| second % 100 == 0);
    assert!(looks.len() <= 24 + 8, "{looks:?}");
}

#[test]
fn a_look_that_found_something_else_is_followed_as_soon_as_the_first() {
    // The switch comes back with another LID, which the second look tells; an hour later it is gone again.
    let found = |look| match look {
        0 | 2 | 4 => Looked::New,
        _ => Looked::Same,
    };
    let looks = day(found, |second| {
        second < 60 || (7000..7040).contains(&second)
    });
    assert_eq!(looks[..5], [0, 30, 90, 3690, 7010]);
}

#[test]
fn a_look_that_finds_nothing_is_taken_again_later_each_time() {
    let looks = day(|_| Looked::Nothing, |_| false);
    assert_eq!(looks[..5], [0, 30, 90, 210, 450]);
    assert!(looks.len() <= 24 + 8, "{looks:?}");
    // What was known is asked meanwhile.
    let looks = day(
        |look| match look {
            0 => Looked::New,
            _ => Looked::Nothing,
        },
        |_| false,
    );
    assert_eq!(looks[..4], [0, 3600, 3630, 3690]);
}

#[test]
fn a_round_that_is_cut_is_gone_on_with_behind_the_one_that_hangs() {
    let mut rounds = Rounds::new(PERIOD, DISCOVER);
    let now = Instant::now();
    rounds.begin(now);
    assert_eq!([0; 2].map(|_| rounds.switch(4)), [Some(0), Some(1)]);
    rounds.cut(true);
    assert_eq!(rounds.switch(4), None);
    rounds.end(4, true, now);
    assert_eq!(rounds.round.next, now + 2 * PERIOD);
    rounds.begin(now);
    let places = [0; 5].map(|_| rounds.switch(4));
    assert_eq!(places, [Some(2), Some(3), Some(0), Some(1), None]);
    rounds.asked(true, false);
    rounds.end(4, true, now);
    assert!(rounds.round.pause() == 2 * PERIOD);
}
