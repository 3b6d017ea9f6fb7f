//! What tens of thousands of jobs, clients and targets cost: each look tells those that changed and no others, and the table stays small. Times are
//! printed: cargo test --release -p bellrock-agent many -- --nocapture

use super::exports::Exports;
use super::job_stats::JobStats;
use super::osc::Osc;
use super::params::Params;
use crate::config::Config;
use crate::sources::samples::crowd::members::Members;
use crate::sources::samples::crowd::tests::Site;
use crate::sys;
use crate::testing::memory_dir;
use std::fs;
use std::path::Path;

/// A look changes one of so many.
const CHANGED: usize = 5;
/// Operations of a target whose count is 0 are listed, too.
const IDLE: [&str; 12] = [
    "getattr", "setattr", "sync", "destroy", "create", "statfs", "get_info", "set_info",
    "quotactl", "prealloc", "open", "close",
];

fn job_stats(path: &Path, jobs: usize, look: usize) {
    let mut text = "job_stats:\n".to_string();
    for job in 0..jobs {
        let is_changed = look > 0 && job % CHANGED == 0;
        let count = 1000 + job + if is_changed { look } else { 0 };
        let time = 1_600_000_000 + if is_changed { look } else { 0 };
        text += &format!(
            "- job_id:          {}.{}\n  snapshot_time:   {time}.123456789 secs.nsecs\n",
            4_700_000 + job,
            job % 50
        );
        text += "  start_time:      1600000000.000000001 secs.nsecs\n  elapsed_time:    5.1 secs.nsecs\n";
        for (name, unit, sum) in [
            ("read_bytes", "bytes", count << 20),
            ("write_bytes", "bytes", count << 19),
            ("read", "usecs", count * 930),
            ("write", "usecs", count * 770),
            ("punch", "usecs", count),
        ] {
            text += &format!("  {name}:      {{ samples: {count:>11}, unit: {unit:>5}, min: {:>8}, max: {:>8}, sum: {sum:>16}, sumsq: {:>18} }}\n", 1, 9, sum * 7);
        }
        for name in IDLE {
            text += &format!("  {name}:      {{ samples: {:>11}, unit: usecs, min: {0:>8}, max: {0:>8}, sum: {0:>16}, sumsq: {0:>18} }}\n", 0);
        }
    }
    fs::write(path, text).unwrap();
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Looks at members that `write` writes for each look; answers how many bytes the table takes.
fn look(
    name: &str,
    members: usize,
    make: fn(&Params) -> Box<dyn Members>,
    write: impl Fn(&Path, usize),
    changed: usize,
) -> usize {
    let root = memory_dir("many");
    let config = Config {
        root: root.clone(),
        ..Config::default()
    };
    let mut site = Site::new(make(&Params::new(&config)));
    let mut took = Vec::new();
    for (written, told) in [
        (Some(0), 0),
        (None, 0),
        (Some(1), changed),
        (Some(2), changed),
    ] {
        if let Some(look) = written {
            write(&root.join("proc/fs/lustre"), look);
        }
        let began = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        site.look();
        took.push((sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - began) as f64 * 1e-6);
        // Of those that had stood still another sample says so, which ended before.
        let end = |event: &serde_json::Value| event["end"].as_i64();
        let last = site.events.iter().map(end).max();
        let events = site
            .events
            .drain(..)
            .filter(|event| Some(end(event)) == last);
        assert_eq!(events.count(), told, "{name}");
    }
    fs::remove_dir_all(root).unwrap();
    let bytes = site.source.table_bytes();
    println!("{name}: {members} members, {} bytes each; ms of a look: first {:.0}, nothing changed {:.0}, a part changed {:.0}", bytes / members, took[0], took[1], took[3]);
    bytes
}

#[test]
fn many_jobs_cost_little() {
    for (targets, jobs) in [(1, 40_000), (12, 2_000)] {
        let write = |root: &Path, look: usize| {
            for target in 0..targets {
                let dir = root.join(format!("obdfilter/work-OST{target:04x}"));
                fs::create_dir_all(&dir).unwrap();
                job_stats(&dir.join("job_stats"), jobs, look);
            }
        };
        let all = targets * jobs;
        let bytes = look(
            "jobs",
            all,
            |params| Box::new(JobStats::new(params)),
            write,
            all / CHANGED,
        );
        assert!(bytes / all <= 64, "{bytes}");
    }
}

fn operations(count: usize) -> String {
    let mut text = "snapshot_time 1600000000.5 secs.nsecs\n".to_string();
    for name in [
        "open", "close", "mknod", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr",
        "getxattr", "statfs", "sync",
    ] {
        text += &format!(
            "{name} {count} samples [usecs] 1 999 {} {}\n",
            count * 31,
            count * 999
        );
    }
    text
}

#[test]
fn many_clients_cost_little() {
    const CLIENTS: usize = 10_000;
    let write = |root: &Path, look: usize| {
        for client in (0..CLIENTS).filter(|client| look == 0 || client % CHANGED == 0) {
            let path = format!(
                "mdt/work-MDT0000/exports/10.0.{}.{}@o2ib/stats",
                client / 250,
                client % 250
            );
            put(&root.join(path), &operations(1000 + client + look));
        }
    };
    let bytes = look(
        "clients",
        CLIENTS,
        |params| Box::new(Exports::new(params)),
        write,
        CLIENTS / CHANGED,
    );
    assert!(bytes / CLIENTS <= 160, "{bytes}");
}

#[test]
fn many_targets_of_a_client_cost_little() {
    const TARGETS: usize = 500;
    let write = |root: &Path, look: usize| {
        for target in 0..TARGETS {
            let dir = root.join(format!("osc/work-OST{target:04x}-osc-ffff880123456800"));
            let count = 1000 + target + look;
            let mut text = "snapshot_time: 1600000000.5 (secs.nsecs)\nread RPCs in flight:  3\nwrite RPCs in flight: 1\npending write pages:  0\npending read pages:   0\n".to_string();
            for (title, labels) in [
                ("pages per rpc", "1 2 4 8 16 32 64 128 256 512 1K"),
                ("rpcs in flight", "1 2 3 4 5 6 7 8"),
                ("offset", "0 1 2 4 8"),
            ] {
                text += &format!("\n\t\t\tread\t\t\twrite\n{title}         rpcs   % cum % |       rpcs   % cum %\n");
                for label in labels.split(' ') {
                    text += &format!("{label}:\t\t{count:>10}   9  50   | {count:>10}   9  50\n");
                }
            }
            put(&dir.join("rpc_stats"), &text);
            put(
                &dir.join("stats"),
                &(operations(count)
                    + &format!("read_bytes {count} samples [bytes] 1 9 {}\n", count << 20)),
            );
            put(&dir.join("cur_dirty_bytes"), "4096\n");
        }
    };
    let bytes = look(
        "targets",
        TARGETS,
        |params| Box::new(Osc::new(params)),
        write,
        TARGETS,
    );
    assert!(bytes / TARGETS <= 256, "{bytes}");
}
