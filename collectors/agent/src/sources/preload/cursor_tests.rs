//! Pieces of open runs add up to the runs.

use super::*;
use crate::testing::Random;
use tracepack::record::{Operation, LATENCY_BOUNDS_NS};

/// Ships an open run at random moments; the pieces together must be what a list of the operations says.
#[test]
fn pieces_add_up_to_the_run() {
    let mut random = Random::new(11);
    for case in 0..3000 {
        let folding = case % 3 == 0;
        let (stride, size) = (random.below(9) as i64 * 512 - 2048, 1 + random.below(4096));
        let mut cursor = SegmentCursor::default();
        let mut operations: Vec<Operation> = Vec::new();
        let mut pieces: Vec<Run> = Vec::new();
        let mut run = Run::default();
        let total = 1 + random.below(12);
        for i in 0..total {
            let start = i << 36;
            let took = match random.below(4) {
                0 => 1 << random.below(36),
                _ => 1 + random.below(80),
            };
            let o = Operation {
                file: 1,
                offset: (1i64 << 40).wrapping_add(stride * i as i64) as u64,
                size: if folding {
                    1 + random.below(4096)
                } else {
                    size
                },
                start,
                end: start + took,
                op: 1,
                ..Operation::default()
            };
            if i == 0 {
                run = Run {
                    slot: 4,
                    generation: 7,
                    ..Run::of(&o)
                };
            } else if folding {
                run.fold(&o);
            } else {
                assert!(run.continues(&o));
                run.extend(&o);
            }
            run.add_latency(latency_bucket(took, &LATENCY_BOUNDS_NS));
            operations.push(o);
            if random.below(3) == 0 {
                pieces.extend(cursor.rest(&run, &LATENCY_BOUNDS_NS).unwrap());
                cursor.ship(&run);
            }
        }
        pieces.extend(cursor.rest(&run, &LATENCY_BOUNDS_NS).unwrap());
        assert_eq!(pieces.iter().map(|p| p.count).sum::<u64>(), total);
        assert_eq!(
            pieces.iter().map(|p| p.bytes).sum::<u64>(),
            operations.iter().map(|o| o.size).sum::<u64>()
        );
        assert_eq!(
            pieces.iter().map(|p| p.busy).sum::<u64>(),
            operations.iter().map(|o| o.end - o.start).sum::<u64>()
        );
        assert_eq!(
            pieces.iter().map(|p| p.slowest).max(),
            operations.iter().map(|o| o.end - o.start).max(),
            "the slowest operation is in some piece"
        );
        let mut at = 0;
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(piece.flags & FLAG_PIECE != 0, i > 0);
            let own = &operations[at..at + piece.count as usize];
            at += own.len();
            assert_eq!(piece.end, own.iter().map(|o| o.end).max().unwrap());
            assert!(piece.start <= own[0].start);
            let buckets = own
                .iter()
                .map(|o| latency_bucket(o.took(), &LATENCY_BOUNDS_NS));
            let mut latency = [0; LATENCY_BUCKETS];
            buckets.for_each(|bucket| latency[bucket] += 1);
            assert_eq!(piece.histogram(), latency);
            assert_eq!(
                latency.iter().rposition(|&n| n > 0),
                Some(latency_bucket(piece.slowest, &LATENCY_BOUNDS_NS)),
                "a piece's slowest is one of its own or of their kind"
            );
            if !folding {
                for (k, o) in own.iter().enumerate() {
                    assert_eq!(
                        piece
                            .offset
                            .wrapping_add((piece.stride as u64).wrapping_mul(k as u64)),
                        o.offset
                    );
                    assert_eq!(piece.size, o.size);
                }
            }
        }
    }
}

#[test]
fn a_run_that_shrank_is_an_error() {
    let run = Run {
        slot: 1,
        generation: 1,
        count: 5,
        bytes: 50,
        busy: 5,
        latency: [0, 1, 0, 0, 0, 0, 0],
        ..Run::default()
    };
    let mut cursor = SegmentCursor::default();
    cursor.ship(&run);
    assert_eq!(cursor.rest(&run, &LATENCY_BOUNDS_NS), Ok(None));
    assert_eq!(
        cursor.rest(&Run { count: 4, ..run }, &LATENCY_BOUNDS_NS),
        Err(())
    );
    assert_eq!(
        cursor.rest(
            &Run {
                count: 6,
                bytes: 49,
                ..run
            },
            &LATENCY_BOUNDS_NS
        ),
        Err(())
    );
    // More slow operations than operations at all, or fewer than were shipped.
    for latency in [[0, 3, 0, 0, 0, 0, 0], [0; 7]] {
        let run = Run {
            count: 6,
            latency,
            ..run
        };
        assert_eq!(cursor.rest(&run, &LATENCY_BOUNDS_NS), Err(()));
    }
    // Another run of the same slot is another story.
    let other = Run {
        generation: 2,
        count: 1,
        ..run
    };
    assert_eq!(cursor.rest(&other, &LATENCY_BOUNDS_NS), Ok(Some(other)));
}
