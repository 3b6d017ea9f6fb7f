//! Whose rows are whose: the processes of a table, and in which order their rows lie.

use std::collections::HashMap;

use super::order::Turn;
use super::table::{Number, Table, Text, Texts};

/// The processes of a table, or what stands for one where a source knows none, in the order in which they come.
pub struct Lanes {
    pub turns: Vec<Turn>,
    /// Of each process its first row, and which node (with its boot) it is of, by number.
    pub first: Vec<(usize, usize)>,
    /// The rows, process by process, and where those of each process begin.
    order: Vec<u32>,
    begin: Vec<usize>,
}

/// Of each text of a column the first place at which it is: a column may hold one several times.
fn first_codes(column: &Texts) -> Vec<u32> {
    let mut known = HashMap::new();
    let texts = column.texts.iter().enumerate();
    texts
        .map(|(code, text)| *known.entry(text).or_insert(code as u32))
        .collect()
}

impl Lanes {
    /// No row lacks one of the four texts.
    pub fn of(table: &Table) -> Self {
        let columns = [Text::Node, Text::Process, Text::Layer, Text::Source];
        let codes = columns.map(|text| &*table.text(text).codes);
        let same = columns.map(|text| first_codes(table.text(text)));
        let boots = table.number(Number::Boot);
        let key = |row: usize| {
            let code = |column: usize| same[column][codes[column][row] as usize];
            (boots[row], [code(0), code(1), code(2), code(3)])
        };
        let mut known = HashMap::new();
        let mut nodes = HashMap::new();
        let mut turns: Vec<Turn> = Vec::new();
        let mut first = Vec::new();
        let mut counts: Vec<usize> = Vec::new();
        let mut last = None;
        for row in 0..table.rows {
            let key = key(row);
            if last != Some(key) {
                let lane = *known.entry(key).or_insert_with(|| {
                    let count = nodes.len();
                    let node = *nodes.entry((key.0, key.1[0])).or_insert(count);
                    first.push((row, node));
                    counts.push(0);
                    first.len() as u32 - 1
                });
                turns.push(Turn { lane, rows: 0 });
                last = Some(key);
            }
            let turn = turns.last_mut().expect("the first row begins a turn");
            turn.rows += 1;
            counts[turn.lane as usize] += 1;
        }
        let mut begin = vec![0; counts.len() + 1];
        for (lane, count) in counts.iter().enumerate() {
            begin[lane + 1] = begin[lane] + count;
        }
        let mut order = vec![0; table.rows];
        let (mut next, mut row) = (begin.clone(), 0);
        for turn in &turns {
            let at = &mut next[turn.lane as usize];
            for _ in 0..turn.rows {
                order[*at] = row;
                (*at, row) = (*at + 1, row + 1);
            }
        }
        Self {
            turns,
            first,
            order,
            begin,
        }
    }

    pub fn count(&self) -> usize {
        self.first.len()
    }

    /// The rows of a process.
    pub fn rows(&self, lane: usize) -> &[u32] {
        &self.order[self.begin[lane]..self.begin[lane + 1]]
    }

    pub fn node<'a>(&self, table: &'a Table, lane: usize) -> &'a [u8] {
        table
            .text(Text::Node)
            .get(self.first[lane].0)
            .unwrap_or_default()
    }
}
