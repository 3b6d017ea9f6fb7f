//! When a row will begin and how long it will take, from the rows at the same place in other processes and those before it in its own.

use super::side::{Side, Time, LOWER_BITS_MAX};
use super::wire::Damage;
use crate::record::OP_NAMES;

/// Some ways to guess one time, and by how much each has missed of late: the mean of the logarithms, to base 2, in 2^-LOG_BITS. So one that fell out counts
/// little, and one that stays away is soon forgotten.
type Misses<const WAYS: usize> = [i32; WAYS];
/// Those of the fraction of a number of type f32, whose exponent is the logarithm's whole part.
const LOG_BITS: u32 = 23;

/// What is known of the times at one place of the structure. Times are in units of the block's, since its origin.
#[derive(Clone, Copy, Default)]
pub struct Rhythm {
    /// Means: from the last row's end to the start, from its start to the start, from the origin.
    start: [i64; 3],
    /// Means of the duration, and of the end from the origin.
    took: [i64; 2],
    busy: i64,
    slow: i64,
    /// Means of busy / duration and of slowest / mean duration of an operation.
    busy_share: f32,
    slow_factor: f32,
    start_misses: Misses<4>,
    took_misses: Misses<4>,
    busy_misses: Misses<3>,
    slow_misses: Misses<4>,
    /// How many rows stood here, up to SEEN_MAX.
    seen: u8,
}

/// Of a miss of the usual size so many bits are told as part of the upper ones, whose distribution is made use of.
const UPPER_BITS: i32 = 2;
const SEEN_MAX: u8 = 7;
/// A mean takes 1 / 2^SHIFT of what a value differs from it, by how many there were.
const SHIFT: [u32; SEEN_MAX as usize + 1] = [0, 1, 2, 2, 2, 3, 3, 3];
const WEIGHT: [f32; SEEN_MAX as usize + 1] = [1.0, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125];

/// The last row of an operation in a process.
#[derive(Clone, Copy, Default)]
struct Last {
    gap: i64,
    took: i64,
    slow: i64,
    /// Duration by bytes.
    pace: f32,
    busy_share: f32,
    slow_factor: f32,
}

/// What a process did last.
#[derive(Clone, Default)]
pub struct Recent {
    start: i64,
    end: i64,
    of_op: [Last; OP_NAMES.len()],
}

impl Recent {
    /// Another process begins: about when the one before it did.
    pub fn begin(&mut self, start: i64) {
        (self.start, self.end) = (start, start);
    }
}

/// A row's times. `took`: from start to end.
#[derive(Clone, Copy, Default)]
pub struct Times {
    pub start: i64,
    pub took: i64,
    pub busy: i64,
    pub slow: i64,
}

impl Times {
    /// Of ns as many units; they have to be multiples of it.
    pub fn in_units(self, unit: i64) -> Self {
        if unit == 1 {
            return self;
        }
        let [start, took, busy, slow] =
            [self.start, self.took, self.busy, self.slow].map(|time| time / unit);
        Self {
            start,
            took,
            busy,
            slow,
        }
    }
}

/// What took a row's time: how many operations, and what they moved.
pub struct Did {
    pub op: u8,
    pub count: i64,
    pub bytes: i64,
}

impl Rhythm {
    /// Codes a row's times. `busy` and `slow` of a single operation are told elsewhere.
    #[inline]
    pub fn pass<S: Side>(
        &mut self,
        side: &mut S,
        recent: &mut Recent,
        Did { op, count, bytes }: Did,
        times: &mut Times,
        single: impl FnOnce(&mut S, &mut Times) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let seen = self.seen as usize;
        let (shift, weight) = (SHIFT[seen], WEIGHT[seen]);
        self.seen = (self.seen + 1).min(SEEN_MAX);
        let last = &mut recent.of_op[op as usize];

        let [after_end, after_start, since] = self.start;
        let guesses = [
            recent.end.wrapping_add(after_end),
            recent.start.wrapping_add(after_start),
            since,
            recent.end.wrapping_add(last.gap),
        ];
        guess(
            side,
            Time::Start,
            guesses,
            &mut self.start_misses,
            shift,
            &mut times.start,
        )?;
        let start = times.start;
        last.gap = start.wrapping_sub(recent.end);
        near(&mut self.start[0], last.gap, shift);
        near(&mut self.start[1], start.wrapping_sub(recent.start), shift);
        // Ranks that went apart stay apart for a while.
        near(&mut self.start[2], start, shift.min(1));

        let [mean, end] = self.took;
        let guesses = [
            mean,
            end.wrapping_sub(start),
            last.took,
            (bytes as f64 * f64::from(last.pace)) as i64,
        ];
        guess(
            side,
            Time::Took,
            guesses,
            &mut self.took_misses,
            shift,
            &mut times.took,
        )?;
        let took = times.took;
        let end = start.wrapping_add(took);
        near(&mut self.took[0], took, shift);
        near(&mut self.took[1], end, shift.min(1));
        last.took = took;
        if bytes > 0 {
            last.pace = (took as f64 / bytes as f64) as f32;
        }
        (recent.start, recent.end) = (start, end);
        if count == 1 {
            return single(side, times);
        }

        let share = |share: f32| (took as f64 * f64::from(share)) as i64;
        let guesses = [self.busy, share(self.busy_share), share(last.busy_share)];
        guess(
            side,
            Time::Busy,
            guesses,
            &mut self.busy_misses,
            shift,
            &mut times.busy,
        )?;
        near(&mut self.busy, times.busy, shift);
        if took != 0 {
            last.busy_share = (times.busy as f64 / took as f64) as f32;
            self.busy_share += (last.busy_share - self.busy_share) * weight;
        }

        let each = times.busy as f64 / count as f64;
        let factor = |factor: f32| (each * f64::from(factor)) as i64;
        let guesses = [
            self.slow,
            factor(self.slow_factor),
            last.slow,
            factor(last.slow_factor),
        ];
        guess(
            side,
            Time::Slow,
            guesses,
            &mut self.slow_misses,
            shift,
            &mut times.slow,
        )?;
        near(&mut self.slow, times.slow, shift);
        last.slow = times.slow;
        if each != 0.0 {
            last.slow_factor = (times.slow as f64 / each) as f32;
            self.slow_factor += (last.slow_factor - self.slow_factor) * weight;
        }
        Ok(())
    }
}

/// Codes one time by the guess that has missed least.
#[inline(always)]
fn guess<S: Side, const WAYS: usize>(
    side: &mut S,
    time: Time,
    guesses: [i64; WAYS],
    misses: &mut Misses<WAYS>,
    shift: u32,
    value: &mut i64,
) -> Result<(), Damage> {
    let (mut least, mut best) = (misses[0], guesses[0]);
    for way in 1..WAYS {
        if misses[way] < least {
            (least, best) = (misses[way], guesses[way]);
        }
    }
    let lower = (least >> LOG_BITS) - UPPER_BITS;
    side.time(time, best, lower.clamp(0, LOWER_BITS_MAX) as u32, value)?;
    for way in 0..WAYS {
        let by = log(value.wrapping_sub(guesses[way]));
        misses[way] += (by - misses[way]) >> shift;
    }
    Ok(())
}

/// The logarithm of a number of either sign, and one more; between powers of two it is a straight line.
#[inline(always)]
fn log(value: i64) -> i32 {
    ((value as f32).abs() + 1.0).to_bits() as i32 - 1f32.to_bits() as i32
}

#[inline(always)]
fn near(mean: &mut i64, value: i64, shift: u32) {
    *mean = mean.wrapping_add(value.wrapping_sub(*mean) >> shift);
}
