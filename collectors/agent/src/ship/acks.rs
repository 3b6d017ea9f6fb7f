//! Acknowledgements: as they come off the wire, and the windows that they are for.
//!
//! An acknowledgement is `2 A number`, the number of events of the oldest open window that are safe: 0 only says "I am
//! alive", less than the window's count is progress, its count ends it. What a peer says is never trusted further than that.

use super::reader::Position;
use std::collections::VecDeque;
use std::io::{self, Read};

/// Acknowledgements that end no window, for each open one; a peer that sends more is not serious.
const IDLE_ACKS_MAX: u32 = 100_000;

fn protocol_error(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A window that was sent.
pub struct Open {
    pub events: u32,
    /// Of the spool's entry.
    pub number: u64,
    /// Where the next one begins.
    pub after: Position,
}

/// Windows that were sent and are not acknowledged yet, oldest first. Owned by the shipper, which bounds their number.
#[derive(Default)]
pub struct Windows {
    open: VecDeque<Open>,
    /// Events of the oldest one that are safe.
    progress: u32,
    idle_acks: u32,
}

impl Windows {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn push(&mut self, window: Open) {
        self.open.push_back(window);
    }

    /// Takes an acknowledgement; answers the window that it ends. An error: no honest peer would say so.
    pub fn acknowledge(&mut self, number: u32) -> io::Result<Option<Open>> {
        let Some(first) = self.open.front() else {
            return Err(protocol_error(format!(
                "acknowledged {number} with no window open"
            )));
        };
        if number > first.events || (number < self.progress && number != 0) {
            let of = first.events;
            return Err(protocol_error(format!(
                "acknowledged {number} of {of} events"
            )));
        }
        if number < first.events {
            self.progress = self.progress.max(number);
            self.idle_acks += 1;
            if self.idle_acks > IDLE_ACKS_MAX {
                return Err(protocol_error(
                    "too many acknowledgements for one window".into(),
                ));
            }
            return Ok(None);
        }
        (self.progress, self.idle_acks) = (0, 0);
        Ok(self.open.pop_front())
    }
}

/// Acknowledgements as they come off the wire.
pub struct Acks {
    buffer: [u8; 384],
    filled: usize,
}

impl Acks {
    pub fn new() -> Acks {
        Acks {
            buffer: [0; 384],
            filled: 0,
        }
    }

    /// Reads once. There is always room, if `next` is called until it has no more.
    pub fn fill(&mut self, stream: &mut impl Read) -> io::Result<()> {
        let got = stream.read(&mut self.buffer[self.filled..])?;
        if got == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection was closed",
            ));
        }
        self.filled += got;
        Ok(())
    }

    /// The next whole acknowledgement.
    pub fn next(&mut self) -> io::Result<Option<u32>> {
        if self.filled < 6 {
            return Ok(None);
        }
        // A TLS record, of which the first byte is its type and the second the version.
        if matches!(self.buffer[..2], [0x14..=0x17, 3]) {
            return Err(protocol_error(
                "the server speaks TLS; set [tls] in agent.toml (docs/tls.md)".into(),
            ));
        }
        if &self.buffer[..2] != b"2A" {
            return Err(protocol_error(format!(
                "expected an acknowledgement, got bytes {:02x?}",
                &self.buffer[..2]
            )));
        }
        let number = u32::from_be_bytes([
            self.buffer[2],
            self.buffer[3],
            self.buffer[4],
            self.buffer[5],
        ]);
        self.buffer.copy_within(6..self.filled, 0);
        self.filled -= 6;
        Ok(Some(number))
    }
}
