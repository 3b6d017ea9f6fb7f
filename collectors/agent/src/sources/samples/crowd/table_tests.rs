//! Against a map that holds the same.

use super::*;
use crate::testing::Random;
use std::collections::BTreeMap;

type Naive = BTreeMap<u64, (Head, Vec<u64>)>;

fn members(table: &mut Table) -> Naive {
    table.unpack();
    let places: Vec<usize> = table.places(0).collect();
    let member = |at: usize| {
        let mut values = vec![9; 7];
        table.values(at, &mut values);
        assert_eq!(table.find(table.hash(at)), Some(at));
        (table.hash(at), (table.head(at), values))
    };
    places.into_iter().map(member).collect()
}

/// And another table that is given what was written after each look, as the spool would give it back, holds the same, too.
#[test]
fn what_is_put_in_is_found_again_by_its_hash() {
    let mut random = Random::new(3);
    let (mut table, mut restored) = (Table::default(), Table::default());
    let mut naive = Naive::new();
    for look in 0..60 {
        let is_whole = random.below(3) > 0;
        table.begin();
        let mut seen = Naive::new();
        for _ in 0..random.below(500) {
            // Few different ones in the low bits, by which they are placed.
            let hash = random.below(300) << 32 | random.below(4);
            let head = Head {
                hash,
                mark: look,
                told: random.below(9) as u32,
            };
            let at = table.find(hash);
            assert_eq!(
                at.is_some(),
                naive.contains_key(&hash) || seen.contains_key(&hash)
            );
            if let Some(at) = at {
                assert_eq!(table.is_seen(at), seen.contains_key(&hash));
            }
            if let Some(at) = at.filter(|_| random.below(2) == 0) {
                table.see(at);
                let known = seen.get(&hash).or(naive.get(&hash)).unwrap().clone();
                seen.insert(hash, known);
                continue;
            }
            let number = |random: &mut Random| random.number() >> random.below(64);
            let values: Vec<u64> = (0..7)
                .map(|_| number(&mut random) * random.below(2))
                .collect();
            assert!(table.has_room(at));
            table.put(at, head, &values);
            seen.insert(hash, (head, values));
        }
        let mut gone = Vec::new();
        assert!(table.end(is_whole, |hash| gone.push(hash)));
        let unseen = naive.keys().filter(|hash| !seen.contains_key(*hash));
        assert_eq!(gone.len(), if is_whole { unseen.count() } else { 0 });
        naive.retain(|hash, _| !gone.contains(hash));
        naive.extend(seen);
        let mut bytes = Vec::new();
        let all = random.below(4) == 0;
        let mut rest = Some(0);
        let piece = 1 + random.below(5000) as usize;
        while let Some(from) = rest {
            rest = table.write(all, from, piece, &mut bytes);
        }
        assert!(!all || bytes.len() == table.kept_bytes());
        table.committed();
        let read = read_members(&mut Reader(&bytes), 7).unwrap();
        if all {
            restored = Table::default();
        }
        assert!(restored.restore(&gone, &read));
        assert_eq!(table.len(), naive.len());
        assert_eq!(members(&mut table), naive);
        assert_eq!(members(&mut restored), naive);
        let length: usize = table.places(0).map(|at| table.length(at)).sum();
        assert!(
            table.arena.len() == length
                && table.arena.capacity() <= length * 9 / 8 + 2 * GROW_BYTES
        );
    }
    assert_eq!(Table::default().find(7), None);
}

#[test]
fn there_is_no_room_beyond_the_bound_until_those_go_that_were_not_seen() {
    let head = |hash| Head {
        hash,
        mark: 0,
        told: 0,
    };
    let mut table = Table::default();
    table.begin();
    for hash in 0..MEMBERS_MAX as u64 {
        assert!(table.has_room(None));
        table.put(None, head(hash), &[hash]);
    }
    assert!(!table.has_room(None));
    assert!(table.has_room(table.find(77)));
    assert!(table.end(true, |_| panic!("all were seen")));
    table.begin();
    table.see(table.find(77).unwrap());
    assert!(!table.has_room(None));
    let mut gone = 0;
    assert!(!table.end(false, |_| gone += 1), "who knows what is gone");
    assert_eq!((gone, table.len()), (MEMBERS_MAX - 1, 1));
}

#[test]
fn members_that_make_no_sense_are_refused() {
    let mut table = Table::default();
    table.begin();
    let head = Head {
        hash: 7,
        mark: 1,
        told: 2,
    };
    table.put(None, head, &[0, 300, 0, u64::MAX]);
    let mut bytes = Vec::new();
    assert_eq!(table.write(true, 0, 9999, &mut bytes), None);
    assert_eq!(read_members(&mut Reader(&bytes), 4).unwrap()[0].0, head);
    assert!(
        read_members(&mut Reader(&bytes), 3).is_none(),
        "too few columns"
    );
    for end in 1..bytes.len() {
        assert!(
            read_members(&mut Reader(&bytes[..end]), 4).is_none(),
            "{end}"
        );
    }
    let mut none = bytes.clone();
    *none.last_mut().unwrap() = 0x7f;
    assert!(
        read_members(&mut Reader(&none), 4).is_none(),
        "over 64 bits"
    );
}
