//! Runs a target over a million cases. A case depends on the seed and its own number only, so that one can be run alone:
//! `BELLROCK_FUZZ_SEED=… BELLROCK_FUZZ_CASE=… cargo test -p bellrock-agent fuzz::`. `BELLROCK_FUZZ_CASES` is how many.
#![cfg(test)]

use super::{target, Random, Stage, Target};
use crate::testing::temp_dir;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CASES: u64 = 1_000_000;
const SEED: u64 = 3;
/// A case that takes longer has no end.
const CASE_MAX: Duration = Duration::from_secs(60);
/// Each case is mutated, but for one in so many: seeds must pass as they are.
const UNCHANGED_EVERY: u64 = 64;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: expected a number")),
    )
}

/// The input of a case.
fn input(target: &dyn Target, seeds: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut pick = || &seeds[random.below(seeds.len() as u64) as usize];
    let (mut input, other) = (pick().clone(), pick());
    if case % UNCHANGED_EVERY != 0 {
        target.mutate(&mut random, &mut input, other);
    }
    input
}

/// Says which case it was when a panic, or the watchdog, ends the run.
struct Report {
    name: &'static str,
    seed: u64,
    case: AtomicU64,
    done: AtomicBool,
}

impl Report {
    fn text(&self) -> String {
        let (name, seed, case) = (self.name, self.seed, self.case.load(Ordering::Relaxed));
        format!("fuzz target {name}: case {case} failed; run it alone with: BELLROCK_FUZZ_SEED={seed} BELLROCK_FUZZ_CASE={case} cargo test -p bellrock-agent fuzz::run::{name}")
    }

    /// A case without an end ends the process.
    fn watch(&self) {
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        while !self.done.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
            let case = self.case.load(Ordering::Relaxed);
            if case != seen {
                (seen, since) = (case, Instant::now());
            } else if since.elapsed() > CASE_MAX {
                eprintln!("{} (it took more than {CASE_MAX:?})", self.text());
                std::process::abort();
            }
        }
    }
}

struct Told(Arc<Report>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            eprintln!("{}", self.0.text());
        }
    }
}

/// How many cases reached each stage.
fn run(
    name: &'static str,
    target: &mut dyn Target,
    seed: u64,
    cases: std::ops::Range<u64>,
) -> Vec<u64> {
    let report = Arc::new(Report {
        name,
        seed,
        case: cases.start.into(),
        done: false.into(),
    });
    let watched = report.clone();
    let watchdog = std::thread::spawn(move || watched.watch());
    let told = Told(report.clone());
    let seeds = target.seeds();
    let mut reached = vec![0; target.stages().len()];
    for case in cases {
        report.case.store(case, Ordering::Relaxed);
        let bits = target.check(&input(target, &seeds, seed, case));
        for (stage, count) in reached.iter_mut().enumerate() {
            *count += ((bits >> stage) & 1) as u64;
        }
    }
    drop(told);
    watchdog.thread().unpark();
    watchdog.join().unwrap();
    reached
}

fn fuzz(name: &'static str) {
    let mut target = target(name).unwrap();
    let seed = setting("BELLROCK_FUZZ_SEED").unwrap_or(SEED);
    if let Some(case) = setting("BELLROCK_FUZZ_CASE") {
        let bytes = input(&*target, &target.seeds(), seed, case);
        let path = temp_dir("fuzz").join(format!("{name}-{seed}-{case}"));
        std::fs::write(&path, bytes).unwrap();
        eprintln!("its input: {}", path.display());
        run(name, &mut *target, seed, case..case + 1);
        return;
    }
    let cases = setting("BELLROCK_FUZZ_CASES").unwrap_or(CASES);
    let begin = Instant::now();
    let reached = run(name, &mut *target, seed, 0..cases);
    println!("{name}: {cases} cases in {:?}", begin.elapsed());
    for (stage, count) in target.stages().iter().zip(reached) {
        let percent = count as f64 * 100.0 / cases as f64;
        println!("  {percent:5.1} % {}", stage.name);
        assert!(
            cases < CASES || percent >= stage.at_least,
            "{name}: too few cases ({percent:.1} %) reach: {}",
            stage.name
        );
    }
}

#[test]
fn frame() {
    fuzz("frame");
}

#[test]
fn line() {
    fuzz("line");
}

#[test]
fn message() {
    fuzz("message");
}

#[test]
fn ring() {
    fuzz("ring");
}

#[test]
fn samples() {
    fuzz("samples");
}

#[test]
fn spool() {
    fuzz("spool");
}

/// Fails at one input only.
struct Broken;

impl Target for Broken {
    fn stages(&self) -> &'static [Stage] {
        &[]
    }
    fn seeds(&self) -> Vec<Vec<u8>> {
        vec![b"abcdefgh".to_vec()]
    }
    fn check(&mut self, input: &[u8]) -> u32 {
        assert_ne!(input.first(), Some(&b'e'), "an e in front");
        0
    }
}

#[test]
fn a_failing_case_is_found_and_fails_alone_too() {
    let fails = |cases: std::ops::Range<u64>| {
        std::panic::catch_unwind(|| run("broken", &mut Broken, 1, cases)).is_err()
    };
    assert!(fails(0..200_000));
    let alone: Vec<u64> = (0..200_000)
        .filter(|&case| input(&Broken, &Broken.seeds(), 1, case).first() == Some(&b'e'))
        .collect();
    assert!(fails(alone[0]..alone[0] + 1) && !fails(0..alone[0]));
}
