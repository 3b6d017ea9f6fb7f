//! Where in the structure a process goes on: found by the packer alone, and told to the reader.

use super::model::Track;
use super::shape::Shape;
use super::wire::{mix, put, table_place, zigzag};

/// What the reader is told of the way through the tracks. Between two of these the way goes on from track to track.
pub mod token {
    /// So many rows go on, plus one.
    pub const GO_ON: u64 = 0;
    /// A row of this shape has a track of its own; the way goes on where it was.
    pub const OPEN: u64 = 1;
    /// The way goes on so many tracks further, or back.
    pub const JUMP: u64 = 2;
    pub const BITS: u32 = 2;
}

/// Rows in a row that are looked up together.
const GRAM: usize = 3;
/// Of a table's size, to base 2.
const TABLE_BITS: std::ops::RangeInclusive<u32> = 8..=16;
/// Tracks that may be left out without a look at the table.
const SKIP: usize = 12;
/// A place is compared over so many rows at most.
const LOOK: usize = 48;
/// So many rows have to be alike for the way to be left.
const ALIKE_MIN: usize = 2;

/// The first and the last track at which some rows began. 0: none, otherwise its number plus one.
#[derive(Clone, Copy, Default)]
struct Known {
    first: u32,
    last: u32,
}

impl Known {
    fn learn(&mut self, track: usize) {
        self.last = track as u32 + 1;
        if self.first == 0 {
            self.first = self.last;
        }
    }
}

pub struct Matcher {
    /// By the hash of the rows that follow, with sizes, and without.
    strong: Vec<Known>,
    weak: Vec<Known>,
    table_bits: u32,
    tokens: Vec<u8>,
    going: u64,
}

impl Matcher {
    /// tracks: those that there are already, mostly in the order of the rows that were at them. rows: how many are to come.
    pub fn new(tracks: &[Track], rows: usize) -> Self {
        let bits = (tracks.len() + rows).next_power_of_two().ilog2();
        let table_bits = bits.clamp(*TABLE_BITS.start(), *TABLE_BITS.end());
        let mut matcher = Self {
            strong: vec![Known::default(); 1 << table_bits],
            weak: vec![Known::default(); 1 << table_bits],
            table_bits,
            tokens: Vec::new(),
            going: 0,
        };
        let shapes: Vec<_> = tracks.iter().map(|track| track.shape).collect();
        let sizes: Vec<_> = tracks.iter().map(Track::size).collect();
        for at in 0..tracks.len() {
            matcher.learn(at, &shapes[at..], &sizes[at..]);
        }
        matcher
    }

    #[inline(always)]
    pub fn go_on(&mut self) {
        self.going += 1;
    }

    pub fn open(&mut self, shape: Shape) {
        self.stop();
        put(
            &mut self.tokens,
            u64::from(shape.0) << token::BITS | token::OPEN,
        );
    }

    pub fn jump(&mut self, from: usize, to: usize) {
        self.stop();
        put(
            &mut self.tokens,
            zigzag(to as i64 - from as i64) << token::BITS | token::JUMP,
        );
    }

    fn stop(&mut self) {
        if self.going > 0 {
            put(
                &mut self.tokens,
                (self.going - 1) << token::BITS | token::GO_ON,
            );
            self.going = 0;
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.stop();
        self.tokens
    }

    /// A new track stands for the first of these rows of a process. sizes: of the rows.
    #[inline]
    pub fn learn(&mut self, track: usize, shapes: &[Shape], sizes: &[u32]) {
        let (strong, weak) = self.grams(shapes, sizes);
        self.strong[strong].learn(track);
        self.weak[weak].learn(track);
    }

    /// The track at which these rows of a process go on, if that is not `at`; None: the first of them is like no other.
    pub fn find(
        &self,
        tracks: &[Track],
        lane: u32,
        at: usize,
        shapes: &[Shape],
        sizes: &[u32],
    ) -> Option<usize> {
        let alike = |from: usize, shapes: &[Shape]| {
            let tracks = tracks.get(from..).unwrap_or_default();
            let same = tracks
                .iter()
                .zip(shapes)
                .take(LOOK)
                .take_while(|(track, shape)| track.shape == **shape);
            same.count()
        };
        let whole = shapes.len().min(LOOK);
        // A track where the process has been would be copied: another one is better, however long the rows go on as they should.
        let is_new = |to: usize| tracks[to].lane != lane;
        let (mut best, mut length) = (None, ALIKE_MIN.min(whole) - 1);
        for to in at + 1..=at + SKIP {
            let found = alike(to, shapes);
            if found > length {
                (best, length) = (Some(to), found);
            }
            if found == whole && is_new(to) {
                return best;
            }
        }
        let (strong, weak) = self.grams(shapes, sizes);
        for known in [self.strong[strong], self.weak[weak]] {
            for to in [known.first, known.last] {
                let Some(to) = (to as usize).checked_sub(1) else {
                    continue;
                };
                let found = alike(to, shapes);
                let gain = is_new(to).cmp(&best.is_some_and(is_new));
                if found >= ALIKE_MIN.min(whole) && gain.then(found.cmp(&length)).is_gt() {
                    (best, length) = (Some(to), found);
                }
            }
        }
        // One row that came in between.
        let beside = alike(at, &shapes[1..]);
        if beside > 0 && beside + 1 >= length {
            return None;
        }
        best
    }

    /// Where rows have their entries, with sizes and without.
    fn grams(&self, shapes: &[Shape], sizes: &[u32]) -> (usize, usize) {
        let (mut strong, mut weak) = (1, 1);
        for (shape, size) in shapes.iter().zip(sizes).take(GRAM) {
            weak = mix(weak, u64::from(shape.0));
            strong = mix(strong, u64::from(shape.0) ^ u64::from(*size) << 20);
        }
        let place = |hash| table_place(hash, self.table_bits);
        (place(strong), place(weak))
    }
}
