//! Cuts what is read of a log into lines.

/// Longest line, bytes; of a longer one the rest is passed over.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// What is read at once, bytes.
pub const CHUNK_BYTES: usize = 256 << 10;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole line without its end, and where it begins.
    Line(u64, &'a [u8]),
    /// A line that was too long, and where it begins; it is passed over.
    TooLong(u64),
    /// There is no whole line any more.
    Nothing,
}

/// Owned by the log's reader. Bounded by CHUNK_BYTES; what is in it when the agent is killed is read again.
#[derive(Default)]
pub struct Lines {
    bytes: Box<[u8]>,
    /// What is in `bytes` and was not given out: from, to.
    from: usize,
    to: usize,
    /// Where `bytes` begins in the log.
    base: u64,
    /// The rest of a line that was too long comes.
    skipping: bool,
}

impl Lines {
    /// Begins anew at a place of a log.
    pub fn reset(&mut self, at: u64, skipping: bool) {
        (self.from, self.to, self.base, self.skipping) = (0, 0, at, skipping);
    }

    /// Gives the memory back until more comes.
    pub fn shrink(&mut self) {
        let rest: Box<[u8]> = self.bytes[self.from..self.to].into();
        (self.base, self.to, self.from) = (self.base + self.from as u64, rest.len(), 0);
        self.bytes = rest;
    }

    /// Where the first byte lies that was not given out, and whether it belongs to a line that is passed over.
    pub fn position(&self) -> (u64, bool) {
        (self.base + self.from as u64, self.skipping)
    }

    /// Where the first byte lies that is still to be read.
    pub fn end(&self) -> u64 {
        self.base + self.to as u64
    }

    /// Whether a line has begun that has no end yet, and is not too long.
    pub fn has_part(&self) -> bool {
        self.from < self.to
    }

    /// Room for what comes next, to be `filled`. Only when there is no whole line any more.
    pub fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() < CHUNK_BYTES {
            let mut bytes = vec![0; CHUNK_BYTES];
            bytes[..self.to].copy_from_slice(&self.bytes[..self.to]);
            self.bytes = bytes.into();
        }
        self.bytes.copy_within(self.from..self.to, 0);
        self.base += self.from as u64;
        (self.from, self.to) = (0, self.to - self.from);
        &mut self.bytes[self.to..]
    }

    /// So many bytes of the room were written.
    pub fn filled(&mut self, bytes: usize) {
        self.to = (self.to + bytes).min(self.bytes.len());
    }

    #[inline]
    pub fn next_line(&mut self) -> Next<'_> {
        loop {
            let rest = &self.bytes[self.from..self.to];
            let Some(length) = memchr::memchr(b'\n', rest) else {
                return self.without_end();
            };
            let (from, at) = (self.from, self.base + self.from as u64);
            self.from += length + 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if length > LINE_BYTES_MAX {
                return Next::TooLong(at);
            }
            return Next::Line(at, &self.bytes[from..from + length]);
        }
    }

    fn without_end(&mut self) -> Next<'_> {
        if self.skipping {
            self.from = self.to;
        } else if self.to - self.from > LINE_BYTES_MAX {
            let at = self.base + self.from as u64;
            (self.from, self.skipping) = (self.to, true);
            return Next::TooLong(at);
        }
        Next::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Lines as they come out when the log is read in pieces, and how many were too long.
    fn read(log: &[u8], mut piece: impl FnMut(usize) -> usize) -> (Vec<(u64, Vec<u8>)>, u32) {
        let mut lines = Lines::default();
        let (mut out, mut long, mut at) = (Vec::new(), 0, 0);
        loop {
            loop {
                match lines.next_line() {
                    Next::Line(at, line) => out.push((at, line.to_vec())),
                    Next::TooLong(at) => {
                        assert!(at == 0 || log[at as usize - 1] == b'\n');
                        long += 1;
                    }
                    Next::Nothing => break,
                }
            }
            assert_eq!(lines.end(), at as u64);
            if at == log.len() {
                return (out, long);
            }
            let room = lines.room();
            let bytes = piece(log.len() - at).clamp(1, room.len().min(log.len() - at));
            room[..bytes].copy_from_slice(&log[at..at + bytes]);
            lines.filled(bytes);
            at += bytes;
            if bytes % 3 == 0 {
                lines.shrink();
            }
        }
    }

    #[test]
    fn lines_are_the_same_however_they_are_read() {
        let log = b"one\n\ntwo\r\nthree\0\nhalf";
        let expected = vec![
            (0, b"one".to_vec()),
            (4, vec![]),
            (5, b"two\r".to_vec()),
            (10, b"three\0".to_vec()),
        ];
        for piece in 1..=log.len() {
            assert_eq!(read(log, |_| piece), (expected.clone(), 0));
        }
    }

    #[test]
    fn long_lines_are_passed_over_and_counted() {
        let mut random = Random::new(3);
        let mut log = Vec::new();
        let mut expected = Vec::new();
        let mut long = 0;
        for _ in 0..60 {
            let length = match random.below(5) {
                0 => LINE_BYTES_MAX - 1 + random.below(3) as usize,
                1 => random.below(3 * CHUNK_BYTES as u64) as usize,
                _ => random.below(100) as usize,
            };
            if length > LINE_BYTES_MAX {
                long += 1;
            } else {
                expected.push((log.len() as u64, vec![b'x'; length]));
            }
            log.resize(log.len() + length, b'x');
            log.push(b'\n');
        }
        for bound in [7_001, CHUNK_BYTES, usize::MAX] {
            let mut random = Random::new(bound as u64);
            let piece = |rest: usize| random.below(rest.min(bound) as u64 + 1) as usize;
            assert_eq!(read(&log, piece), (expected.clone(), long));
        }
    }
}
