//! libFuzzer over one of the fuzz targets, the agent's or the archive's, which `$BELLROCK_FUZZ_TARGET` names. The targets' own seeds go into the
//! folder `$BELLROCK_FUZZ_CORPUS` first. See `make fuzz`.
#![no_main]

mod block;
#[path = "../compression/tests/hostile/mod.rs"]
mod hostile;
#[path = "../compression/tests/records/mod.rs"]
mod records;

use bellrock_agent::fuzz::{target, Random, Target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::cell::RefCell;

// A block's reader has a bound for the room that it takes.
#[global_allocator]
static ALLOCATOR: hostile::room::Counting = hostile::room::Counting;

struct Run {
    target: Box<dyn Target>,
    seeds: Vec<Vec<u8>>,
}

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("${name} is not set; use make fuzz"))
}

fn begin() -> RefCell<Run> {
    let name = setting("BELLROCK_FUZZ_TARGET");
    let target: Box<dyn Target> = match name.as_str() {
        "block" => Box::new(block::Block::new()),
        _ => target(&name)
            .unwrap_or_else(|| panic!("no fuzz target {name}; see docs/development.md")),
    };
    let seeds = target.seeds();
    for (number, seed) in seeds.iter().enumerate() {
        let path = format!("{}/seed-{number}", setting("BELLROCK_FUZZ_CORPUS"));
        std::fs::write(&path, seed).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    RefCell::new(Run { target, seeds })
}

thread_local! {
    static RUN: RefCell<Run> = begin();
}

fuzz_target!(
    init: RUN.with(|_| ()),
    |input: &[u8]| {
        RUN.with(|run| run.borrow_mut().target.check(input));
    }
);

// libFuzzer's own changes, and the target's, which know where a field lies and keep the rest in its place.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed.into());
    if random.below(2) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut input = data[..size].to_vec();
    RUN.with(|run| {
        let run = run.borrow();
        let other = &run.seeds[random.below(run.seeds.len() as u64) as usize];
        run.target.mutate(&mut random, &mut input, other);
    });
    input.truncate(max_size);
    data[..input.len()].copy_from_slice(&input);
    input.len()
});
