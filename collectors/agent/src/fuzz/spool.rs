//! The spool reader: segments that were torn, damaged, copied or forged, as a start and the shipper find them.

use super::spool_found::{as_sent, sent, started, Found, InMemory, Restored};
use super::spool_input::{Input, SEGMENTS};
use super::spool_reference::{mend, Held};
use super::{mutator, reached, stage, Stage, Target};
use crate::config::Config;
use crate::counters::Counters;
use crate::event;
use crate::ship::batch::Batch;
use crate::ship::reader::Reader;
use crate::ship::shared::Shared;
use crate::ship::spool::{OpenError, Spool};
use crate::sources::{self, cursors};
use crate::testing::{memory_dir, Random};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The checksums are made right.
const MENDED: u8 = 1;
/// The segments are damaged only after the start: the shipper finds them so.
const WHILE_RUNNING: u8 = 2;
/// What comes back of the cursors goes to the sources.
const TO_SOURCES: u8 = 4;
/// All of these: the segments are files, and are written on; else they stay in memory, which takes a tenth of the time.
const ON_DISK: u8 = 0xf8;
const BOOT: u64 = 0xb007;
const SPOOL_BYTES_MAX: u64 = 64 << 20;
const SEGMENT_BYTES_MAX: u64 = 900;

pub struct SpoolFuzz {
    dir: PathBuf,
    config: Config,
    seeds: Vec<Vec<u8>>,
}

impl SpoolFuzz {
    pub fn new() -> SpoolFuzz {
        let mut new = SpoolFuzz {
            dir: memory_dir("spool-fuzz"),
            config: Config::load(None).unwrap(),
            seeds: Vec::new(),
        };
        new.seeds = [(1, 0), (4, 0), (9, 0), (9, 3), (12, 11)]
            .map(|(entries, acked)| new.written(entries, acked).bytes())
            .to_vec();
        new
    }

    fn segment_path(&self, index: usize) -> PathBuf {
        self.dir.join(format!("{:016}.seg", index + 1))
    }

    fn clear(&self) {
        for index in 0..SEGMENTS + 1 {
            let _ = fs::remove_file(self.segment_path(index)); // where there is one
        }
    }

    fn open(&self, counters: &Counters) -> (Spool, Restored) {
        let mut restored = Vec::new();
        loop {
            let opened = Spool::open(
                &self.dir,
                SPOOL_BYTES_MAX,
                SEGMENT_BYTES_MAX,
                counters,
                |all, cursors| restored.push((all, cursors.to_vec())),
            );
            match opened {
                // A child that another test forks holds all our locks until its exec.
                Err(OpenError::Locked(_)) => std::thread::yield_now(),
                opened => return (opened.unwrap(), restored),
            }
        }
    }

    /// What the agent's own writer makes of so many windows, the first `acked` of them acknowledged.
    fn written(&self, entries: u64, acked: u64) -> Input {
        self.clear();
        let _ = fs::remove_file(self.dir.join("acked")); // where there is one
        let (mut spool, _) = self.open(&Counters::default());
        for entry in 0..entries {
            append(&mut spool, entry % 4, entry);
        }
        drop(spool);
        let mut segments: Vec<Vec<u8>> = (0..SEGMENTS)
            .map(|i| fs::read(self.segment_path(i)).unwrap_or_default())
            .collect();
        for segment in segments.iter_mut().filter(|s| !s.is_empty()) {
            // The boot is random; a case must be the same each time.
            segment[40..48].copy_from_slice(&BOOT.to_le_bytes());
            mend(segment);
        }
        Input {
            flags: 0,
            acked,
            segments,
        }
    }

    fn place(&self, segments: &[Vec<u8>]) {
        for (index, segment) in segments.iter().enumerate() {
            fs::write(self.segment_path(index), segment).unwrap();
        }
    }

