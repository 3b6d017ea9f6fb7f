//! Small files of the kernel's, and what stands in them.

use crate::sys;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A FIFO in a capture must not hold the agent.
const FLAGS: libc::c_int = libc::O_NONBLOCK | libc::O_NOCTTY;

/// Reads a file of at most so many bytes in place of what `out` holds.
pub fn read(path: &Path, bytes_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let open = || OpenOptions::new().read(true).custom_flags(FLAGS).open(path);
    take(open, bytes_max, out)
}

/// The same, of a path below a folder that is open, which is not looked up again.
pub fn read_below(
    folder: &File,
    path: &str,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let open = || sys::open_below(folder, path, libc::O_RDONLY | FLAGS);
    take(open, bytes_max, out)
}

fn take(
    open: impl FnOnce() -> io::Result<File>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    out.clear();
    let file = open()?;
    // To its end: the kernel hands texts over in pieces, so that less than was asked for is not yet all.
    file.take(bytes_max as u64 + 1).read_to_end(out)?;
    if out.len() > bytes_max {
        out.truncate(bytes_max);
        let text = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(())
}

/// The lines with their numbers, from 1, and whether each has an end: the kernel ends every line, so one without is cut.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8], bool)> {
    let lines = text.split_inclusive(|b| *b == b'\n').enumerate();
    lines.map(|(index, line)| match line.strip_suffix(b"\n") {
        Some(whole) => (index + 1, whole, true),
        None => (index + 1, line, false),
    })
}

/// What blanks separate.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// A whole number, of digits alone.
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0u64, |value, b| {
        let digit = b.is_ascii_digit().then(|| (b - b'0') as u64)?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// A number with or without a fraction.
pub fn decimal(word: &[u8]) -> Option<f64> {
    let is_plain = word.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let text = std::str::from_utf8(word).ok().filter(|_| is_plain)?;
    text.parse().ok()
}

/// A line for a message: its beginning, printable.
pub fn quote(line: &[u8]) -> String {
    const QUOTED_BYTES_MAX: usize = 60;
    let cut = &line[..line.len().min(QUOTED_BYTES_MAX)];
    let dots = if cut.len() < line.len() { "…" } else { "" };
    format!("`{}{dots}`", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[test]
    fn numbers_are_digits_alone() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [
            &b""[..],
            b"-1",
            b"+1",
            b"1.5",
            b"18446744073709551616",
            b"1x",
            b"000000000000000000001",
        ] {
            assert_eq!(number(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(decimal(b"0.52"), Some(0.52));
        for bad in [&b""[..], b"inf", b"1e9", b"-1", b"1.2.3", b"\xff"] {
            assert_eq!(decimal(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_line_without_an_end_is_known() {
        let all: Vec<_> = lines(b"one\n\ntwo").collect();
        assert_eq!(
            all,
            [(1, &b"one"[..], true), (2, b"", true), (3, b"two", false)]
        );
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_and_a_fifo_waits_for_nobody() {
        let dir = temp_dir("text");
        let path = dir.join("file");
        std::fs::write(&path, "12345").unwrap();
        let mut out = b"before".to_vec();
        read(&path, 5, &mut out).unwrap();
        assert_eq!(out, b"12345");
        let error = read(&path, 4, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 4 bytes");
        let fifo = dir.join("fifo");
        let name = std::ffi::CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name is NUL-terminated and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        read(&fifo, 5, &mut out).unwrap();
        assert_eq!(out, b"");
    }
}
