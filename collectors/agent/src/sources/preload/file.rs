//! A ring's file in its user's directory: opened only if it is what its place says, removed when it is done with.

use super::cursor::Cursor;
use super::life::Life;
use super::ring::{Ring, FILE_BYTES_MAX};
use crate::counters::Counters;
use crate::sources::own_file::{self, Refusal};
use crate::{sys, warn};
use std::io;
use std::os::fd::OwnedFd;

/// A file of an ended process that is no ring is removed when it is this old.
const BAD_FILE_AGE_S: i64 = 5;

/// Opens a ring's file and checks that it is what its place says.
pub fn open(ring: &mut Ring, dir: Option<&OwnedFd>) -> Result<(), Refusal> {
    if ring.file.is_some() {
        return Ok(());
    }
    let dir = dir.ok_or_else(|| Refusal::Bad("its directory is gone".into()))?;
    let opened = sys::open_file_at(dir, &ring.name, true);
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR | libc::EIO) => {
            Refusal::NotNow(e)
        }
        _ => Refusal::Bad(e.to_string()),
    })?;
    let st = own_file::check(&file, ring.uid)?;
    if st.st_size as u64 > FILE_BYTES_MAX {
        return Err(Refusal::Bad(format!(
            "{} bytes are more than a ring has",
            st.st_size
        )));
    }
    ring.file = Some(file);
    Ok(())
}

/// A file that cannot be read as a ring: perhaps it is being made; after its process's end it is removed.
pub fn refuse(ring: &mut Ring, counters: &Counters, why: &str) {
    let age_s = ring
        .file
        .as_ref()
        .and_then(|f| sys::stat(f).ok())
        .map(|st| sys::clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000 - st.st_mtime);
    let is_old = age_s.is_none_or(|age| age > BAD_FILE_AGE_S);
    if is_old && !std::mem::replace(&mut ring.told_bad, true) {
        counters.bad_rings.add(1);
        warn!(
            "no ring",
            "ring {}/{}: {why}; it is not read", ring.uid, ring.name
        );
    }
    // What could not even be opened is left to its owner.
    ring.finished = ring.life == Life::Ended && is_old && ring.file.is_some();
}

/// Removes what a finished ring leaves.
pub fn remove(ring: &mut Ring, dir: Option<&OwnedFd>) {
    match dir.map_or(Ok(()), |dir| sys::unlink_at(dir, &ring.name)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            warn!(
                "ring not removed",
                "ring {}/{}: {e}; remove it by hand", ring.uid, ring.name
            );
        }
        _ => ring.cursor = Cursor::default(),
    }
    ring.file = None; // forgotten at the next listing, which does not find it
}
