//! Blocks of the archive (docs/format.md), as the second pass' own tests change and check them.

use crate::hostile::parts::Parts;
use crate::hostile::{changed, check, seeds, Random as Source, Seed, Seeds};
use bellrock_agent::fuzz::{Random, Stage, Target};
use tracepack::second_pass::block::decode;

pub struct Block(Seeds);

impl Block {
    pub fn new() -> Self {
        Self(seeds())
    }
}

impl Target for Block {
    fn stages(&self) -> &'static [Stage] {
        &[]
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.0.all.iter().map(|seed| seed.block.clone()).collect()
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, _other: &[u8]) {
        let mut source = Source(random.number());
        // What can be read can be taken apart.
        let is_whole =
            (self.0.primers.iter()).any(|known| decode(input, Some(&known.primer)).is_ok());
        let parts = is_whole.then(|| Parts::of(input));
        let other: &Seed = &self.0.all[source.below(self.0.all.len())];
        *input = changed(&mut source, input, parts.as_ref(), other);
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        check(input, &self.0.primers, true) as u32
    }
}
