//! The second pass against its definition: what is read is what was packed, whatever it was, with a primer and without.
#![cfg(feature = "second_pass")]

mod records;

use proptest::prelude::*;
use records::{plan, records, replayed, table, Record, T0};
use tracepack::record::OP_NAMES;
use tracepack::second_pass::block::{
    decode, decode_some, encode, find, Frame, Primer, Refused, PRIMER_ROWS_MAX, ROWS_MAX,
};
use tracepack::second_pass::grid::{Bins, BINS};
use tracepack::second_pass::table::{Number, Numbers, Text, Texts, Wanted, NUMBERS, TEXTS};

/// A change to the record before: one number, one text, or the histogram.
#[derive(Clone, Debug)]
enum Change {
    Number(usize, Option<i64>),
    Text(usize, Option<String>),
    Latency(Option<[i64; 8]>),
}

fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..4i64,
        2 => T0..T0 + 10_000_000_000,
        1 => any::<i64>(),
        1 => prop::sample::select(vec![i64::MIN, i64::MIN + 1, -1, 1 << 24, (1 << 24) + 1, i64::MAX]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let number = (0..NUMBERS.len(), prop::option::weighted(0.9, numbers()));
    let text = prop_oneof![
        "[a-z/]{0,3}[0-9]{0,3}",
        "([a-z.]?[0-9]{1,20}){0,14}",
        ".{0,8}",
        "0{1,20}",
    ];
    let text = (0..TEXTS.len(), prop::option::weighted(0.9, text));
    prop_oneof![
        6 => number.prop_map(|(number, value)| Change::Number(number, value)),
        3 => text.prop_map(|(text, value)| Change::Text(text, value)),
        1 => prop::option::of(prop::array::uniform8(numbers())).prop_map(Change::Latency),
    ]
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let steps = prop::collection::vec((prop::collection::vec(change(), 0..4), 0..30usize), 0..60);
    steps.prop_map(|steps| {
        let mut found = vec![Record::new("cn1", "1.1", 0)];
        for (changes, back) in steps {
            // Like one of those before it.
            let mut record = found[found.len() - 1 - back.min(found.len() - 1)].clone();
            let seq = record.numbers[Number::Seq as usize].unwrap_or(0);
            record.set(Number::Seq, seq.wrapping_add(1));
            changes.iter().for_each(|change| apply(&mut record, change));
            found.push(record);
        }
        found
    })
}

