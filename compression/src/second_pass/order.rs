//! The order of rows: whose turn it is, and which number each has on its node.

use super::block::ROWS_MAX;
use super::wire::{mix, put, put_signed, table_place, Damage, Reader};

/// Rows of one process that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    pub lane: u32,
    pub rows: u32,
}

/// A turn beside the one before: processes of one node mostly take turns as those of the node before did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// How many processes further it is the turn of.
    by: i32,
    rows: u32,
}

/// Changes in a row that are looked up together: many first, as a few are alike at several places of a node.
const GRAMS: [usize; 2] = [24, 3];
const TABLE_BITS: u32 = 14;
/// Fewer are not worth to be told as what came before.
const ALIKE_MIN: usize = 3;

/// Where some changes on end were last: place + 1 by their hash, 0 for nowhere.
struct Places {
    gram: usize,
    places: Vec<u32>,
}

impl Places {
    fn new(gram: usize) -> Self {
        Self {
            gram,
            places: vec![0; 1 << TABLE_BITS],
        }
    }

    /// Where those that begin at a place have their entry; None where too few are left.
    fn entry(&self, known: &[Change], at: usize) -> Option<usize> {
        let changes = known.get(at..at + self.gram)?;
        let hash = changes.iter().fold(0, |hash, change| {
            mix(hash, change.by as u64 ^ u64::from(change.rows) << 32)
        });
        Some(table_place(hash, TABLE_BITS))
    }

    fn learn(&mut self, known: &[Change], at: usize) {
        if let Some(entry) = self.entry(known, at) {
            self.places[entry] = at as u32 + 1;
        }
    }

    fn find(&self, known: &[Change], at: usize) -> Option<usize> {
        let entry = self.entry(known, at)?;
        (self.places[entry] as usize).checked_sub(1)
    }
}

/// Tells turns, as what came before once more where that is shorter. known: the changes so far, to which these are added.
pub fn put_turns(out: &mut Vec<u8>, turns: &[Turn], known: &mut Vec<Change>) {
    let from = known.len();
    let mut last = 0;
    known.extend(turns.iter().map(|turn| {
        let by = turn.lane as i32 - std::mem::replace(&mut last, turn.lane) as i32;
        Change {
            by,
            rows: turn.rows,
        }
    }));
    let mut tables = GRAMS.map(Places::new);
    let learn = |tables: &mut [Places], at| {
        let tables = tables.iter_mut();
        tables.for_each(|places| places.learn(known, at));
    };
    (0..from).for_each(|at| learn(&mut tables, at));
    let (mut plain, mut at) = (from, from);
    while at < known.len() {
        let alike = |place: usize| {
            let pairs = known[place..].iter().zip(&known[at..]);
            pairs.take_while(|(one, other)| one == other).count()
        };
        let places = tables.iter().filter_map(|places| places.find(known, at));
        let found = places.map(|place| (alike(place), place)).max();
        // Of what comes again the beginning is enough: the rest is known.
        learn(&mut tables, at);
        match found.filter(|&(count, _)| count >= ALIKE_MIN) {
            None => at += 1,
            Some((count, place)) => {
                put_plain(out, &known[plain..at]);
                put(out, (count as u64) << 1 | 1);
                put(out, (at - place) as u64);
                at += count;
                plain = at;
            }
        }
    }
    put_plain(out, &known[plain..]);
}

fn put_plain(out: &mut Vec<u8>, changes: &[Change]) {
    if changes.is_empty() {
        return;
    }
    put(out, (changes.len() as u64) << 1);
    for change in changes {
        put_signed(out, i64::from(change.by));
        put(out, u64::from(change.rows) - 1);
    }
}

