//! What processes are called: by their place on their node, since those of one node are mostly called as those of the node before.

use super::names::{plus, Name, NameTrend, Templates, NUMBERS_MAX};
use super::side::{Field, Side};
use super::wire::Damage;

/// A process, or what stands for one.
#[derive(Clone, Copy, Default)]
pub struct Lane {
    pub node: Name,
    pub boot: i64,
    pub process: Name,
    pub layer: Name,
    pub source: Name,
}

/// Places of a node that are told apart; those behind are one.
const PLACES_MAX: usize = 256;
/// Node, process, layer, source.
const NAMES: usize = 4;

/// What is known of processes at one place of their nodes. They go on from those of the process before.
type Place = [NameTrend; NAMES];

#[derive(Clone, Default)]
pub struct Callings {
    places: Vec<Place>,
    /// The process before; and how many there were on its node up to it, and on the node before that.
    last: Lane,
    count: usize,
    width: usize,
}

impl Callings {
    /// Codes what the next process is called.
    pub fn pass<S: Side>(
        &mut self,
        side: &mut S,
        texts: &Templates,
        lane: &mut Lane,
    ) -> Result<(), Damage> {
        side.begin()?;
        let place = if self.count == self.width {
            0
        } else {
            self.count.min(PLACES_MAX - 1)
        };
        while self.places.len() <= place {
            let like = self.places.last().cloned().unwrap_or_default();
            self.places.push(like);
        }
        let [node, process, layer, source] = &mut self.places[place];
        let last = &self.last;
        node.pass_from(
            side,
            texts,
            (Field::Node, Field::NodeNumbers),
            &last.node,
            &mut lane.node,
        )?;
        let is_new = lane.node != last.node;
        // Another node's is drawn by chance.
        let boot = (!is_new).then_some(last.boot);
        side.drawn(Field::Boot, boot, &mut lane.boot)?;
        process.pass_from(
            side,
            texts,
            (Field::Process, Field::ProcessNumbers),
            &last.process,
            &mut lane.process,
        )?;
        layer.pass_from(
            side,
            texts,
            (Field::Layer, Field::LayerNumbers),
            &last.layer,
            &mut lane.layer,
        )?;
        source.pass_from(
            side,
            texts,
            (Field::Source, Field::SourceNumbers),
            &last.source,
            &mut lane.source,
        )?;
        side.end();
        if is_new {
            (self.width, self.count) = (self.count, 0);
        }
        self.count += 1;
        self.last = *lane;
        Ok(())
    }

    /// Goes on as if so many processes had been there as the trends foretell; back, if negative.
    pub fn skip(&mut self, lanes: i64) {
        // One node alone may be all that is known.
        let width = if self.width > 0 {
            self.width
        } else {
            self.count
        };
        if width == 0 {
            return;
        }
        let (nodes, rest) = (
            lanes.div_euclid(width as i64),
            lanes.rem_euclid(width as i64),
        );
        let at = self.count.min(width) % width;
        let last = &mut self.last;
        let names = [
            &mut last.node,
            &mut last.process,
            &mut last.layer,
            &mut last.source,
        ];
        for (which, name) in names.into_iter().enumerate() {
            let mut node = [0; NUMBERS_MAX];
            for lane in 0..width {
                let place = ((at + lane) % width).min(self.places.len() - 1);
                let by = self.places[place][which].next();
                plus(&mut node, &by);
                if (lane as i64) < rest {
                    plus(&mut name.numbers, &by);
                }
            }
            plus(&mut name.numbers, &node.map(|by| by.wrapping_mul(nodes)));
        }
        self.width = width;
        self.count = match (at + rest as usize) % width {
            0 => width,
            count => count,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::Packing;
    use super::*;

    /// Processes, four a node, two of them with another layer as well; node by node from a number on.
    fn lanes(texts: &mut Templates, nodes: std::ops::Range<usize>) -> Vec<Lane> {
        let mut lanes = Vec::new();
        for node in nodes {
            for (pid, layer) in [(1, "a"), (2, "a"), (2, "b"), (3, "a")] {
                let mut name = |text: String| texts.name(Some(text.as_bytes()));
                lanes.push(Lane {
                    node: name(format!("rack{:02}-cn{node}", node / 8)),
                    boot: node as i64 * 77,
                    process: name(format!("{}.5", 4000 + pid)),
                    layer: name(layer.to_string()),
                    source: name("s".to_string()),
                });
            }
        }
        lanes
    }

    /// Bytes that some lanes take, but for the ids of boots.
    fn told(callings: &mut Callings, texts: &Templates, lanes: &[Lane]) -> usize {
        let mut packing = Packing::default();
        for lane in lanes {
            callings.pass(&mut packing, texts, &mut { *lane }).unwrap();
        }
        let boots = packing.values[Field::Boot as usize].len();
        let values: usize = packing.values.iter().map(Vec::len).sum();
        packing.gaps.len() + packing.masks.len() + values - boots
    }

    #[test]
    fn processes_that_are_called_as_on_the_nodes_before_take_nothing() {
        let mut texts = Templates::default();
        let (first, later) = (lanes(&mut texts, 1..5), lanes(&mut texts, 5..8));
        let mut callings = Callings::default();
        assert!(told(&mut callings, &texts, &first) > 0);
        assert_eq!(told(&mut callings, &texts, &later), 0);
    }

    #[test]
    fn processes_are_called_as_foretold_behind_others_that_nobody_saw() {
        let mut texts = Templates::default();
        let (first, all) = (lanes(&mut texts, 1..5), lanes(&mut texts, 0..8));
        let mut callings = Callings::default();
        told(&mut callings, &texts, &first);
        for (skipped, node) in [(0, 5), (4, 6), (8, 7), (-4, 4), (-8, 3), (-16, 1)] {
            let mut callings = callings.clone();
            callings.skip(skipped);
            let next = &all[node * 4..node * 4 + 4];
            assert_eq!(told(&mut callings, &texts, next), 0, "{skipped}");
        }
    }
}
