//! Hostile input for the readers of bytes that nobody vouches for.
//!
//! A target is one reader: real inputs, how they are changed, and what must hold whatever comes. `cargo test` runs a million
//! cases of each (`run`), fuzz/ hands the same targets to libFuzzer (`make fuzz`).

mod frame;
mod line;
mod message;
mod mutator;
mod ring;
mod run;
mod samples;
mod schema;
mod spool;
mod spool_found;
mod spool_input;
mod spool_reference;

pub use crate::testing::Random;

/// What a case reached, and how many of all cases must: a target that is turned away at the door shows nothing.
pub struct Stage {
    pub name: &'static str,
    /// Percent of the cases.
    pub at_least: f64,
}

const fn stage(name: &'static str, at_least: f64) -> Stage {
    Stage { name, at_least }
}

/// One reader.
pub trait Target {
    fn stages(&self) -> &'static [Stage];

    /// Inputs that the project's own writers make.
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Changes an input; `other` is another one.
    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        mutator::mutate(random, input, other);
    }

    /// Gives the input to the reader and panics unless all holds that must. Answers a bit for each stage that it reached.
    fn check(&mut self, input: &[u8]) -> u32;
}

/// The answer of [`Target::check`], given whether each stage was reached, in their order.
fn reached<const N: usize>(stages: [bool; N]) -> u32 {
    stages
        .iter()
        .rev()
        .fold(0, |bits, &stage| (bits << 1) | stage as u32)
}

/// The target of this name.
pub fn target(name: &str) -> Option<Box<dyn Target>> {
    Some(match name {
        "frame" => Box::new(frame::Frame),
        "line" => Box::new(line::LineFuzz::new()),
        "message" => Box::new(message::MessageFuzz::new()),
        "ring" => Box::new(ring::RingFuzz::new()),
        "samples" => Box::new(samples::SamplesFuzz::new()),
        "spool" => Box::new(spool::SpoolFuzz::new()),
        _ => return None,
    })
}
