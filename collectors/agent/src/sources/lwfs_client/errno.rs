//! From what a log says of a failure to errno.

/// Failed, and we cannot tell with what.
pub const UNKNOWN: u16 = u16::MAX;
/// Largest errno of the kernel's.
const NUMBER_MAX: u64 = 4095;

/// glibc's texts, in the C locale, of what file systems answer.
const TEXTS: [(&str, i32); 34] = [
    ("No such file or directory", libc::ENOENT),
    ("Permission denied", libc::EACCES),
    ("Operation not permitted", libc::EPERM),
    ("Input/output error", libc::EIO),
    ("No space left on device", libc::ENOSPC),
    ("Disk quota exceeded", libc::EDQUOT),
    ("Transport endpoint is not connected", libc::ENOTCONN),
    ("Connection timed out", libc::ETIMEDOUT),
    ("Connection refused", libc::ECONNREFUSED),
    ("Connection reset by peer", libc::ECONNRESET),
    ("No route to host", libc::EHOSTUNREACH),
    ("Stale file handle", libc::ESTALE),
    ("Stale NFS file handle", libc::ESTALE),
    ("File exists", libc::EEXIST),
    ("Not a directory", libc::ENOTDIR),
    ("Is a directory", libc::EISDIR),
    ("Directory not empty", libc::ENOTEMPTY),
    ("Invalid argument", libc::EINVAL),
    ("Bad file descriptor", libc::EBADF),
    ("File descriptor in bad state", libc::EBADFD),
    ("File too large", libc::EFBIG),
    ("File name too long", libc::ENAMETOOLONG),
    ("Read-only file system", libc::EROFS),
    ("Too many open files", libc::EMFILE),
    ("Too many open files in system", libc::ENFILE),
    ("Too many links", libc::EMLINK),
    ("Too many levels of symbolic links", libc::ELOOP),
    ("Invalid cross-device link", libc::EXDEV),
    ("Cannot allocate memory", libc::ENOMEM),
    ("No data available", libc::ENODATA),
    ("Operation not supported", libc::EOPNOTSUPP),
    ("Function not implemented", libc::ENOSYS),
    ("Resource temporarily unavailable", libc::EAGAIN),
    ("Interrupted system call", libc::EINTR),
];

/// The errno that a text stands for.
pub fn of_text(text: &[u8]) -> u16 {
    let known = TEXTS.iter().find(|(known, _)| known.as_bytes() == text);
    known.map_or(UNKNOWN, |(_, errno)| *errno as u16)
}

/// The errno in `-number` without a text; -1 says only that it failed.
pub fn of_number(number: u64) -> u16 {
    match number {
        2..=NUMBER_MAX => number as u16,
        _ => UNKNOWN,
    }
}
