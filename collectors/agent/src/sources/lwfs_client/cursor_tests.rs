//! What a kill must not change although lines are read again: the counters, and the times on a change of the clocks.

use crate::sources::log_file::lines::LINE_BYTES_MAX;
use crate::sources::lwfs_client::tests::Site;

#[test]
fn lines_that_are_read_again_after_a_kill_count_once() {
    let mut site = Site::new("again");
    // It waits for its reply, so that the next agent reads from here on.
    site.append(
        "[2018-09-10 14:00:00] T [f.c:1:fuse_readv] lwfs-fuse: 1: READ (0x1, size=10, offset=0)\n",
    );
    site.append("garbage\n[2018-09-10 14:00:00] D [f.c:1:fuse_statfs] lwfs-fuse: 2: STATFS /\n");
    site.append("[2018-09-10 14:00:00] T [f.c:1:fuse_readv_cbk] lwfs-fuse: 3: READ => -1\n");
    site.append([&vec![b'x'; LINE_BYTES_MAX + 1][..], b"\n"].concat());
    let counted = |site: &Site| {
        let c = &site.counters;
        let [bad, other, late] = [&c.bad_lines, &c.other_operations, &c.late_replies];
        [bad.get(), other.get(), late.get()]
    };
    for _ in 0..3 {
        site.look();
        assert_eq!(counted(&site), [2, 1, 1]);
        site.restart();
    }
    site.append("garbage\n");
    site.look();
    assert_eq!(counted(&site), [3, 1, 1]);
    // Another file counts from its beginning.
    site.rotate();
    site.append("garbage\n");
    site.end();
    assert_eq!(counted(&site), [4, 1, 1]);
}

/// A reply that was there for its request must not be late for the next agent, which does not know the request any more.
#[test]
fn a_reply_whose_request_was_done_before_a_kill_is_not_late() {
    let mut site = Site::new("replied");
    let place = "[f.c:1:fuse_readv] lwfs-fuse:";
    site.append(format!(
        "[2018-09-10 14:00:00] T {place} 1: READ (0x1, size=10, offset=0)\n"
    ));
    site.append(format!(
        "[2018-09-10 14:00:05] T {place} 2: READ (0x1, size=10, offset=10)\n"
    ));
    site.append(format!(
        "[2018-09-10 14:00:05] T {place} 1: READ => 3/10,0/0\n"
    ));
    // The first has waited for long enough, the second has not.
    site.append("[2018-09-10 14:00:11] T STAT /a\n");
    site.look();
    site.restart();
    site.end();
    assert_eq!(site.counters.late_replies.get(), 0);
    let bytes = site.events.iter().map(|e| e["bytes"].as_i64().unwrap());
    assert_eq!(bytes.sum::<i64>(), 13);
}

/// 2026-10-25 in Berlin: 03:00 became 02:00. What waits is from before, what was read last from after.
#[test]
fn a_kill_while_clocks_are_put_back_changes_no_time() {
    let starts = |is_killed: bool| {
        let settings = |config: &mut crate::config::Config| {
            config.lwfs_client_time_zone = "Europe/Berlin".into();
            config.lwfs_client_window_s = 300;
        };
        let mut site = Site::with("clocks", settings);
        site.append("[2026-10-25 02:58:00] T WRITE (0x1, size=10, offset=0)\n");
        site.append("[2026-10-25 02:00:30] T WRITE (0x2, size=20, offset=0)\n");
        site.look();
        if is_killed {
            site.restart();
        }
        site.end();
        let of =
            |e: &serde_json::Value| (e["size"].as_i64().unwrap(), e["start"].as_i64().unwrap());
        let mut starts: Vec<_> = site.events.iter().map(of).collect();
        starts.sort();
        starts
    };
    let first_ns = 1_792_886_400_000_000_000; // 02:00, 00:00 UTC
    let s = 1_000_000_000;
    let expected = [(10, first_ns + 3480 * s), (20, first_ns + 3630 * s)];
    assert_eq!(starts(false), expected);
    assert_eq!(starts(true), expected);
}

#[test]
fn replies_of_operations_that_are_none_of_ours_say_nothing() {
    let mut site = Site::new("others");
    site.append("[2018-09-10 14:00:00] T [f.c:1:fuse_flush] lwfs-fuse: 1: FLUSH 0x1\n");
    site.append("[2018-09-10 14:00:00] T [f.c:1:fuse_err_cbk] lwfs-fuse: 1: FLUSH() ERR => -1 (Input/output error)\n");
    site.append("[2018-09-10 14:00:00] T STATFS => -1 (Input/output error)\n");
    site.end();
    assert_eq!(site.counters.other_operations.get(), 1);
    assert_eq!(site.counters.late_replies.get(), 0);
    assert_eq!(site.counters.bad_lines.get(), 0);
}
