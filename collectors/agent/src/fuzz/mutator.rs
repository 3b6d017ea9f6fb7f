//! Changes bytes at random, the way damage and malice do: always the same for the same `Random`.

use crate::testing::Random;

/// Bound of an input, bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
/// Changes made to one input.
const CHANGES_MAX: u64 = 6;

/// A number at an edge: of a width, of a sign, of what the field held.
pub fn edge(random: &mut Random, held: u64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << random.below(64),
        3 => (1 << random.below(64)) - 1,
        4 => held.wrapping_add(random.below(17)).wrapping_sub(8),
        5 => held ^ (1 << random.below(64)),
        6 => held.wrapping_neg(),
        _ => random.number(),
    }
}

/// Writes an edge over the number of `width` (1, 2, 4 or 8) bytes at `at`, in either byte order.
pub fn renumber(random: &mut Random, input: &mut [u8], at: usize, width: usize) {
    let Some(field) = input.get_mut(at..at + width) else {
        return;
    };
    let mut held = [0; 8];
    let big = random.below(4) == 0;
    held[..width].copy_from_slice(field);
    if big {
        held[..width].reverse();
    }
    let mut new = edge(random, u64::from_le_bytes(held)).to_le_bytes();
    if big {
        new[..width].reverse();
    }
    field.copy_from_slice(&new[..width]);
}

/// A range of at most `longest` bytes of something with `length` bytes.
fn range(random: &mut Random, length: usize, longest: u64) -> std::ops::Range<usize> {
    let start = random.below(length as u64 + 1) as usize;
    let longest = longest.min((length - start) as u64);
    start..start + random.below(longest + 1) as usize
}

/// Makes one to CHANGES_MAX changes. Half of all inputs get one only: what many changes break, the first check finds.
pub fn mutate(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let changes = match random.below(2) {
        0 => 1,
        _ => 1 + random.below(CHANGES_MAX),
    };
    for _ in 0..changes {
        change(random, input, other);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let length = input.len();
    let at = random.below(length.max(1) as u64) as usize;
    match random.below(12) {
        0 | 1 if length > 0 => input[at] ^= 1 << random.below(8),
        2 if length > 0 => input[at] = random.number() as u8,
        3..=5 => {
            let width = 1 << random.below(4);
            renumber(random, input, at, width);
        }
        // A part is missing, stands twice, elsewhere, or is another's.
        6 => drop(input.drain(range(random, length, 64))),
        7 => {
            let part = input[range(random, length, 256)].to_vec();
            input.splice(at..at, part);
        }
        8 => {
            let part: Vec<u8> = input.drain(range(random, length, 256)).collect();
            let to = random.below(input.len() as u64 + 1) as usize;
            input.splice(to..to, part);
        }
        9 => {
            let part = &other[range(random, other.len(), 256)];
            let end = (at + part.len()).min(length);
            input.splice(at.min(end)..end, part.iter().copied());
        }
        10 => {
            let noise: Vec<u8> = (0..random.below(16))
                .map(|_| random.number() as u8)
                .collect();
            input.splice(at..at, noise);
        }
        // A cut, rarely: it leaves little to look at.
        _ if random.below(4) == 0 => input.truncate(at),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_changes_and_another_seed_others() {
        let seed: Vec<u8> = (0..200).map(|i| i as u8).collect();
        let mutant = |random: u64| {
            let mut input = seed.clone();
            mutate(&mut Random::new(random), &mut input, b"another");
            input
        };
        let mutants: std::collections::BTreeSet<_> = (1..=1000).map(mutant).collect();
        assert!(mutants.len() > 900, "{} of 1000 differ", mutants.len());
        assert!((1..=1000).all(|r| mutants.contains(&mutant(r))));
    }

    #[test]
    fn nothing_is_too_small_to_be_changed() {
        for random in 0..1000 {
            let mut input = Vec::new();
            mutate(&mut Random::new(random), &mut input, b"");
            assert!(input.len() < 100);
        }
    }
}
