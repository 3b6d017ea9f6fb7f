//! The frame reader: acknowledgements as they come from a server, whatever it is.
//!
//! Input: how many windows are open, how their bytes are cut into pieces, the windows' events (u16 each), then the stream.

use super::{reached, stage, Stage, Target};
use crate::ship::acks::{Acks, Open, Windows};
use crate::ship::reader::Position;
use std::collections::VecDeque;
use std::io::{self, Read};

const WINDOWS: usize = 4;
const HEAD: usize = 2 + 2 * WINDOWS;

pub struct Frame;

/// A stream in pieces.
struct Pieces<'a> {
    rest: &'a [u8],
    longest: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(!buffer.is_empty(), "no room for what comes");
        let length = buffer.len().min(self.longest).min(self.rest.len());
        buffer[..length].copy_from_slice(&self.rest[..length]);
        self.rest = &self.rest[length..];
        Ok(length)
    }
}

/// What came of a stream: the windows that were acknowledged, and whether the peer was sent away.
type Heard = (Vec<u64>, bool);

/// As the shipper reads it.
fn heard(events: &[u32], stream: &[u8], longest: usize) -> Heard {
    let mut windows = Windows::default();
    for (number, &events) in events.iter().enumerate() {
        windows.push(Open {
            events,
            number: number as u64,
            after: Position::default(),
        });
    }
    let mut pieces = Pieces {
        rest: stream,
        longest,
    };
    let (mut acks, mut done) = (Acks::new(), Vec::new());
    loop {
        match acks.fill(&mut pieces) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return (done, false),
            filled => filled.unwrap(),
        }
        loop {
            let window = match acks.next() {
                Ok(None) => break,
                Ok(Some(number)) => windows.acknowledge(number),
                Err(e) => Err(e),
            };
            match window {
                Ok(window) => done.extend(window.map(|w| w.number)),
                Err(_) => return (done, true),
            }
        }
    }
}

/// The same from the whole stream, as the protocol has it.
fn reference(events: &[u32], stream: &[u8]) -> Heard {
    let mut open: VecDeque<(usize, u32)> = events.iter().copied().enumerate().collect();
    let (mut done, mut least) = (Vec::new(), 0);
    for frame in stream.chunks_exact(6) {
        let number = u32::from_be_bytes(frame[2..].try_into().unwrap());
        match open.front() {
            Some(&(index, events)) if frame.starts_with(b"2A") && number <= events => {
                if number == events {
                    done.push(index as u64);
                    open.pop_front();
                    least = 0;
                } else if number >= least {
                    least = number;
                } else if number > 0 {
                    return (done, true);
                }
            }
            _ => return (done, true),
        }
    }
    (done, false)
}

const STAGES: [Stage; 4] = [
    stage("acknowledged a window", 20.0),
    stage("acknowledged every window", 8.0),
    stage("sent the peer away", 20.0),
    stage("kept the peer", 10.0),
];

impl Target for Frame {
    fn stages(&self) -> &'static [Stage] {
        &STAGES
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let seed = |events: &[u16], longest: u8, acks: &[u32]| {
            let mut out = vec![events.len() as u8, longest];
            (0..WINDOWS).for_each(|i| out.extend(events.get(i).unwrap_or(&1).to_le_bytes()));
            for number in acks {
                out.extend(b"2A");
                out.extend(number.to_be_bytes());
            }
            out
        };
        let many: Vec<u32> = (0..100).chain([300, 0, 7, 20]).collect();
        vec![
            seed(&[3], 6, &[3]),
            seed(&[4096, 1, 12, 3], 0, &[0, 100, 4096, 1, 0, 0, 12, 3]),
            seed(&[10, 10], 1, &[5, 5, 0, 9, 10, 10]),
            seed(&[1, 2, 3, 4], 255, &[1, 2, 3, 4]),
            seed(&[300, 20], 100, &many),
            seed(&[65535], 7, &[65534]),
        ]
    }

    fn check(&mut self, input: &[u8]) -> u32 {
        let Some((head, stream)) = input.split_at_checked(HEAD) else {
            return 0;
        };
        let count = head[0] as usize % (WINDOWS + 1);
        let events: Vec<u32> = (0..count)
            .map(|i| u16::from_le_bytes([head[2 + 2 * i], head[3 + 2 * i]]).max(1) as u32)
            .collect();
        let expected = reference(&events, stream);
        let longest = head[1].max(1) as usize;
        for longest in [longest, usize::MAX] {
            let found = heard(&events, stream, longest);
            assert_eq!(found, expected, "in pieces of up to {longest} bytes");
        }
        let (done, refused) = expected;
        let (some, all) = (!done.is_empty(), count > 0 && done.len() == count);
        reached([some, all, refused, !refused])
    }
}
