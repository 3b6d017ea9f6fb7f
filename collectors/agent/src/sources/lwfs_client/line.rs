//! One line of an LWFS client's trace log: bytes in, what it says out. Nothing is allocated, and no input makes it panic.
//!
//! ```text
//! [2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=131072, offset=2096496640)
//! [2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev_cbk] lwfs-fuse: 18049: WRITE => 131072/131072,2096627712/2096627712
//! [2018-09-10 14:16:52] T OPEN() /User146/6596814368836924247/-1160749754054947605 => 0x1200bd3f0
//! [2016-07-27 15:34:33] T READ 0x1200bd3f0 size=131072 offset=2096496640 count=7
//! ```
//! The place in the source, the component and the request's number may be missing; the last form is Beacon's own, with the
//! offset of the last of `count` operations. What a line is about is told by what stands at its beginning, never by what a file's
//! name, which comes last, may hold. A line that lacks its end is not understood, as far as its form lets one see that.

use super::errno;
use super::numbers::{decimal, hex};
use crate::sources::log_file::local_time::Stamp;
use memchr::memmem;
use tracepack::record::Op;

/// Longest place in the source (`fuse-bridge.c:1967:fuse_writev`) and longest component, bytes.
const PLACE_BYTES_MAX: usize = 256;
const COMPONENT_BYTES_MAX: usize = 64;

/// Operations of a file's data: `count` of `size` bytes each, the first at `offset`. They end below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub op: Op,
    pub handle: u64,
    pub size: u64,
    pub offset: u64,
    pub count: u64,
}

/// What came of a request, where it is not what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Bytes(u64),
    /// errno; 65535 where the line gives a text that we do not know.
    Failed(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    Data(Data),
    /// A metadata operation is asked for. `path`: that of an open. `directory`: it is one's.
    Meta {
        op: Op,
        directory: bool,
        path: Option<&'a [u8]>,
    },
    /// An open is done, and the file has a handle from now on.
    Opened {
        path: &'a [u8],
        handle: u64,
    },
    /// A handle ends; this is the request, which counts as a close.
    Release {
        directory: bool,
        handle: u64,
    },
    /// A request did less than was asked.
    Reply(Outcome),
    /// A request did what was asked, or was none of ours.
    Done,
    /// An operation that is none of ours is asked for.
    Other,
}

/// A line that was understood. `id`: the request's number, 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub stamp: &'a Stamp,
    pub id: u64,
    pub what: What<'a>,
}

/// Takes a line, without its end, apart. `None`: it is not understood.
#[inline]
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (stamp, rest) = line.strip_prefix(b"[")?.split_first_chunk::<19>()?;
    let [b']', b' ', level, b' ', rest @ ..] = rest else {
        return None;
    };
    if !level.is_ascii_uppercase() {
        return None;
    }
    let (place, id, rest) = match rest.first()? {
        b'[' => {
            let (place, id, rest) = prefix(rest)?;
            (Some(place), id, rest)
        }
        _ => (None, 0, rest),
    };
    let what = match rest {
        [b'W', b'R', b'I', b'T', b'E', b' ', rest @ ..] => data(Op::Write, rest),
        [b'R', b'E', b'A', b'D', b' ', rest @ ..] => data(Op::Read, rest),
        _ => meta(place, rest),
    }?;
    Some(Line { stamp, id, what })
}

/// `[place] component: id: ` → place, id, and what follows.
#[inline]
fn prefix(rest: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let end = memchr::memchr(b']', &rest[..rest.len().min(PLACE_BYTES_MAX)])?;
    let place = rest.get(1..end)?;
    let rest = rest.get(end..)?.strip_prefix(b"] ")?;
    let rest = match rest.strip_prefix(b"lwfs-fuse: ") {
        Some(rest) => rest,
        None => {
            let end = memchr::memchr(b':', &rest[..rest.len().min(COMPONENT_BYTES_MAX)])?;
            let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            if end == 0 || !rest[..end].iter().all(is_name) {
                return None;
            }
            rest[end..].strip_prefix(b": ")?
        }
    };
    if !rest.first()?.is_ascii_digit() {
        return Some((place, 0, rest));
    }
    let (id, rest) = decimal(rest)?;
    Some((place, id, rest.strip_prefix(b": ")?))
}

/// What follows READ or WRITE.
#[inline]
fn data(op: Op, rest: &[u8]) -> Option<What<'static>> {
    if let Some(rest) = rest.strip_prefix(b"(") {
        let (handle, rest) = hex(rest)?;
        let (size, rest) = decimal(rest.strip_prefix(b", size=")?)?;
        let (offset, rest) = decimal(rest.strip_prefix(b", offset=")?)?;
        let fits = offset + size <= i64::MAX as u64;
        return (rest == b")" && fits).then_some(What::Data(Data {
            op,
            handle,
            size,
            offset,
            count: 1,
        }));
    }
    if let Some(rest) = rest.strip_prefix(b"=> ") {
        return reply(rest);
    }
    let (handle, rest) = hex(rest)?;
    let (size, rest) = decimal(rest.strip_prefix(b" size=")?)?;
    let (last, rest) = decimal(rest.strip_prefix(b" offset=")?)?;
    let (count, rest) = decimal(rest.strip_prefix(b" count=")?)?;
    if !rest.is_empty() || count == 0 || last + size > i64::MAX as u64 {
        return None;
    }
    // All `count` end where the last does, so their sum fits too.
    let offset = last.checked_sub(size.checked_mul(count - 1)?)?;
    Some(What::Data(Data {
        op,
        handle,
        size,
        offset,
        count,
    }))
}

