//! A file in a user's directory counts only if it is that user's own.

use crate::sys;
use std::fs::File;
use std::io;

/// Why a file is not read.
pub enum Refusal {
    /// It is not what it should be.
    Bad(String),
    /// Perhaps it can be read later.
    NotNow(io::Error),
}

/// Looks at a file that was opened: it must be a regular one of this user's, and in no other's directory too.
pub fn check(file: &File, uid: u32) -> Result<libc::stat, Refusal> {
    let st = sys::stat(file).map_err(Refusal::NotNow)?;
    if !sys::is_regular(&st) || st.st_uid != uid || st.st_nlink != 1 {
        return Err(Refusal::Bad(format!(
            "expected a regular file of user {uid} without other links"
        )));
    }
    Ok(st)
}
