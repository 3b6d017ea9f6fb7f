//! Answers: as real ones are, cut anywhere, written into each other, too long.

use super::*;
use crate::sources::samples::golden::repository;
use std::fs;

const BRICK: &str = "10.77.0.12:/data/brick2";

fn brick() -> Brick {
    let (host, path) = BRICK.split_once(':').unwrap();
    Brick {
        volume: "lw".into(),
        host: host.into(),
        path: path.into(),
    }
}

fn captured(name: &str) -> String {
    let path = repository()
        .join("tests/fixtures/gluster_client/10.3")
        .join(name);
    fs::read_to_string(path).unwrap()
}

fn clients() -> String {
    captured("2/answers/brick2-clients.xml")
}

fn heard(text: &str) -> Answer {
    let mut answer = Answer::of(&brick());
    text.as_bytes()
        .chunks(100)
        .for_each(|part| answer.feed(part));
    answer
}

/// Instances, and the raw counters of each.
fn told(answer: &mut Answer) -> Vec<(String, Vec<u64>)> {
    let readings = answer.readings(At::default(), None).into_iter();
    let raw = |reading: &Reading| {
        reading
            .values
            .iter()
            .map(|value| value.what.bits())
            .collect()
    };
    readings
        .map(|reading| (reading.instance.clone(), raw(&reading)))
        .collect()
}

fn said(answer: &Answer) -> String {
    match answer.fault() {
        Some(Fault::Other(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn all() -> Vec<(String, Vec<u64>)> {
    vec![
        ("_data_brick2 10.77.0.1".into(), vec![12_206_324, 31_128]),
        ("_data_brick2 10.77.0.21".into(), vec![2_102_796, 8_528]),
    ]
}

#[test]
fn a_cut_answer_tells_the_clients_that_are_whole_and_that_it_is_cut() {
    let text = clients();
    for end in 0..text.len() {
        let mut answer = heard(&text[..end]);
        let whole = text[..end].matches("</client>").count();
        assert_eq!(told(&mut answer), all()[..whole], "{end}");
        let is_whole = end >= text.trim_end().len();
        assert_eq!(answer.fault().is_none(), is_whole, "{end}");
    }
    assert_eq!(told(&mut heard(&text)), all());
}

#[test]
fn connections_of_one_address_are_added_up_by_their_parts() {
    let more = clients().replace("10.77.0.21:", "10.77.0.1:");
    let mut answer = heard(&more);
    let readings = answer.readings(At::told(7), Some(At::told(5)));
    assert_eq!(readings.len(), 1);
    let parts: Vec<u32> = readings[0].values.iter().map(|value| value.part).collect();
    assert_eq!(
        (parts.len(), parts[0] == parts[1], parts[1] == parts[2]),
        (4, true, false)
    );
    assert_eq!(
        (readings[0].time_ns, readings[0].since),
        (Some(7), Some(At::told(5)))
    );
    // The same ports of a brick that began anew are other connections.
    let anew = heard(&more.replacen("<pid>", "<pid>9", 1)).readings(At::told(9), None);
    assert!(anew[0]
        .values
        .iter()
        .all(|value| !parts.contains(&value.part)));
    // One that is there twice counts once.
    let twice = clients().replace("10.77.0.21:49147", "10.77.0.1:49128");
    assert_eq!(told(&mut heard(&twice)).len(), 1);
    assert_eq!(told(&mut heard(&twice))[0].1.len(), 2);
}

#[test]
fn what_an_answer_says_of_others_is_not_taken() {
    let first = captured("1/answers/brick1-clients.xml");
    let mut answer = heard(&first);
    assert_eq!(told(&mut answer), []);
    assert_eq!(said(&answer), "it does not tell of this brick");
    // Beside this brick's own.
    let node = |text: &str| {
        let from = text.find("        <node>").unwrap();
        text[from..text.find("      </volume>").unwrap()].to_string()
    };
    let both = clients().replace("      </volume>", &(node(&first) + "      </volume>"));
    let mut answer = heard(&both);
    assert_eq!((told(&mut answer), answer.fault()), (all(), None));
    // A client's name that looks like elements.
    let forged = clients().replace("10.77.0.21:49147", "&lt;/hostname&gt;&lt;bytesRead&gt;5");
    let mut answer = heard(&forged);
    assert_eq!(answer.fault(), None);
    assert_eq!(
        told(&mut answer)[1].0,
        "_data_brick2 </hostname><bytesRead>5"
    );
}

#[test]
fn an_answer_that_makes_no_sense_says_where_and_the_rest_is_told() {
    let text = clients();
    for (bad, error, count) in [
        (
            text.replacen("<bytesRead>12206324", "<bytesRead>-5", 1),
            "expected a client's address, bytesRead",
            1,
        ),
        (
            text.replacen("<hostname>10.77.0.1:", "<hostname>10.77 0.1:", 1),
            "expected a client's address, bytesRead",
            1,
        ),
        (
            text.replacen("<bytesWrite>8528</bytesWrite>", "", 1),
            "expected a client's address, bytesRead",
            1,
        ),
        (
            text.replacen("<client>\n", "<client>\n<cli", 1),
            "line 25: unexpected <cli",
            0,
        ),
        (
            text.replacen("</client>", "</client>Connection", 1),
            "line 30: text beside elements",
            1,
        ),
        (
            "Connection failed.\n".into(),
            "line 1: text outside of all elements",
            0,
        ),
    ] {
        let mut answer = heard(&bad);
        assert!(said(&answer).starts_with(error), "{}", said(&answer));
        assert_eq!(told(&mut answer).len(), count, "{error}");
    }
}

#[test]
fn refusals_say_why_and_a_lock_is_one_of_its_own() {
    let refused = captured("no-volume.xml");
    assert_eq!(said(&heard(&refused)), "`Volume nope does not exist`");
    assert_eq!(
        heard(&refused.replace("30800", LOCKED)).fault(),
        Some(Fault::Locked)
    );
}

#[test]
fn more_connections_than_are_kept_are_an_error() {
    let text = clients();
    let (from, to) = (
        text.find("            <client>").unwrap(),
        text.find("          </clientsStatus>").unwrap(),
    );
    let many: String = (0..CONNECTIONS_MAX + 5)
        .map(|n| format!("<client><hostname>10.0.{}.{}:1</hostname><bytesRead>1</bytesRead><bytesWrite>2</bytesWrite></client>\n", n / 256, n % 256))
        .collect();
    let mut answer = heard(&[&text[..from], &many, &text[to..]].concat());
    assert!(said(&answer).starts_with("it has more than 4096 connections"));
    assert_eq!(told(&mut answer).len(), CONNECTIONS_MAX);
}

#[test]
fn calls_are_those_of_others() {
    let text = captured("2/answers/brick2-callpool.xml");
    assert_eq!(
        (heard(&text).calls(), heard(&text).fault()),
        (Some(9), None)
    );
    // One of which the frames were cut.
    assert_eq!(
        heard(&text[..text.find("<callStack>").unwrap()]).calls(),
        Some(9)
    );
    let down = captured("4/answers/brick2-callpool.xml");
    assert_eq!((heard(&down).calls(), heard(&down).fault()), (None, None));
    assert!(said(&heard(&text.replace("<count>10", "<count>x"))).starts_with("count: expected"));
}
