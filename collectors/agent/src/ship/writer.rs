//! Writes an entry: its cursors as they come, piece by piece, then the window, and the head last, so that until then there is no entry.

use super::entry::{Header, CURSORS_BYTES_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use super::spool::AppendError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An entry at a place of a segment. Owned by the spool for the time of an append.
pub struct Writer<'a> {
    file: &'a File,
    at: u64,
    /// What the entry may have, bytes.
    bytes_max: u64,
    /// What it takes, as far as that is known: also what it may not have is counted, though not written.
    bytes: u64,
    /// What was written behind the head, and its checksum.
    body_bytes: u64,
    body: crc32fast::Hasher,
    /// Once something failed nothing more is written.
    written: Result<(), AppendError>,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a File, at: u64, bytes_max: u64) -> Writer<'a> {
        Writer {
            file,
            at,
            bytes_max,
            bytes: HEADER_BYTES as u64,
            body_bytes: 0,
            body: crc32fast::Hasher::new(),
            written: Ok(()),
        }
    }

    /// Appends to the cursors.
    pub fn put(&mut self, piece: &[u8]) {
        if let Ok(()) | Err(AppendError::Full(_)) = self.written {
            let cursors_bytes = self.bytes - HEADER_BYTES as u64 + piece.len() as u64;
            self.written = match cursors_bytes > CURSORS_BYTES_MAX as u64 {
                true => Err(too_large()),
                false => self.write(piece),
            };
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(AppendError::Full(self.bytes));
        }
        let end = HEADER_BYTES as u64 + self.body_bytes;
        self.file
            .write_all_at(bytes, self.at + end)
            .map_err(AppendError::Io)?;
        self.body.update(bytes);
        self.body_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Whether there were no cursors.
    pub fn is_empty(&self) -> bool {
        self.body_bytes == 0 && self.written.is_ok()
    }

    /// Ends with the window; of the head it says itself how long the parts are. Answers how long the entry is. An error: that failed, or it is
    /// larger than it may be or than one that `read` would take back.
    pub fn end(mut self, header: Header, payload: &[u8]) -> Result<u64, AppendError> {
        match std::mem::replace(&mut self.written, Ok(())) {
            Err(AppendError::Full(bytes)) => {
                return Err(AppendError::Full(bytes + payload.len() as u64))
            }
            written => written?,
        }
        let header = Header {
            cursors_bytes: self.body_bytes.try_into().unwrap_or(u32::MAX),
            payload_bytes: payload.len().try_into().unwrap_or(u32::MAX),
            ..header
        };
        if !header.is_bounded() {
            return Err(too_large());
        }
        self.write(payload)?;
        let mut whole = crc32fast::Hasher::new();
        whole.update(&header.bytes(0));
        whole.combine(&self.body);
        self.file
            .write_all_at(&header.bytes(whole.finalize()), self.at)
            .map_err(AppendError::Io)?;
        Ok(header.total_bytes())
    }
}

/// What could never be read back is not written.
fn too_large() -> AppendError {
    AppendError::Io(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("cursors of more than {CURSORS_BYTES_MAX} bytes, or a window of more than {PAYLOAD_BYTES_MAX}, are more than an entry holds"),
    ))
}
