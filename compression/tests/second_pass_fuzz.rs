//! Damaged and malicious blocks: what is read of one is an error or records that can be packed again, and takes no more room than docs/format.md says.
//!
//! A case depends on the seed and its own number only, so that one can be run alone: `BELLROCK_FUZZ_SEED=… BELLROCK_FUZZ_CASE=… cargo test -p tracepack
//! --features second_pass --test second_pass_fuzz`. `BELLROCK_FUZZ_CASES` is how many; `make fuzz` looks for more, guided by what they reach.
#![cfg(feature = "second_pass")]

mod hostile;
mod records;

use hostile::parts::{put_number, sign, Parts};
use hostile::room::{room, Counting};
use hostile::{changed, check, seeds, Random, Seeds, READ_BYTES_MAX};
use records::{plan, records, replayed, table, Record};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tracepack::second_pass::block::{decode, encode, Frame, Primer, PRIMER_ROWS_MAX, ROWS_MAX};
use tracepack::second_pass::table::{Number, Text};

/// Unless asked for more: some seconds of them.
const CASES: u64 = 25_000;
const SEED: u64 = 5;
/// A case that takes longer has no end.
const CASE_MAX: Duration = Duration::from_secs(60);
/// Each case is changed, but for one in so many: blocks must pass as they are.
const UNCHANGED_EVERY: u64 = 64;
/// What a block that has little may take to be read, however much it says: room for its records, and for a structure to be expanded.
const LIES_BYTES_MAX: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time: what others take and give back would count.
static MEASURED: Mutex<()> = Mutex::new(());

fn measured() -> MutexGuard<'static, ()> {
    MEASURED.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A case's block.
fn input(seeds: &Seeds, seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut pick = || &seeds.all[random.below(seeds.all.len())];
    let (one, other) = (pick(), pick());
    if case % UNCHANGED_EVERY == 0 {
        return one.block.clone();
    }
    changed(&mut random, &one.block, Some(&one.parts), other)
}

/// Says which case it was when a panic, or the watchdog, ends the run.
struct Report {
    seed: u64,
    case: AtomicU64,
    done: AtomicBool,
}

impl Report {
    fn text(&self) -> String {
        let (seed, case) = (self.seed, self.case.load(Relaxed));
        format!(
            "case {case} failed; run it alone with: BELLROCK_FUZZ_SEED={seed} BELLROCK_FUZZ_CASE={case} cargo test -p tracepack --features second_pass \
             --test second_pass_fuzz damaged"
        )
    }

    fn watch(&self) {
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        while !self.done.load(Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
            let case = self.case.load(Relaxed);
            if case != seen {
                (seen, since) = (case, Instant::now());
            } else if since.elapsed() > CASE_MAX {
                eprintln!("{} (it took more than {CASE_MAX:?})", self.text());
                std::process::abort();
            }
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: expected a number")),
    )
}

#[test]
fn damaged_blocks_are_refused_or_read_within_bounds() {
    let _measured = measured();
    let seed = setting("BELLROCK_FUZZ_SEED").unwrap_or(SEED);
    let cases = match setting("BELLROCK_FUZZ_CASE") {
        Some(case) => case..case + 1,
        None => 0..setting("BELLROCK_FUZZ_CASES").unwrap_or(CASES),
    };
    let (begin, seeds) = (Instant::now(), seeds());
    let report = Report {
        seed,
        case: cases.start.into(),
        done: false.into(),
    };
    let mut reached = [0u64; 4];
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(|| report.watch());
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for case in cases.clone() {
                report.case.store(case, Relaxed);
                let far = check(&input(&seeds, seed, case), &seeds.primers, case % 16 == 0);
                reached[..=far].iter_mut().for_each(|count| *count += 1);
            }
        }));
        report.done.store(true, Relaxed);
        watchdog.thread().unpark();
        if let Err(panic) = run {
            eprintln!("{}", report.text());
            std::panic::resume_unwind(panic);
        }
    });
    let percent = reached.map(|count| count * 100 / reached[0]);
    println!(
        "{} cases in {:?}; to its beginning, head, records (percent): {:?}",
        reached[0],
        begin.elapsed(),
        &percent[1..]
    );
    if reached[0] >= CASES {
        // A reader that turns all away at the door shows nothing.
        assert!(
            percent[1] >= 70 && percent[2] >= 60 && percent[3] >= 15,
            "{percent:?}"
        );
    }
}

/// Reads a block that was made to take much room. Answers what it took.
fn taken(block: &[u8], primer: Option<&Primer>) -> usize {
    let (read, bytes) = room(|| decode(block, primer));
    println!(
        "{:?}: {bytes} bytes to read {}",
        read.map(|table| table.rows),
        block.len()
    );
    assert!(bytes <= READ_BYTES_MAX, "{bytes} bytes");
    bytes
}

