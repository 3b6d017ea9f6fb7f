//! The spool: what was read waits on disk until the server has acknowledged it.
//!
//! A directory with `lock`, `acked` (number of the last entry acknowledged) and segment files of entries. A segment's first
//! entry bears all cursors and the boot id, the others what changed; so the last segment alone says where to go on. Data
//! and cursors share one checksum: a kill at any instant leaves both or neither.

use super::batch::Window;
use super::entry::{self, Header, DATA, HEADER_BYTES, SNAPSHOT};
use super::recovery::Recovered;
use super::shared::{segment_path, Segment, Shared};
use super::spool_dir::{kernel_boot, lock, scan, segment_ids};
use super::writer::Writer;
use crate::counters::Counters;
use crate::sys;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

pub struct Spool {
    shared: Arc<Shared>,
    file: Option<File>,
    boot: u64,
    kernel_boot: u64,
    next_seq: u64,
    next_number: u64,
    bytes_max: u64,
    segment_bytes_max: u64,
    /// Of the window that was refused last its length, and what the entry takes, bytes: until there is room for that it is not tried again.
    refused: Option<(usize, u64)>,
    _lock: File,
}

#[derive(Debug)]
pub enum OpenError {
    /// Another agent has it; its pid, as far as it told.
    Locked(String),
    Io(String),
}

#[derive(Debug)]
pub enum AppendError {
    /// The bound is reached; room comes with acknowledgements. What the entry takes, bytes.
    Full(u64),
    Io(io::Error),
}

