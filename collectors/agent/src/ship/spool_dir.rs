//! A spool's directory: its lock, its name, its segments as an earlier agent left them.

use super::recovery::{read_segment, Recovered};
use super::shared::Segment;
use super::spool::OpenError;
use crate::counters::Counters;
use crate::{sys, warn};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Takes the directory's lock, and leaves our pid in it.
pub fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let failed = |e: io::Error| OpenError::Io(format!("{}: {e}", path.display()));
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    if !sys::try_lock(&file).map_err(failed)? {
        let mut pid = String::new();
        let _ = file.take(32).read_to_string(&mut pid); // only for the message
        return Err(OpenError::Locked(pid.trim().to_string()));
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// The segments that are there, oldest first.
pub fn segment_ids(dir: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for found in fs::read_dir(dir)? {
        let name = found?.file_name();
        if let Some(stem) = name.to_str().and_then(|n| n.strip_suffix(".seg")) {
            ids.extend(stem.parse::<u64>().ok());
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Names this directory under this kernel, from its start to its end. A copy of the directory, on this machine or on a clone of it, has
/// another name and so begins a boot of its own: two agents must not give the same numbers.
pub fn kernel_boot(lock: &File) -> io::Result<u64> {
    let mut text = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let lock = lock.metadata()?;
    text.extend_from_slice(&lock.dev().to_le_bytes());
    text.extend_from_slice(&lock.ino().to_le_bytes());
    Ok(tracepack::ring::file_id(&text))
}

/// Reads a segment's entries and cuts off what follows the last whole one. `None`: there is no whole one.
pub fn scan(
    path: &Path,
    id: u64,
    counters: &Counters,
    recovered: &mut Option<Recovered>,
    restore: &mut impl FnMut(bool, &[u8]),
) -> io::Result<Option<Segment>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let (at, last_number) = read_segment(&file, length, recovered, restore)?;
    if at < length {
        counters.torn_entries.add(1);
        warn!(
            "torn spool entry",
            "{}: a torn or misplaced entry at byte {at} of {length} is cut off; what it held is read from the rings again, or lost if they are gone",
            path.display()
        );
        file.set_len(at)?;
    }
    Ok((at > 0).then_some(Segment {
        id,
        bytes: at,
        last_number,
    }))
}
