//! Whose file a log must be, and opening it without harm.

use crate::{sys, warn};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Who may own a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Anyone,
    RootOr(u32),
}

impl Owner {
    /// The owner that a log of this agent's must have.
    pub fn own() -> Owner {
        Owner::RootOr(sys::effective_uid())
    }

    /// Opens a file if it may be a log.
    pub fn open(self, path: &Path) -> Option<(File, Metadata)> {
        let mut options = OpenOptions::new();
        // A FIFO must not hold the agent, a terminal not become its own.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = options.read(true).custom_flags(flags).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let refused = match opened {
            Ok((seen, _)) if !seen.is_file() => "it is no regular file".into(),
            Ok((seen, file)) => match self {
                Owner::RootOr(uid) if ![0, uid].contains(&seen.uid()) => {
                    format!(
                        "it belongs to user {}, not to root or the agent's user {uid}",
                        seen.uid()
                    )
                }
                _ => return Some((file, seen)),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                "it is a symbolic link; give the path that it leads to".into()
            }
            Err(e) => e.to_string(),
        };
        warn!(
            "log refused",
            "{}: {refused}; check with: ls -l {0}",
            path.display()
        );
        None
    }
}
