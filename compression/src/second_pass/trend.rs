//! What a value will be, from those that stood at the same place before: in the ranks before, or in the steps before.

/// A straight line, which one value beside it does not turn.
#[derive(Clone, Copy, Default)]
pub struct Trend {
    base: i64,
    step: i64,
    /// The last value that was not foretold, if that was the last one of all.
    beside: i64,
    /// How many in a row were not, up to 2.
    misses: u8,
}

impl Trend {
    #[inline(always)]
    pub fn next(&self) -> i64 {
        self.base.wrapping_add(self.step)
    }

    /// Goes on by so many values that nobody saw.
    pub fn skip(&mut self, values: i64) {
        self.base = self.base.wrapping_add(self.step.wrapping_mul(values));
    }

    /// Takes the value that came.
    #[inline(always)]
    pub fn learn(&mut self, value: i64) {
        let foretold = self.next();
        if value == foretold && self.misses == 0 {
            self.base = value;
            return;
        }
        self.turn(foretold, value);
    }

    #[cold]
    fn turn(&mut self, foretold: i64, value: i64) {
        if value == foretold {
            if self.misses > 1 {
                // It stays what it became.
                self.step = 0;
            }
            (self.base, self.misses) = (value, 0);
            return;
        }
        if self.misses == 0 {
            // The line goes on, for the case that this is the only one.
            (self.beside, self.misses) = (value, 1);
            if self.step != 0 {
                self.base = foretold;
            }
            return;
        }
        // Where it lies on a line with the two before, or goes on as the line did, it is that line from now on. Else it is foretold once more, from the value
        // before and the step to this one, so that the next one shows whether they are a line.
        let step = value.wrapping_sub(self.beside);
        if step == self.beside.wrapping_sub(self.base) || step == self.step {
            (self.base, self.step, self.misses) = (value, step, 1);
        } else {
            (self.base, self.step, self.misses) = (self.beside, step, 2);
        }
        self.beside = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(values: impl IntoIterator<Item = i64>) -> usize {
        let mut values = values.into_iter();
        let mut trend = Trend {
            base: values.next().unwrap(),
            ..Trend::default()
        };
        values
            .filter(|&value| {
                let missed = trend.next() != value;
                trend.learn(value);
                missed
            })
            .count()
    }

    #[test]
    fn a_line_is_known_after_two_values_and_one_beside_it_costs_one() {
        assert_eq!(misses([5; 100]), 0);
        assert_eq!(misses((0..100).map(|rank| 7 + rank * 4096)), 2);
        let with_one = |at| (0..100).map(move |rank| if rank == at { 1 } else { 7 + rank * 4096 });
        assert_eq!(misses(with_one(50)), 3);
        let constant = |at| (0..100).map(move |rank| if rank == at { 1 } else { 7 });
        assert_eq!(misses(constant(50)), 1);
    }

    #[test]
    fn a_line_is_known_wherever_it_begins() {
        for first in [0, 7, 4096, -3] {
            let mut trend = Trend::default();
            let values = (0..100).map(|rank| first + rank * 6);
            let missed = values.filter(|&value| {
                let missed = trend.next() != value;
                trend.learn(value);
                missed
            });
            assert!(missed.count() <= 3, "{first}");
        }
        // What comes twice stays.
        assert_eq!(misses([1, 5, 90, 90, 90, 90]), 2);
    }

    #[test]
    fn a_line_that_moves_aside_costs_two() {
        assert_eq!(
            misses((0..100).map(|rank| rank * 8 + if rank < 50 { 0 } else { 1000 })),
            4
        );
        assert_eq!(
            misses((0..100).map(|rank| if rank < 50 { 3 } else { 9 })),
            2
        );
        assert_eq!(misses([i64::MAX, i64::MIN, i64::MAX, 0, i64::MIN]), 3);
    }
}
