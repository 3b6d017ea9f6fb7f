//! Rotation of every kind, and what is no log.

use crate::sources::lwfs_client::tests::{append, part, Site};
use crate::testing::Random;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Parts of a log, one after the other.
struct Parts(Random, u64);

impl Parts {
    fn new() -> Parts {
        Parts(Random::new(11), 0)
    }

    /// A part, which also goes to the end of `all`.
    fn next(&mut self, all: &mut Vec<u8>) -> Vec<u8> {
        let text = part(&mut self.0, &mut self.1, 30);
        all.extend(&text);
        text
    }
}

#[test]
fn a_renamed_log_is_read_to_its_end() {
    let (mut site, mut parts, mut all) = (Site::new("renamed"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.look();
    site.rotate();
    // Who writes it goes on writing the old one for a while, although the new one is there.
    append(&site.dir.join("log.1"), &parts.next(&mut all));
    site.append("");
    site.look();
    site.look();
    append(&site.dir.join("log.1"), &parts.next(&mut all));
    site.look();
    site.append(parts.next(&mut all));
    site.look();
    site.append(parts.next(&mut all));
    site.end();
    site.expect(&all);
    assert_eq!(site.counters.lost_log_bytes.get(), 0);
}

#[test]
fn what_comes_to_a_log_after_it_was_left_is_told() {
    let (mut site, mut parts, mut all) = (Site::new("left"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.look();
    site.rotate();
    site.append(parts.next(&mut all));
    site.look();
    append(&site.dir.join("log.1"), b"too late\n");
    site.end();
    site.expect(&all);
    assert_eq!(site.counters.lost_log_bytes.get(), 9);
}

#[test]
fn several_rotations_while_no_agent_ran() {
    let (mut site, mut parts, mut all) = (Site::new("several"), Parts::new(), Vec::new());
    append(&site.dir.join("log.1"), &parts.next(&mut Vec::new())); // from before the first agent
    site.append(parts.next(&mut all));
    site.look();
    for _ in 0..3 {
        site.append(parts.next(&mut all));
        site.rotate();
    }
    site.append(parts.next(&mut all));
    site.restart();
    site.end();
    site.expect(&all);
    assert_eq!(site.counters.lost_log_bytes.get(), 0);
}

#[test]
fn logs_with_dates_are_followed_too() {
    let (mut site, mut parts, mut all) = (Site::new("dates"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.look();
    for day in ["20260130", "20260131", "20260201"] {
        site.append(parts.next(&mut all));
        fs::rename(site.log(), site.dir.join(format!("log-{day}"))).unwrap();
    }
    site.append(parts.next(&mut all));
    site.restart();
    site.end();
    site.expect(&all);
}

#[test]
fn a_copied_and_truncated_log_loses_nothing_that_is_in_the_copy() {
    for restart in [false, true] {
        for grows_back in [false, true] {
            let (mut site, mut parts, mut all) = (Site::new("copied"), Parts::new(), Vec::new());
            site.append(parts.next(&mut all));
            site.look();
            site.append(parts.next(&mut all));
            fs::copy(site.log(), site.dir.join("log.1")).unwrap();
            let size = fs::metadata(site.log()).unwrap().len();
            fs::File::create(site.log()).unwrap();
            site.append(parts.next(&mut all));
            // Longer than where reading had come to: only its beginning says that it is another.
            while grows_back && fs::metadata(site.log()).unwrap().len() <= size {
                site.append(parts.next(&mut all));
            }
            if restart {
                site.restart();
            }
            site.look();
            site.look();
            site.append(parts.next(&mut all));
            site.end();
            site.expect(&all);
            assert_eq!(site.counters.lost_log_bytes.get(), 0);
        }
    }
}

#[test]
fn what_was_truncated_unread_is_told() {
    let (mut site, mut parts, mut all) = (Site::new("truncated"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.look();
    fs::File::create(site.log()).unwrap();
    site.append("[2018-09-10 14:59:59] T STAT /a\n");
    all.extend(b"[2018-09-10 14:59:59] T STAT /a\n");
    site.end();
    site.expect(&all);
    // All of it was read when it was last seen: what came after that nobody knows.
    assert_eq!(site.counters.lost_log_bytes.get(), 0);

    let (mut site, mut parts, mut all) = (Site::new("gone"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.append("half a line");
    site.look();
    fs::remove_file(site.log()).unwrap();
    site.restart();
    site.look(); // there is none now
    assert_eq!(site.counters.lost_log_bytes.get(), 0);
    let waited = all.len() as u64;
    site.append("[2018-09-10 14:59:59] T STAT /a\n");
    site.end();
    // What waited for its reply, or for its line's end, went with the log.
    let lost = site.counters.lost_log_bytes.get();
    assert!((11..=waited + 11).contains(&lost), "{lost}");
}

#[test]
fn a_deleted_log_is_read_to_its_end_while_the_agent_lives() {
    let (mut site, mut parts, mut all) = (Site::new("deleted"), Parts::new(), Vec::new());
    site.append(parts.next(&mut all));
    site.look();
    let mut open = fs::OpenOptions::new()
        .append(true)
        .open(site.log())
        .unwrap();
    fs::remove_file(site.log()).unwrap();
    std::io::Write::write_all(&mut open, &parts.next(&mut all)).unwrap();
    site.look();
    site.append(parts.next(&mut all));
    site.look();
    site.look();
    site.end();
    site.expect(&all);
    assert_eq!(site.counters.lost_log_bytes.get(), 0);
}

#[test]
fn a_line_that_never_ends_in_a_rotated_log_is_counted() {
    let mut site = Site::new("half");
    site.append("[2018-09-10 14:00:00] T READ 0x1 size=1 offset=9 count=1");
    site.look();
    site.rotate();
    site.append("[2018-09-10 14:00:00] T STAT /a\n");
    site.end();
    assert_eq!(site.operations(), ["stat ffffffffffffffff - 0+0 errno 0"]);
    assert_eq!(site.counters.bad_lines.get(), 1);
}

#[test]
fn a_log_may_come_later_and_what_is_none_is_refused() {
    let line = "[2018-09-10 14:00:00] T STAT /a\n";
    let mut site = Site::new("later");
    site.look();
    fs::create_dir(site.log()).unwrap();
    site.look();
    fs::remove_dir(site.log()).unwrap();
    let fifo = CString::new(site.log().as_os_str().as_bytes()).unwrap();
    // SAFETY: a NUL-terminated path.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    site.look(); // and does not wait for a writer
    fs::remove_file(site.log()).unwrap();
    append(&site.dir.join("elsewhere"), line.as_bytes());
    std::os::unix::fs::symlink(site.dir.join("elsewhere"), site.log()).unwrap();
    site.look();
    assert_eq!(site.operations().len(), 0);
    fs::remove_file(site.log()).unwrap();
    site.append(line);
    site.look();
    // A directory in its place does not end the reading of the log itself.
    fs::rename(site.log(), site.dir.join("log.1")).unwrap();
    fs::create_dir(site.log()).unwrap();
    append(&site.dir.join("log.1"), line.as_bytes());
    site.end();
    assert_eq!(site.operations().len(), 2);
}

/// It may happen at any time, also while a full batch is committed.
#[test]
fn a_log_that_is_truncated_while_it_is_read_loses_nothing_that_is_in_the_copy() {
    let (mut site, mut parts, mut all) = (Site::new("midway"), Parts::new(), Vec::new());
    // More than is read at once.
    while all.len() < 600_000 {
        site.append(parts.next(&mut all));
    }
    let mut is_copied = false;
    site.pass_with(false, |site| {
        if !std::mem::replace(&mut is_copied, true) {
            fs::copy(site.log(), site.dir.join("log.1")).unwrap();
            let size = all.len();
            fs::File::create(site.log()).unwrap();
            let mut fresh = Vec::new();
            while fresh.len() <= size {
                parts.next(&mut fresh);
            }
            site.append(&fresh);
            all.extend(fresh);
        }
    });
    site.look();
    site.end();
    site.expect(&all);
    assert_eq!(site.counters.lost_log_bytes.get(), 0);
}