/// Turns of `rows` rows in all. known: as in `put_turns`.
pub fn turns(told: &[u8], rows: usize, known: &mut Vec<Change>) -> Result<Vec<Turn>, Damage> {
    const TOO_MANY: &str = "it has more rows than it says";
    let mut reader = Reader::new(told);
    let (mut turns, mut lane, mut lanes, mut left) = (Vec::new(), 0, 0, rows);
    while left > 0 {
        let told = reader.number()?;
        let back = if told & 1 == 1 {
            let back = reader.size(known.len(), "its turns are as none before")?;
            Some(back).filter(|&back| back > 0)
        } else {
            None
        };
        if told >> 1 == 0 || (told & 1 == 1 && back.is_none()) {
            return Err(Damage("its turns go on by none"));
        }
        for _ in 0..told >> 1 {
            let change = match back {
                Some(back) => known[known.len() - back],
                None => Change {
                    by: i32::try_from(reader.signed()?).unwrap_or(i32::MAX),
                    rows: 1 + reader.size(ROWS_MAX, TOO_MANY)? as u32,
                },
            };
            lane += i64::from(change.by);
            if !(0..=lanes).contains(&lane) {
                return Err(Damage("a row is of a process that is not there"));
            }
            lanes = lanes.max(lane + 1);
            left = left
                .checked_sub(change.rows as usize)
                .ok_or(Damage(TOO_MANY))?;
            known.push(change);
            turns.push(Turn {
                lane: lane as u32,
                rows: change.rows,
            });
        }
    }
    Ok(turns)
}

/// Numbers of rows: on each node (of a boot) one more than the last one; those that are not, with how many are in between.
struct Sequences<'a> {
    last: Vec<i64>,
    /// What the first row of the node that came last had.
    first: &'a mut i64,
}

impl<'a> Sequences<'a> {
    fn new(first: &'a mut i64) -> Self {
        let last = Vec::new();
        Self { last, first }
    }

    /// What the next row of a node has. Nodes are numbered in the order in which they come.
    #[inline]
    fn foretold(&self, node: usize) -> i64 {
        self.last
            .get(node)
            .map_or(*self.first, |last| last.wrapping_add(1))
    }

    #[inline]
    fn learn(&mut self, node: usize, seq: i64) {
        match self.last.get_mut(node) {
            Some(last) => *last = seq,
            None => {
                self.last.push(seq);
                *self.first = seq;
            }
        }
    }

    /// Takes so many rows of a node that are as foretold, from the number of the first on.
    #[inline]
    fn learn_line(&mut self, node: usize, first: i64, rows: usize) {
        if rows > 0 {
            self.learn(node, first);
            self.learn(node, first.wrapping_add(rows as i64 - 1));
        }
    }
}

/// rows: node, by number, and number of each. first: what the first row of the last node of all had, before and afterwards.
pub fn put_sequences(out: &mut Vec<u8>, rows: impl Iterator<Item = (usize, i64)>, first: &mut i64) {
    let mut known = Sequences::new(first);
    let mut gap = 0;
    for (node, seq) in rows {
        let foretold = known.foretold(node);
        if seq == foretold {
            gap += 1;
        } else {
            put(out, gap);
            put_signed(out, seq.wrapping_sub(foretold));
            gap = 0;
        }
        known.learn(node, seq);
    }
}

