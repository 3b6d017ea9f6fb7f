//! What targets count by operation: in `stats`, `md_stats`, `job_stats` and each client's `stats` alike.

use super::super::samples::crowd::members::{settle, Column, ABSENT};
use super::super::samples::reading::{Range, Reading};
use super::stats::{is_time, Stat};

const NS_PER_US: u32 = 1000;

/// Lustre's names of what targets count, in order. What moves bytes is not among them.
#[rustfmt::skip]
const OF_TARGETS: [&str; 27] = [
    "close", "create", "crossdir_rename", "destroy", "fallocate", "get_info", "getattr", "getxattr", "link", "migrate", "mkdir",
    "mknod", "open", "parallel_rename_dir", "parallel_rename_file", "prealloc", "punch", "quotactl", "rename", "rmdir",
    "samedir_rename", "set_info", "setattr", "setxattr", "statfs", "sync", "unlink",
];
/// And of what mounts count beyond that.
#[rustfmt::skip]
const OF_MOUNTS: [&str; 13] = [
    "flock", "fsync", "inode_permission", "ioctl", "listxattr", "mmap", "page_fault", "page_mkwrite", "readdir", "removexattr",
    "seek", "symlink", "truncate",
];

/// What is told of targets' operations: a count and, since 2.13 or so, a time of each.
pub const TARGET_COLUMNS: usize = 6 + 2 * OF_TARGETS.len();
const COLUMNS_COUNT: usize = TARGET_COLUMNS + 2 * OF_MOUNTS.len();
/// What each is called, and what one of Lustre's units is in ours. Those of targets come first.
#[rustfmt::skip]
const COLUMNS: [(&str, u32); COLUMNS_COUNT] = [
    ("read_bytes", 1), ("write_bytes", 1), ("reads", 1), ("writes", 1), ("read_ns", NS_PER_US), ("write_ns", NS_PER_US),
    ("close", 1), ("close_ns", NS_PER_US), ("create", 1), ("create_ns", NS_PER_US), ("crossdir_rename", 1),
    ("crossdir_rename_ns", NS_PER_US), ("destroy", 1), ("destroy_ns", NS_PER_US), ("fallocate", 1), ("fallocate_ns", NS_PER_US),
    ("get_info", 1), ("get_info_ns", NS_PER_US), ("getattr", 1), ("getattr_ns", NS_PER_US), ("getxattr", 1),
    ("getxattr_ns", NS_PER_US), ("link", 1), ("link_ns", NS_PER_US), ("migrate", 1), ("migrate_ns", NS_PER_US), ("mkdir", 1),
    ("mkdir_ns", NS_PER_US), ("mknod", 1), ("mknod_ns", NS_PER_US), ("open", 1), ("open_ns", NS_PER_US),
    ("parallel_rename_dir", 1), ("parallel_rename_dir_ns", NS_PER_US), ("parallel_rename_file", 1),
    ("parallel_rename_file_ns", NS_PER_US), ("prealloc", 1), ("prealloc_ns", NS_PER_US), ("punch", 1), ("punch_ns", NS_PER_US),
    ("quotactl", 1), ("quotactl_ns", NS_PER_US), ("rename", 1), ("rename_ns", NS_PER_US), ("rmdir", 1), ("rmdir_ns", NS_PER_US),
    ("samedir_rename", 1), ("samedir_rename_ns", NS_PER_US), ("set_info", 1), ("set_info_ns", NS_PER_US), ("setattr", 1),
    ("setattr_ns", NS_PER_US), ("setxattr", 1), ("setxattr_ns", NS_PER_US), ("statfs", 1), ("statfs_ns", NS_PER_US), ("sync", 1),
    ("sync_ns", NS_PER_US), ("unlink", 1), ("unlink_ns", NS_PER_US), ("flock", 1), ("flock_ns", NS_PER_US), ("fsync", 1),
    ("fsync_ns", NS_PER_US), ("inode_permission", 1), ("inode_permission_ns", NS_PER_US), ("ioctl", 1), ("ioctl_ns", NS_PER_US),
    ("listxattr", 1), ("listxattr_ns", NS_PER_US), ("mmap", 1), ("mmap_ns", NS_PER_US), ("page_fault", 1),
    ("page_fault_ns", NS_PER_US), ("page_mkwrite", 1), ("page_mkwrite_ns", NS_PER_US), ("readdir", 1), ("readdir_ns", NS_PER_US),
    ("removexattr", 1), ("removexattr_ns", NS_PER_US), ("seek", 1), ("seek_ns", NS_PER_US), ("symlink", 1),
    ("symlink_ns", NS_PER_US), ("truncate", 1), ("truncate_ns", NS_PER_US),
];
const READ_BYTES: usize = 0;
const WRITE_BYTES: usize = 1;
const READS: usize = 2;
const WRITES: usize = 3;
const READ_NS: usize = 4;
const WRITE_NS: usize = 5;
/// Of the first operation; two each.
const FIRST: usize = 6;

