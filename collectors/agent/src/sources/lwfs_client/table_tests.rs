//! The table against a list in the order of use, and back from the spool.

use super::*;
use crate::testing::Random;

impl Weigh for u64 {
    fn weigh(&self) -> usize {
        0
    }
}

/// Against a list in the order of use.
#[test]
fn it_is_a_map_in_the_order_of_use() {
    let mut random = Random::new(7);
    let mut table: Table<u64, u64> = Table::new(10 * ENTRY_BYTES);
    let mut spooled: Table<u64, u64> = Table::new(10 * ENTRY_BYTES);
    let mut naive: Vec<(u64, u64)> = Vec::new();
    for step in 0..20_000 {
        let key = random.below(14);
        let at = naive.iter().position(|e| e.0 == key);
        match random.below(5) {
            0 => {
                let before = table.insert(key, step);
                assert_eq!(before, at.map(|at| naive.remove(at).1));
                naive.push((key, step));
                if table.is_over() {
                    assert_eq!(table.pop_oldest(), Some(naive.remove(0)));
                }
                assert!(!table.is_over());
            }
            1 => assert_eq!(table.remove(&key), at.map(|at| naive.remove(at).1)),
            2 => assert_eq!(table.get(&key), at.map(|at| &naive[at].1)),
            3 => {
                let taken = table.take_next(0, |k, _| *k == key);
                assert_eq!(taken.map(|t| t.2), at.map(|at| naive.remove(at).1));
            }
            _ => {
                if let Some(value) = table.use_mut(&key) {
                    *value += 1;
                    let mut entry = naive.remove(at.unwrap());
                    entry.1 += 1;
                    naive.push(entry);
                } else {
                    assert_eq!(at, None);
                }
            }
        }
        if random.below(9) == 0 {
            // What changed, one after the other, makes the same table elsewhere.
            for (place, content) in table.spoolable(false) {
                spooled.restore(place, content.map(|(k, v)| (*k, *v)));
            }
            table.settle();
            assert!(!table.has_changed());
            let entries = |t: &Table<u64, u64>| {
                let mut all: Vec<_> = t
                    .spoolable(true)
                    .map(|e| (e.0, e.1.map(|c| (*c.0, *c.1))))
                    .collect();
                all.sort();
                all
            };
            assert_eq!(entries(&table), entries(&spooled));
            assert_eq!(table.bytes, spooled.bytes);
        }
        assert_eq!(table.count(), naive.len());
    }
    let mut order = Vec::new();
    while let Some(entry) = table.pop_oldest() {
        order.push(entry);
    }
    assert_eq!(order, naive);
    assert_eq!(table.bytes, 0);
}