    /// Cursors from nobody knows where go to the sources; what these say of them they take back as it is.
    fn to_sources(&self, restored: &Restored) {
        let counters = Arc::new(Counters::default());
        let restore = |cursors: &Restored| {
            let mut sources = sources::all(&self.config, &counters);
            for (all, bytes) in cursors {
                cursors::restore(&mut sources, *all, bytes, &counters);
            }
            let mut out = Vec::new();
            cursors::write(&sources, true, &mut |piece| out.extend_from_slice(piece));
            out
        };
        let once = restore(restored);
        let again = restore(&vec![(true, once.clone())]);
        // In any order: the sources keep them by name.
        let sorted = |mut bytes: Vec<u8>| {
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(again), sorted(once), "cursors are kept as they are");
    }
}

impl Drop for SpoolFuzz {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir); // it is only in the way
    }
}

/// Appends a window of so many events, with cursors as the source of ring files has them.
fn append(spool: &mut Spool, events: u64, cursor: u64) {
    let mut batch = Batch::new("n", BOOT, spool.next_seq(), 100, 1 << 20);
    for i in 0..events {
        assert!(batch.push("run", |out| event::integer(out, "x", i as i64)));
    }
    let window = batch.finish().unwrap();
    let appended = spool.append(&window, |all, put| {
        put(&cursors::write_one(sources::preload::TAG, |out| {
            for ring in 0..1 + all as u64 {
                let (cursor, name) = (ring_cursor(cursor + 1), format!("{ring}-7-1.ring"));
                out.block(|out| cursor.write(all, 0, &name, out));
            }
        }));
    });
    appended.unwrap();
}

fn ring_cursor(position: u64) -> sources::preload::cursor::Cursor {
    use sources::preload::cursor::{Cursor, SegmentCursor, Shipped};
    let shipped = Shipped {
        slot: 3,
        generation: position as u16,
        count: position,
        bytes: position,
        busy: 1,
        end: 2,
        latency: Default::default(),
    };
    let segment = SegmentCursor {
        index: 0,
        position,
        shipped: vec![shipped],
        changed: true,
        ..SegmentCursor::default()
    };
    Cursor {
        started: true,
        segments: vec![segment],
        ..Cursor::default()
    }
}

const STAGES: [Stage; 6] = [
    stage("an entry was intact", 60.0),
    stage("an entry was cut off, others not", 20.0),
    stage("windows were given out", 40.0),
    stage("damage was met while running", 5.0),
    stage("cursors went to the sources", 5.0),
    stage("the segments were files and written on", 1.0),
];

impl Target for SpoolFuzz {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.seeds.clone()
    }

    fn mutate(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        let (Some(mut parsed), Some(other)) = (Input::parse(input), Input::parse(other)) else {
            return mutator::mutate(random, input, other);
        };
        for _ in 0..1 + random.below(2) {
            let which = random.below(SEGMENTS as u64) as usize;
            match random.below(12) {
                0 => parsed.segments.swap(which, 0),
                1 => parsed.segments[which] = other.segments[which].clone(),
                2 => parsed.acked = mutator::edge(random, parsed.acked),
                // A header's fields lie at known places.
                3 | 4 => {
                    let at = 4 * random.below(9) as usize;
                    mutator::renumber(random, &mut parsed.segments[which], at, 4);
                }
                _ => mutator::mutate(random, &mut parsed.segments[which], &other.segments[which]),
            }
        }
        parsed.segments.iter_mut().for_each(|s| s.truncate(0xffff));
        parsed.flags = random.number() as u8;
        *input = parsed.bytes();
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        let Some(mut input) = Input::parse(input) else {
            return 0;
        };
        if input.flags & MENDED != 0 {
            input.segments.iter_mut().for_each(|s| mend(s));
        }
        let counters = Counters::default();
        if input.flags & WHILE_RUNNING != 0 {
            return self.check_while_running(&input, &counters);
        }
        let held = Held::of(&input.segments);
        // A number that leaves no room to count on is none.
        let acked = match input.acked {
            acked if acked < 1 << 62 => acked,
            _ => 0,
        };
        let expected = Found::expected(&held, acked);
        let on_disk = input.flags & ON_DISK == ON_DISK;
        let found = if on_disk {
            self.on_disk(&input, &held, acked, &counters)
        } else {
            self.in_memory(&input.segments, acked, &counters)
        };
        assert_eq!(found, expected, "found, and what intact entries hold");
        let kept = !found.restored.is_empty();
        let lengths = found.lengths.iter().zip(&input.segments);
        let cut = kept && lengths.clone().any(|(&l, s)| l < s.len() as u64);
        if on_disk {
            let cuts = lengths.filter(|(&l, s)| l < s.len() as u64).count();
            assert_eq!(counters.torn_entries.get(), cuts as u64);
        }
        let to_sources = kept && input.flags & TO_SOURCES != 0 && (on_disk || input.flags & 8 != 0);
        if to_sources {
            self.to_sources(&found.restored);
        }
        let windows = !found.windows.is_empty();
        reached([kept, cut, windows, false, to_sources, on_disk])
    }
}