/// As far as such a record may be so.
fn apply(record: &mut Record, change: &Change) {
    match change {
        Change::Latency(latency) => record.latency = *latency,
        Change::Number(number, value) => {
            let is = |known: &[Number]| known.iter().any(|known| *known as usize == *number);
            let value = value.map(|value| match number {
                _ if is(&[Number::Errno, Number::Flags]) => value & 0xffff,
                _ if is(&[Number::Uid, Number::Parent]) => value & 0xffff_ffff,
                _ if is(&[Number::Rank]) => i64::from(value as i32),
                _ => value,
            });
            if value.is_some() || is(&[Number::Uid, Number::Parent, Number::Rank, Number::FileId]) {
                record.numbers[*number] = value;
            }
        }
        Change::Text(text, value) => {
            let may_lack = *text == Text::Job as usize || *text == Text::File as usize;
            if *text == Text::Op as usize {
                let op = value.as_ref().map_or(0, String::len) % OP_NAMES.len();
                record.say(Text::Op, OP_NAMES[op]);
            } else if value.is_some() || may_lack {
                record.texts[*text] = value.clone().map(String::into_bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_packed_is_read(given in any_records()) {
        let block = encode(&table(&given), &plan(None, 0, false)).unwrap();
        prop_assert_eq!(records(&decode(&block, None).unwrap()), given.clone());
        // As often as one likes: the same bytes.
        prop_assert_eq!(encode(&decode(&block, None).unwrap(), &plan(None, 0, false)).unwrap(), block);
    }

    #[test]
    fn what_is_packed_behind_any_primer_is_read(given in any_records(), at in 0..60usize, lanes_before in prop_oneof![0..5usize, any::<u32>().prop_map(|n| n as usize)]) {
        let at = at.min(given.len());
        let primer = encode(&table(&given[..at]), &plan(None, 0, true)).unwrap();
        let primer = Primer::read(&primer).unwrap();
        let block = encode(&table(&given), &plan(Some(&primer), lanes_before, false)).unwrap();
        let is_primed = Frame::read(&block).unwrap().is_primed;
        prop_assert_eq!(records(&decode(&block, Some(&primer)).unwrap()), given);
        prop_assert_eq!(decode(&block, None).is_err(), is_primed);
    }

    #[test]
    fn what_is_read_of_a_file_is_what_all_has_of_it(given in any_records(), pick in any::<prop::sample::Index>(), at in 0..60usize) {
        let primer = encode(&table(&given[..at.min(given.len())]), &plan(None, 0, true)).unwrap();
        let primer = Primer::read(&primer).unwrap();
        let block = encode(&table(&given), &plan(Some(&primer), 1, false)).unwrap();
        let path = |record: &Record| record.texts[Text::File as usize].clone();
        let sought = path(pick.get(&given)).unwrap_or_default();
        let wanted = Wanted { file: Some(&sought), ..Wanted::ALL };
        let found = decode_some(&block, Some(&primer), &wanted).unwrap();
        let of_file: Vec<_> = given.iter().filter(|record| path(record).as_ref() == Some(&sought)).cloned().collect();
        prop_assert_eq!(records(&found), of_file);
    }

    #[test]
    fn columns_that_are_read_alone_are_those_of_all(given in any_records(), numbers in any::<[bool; NUMBERS.len()]>(), texts in any::<[bool; TEXTS.len()]>(), latency: bool) {
        let block = encode(&table(&given), &plan(None, 0, false)).unwrap();
        let all = decode(&block, None).unwrap();
        let some = decode_some(&block, None, &Wanted { file: None, numbers, texts, latency }).unwrap();
        let mut left = all;
        for (column, _) in left.numbers.iter_mut().zip(numbers).filter(|(_, is_wanted)| !is_wanted) {
            *column = Numbers::default();
        }
        for (column, _) in left.texts.iter_mut().zip(texts).filter(|(_, is_wanted)| !is_wanted) {
            *column = Texts::default();
        }
        if !latency {
            left.latency = Numbers::default();
        }
        prop_assert_eq!(format!("{some:?}"), format!("{left:?}"));
    }

    #[test]
    fn a_head_leaves_no_file_out(given in any_records(), others in prop::collection::vec("[a-z/]{0,3}[0-9]{0,3}", 0..40)) {
        let block = encode(&table(&given), &plan(None, 0, false)).unwrap();
        let files = Frame::read(&block).unwrap().head(&block).unwrap().files.unwrap();
        let paths = given.iter().filter_map(|record| record.texts[Text::File as usize].as_deref());
        let paths: std::collections::HashSet<_> = paths.collect();
        prop_assert!(paths.iter().all(|path| files.may_have(path)));
        let others: std::collections::HashSet<_> = others.iter().map(String::as_bytes).filter(|path| !paths.contains(path)).collect();
        // One of 256 is wrong, so that two of 40 hardly ever are, and never more than a few.
        prop_assert!(others.iter().filter(|path| files.may_have(path)).count() < 8);
    }

    #[test]
    fn a_primer_of_another_job_is_no_harm(given in any_records()) {
        let primer = encode(&table(&replayed(8, 2)), &plan(None, 0, true)).unwrap();
        let primer = Primer::read(&primer).unwrap();
        let block = encode(&table(&given), &plan(Some(&primer), 8, false)).unwrap();
        prop_assert_eq!(records(&decode(&block, Some(&primer)).unwrap()), given);
    }

    #[test]
    fn bins_are_as_wide_as_they_need_be(from in any::<i64>(), length in 0..i64::MAX) {
        let until = from.saturating_add(length);
        let bins = Bins::over(from, until);
        prop_assert!(bins.from <= from && bins.width > 0);
        prop_assert!(i128::from(bins.from) + BINS as i128 * i128::from(bins.width) > i128::from(until));
    }
}

#[test]
fn processes_on_end_cost_what_differs() {
    let job = replayed(256, 6);
    let block = encode(&table(&job), &plan(None, 0, false)).unwrap();
    assert_eq!(records(&decode(&block, None).unwrap()), job);
    assert!(
        block.len() < job.len() * 11,
        "{} bytes, {} records",
        block.len(),
        job.len()
    );
}

#[test]
fn a_block_is_read_behind_its_own_primer_only() {
    let job = replayed(16, 4);
    // Another generation of it: times and processes are the same.
    let mut again = job.clone();
    again[3].set(Number::Size, 8192);
    let primer = |job: &[Record]| encode(&table(&job[..32]), &plan(None, 0, true)).unwrap();
    let (one, other) = (primer(&job), primer(&again));
    let [one, same, other] = [&one, &one, &other].map(|block| Primer::read(block).unwrap());
    let block = encode(&table(&job[32..]), &plan(Some(&one), 4, false)).unwrap();
    assert!(Frame::read(&block).unwrap().is_primed);
    assert_eq!(records(&decode(&block, Some(&same)).unwrap()), job[32..]);
    let refused = decode(&block, Some(&other)).unwrap_err();
    assert_eq!(refused.to_string(), "it goes on from another primer");
}

#[test]
fn flags_that_are_not_known_are_refused() {
    let block = encode(&table(&replayed(2, 2)), &plan(None, 0, false)).unwrap();
    for (at, flag) in [(5, 4), (5, 128), (6, 1), (7, 1)] {
        let mut other = block.clone();
        other[at] |= flag;
        let sum = crc32c::crc32c(&other[..32]).to_le_bytes();
        other[32..36].copy_from_slice(&sum);
        assert!(Frame::read(&other).is_err() && decode(&other, None).is_err());
    }
}

#[test]
fn more_records_than_a_block_has_are_refused() {
    let one = Record::new("cn1", "1.1", 0);
    let most = encode(&table(&vec![one.clone(); ROWS_MAX]), &plan(None, 0, false)).unwrap();
    assert_eq!(decode(&most, None).unwrap().rows, ROWS_MAX);
    let refused = |rows: usize, is_primer: bool| {
        let table = table(&vec![one.clone(); rows]);
        matches!(
            encode(&table, &plan(None, 0, is_primer)),
            Err(Refused::TooMuch(_))
        )
    };
    assert!(refused(ROWS_MAX + 1, false) && refused(PRIMER_ROWS_MAX + 1, true));
    assert!(!refused(PRIMER_ROWS_MAX, true) && Primer::read(&most).is_err());
}

#[test]
fn what_cannot_be_read_is_not_packed() {
    let good = Record::new("cn1", "1.1", 0);
    let refused = |change: &dyn Fn(&mut Record)| {
        let mut wrong = good.clone();
        change(&mut wrong);
        let packed = encode(&table(&[good.clone(), wrong]), &plan(None, 0, false));
        matches!(packed, Err(Refused::Wrong(_)))
    };
    for text in [
        Text::Node,
        Text::Layer,
        Text::Source,
        Text::Process,
        Text::Program,
        Text::Op,
    ] {
        assert!(
            refused(&|record| record.texts[text as usize] = None),
            "{}",
            TEXTS[text as usize]
        );
    }
    for (number, value) in [
        (Number::Uid, -1),
        (Number::Parent, 1 << 32),
        (Number::Rank, 1 << 31),
        (Number::Errno, 1 << 16),
        (Number::Flags, -1),
    ] {
        assert!(
            refused(&|record| record.set(number, value)),
            "{}",
            NUMBERS[number as usize]
        );
    }
    assert!(refused(&|record| record.say(Text::Op, "fly")));
    assert!(refused(
        &|record| record.numbers[Number::Seq as usize] = None
    ));
    assert!(!refused(&|record| record.texts[Text::File as usize] = None));
}

#[test]
fn blocks_are_found_where_they_begin() {
    let block = encode(&table(&replayed(2, 2)), &plan(None, 0, false)).unwrap();
    let mut file = b"BRSP is no block".to_vec();
    let first = file.len();
    file.extend(&block);
    file.extend(&block);
    assert_eq!(find(&file, 0), Some(first));
    assert_eq!(find(&file, first + 1), Some(first + block.len()));
    assert_eq!(find(&file, first + block.len() + 1), None);
    assert_eq!(find(&file, file.len() + 1), None);
    for size in 0..block.len() {
        assert!(decode(&block[..size], None).is_err());
    }
}