/// `done/asked,…` or a failure.
fn reply(rest: &[u8]) -> Option<What<'static>> {
    if rest.first()? == &b'-' {
        return failure(rest);
    }
    let (done, rest) = decimal(rest)?;
    let (asked, rest) = decimal(rest.strip_prefix(b"/")?)?;
    // What follows are file offsets. Without the comma the number may be cut.
    if rest.first()? != &b',' || done > asked {
        return None;
    }
    Some(if done == asked {
        What::Done
    } else {
        What::Reply(Outcome::Bytes(done))
    })
}

/// `-1 (No such file or directory)`, `-5/131072,…` or `-5`.
fn failure(rest: &[u8]) -> Option<What<'static>> {
    let (number, rest) = decimal(rest.strip_prefix(b"-")?)?;
    let errno = match rest {
        [] | [b'/', ..] => errno::of_number(number),
        [b' ', b'(', text @ .., b')'] => errno::of_text(text),
        _ => return None,
    };
    (number > 0).then_some(What::Reply(Outcome::Failed(errno)))
}

/// Whether `text` is what a reply ends with, and what it says.
fn result(text: &[u8]) -> Option<What<'static>> {
    match text.first()? {
        b'-' => failure(text),
        b'0'..=b'9' => {
            let number = hex(text).or_else(|| decimal(text));
            let (_, rest) = number?;
            matches!(rest, [] | [b' ', b'(', .., b')'] | [b'/', ..]).then_some(What::Done)
        }
        _ => None,
    }
}

/// Which operation of ours a metadata operation counts as, and whether it is a directory's.
fn kind(name: &[u8]) -> Option<(Op, bool)> {
    Some(match name {
        b"OPEN" | b"CREATE" => (Op::Open, false),
        b"OPENDIR" => (Op::Open, true),
        b"RELEASE" => (Op::Close, false),
        b"RELEASEDIR" => (Op::Close, true),
        b"LOOKUP" | b"STAT" | b"FSTAT" | b"GETATTR" | b"SETATTR" | b"FSETATTR" | b"READLINK" => {
            (Op::Stat, false)
        }
        b"GETXATTR" | b"FGETXATTR" | b"SETXATTR" | b"FSETXATTR" | b"LISTXATTR" | b"REMOVEXATTR" => {
            (Op::Stat, false)
        }
        b"ACCESS" => (Op::Access, false),
        b"READDIR" | b"READDIRP" => (Op::Readdir, true),
        b"UNLINK" => (Op::Unlink, false),
        b"RENAME" => (Op::Rename, false),
        b"MKDIR" => (Op::Mkdir, false),
        b"RMDIR" => (Op::Rmdir, false),
        b"LINK" | b"SYMLINK" => (Op::Link, false),
        b"TRUNCATE" | b"FTRUNCATE" => (Op::Truncate, false),
        b"FSYNC" | b"FSYNCDIR" => (Op::Sync, false),
        _ => return None,
    })
}

/// Anything but a read or a write: `NAME …` or `NAME() …`.
fn meta<'a>(place: Option<&[u8]>, rest: &'a [u8]) -> Option<What<'a>> {
    let is_name = |b: &u8| b.is_ascii_uppercase() || *b == b'_';
    let length = rest.iter().position(|b| !is_name(b))?;
    let (name, rest) = rest.split_at(length);
    // Cut lines must not pass for operations that we do not know.
    if length < 2 {
        return None;
    }
    let (called, body) = match rest {
        [b'(', b')', b' ', body @ ..] => (true, body),
        [b' ', body @ ..] => (false, body),
        _ => return None,
    };
    if body.is_empty() {
        return None;
    }
    let kind = kind(name);
    let is_open = matches!(kind, Some((Op::Open, _)));
    let (path, result) = split_result(body);
    let is_reply = match place {
        Some(place) => place.ends_with(b"_cbk"),
        // Without a place only the form is left. An open is done once it has a handle, which no request has.
        None => {
            result.is_some_and(|r| called || path.is_empty() || is_open && r.starts_with(b"0x"))
        }
    };
    if is_reply {
        let result = result?;
        return match hex(result) {
            Some((handle, _)) if is_open => Some(What::Opened { path, handle }),
            // No request of an operation that is none of ours waits for it.
            _ if kind.is_none() => Some(What::Done),
            _ => self::result(result),
        };
    }
    let Some((op, directory)) = kind else {
        return Some(What::Other);
    };
    if op == Op::Close {
        let text = body.strip_prefix(b"(").unwrap_or(body);
        let (handle, rest) = hex(text)?;
        return matches!(rest, b"" | b")").then_some(What::Release { directory, handle });
    }
    Some(What::Meta {
        op,
        directory,
        path: is_open.then_some(body),
    })
}

/// Splits at the last ` => ` after which a result stands. A path may hold one, so only the last counts.
fn split_result(body: &[u8]) -> (&[u8], Option<&[u8]>) {
    const ARROW: &[u8] = b" => ";
    let (path, result) = match memmem::rfind(body, ARROW) {
        Some(at) => (&body[..at], &body[at + ARROW.len()..]),
        // `READDIR => 5/4096,0`
        None => match body.strip_prefix(b"=> ") {
            Some(result) => (&body[..0], result),
            None => return (body, None),
        },
    };
    match self::result(result) {
        Some(_) => (path, Some(result)),
        None => (body, None),
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