impl Spool {
    /// Opens or makes a spool. `restore` gets every entry's cursors in order; true with those that replace all before.
    pub fn open(
        dir: &Path,
        bytes_max: u64,
        segment_bytes_max: u64,
        counters: &Counters,
        mut restore: impl FnMut(bool, &[u8]),
    ) -> Result<Spool, OpenError> {
        let failed = |what: &Path, e: io::Error| OpenError::Io(format!("{}: {e}", what.display()));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|e| failed(dir, e))?;
        let lock = lock(dir)?;
        let mut segments = VecDeque::new();
        let mut recovered: Option<Recovered> = None;
        for id in segment_ids(dir).map_err(|e| failed(dir, e))? {
            let path = segment_path(dir, id);
            match scan(&path, id, counters, &mut recovered, &mut restore)
                .map_err(|e| failed(&path, e))?
            {
                Some(segment) => segments.push_back(segment),
                None => fs::remove_file(&path).map_err(|e| failed(&path, e))?,
            }
        }
        let acked = fs::read_to_string(dir.join("acked"))
            .ok()
            .and_then(|t| t.trim().parse().ok())
            .filter(|&acked| acked < entry::NUMBER_END)
            .unwrap_or(0);
        let kernel_boot = kernel_boot(&lock).map_err(|e| failed(dir, e))?;
        let next_number = recovered
            .as_ref()
            .map_or(1, |r| r.next_number)
            .max(acked + 1);
        // Where the end of the spool was lost although the server has it (a crash of the machine, a damaged disk), numbers that
        // were given must not be given again: the server would drop the records as resent. So a new boot begins.
        let (boot, next_seq, file) = match (&recovered, segments.back()) {
            (Some(r), Some(last)) if r.kernel_boot == kernel_boot && acked < r.next_number => {
                let path = segment_path(dir, last.id);
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(&path)
                    .map_err(|e| failed(&path, e))?;
                (r.boot, r.next_seq, Some(file))
            }
            _ => (
                sys::random_u64().map_err(|e| OpenError::Io(format!("getrandom: {e}")))?,
                1,
                None,
            ),
        };
        let shared = Arc::new(Shared::new(dir, segments, acked));
        Ok(Spool {
            shared,
            file,
            boot,
            kernel_boot,
            next_seq,
            next_number,
            bytes_max,
            segment_bytes_max,
            refused: None,
            _lock: lock,
        })
    }

    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().segments.iter().map(|s| s.bytes).sum()
    }

    /// Appends a window with the cursors that it was read up to: what `cursors(false)` hands over (those that changed) or, where a
    /// segment begins, `cursors(true)` (all). On an error the spool is as it was before.
    pub fn append(
        &mut self,
        window: &Window,
        cursors: impl FnMut(bool, &mut dyn FnMut(&[u8])),
    ) -> Result<(), AppendError> {
        let appended = self.try_append(window, cursors);
        self.refused = match appended {
            Err(AppendError::Full(bytes)) => Some((window.payload.len(), bytes)),
            _ => None,
        };
        appended
    }

    fn try_append(
        &mut self,
        window: &Window,
        mut cursors: impl FnMut(bool, &mut dyn FnMut(&[u8])),
    ) -> Result<(), AppendError> {
        let (current, used, acked) = {
            let state = self.shared.lock();
            (
                state.segments.back().cloned(),
                state.segments.iter().map(|s| s.bytes).sum::<u64>(),
                state.acked,
            )
        };
        let waits = current.as_ref().is_some_and(|s| s.last_number > acked);
        let current = current.filter(|s| self.file.is_some() && s.bytes < self.segment_bytes_max);
        debug_assert!(window.events == 0 || window.first_seq == self.next_seq);
        let header = Header {
            kind: if current.is_none() { SNAPSHOT } else { DATA },
            number: self.next_number,
            first_seq: self.next_seq,
            events: window.events,
            cursors_bytes: 0,
            payload_bytes: 0,
        };
        // Where nothing waits, no acknowledgement would ever make room: then one entry may go beyond the bound.
        let bytes_max = match waits {
            true => self.bytes_max.saturating_sub(used),
            false => u64::MAX,
        };
        let bytes = match self.refused {
            Some((length, bytes)) if length == window.payload.len() => bytes,
            _ if window.events > 0 => (HEADER_BYTES + window.payload.len()) as u64,
            // There may be nothing to write.
            _ => 0,
        };
        if bytes > bytes_max {
            return Err(AppendError::Full(bytes));
        }
        if window.events == 0 && current.is_none() && self.file.is_some() {
            let mut is_empty = true;
            cursors(false, &mut |_| is_empty = false);
            if is_empty {
                // A segment begins with what comes next.
                return Ok(());
            }
        }
        match (current, &self.file) {
            (Some(segment), Some(file)) => {
                let mut writer = Writer::new(file, segment.bytes, bytes_max);
                cursors(false, &mut |piece| writer.put(piece));
                if window.events == 0 && writer.is_empty() {
                    return Ok(());
                }
                match writer.end(header, window.payload) {
                    Ok(bytes) => {
                        let mut state = self.shared.lock();
                        if let Some(last) = state.segments.back_mut() {
                            last.bytes += bytes;
                            last.last_number = header.number;
                        }
                    }
                    Err(e) => {
                        // The next entry goes to the same place; should this fail too, it is a torn tail for the next start.
                        let _ = file.set_len(segment.bytes);
                        return Err(e);
                    }
                }
            }
            _ => self.begin_segment(header, window.payload, bytes_max, |put| cursors(true, put))?,
        }
        self.next_number += 1;
        self.next_seq += window.events as u64;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn begin_segment(
        &mut self,
        header: Header,
        payload: &[u8],
        bytes_max: u64,
        cursors: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> Result<(), AppendError> {
        self.sync().map_err(AppendError::Io)?;
        let id = self.shared.lock().segments.back().map_or(1, |s| s.id + 1);
        let path = segment_path(&self.shared.dir, id);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600);
        let write = || {
            let file = options.open(&path).map_err(AppendError::Io)?;
            let mut writer = Writer::new(&file, 0, bytes_max);
            for id in [self.boot, self.kernel_boot] {
                writer.put(&id.to_le_bytes());
            }
            cursors(&mut |piece| writer.put(piece));
            let bytes = writer.end(header, payload)?;
            file.sync_data().map_err(AppendError::Io)?;
            let dir = File::open(&self.shared.dir).and_then(|dir| dir.sync_all());
            dir.map_err(AppendError::Io)?;
            Ok((file, bytes))
        };
        match write() {
            Ok((file, bytes)) => {
                self.file = Some(file);
                let mut state = self.shared.lock();
                state.segments.push_back(Segment {
                    id,
                    bytes,
                    last_number: header.number,
                });
                self.shared.delete_acked(&mut state);
                Ok(())
            }
            Err(e) => {
                let _ = fs::remove_file(&path);
                Err(e)
            }
        }
    }

    /// Makes what was appended survive a crash of the machine.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