impl SpoolFuzz {
    fn in_memory(&self, segments: &[Vec<u8>], acked: u64, counters: &Counters) -> Found {
        let (restored, kept) = started(segments);
        let mut lengths = vec![0; SEGMENTS];
        for segment in &kept {
            lengths[segment.id as usize - 1] = segment.bytes;
        }
        let shared = Arc::new(Shared::new(&self.dir, kept, acked));
        Found {
            restored,
            lengths,
            windows: sent(Reader::of(InMemory(segments), shared), counters),
        }
    }

    fn on_disk(&self, input: &Input, held: &Held, acked: u64, counters: &Counters) -> Found {
        self.clear();
        self.place(&input.segments);
        fs::write(self.dir.join("acked"), input.acked.to_string()).unwrap();
        let (mut spool, restored) = self.open(counters);
        let length = |index| fs::metadata(self.segment_path(index)).map_or(0, |m| m.len());
        let lengths = (0..SEGMENTS).map(length).collect();
        let windows = sent(Reader::new(spool.shared()), counters);
        let (boot, seq) = (spool.boot(), spool.next_seq());
        if seq > 1 {
            assert_eq!((boot, seq), (held.boot, held.next_seq));
        }
        // Numbers at the very end of what there is cannot be counted on.
        if [acked, held.next_number, seq].iter().all(|&n| n < 1 << 61) {
            append(&mut spool, 2, 0);
            drop(spool);
            let (spool, _) = self.open(&Counters::default());
            assert_eq!((spool.boot(), spool.next_seq()), (boot, seq + 2));
            let again = sent(Reader::new(spool.shared()), counters);
            assert_eq!(
                (&again[..windows.len()], again.len()),
                (&windows[..], windows.len() + 1)
            );
        }
        Found {
            restored,
            lengths,
            windows,
        }
    }

    /// The agent runs with an undamaged spool, whose segments then become these.
    fn check_while_running(&self, input: &Input, counters: &Counters) -> u32 {
        let before = Input::parse(&self.seeds[2]).expect("a seed");
        let (_, kept) = started(&before.segments);
        let shared = Arc::new(Shared::new(&self.dir, kept, 1));
        let found = sent(Reader::of(InMemory(&input.segments), shared), counters);
        let mut windows = Vec::new();
        for (segment, before) in input.segments.iter().zip(&before.segments) {
            // What came behind the end that the agent knows is nothing of its own.
            let known = &segment[..segment.len().min(before.len())];
            windows.extend((0..known.len()).filter_map(|at| {
                let whole = known[at..].starts_with(b"BRE1");
                whole.then(|| super::spool_reference::entry(known, at))?
            }));
        }
        for window in &found {
            let intact = windows.iter().any(|e| as_sent(e) == *window);
            assert!(intact, "window {} stands in no intact entry", window.0);
        }
        reached([!windows.is_empty(), false, !found.is_empty(), true])
    }
}