/// Targets' columns as what there is of each of many.
pub fn columns() -> Vec<Column> {
    let column = |(name, scale): (&str, u32)| Column {
        name: name.into(),
        scale: Some(scale),
        part: 0,
    };
    COLUMNS[..TARGET_COLUMNS]
        .iter()
        .copied()
        .map(column)
        .collect()
}

/// What was read of one target, or of one job or client there: each column as it stands, in Lustre's units.
pub struct Counts {
    pub values: [u64; COLUMNS_COUNT],
    /// This version tells how long operations took.
    has_times: bool,
}

impl Counts {
    pub fn new() -> Counts {
        Counts {
            values: [ABSENT; COLUMNS_COUNT],
            has_times: false,
        }
    }

    /// Takes one line. What is not known is passed over; the same operation once more is added up.
    pub fn take(&mut self, stat: Stat) {
        let (name, unit) = (stat.name, stat.unit);
        self.has_times |= stat.is_time();
        // Before 2.11 jobs' `read` and `write` are of bytes.
        match (name, unit) {
            (b"read_bytes" | b"read", b"bytes") => {
                self.add(READS, Some(stat.count));
                self.add(READ_BYTES, stat.sum.or((stat.count == 0).then_some(0)));
            }
            (b"write_bytes" | b"write", b"bytes") => {
                self.add(WRITES, Some(stat.count));
                self.add(WRITE_BYTES, stat.sum.or((stat.count == 0).then_some(0)));
            }
            (b"read", _) if is_time(unit) => self.add(READ_NS, stat.sum),
            (b"write", _) if is_time(unit) => self.add(WRITE_NS, stat.sum),
            _ => {
                let find = |all: &[&str]| all.binary_search_by(|own| own.as_bytes().cmp(name)).ok();
                let of_mounts = || Some(OF_TARGETS.len() + find(&OF_MOUNTS)?);
                let Some(place) = find(&OF_TARGETS).or_else(of_mounts) else {
                    return;
                };
                self.add(FIRST + 2 * place, Some(stat.count));
                if stat.is_time() {
                    self.add(FIRST + 2 * place + 1, stat.sum);
                }
            }
        }
    }

    fn add(&mut self, column: usize, more: Option<u64>) {
        let value = &mut self.values[column];
        if let Some(more) = more {
            let before = if *value == ABSENT { 0 } else { *value };
            *value = before.saturating_add(more).min(ABSENT - 1);
        }
    }

    /// Goes on from what was read `before`, which becomes what is now.
    pub fn go_on(mut self, before: &mut Option<Counts>) {
        if let Some(before) = before {
            settle(&mut self.values, &before.values, |_| Some(0));
            self.has_times |= before.has_times;
        }
        *before = Some(self);
    }

    /// Tells the columns of these operations. Lustre leaves out what never happened: that is 0.
    pub fn tell(&self, names: &[&str], reading: &mut Reading) {
        for ((name, scale), raw) in COLUMNS.iter().zip(self.values) {
            let is_time = *scale == NS_PER_US;
            let operation = name.strip_suffix("_ns").filter(|_| is_time);
            if names.contains(&operation.unwrap_or(name)) && (self.has_times || !is_time) {
                let raw = if raw == ABSENT { 0 } else { raw };
                reading.counter(*name, raw, Range::Bits64, *scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_the_operations() {
        assert!(OF_TARGETS.is_sorted() && OF_MOUNTS.is_sorted());
        for (place, name) in OF_TARGETS.iter().chain(&OF_MOUNTS).enumerate() {
            assert_eq!(COLUMNS[FIRST + 2 * place], (*name, 1));
            let time = format!("{name}_ns");
            assert_eq!(COLUMNS[FIRST + 2 * place + 1], (&*time, NS_PER_US));
        }
    }
}