#[test]
fn blocks_that_say_more_than_they_have_take_no_room_for_it() {
    let _measured = measured();
    let seeds = seeds();
    let mut random = Random(3);
    let most = [ROWS_MAX as u64, 512 << 10, 32 << 20, u32::MAX.into()];
    for case in 0..4000 {
        let one = &seeds.all[random.below(seeds.all.len())];
        let other = &seeds.all[random.below(seeds.all.len())];
        let mut parts = one.parts.clone();
        if case % 2 == 0 {
            // As many records as there can be.
            let mut rows = Vec::new();
            put_number(&mut rows, ROWS_MAX as u64);
            let size = parts.head.iter().take_while(|byte| **byte >= 0x80).count() + 1;
            parts.head.splice(..size, rows);
        }
        if case % 3 == 0 {
            parts.change(&mut random, &other.parts);
        }
        let edge = random.edge();
        let lie = most.get(case % 8).copied().unwrap_or(edge);
        let block = parts.block(&mut random, Some(lie));
        let (_, bytes) = room(|| {
            let _ = Primer::read(&block);
            let _ = Frame::read(&block).and_then(|frame| frame.head(&block));
            let _ = decode(&block, Some(&seeds.primers[0].primer));
        });
        assert!(bytes <= LIES_BYTES_MAX, "{bytes} bytes for {}", block.len());
    }
}

/// Templates of as many numbers as there can be, which no record asks for.
fn templates(count: usize, size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..count {
        put_number(&mut all, size as u64);
        all.push(12);
        all.extend([0; 24]);
        all.resize(all.len() + size - 25, b'x');
    }
    all
}

#[test]
fn the_largest_that_a_block_can_be_is_read_within_bounds() {
    let _measured = measured();
    let mut random = Random(1);
    // A new track in each record, with a file, a name of itself and a histogram, each with as many numbers as there can be.
    let long = |row: usize| {
        (0..12)
            .map(|at| format!("/{}", row * 12 + at))
            .collect::<String>()
    };
    let mut most = vec![Record::new("cn1", "1.1", 0); ROWS_MAX];
    for (row, record) in most.iter_mut().enumerate() {
        record.say(Text::File, &long(row));
        record.say(Text::Job, &long(row));
        record.say(Text::Program, &long(row));
        record.set(Number::Seq, (row * row) as i64);
        record.latency = Some([row as i64; 8]);
    }
    let primer = encode(&table(&most[..PRIMER_ROWS_MAX]), &plan(None, 0, true)).unwrap();
    let primer = Primer::read(&primer).unwrap();
    let block = encode(&table(&most), &plan(Some(&primer), 1, false)).unwrap();
    assert!(taken(&block, Some(&primer)) > 64 << 20);

    let mut parts = Parts::of(&block);
    parts.streams[2] = templates(ROWS_MAX * 7, 60);
    taken(&parts.block(&mut random, None), Some(&primer));
    // One more than records can ask for; more than there may be.
    parts.streams[2] = templates(ROWS_MAX * 7 + 1, 25);
    assert!(decode(&parts.block(&mut random, None), Some(&primer)).is_err());
    parts.streams[2] = vec![0; 33 << 20];
    assert!(decode(&parts.block(&mut random, None), Some(&primer)).is_err());
}

#[test]
fn blocks_of_the_first_version_are_read_and_may_have_any_file() {
    let _measured = measured();
    let job = replayed(4, 3);
    let block = encode(&table(&job), &plan(None, 0, false)).unwrap();
    let old = Parts::of(&block)
        .first_version()
        .block(&mut Random(1), None);
    assert_eq!((block[4], old[4]), (2, 1));
    assert_eq!(records(&decode(&old, None).unwrap()), job);
    let head = Frame::read(&old).unwrap().head(&old).unwrap();
    assert!(head.files.is_none());
    // A version that is not known, and one that has not what it should.
    for (other, version) in [(&block, 0), (&block, 3), (&block, 1), (&old, 2)] {
        let mut other = other.clone();
        other[4] = version;
        sign(&mut other);
        assert!(decode(&other, None).is_err(), "{version}");
    }
}

#[test]
fn one_long_text_again_and_again_is_refused_before_long() {
    let _measured = measured();
    let mut rows = vec![Record::new("cn1", "1.1", 0); 2000];
    for (row, record) in rows.iter_mut().enumerate() {
        record.set(Number::FileId, row as i64);
    }
    let block = encode(&table(&rows), &plan(None, 0, false)).unwrap();
    let mut parts = Parts::of(&block);
    // The file's name is the last of the templates: twelve megabytes of it.
    let at = parts.streams[2]
        .windows(4)
        .position(|part| part == b"\x03\x00/a")
        .unwrap();
    let mut longer = parts.streams[2][..at].to_vec();
    put_number(&mut longer, 12 << 20);
    longer.push(0);
    longer.resize(longer.len() + (12 << 20) - 1, b'/');
    longer.extend(&parts.streams[2][at + 4..]);
    parts.streams[2] = longer;
    let begin = Instant::now();
    let refused = decode(&parts.block(&mut Random(2), None), None).unwrap_err();
    assert!(refused.to_string().contains("records' texts"), "{refused}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    for record in &mut rows {
        record.say(Text::File, &"/".repeat(200_000));
    }
    assert!(encode(&table(&rows), &plan(None, 0, false)).is_err());
}