/// turns: node, by number, and how many of its rows follow each other; `rows` in all.
pub fn sequences(
    told: &[u8],
    turns: impl Iterator<Item = (usize, usize)>,
    rows: usize,
    first: &mut i64,
) -> Result<Vec<i64>, Damage> {
    let mut reader = Reader::new(told);
    let gap = |reader: &mut Reader| {
        if reader.is_empty() {
            Ok(u64::MAX)
        } else {
            reader.number()
        }
    };
    let mut known = Sequences::new(first);
    let mut left = gap(&mut reader)?;
    let mut out = Vec::with_capacity(rows);
    for (node, mut rows) in turns {
        while rows > 0 {
            let foretold = known.foretold(node);
            let plain = usize::try_from(left).unwrap_or(usize::MAX).min(rows);
            known.learn_line(node, foretold, plain);
            out.extend((0..plain).map(|row| foretold.wrapping_add(row as i64)));
            (left, rows) = (left - plain as u64, rows - plain);
            if rows > 0 {
                let seq = known.foretold(node).wrapping_add(reader.signed()?);
                known.learn(node, seq);
                out.push(seq);
                rows -= 1;
                left = gap(&mut reader)?;
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lanes: &[u32], known: &mut Vec<Change>) -> Vec<u8> {
        let turns: Vec<_> = lanes
            .iter()
            .map(|&lane| Turn {
                lane,
                rows: 1 + lane % 3,
            })
            .collect();
        let mut out = Vec::new();
        let mut again = known.clone();
        put_turns(&mut out, &turns, known);
        let rows = turns.iter().map(|turn| turn.rows as usize).sum();
        assert_eq!(
            super::turns(&out, rows + 1, &mut again.clone()),
            Err(Damage("it ends too early"))
        );
        assert_eq!(super::turns(&out, rows, &mut again).unwrap(), turns);
        assert_eq!(&again, known);
        out
    }

    #[test]
    fn turns_are_read_as_they_were_put() {
        assert!(told(&[], &mut Vec::new()).is_empty());
        told(&[0, 1, 0, 1, 2, 0, 3, 1, 3], &mut Vec::new());
        let chance = |at: u32| at.wrapping_mul(0x9e37_79b9) >> 24;
        let lanes = (0..40).chain((0..1000).map(|at| chance(at) % 40));
        told(&lanes.collect::<Vec<_>>(), &mut Vec::new());
    }

    #[test]
    fn turns_that_come_again_node_by_node_are_told_once() {
        let node = [0, 1, 2, 0, 1, 2, 2, 0, 1];
        let lanes = |nodes: u32| (0..nodes).flat_map(|at| node.map(|lane| lane + at * 3));
        let mut known = Vec::new();
        let few = told(&lanes(9).collect::<Vec<_>>(), &mut known);
        assert!(few.len() < 30, "{few:?}");
        // In the next block too.
        let more = told(&lanes(300).collect::<Vec<_>>(), &mut known);
        assert!(more.len() < 12, "{more:?}");
    }

    #[test]
    fn turns_that_there_are_not_are_damage() {
        let turns = |told: &[u64], rows| {
            let mut out = Vec::new();
            told.iter().for_each(|&number| put(&mut out, number));
            super::turns(&out, rows, &mut Vec::new())
        };
        // One plain turn of one row of process 0, then of others.
        assert_eq!(turns(&[2, 0, 0], 1), Ok(vec![Turn { lane: 0, rows: 1 }]));
        for told in [
            &[0][..],
            &[1, 1],
            &[3, 0],
            &[3, 1],
            &[2, 1, 0],
            &[2, 2, 0],
            &[2, u64::MAX, 0],
            &[2, 0, 5],
            &[2, 0, u64::MAX],
            &[u64::MAX - 1, 0, 0],
            &[2, 0, 0, 5, 2],
            &[2, 0, 0, 5, 0],
        ] {
            assert!(turns(told, 5).is_err(), "{told:?}");
        }
    }

    #[test]
    fn numbers_of_rows_are_read_as_they_were_put() {
        let rows = [
            (0, 5),
            (0, 6),
            (1, 5),
            (0, 7),
            (1, 9),
            (2, i64::MAX),
            (2, i64::MIN),
            (2, 0),
            (0, 8),
        ];
        let mut out = Vec::new();
        let (mut first, mut again) = (0, 0);
        put_sequences(&mut out, rows.into_iter(), &mut first);
        let seqs = sequences(
            &out,
            rows.iter().map(|row| (row.0, 1)),
            rows.len(),
            &mut again,
        )
        .unwrap();
        assert_eq!([first, again], [i64::MAX; 2]);
        assert_eq!(seqs, rows.map(|row| row.1));
        // The first differs, which is told by no number in between.
        assert_eq!(out[0], 0);
        assert!(sequences(&out[..1], [(0, 1)].into_iter(), 1, &mut 0).is_err());
        assert_eq!(
            sequences(&[], (0..3).map(|node| (node, 1)), 3, &mut 7).unwrap(),
            [7; 3]
        );
    }
}
