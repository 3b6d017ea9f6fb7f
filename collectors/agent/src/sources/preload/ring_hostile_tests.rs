//! Rings that are damaged or forged.

use super::*;

#[test]
fn a_forged_position_is_counted_and_bounded() {
    for (head, tail) in [
        (u64::MAX, 0),
        (5, 9),
        (u64::MAX, u64::MAX),
        (1 << 40, (1 << 40) - 1),
        (3000, 0),
    ] {
        let mut file = RingFile::new(&temp_dir("forged"), 1, 1);
        let bytes = file.segment_bytes(0);
        bytes[8..16].copy_from_slice(&head.to_ne_bytes());
        let at = offset_of!(SegmentHeader, tail);
        bytes[at..at + 8].copy_from_slice(&tail.to_ne_bytes());
        let raw = file.segment_bytes(0).to_vec();
        OpenOptions::new()
            .write(true)
            .open(&file.path)
            .unwrap()
            .write_all_at(&raw, segment_at(0) as u64)
            .unwrap();
        let mut reader = Reader::new(&file);
        let (flow, events) = reader.pass(true, true);
        assert_eq!((flow, events.len()), (Flow::Done, 0));
        assert_eq!(reader.ring.cursor.segments[0].position, head);
        assert_eq!(file.tail(0), head);
        assert!(head == tail || reader.counters.bad_runs.get() > 0);
    }
}

/// Random bytes over a ring: never a panic, bounded time, and what comes out is JSON within its types.
#[test]
fn random_bytes_over_a_ring_harm_nobody() {
    let mut file = RingFile::new(&temp_dir("mutated"), 1, 1);
    let id = file.add_name(b"/data/a\xff\"");
    for i in 0..40 {
        file.record(
            0,
            &operation(1 + (i % 5) as u8, (i % 3) as i32, id, i * i, i),
        );
    }
    let header: Vec<u8> = std::fs::read(&file.path).unwrap()[..8192].to_vec();
    let segment = file.segment_bytes(0).to_vec();
    let disk = OpenOptions::new().write(true).open(&file.path).unwrap();
    let mut random = Random::new(77);
    let begin = Instant::now();
    let mut reader = Reader::new(&file);
    let (mut events, mut refused) = (0, 0);
    for case in 0..20_000 {
        // Mostly where it hurts: the header's first bytes, names, the segment's header, slots and first runs.
        for _ in 0..1 + random.below(4) {
            let at = match random.below(5) {
                0 => random.below(112),
                1 => 4096 + random.below(64),
                2 => segment_at(0) as u64 + random.below(128),
                3 => segment_at(0) as u64 + random.below(slot_at(SLOTS) as u64),
                _ => segment_at(0) as u64 + slot_at(SLOTS) as u64 + random.below(4000),
            };
            let value = match random.below(4) {
                0 => 0,
                1 => u64::MAX,
                2 => 1 << random.below(64),
                _ => random.number(),
            };
            let length = 1 + random.below(8) as usize;
            disk.write_all_at(&value.to_ne_bytes()[..length], at)
                .unwrap();
        }
        if random.below(500) == 0 {
            disk.set_len(random.below((segment_at(0) + SEGMENT_SIZE) as u64))
                .unwrap();
        }
        reader.decode = case % 10 == 0;
        reader.ring.life =
            [Life::Ended, Life::Lives, Life::Lives, Life::Lives][random.below(4) as usize];
        let (flow, found) = reader.pass(true, random.below(2) == 0);
        refused += (flow == Flow::Done && reader.shipped == 0) as u64;
        events += reader.shipped;
        for e in &found {
            for name in ["offset", "size", "count", "bytes", "busy_ns", "slow_ns"] {
                assert!(e[name].as_i64().is_some_and(|v| v >= 0), "{name}: {e}");
            }
            assert!(e["end"].as_i64() >= e["start"].as_i64());
            histogram(e);
        }
        if case % 3 == 0 {
            disk.set_len(segment_at(1) as u64).unwrap();
            disk.write_all_at(&header, 0).unwrap();
            disk.write_all_at(&segment, segment_at(0) as u64).unwrap();
            reader.again(&file);
        }
    }
    assert!(
        events > 10_000 && refused > 1000,
        "the cases reach both ends: {events} events, {refused} without"
    );
    assert!(begin.elapsed() < Duration::from_secs(240));
}
