//! Where reading has come to in a log, and how its file is known again.

use crate::sources::cursors::Reader;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use tracepack::ring::file_id;

/// First bytes of a log by which it is known again; fewer than the least say too little of a file that has another inode.
pub const PRINT_BYTES_MAX: usize = 256;
pub const PRINT_BYTES_MIN: u32 = 21;

/// Where reading has come to, and in which file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// 0: none was read yet.
    pub inode: u64,
    pub offset: u64,
    /// As they were last seen.
    pub size: u64,
    pub modified_ns: i64,
    /// Of the first `print_bytes` bytes.
    pub print_bytes: u32,
    pub print: u64,
    /// `offset` lies in a line that is passed over.
    pub skipping: bool,
}

impl Place {
    pub fn write(&self, out: &mut Vec<u8>) {
        let times = [
            self.inode,
            self.offset,
            self.size,
            self.modified_ns as u64,
            self.print,
        ];
        for number in times {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.print_bytes.to_le_bytes());
        out.push(self.skipping as u8);
    }

    /// `None`: it breaks off.
    pub fn read(cursor: &mut Reader) -> Option<Place> {
        let [inode, offset, size, modified_ns, print] = cursor.u64s()?;
        Some(Place {
            inode,
            offset,
            size,
            modified_ns: modified_ns as i64,
            print_bytes: cursor.u32()?,
            print,
            skipping: cursor.u8()? != 0,
        })
    }
}

pub fn modified_ns(seen: &Metadata) -> i64 {
    seen.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(seen.mtime_nsec())
}

/// How many first bytes there are, at most so many, and what they hash to.
pub fn print(file: &File, bytes: usize) -> (u32, u64) {
    let mut first = [0; PRINT_BYTES_MAX];
    let got = file
        .read_at(&mut first[..bytes.min(PRINT_BYTES_MAX)], 0)
        .unwrap_or(0);
    (got as u32, file_id(&first[..got]))
}

/// Whether a file begins as `place` says.
pub fn has_print(file: &File, place: &Place) -> bool {
    place.print_bytes == 0
        || print(file, place.print_bytes as usize) == (place.print_bytes, place.print)
}
