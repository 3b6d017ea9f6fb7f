//! Whether the process that made a ring file still lives.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest nonce in a ring file's name: names lie in the spool, too.
const NONCE_MAX: usize = 32;

/// The machine's first pid namespace, which sees all others: the kernel's PROC_PID_INIT_INO.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// (pid, start ticks) of `<pid>-<start ticks>-<nonce>.ring`.
pub fn of_file_name(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_suffix(".ring")?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let start_ticks = parts.next()?.parse().ok()?;
    let nonce = parts.next()?;
    let fits = (1..=NONCE_MAX).contains(&nonce.len()) && parts.next().is_none();
    fits.then_some((pid, start_ticks))
}

/// The pid namespace of whoever reads this /proc. `None`: it does not say, as in a capture.
pub fn namespace(proc: &Path) -> Option<u64> {
    Some(std::fs::metadata(proc.join("self/ns/pid")).ok()?.ino())
}

/// (has ended, start ticks) from /proc/PID/stat. The second field, the name, may hold spaces and parentheses.
fn parse_stat(text: &[u8]) -> Option<(bool, u64)> {
    let close = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace(); // field 3 first
    let state = fields.next()?;
    let threads: u64 = fields.nth(16)?.parse().ok()?; // field 20
    let start_ticks = fields.nth(1)?.parse().ok()?; // field 22
                                                    // A first thread may have ended before the others: then it is shown as a zombie, with threads left.
    let ended = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some((ended, start_ticks))
}

/// Whether the process has ended: it is gone, a zombie, or its number is another's by now. What cannot be parsed lives.
pub fn has_ended(proc: &Path, pid: u32, start_ticks: u64) -> io::Result<bool> {
    match std::fs::read(proc.join(pid.to_string()).join("stat")) {
        Ok(text) => {
            Ok(parse_stat(&text).is_some_and(|(ended, ticks)| ended || ticks != start_ticks))
        }
        Err(e) if is_gone(&e) => Ok(true),
        Err(e) => Err(e),
    }
}

/// (namespace, pid there) of every process in a pid namespace other than `own`. `None`: not all can be seen from here, which
/// only the machine's first namespace and somebody who may look at every process can.
pub fn in_other_namespaces(proc: &Path, own: u64) -> Option<HashSet<(u64, u32)>> {
    let mut found = HashSet::new();
    if own != FIRST_NAMESPACE {
        return None;
    }
    for entry in std::fs::read_dir(proc).ok()? {
        let path = entry.ok()?.path();
        let is_process = path.file_name()?.to_str()?.parse::<u32>().is_ok();
        if !is_process {
            continue;
        }
        let namespace = std::fs::metadata(path.join("ns/pid")).map(|m| m.ino());
        if namespace.as_ref().is_ok_and(|n| *n == own) {
            continue;
        }
        let status = match std::fs::read(path.join("status")) {
            Err(e) if is_gone(&e) => continue,
            status => status.ok()?,
        };
        let (depth, pid) = innermost_pid(&status)?;
        match namespace {
            Ok(namespace) => {
                found.insert((namespace, pid));
            }
            Err(e) if is_gone(&e) || depth == 1 => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

/// In how many namespaces a process has a pid, and which in its own: line `NSpid` of /proc/PID/status.
fn innermost_pid(status: &[u8]) -> Option<(usize, u32)> {
    let mut lines = status.split(|&b| b == b'\n');
    let line = lines.find_map(|l| l.strip_prefix(b"NSpid:"))?;
    let pids = std::str::from_utf8(line).ok()?.split_whitespace();
    Some((pids.clone().count(), pids.last()?.parse().ok()?))
}

fn is_gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
pub fn start_ticks(pid: u32) -> u64 {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).unwrap())
        .unwrap()
        .1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_parsed() {
        assert_eq!(of_file_name("12-345-0a.ring"), Some((12, 345)));
        for bad in [
            "12-345.ring",
            "12-345-.ring",
            "x-345-1.ring",
            "12-345-1-2.ring",
            "12-345-1",
            "99999999999-1-1.ring",
            "12-345-123456789012345678901234567890123.ring",
        ] {
            assert_eq!(of_file_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_innermost_pid_is_the_last() {
        let status = b"Name:\tNSpid: 5\nPid:\t70\nNSpid:\t70\t12\t4\nThreads:\t1\n";
        assert_eq!(innermost_pid(status), Some((3, 4)));
        assert_eq!(innermost_pid(b"Name:\tx\n"), None);
        assert_eq!(innermost_pid(b"NSpid:\tx\n"), None);
    }

    #[test]
    fn stat_lines_are_parsed_whatever_the_name() {
        let line = |name: &str, state: &str, threads: u32| {
            format!("7 ({name}) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 98765 1 1 18446744073709551615 0")
        };
        assert_eq!(
            parse_stat(line("a) R (b", "S", 3).as_bytes()),
            Some((false, 98765))
        );
        assert_eq!(
            parse_stat(line("x", "Z", 1).as_bytes()),
            Some((true, 98765))
        );
        assert_eq!(
            parse_stat(line("x", "Z", 2).as_bytes()),
            Some((false, 98765))
        );
        assert_eq!(parse_stat(b"7 (x"), None);
    }

    #[test]
    fn a_zombie_has_ended_and_a_living_process_has_not() {
        let proc = Path::new("/proc");
        let own = std::process::id();
        assert!(!has_ended(proc, own, start_ticks(own)).unwrap());
        assert!(has_ended(proc, own, start_ticks(own) + 1).unwrap());
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let ticks = start_ticks(child.id());
        assert!(!has_ended(proc, child.id(), ticks).unwrap());
        drop(child.stdin.take());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !has_ended(proc, child.id(), ticks).unwrap() {
            assert!(std::time::Instant::now() < until, "the zombie was not seen");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(proc, child.id(), ticks).unwrap());
    }
}
