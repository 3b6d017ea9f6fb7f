//! How an instance's values stood when they were last told, packed: there may be thousands of instances that are alike.

use super::super::crowd::numbers::{put_number, take_number};
use std::cell::RefCell;
use std::rc::Rc;

/// Different lists of keys that are shared.
const SHARED_MAX: usize = 64;

thread_local! {
    /// Lists of keys that instances have, the last that was new behind. Ports of one kind have the same.
    static SHARED: RefCell<Vec<Rc<[u64]>>> = const { RefCell::new(Vec::new()) };
}

/// Keys, and the bits of each as a number of as many bytes as it needs.
pub struct Base {
    keys: Rc<[u64]>,
    bits: Box<[u8]>,
}

impl Base {
    pub fn new(values: &[(u64, u64)]) -> Base {
        let mut bits = Vec::new();
        values
            .iter()
            .for_each(|(_, value)| put_number(&mut bits, *value));
        Base {
            keys: shared(values),
            bits: bits.into(),
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Key and bits of each value.
    pub fn values(&self) -> Vec<(u64, u64)> {
        let mut bits = &*self.bits;
        let value = |key: &u64| (*key, take_number(&mut bits).unwrap_or_default());
        self.keys.iter().map(value).collect()
    }
}

/// A list of these keys, which others may have, too. Where there are too many kinds the oldest is shared no more.
fn shared(values: &[(u64, u64)]) -> Rc<[u64]> {
    let is_same = |keys: &Rc<[u64]>| keys.iter().eq(values.iter().map(|(key, _)| key));
    SHARED.with_borrow_mut(|all| {
        if let Some(known) = all.iter().find(|keys| is_same(keys)) {
            return known.clone();
        }
        all.retain(|keys| Rc::strong_count(keys) > 1);
        if all.len() == SHARED_MAX {
            all.remove(0);
        }
        let keys: Rc<[u64]> = values.iter().map(|(key, _)| *key).collect();
        all.push(keys.clone());
        keys
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_keys_are_shared() {
        let values = |first: u64| vec![(1u64 << 40, first), (7, u64::MAX), (9, 0)];
        let bases: Vec<Base> = (0..500)
            .map(|n| Base::new(&values(n << (n % 60))))
            .collect();
        for (n, base) in bases.iter().enumerate() {
            assert_eq!(
                (base.values(), base.len()),
                (values((n << (n % 60)) as u64), 3)
            );
            assert!(Rc::ptr_eq(&base.keys, &bases[0].keys));
        }
        assert!(Base::new(&[]).values().is_empty());
        // However many kinds there are, few lists are kept.
        let kinds: Vec<Base> = (0..500).map(|n| Base::new(&[(n, n)])).collect();
        SHARED.with_borrow(|all| assert!(all.len() <= SHARED_MAX));
        let all = kinds.iter().enumerate();
        all.for_each(|(n, base)| assert_eq!(base.values(), [(n as u64, n as u64)]));
    }
}
