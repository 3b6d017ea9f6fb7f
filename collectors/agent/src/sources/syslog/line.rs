//! One line of a system log. Text in, what it says out; nothing else is known here.
//!
//! `[<PRI>]STAMP HOST PROGRAM[PID]: TEXT`, where STAMP is `Nov 23 00:31:16` (RFC 3164) or `2026-11-23T00:31:16.123456+01:00` (rsyslog);
//! `<PRI>1 STAMP HOST PROGRAM PID ID [DATA] TEXT` (RFC 5424); `[<PRI>][12345.678901] TEXT` (the kernel's own).

use crate::sources::log_file::local_time::{civil, Stamp};

/// Largest PRI: facility 23, severity 7.
const PRI_MAX: u16 = 191;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const NS_PER_S: i64 = 1_000_000_000;
/// The largest time since the machine's start, s: a century.
const UPTIME_MAX_S: i64 = 100 * 366 * 24 * 3600;
/// Who writes what begins with a time since the machine's start.
pub const KERNEL: &[u8] = b"kernel";

/// When a message was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Local time without a year: month, then ` D HH:MM:SS`.
    Yearless { month: u8, rest: [u8; 12] },
    /// Local time, and ns of its second.
    Local { stamp: Stamp, ns: u32 },
    /// ns since the epoch.
    Utc(i64),
    /// ns since the machine's start.
    Uptime(i64),
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub when: When,
    /// Facility and severity, where it tells.
    pub facility: Option<u8>,
    pub severity: Option<u8>,
    /// Empty: it tells none.
    pub program: &'a [u8],
    pub text: &'a [u8],
    /// How often it was said: `message repeated N times: [ TEXT]`.
    pub count: u64,
}

/// `None`: it is cut, garbled or of no known form.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (pri, rest) = match line.strip_prefix(b"<") {
        Some(rest) => {
            let (pri, rest) = rest.split_at(rest.iter().take(4).position(|b| *b == b'>')?);
            let pri = number(pri).filter(|pri| *pri <= PRI_MAX.into())?;
            (Some(pri as u8), &rest[1..])
        }
        None => (None, line),
    };
    let (when, program, text) = if let (Some(_), Some(rest)) = (pri, rest.strip_prefix(b"1 ")) {
        rfc5424(rest)?
    } else if let Some((since, text)) = uptime(rest) {
        (When::Uptime(since), KERNEL, text)
    } else {
        let (when, rest) = yearless(rest).or_else(|| iso(rest))?;
        let (_host, rest) = word(rest.strip_prefix(b" ")?)?;
        let (program, text) = tag(rest);
        (when, program, text)
    };
    // The kernel's own stamp says nothing that the line's does not.
    let text = match uptime(text) {
        Some((_, text)) if program == KERNEL => text,
        _ => text,
    };
    let (count, text) = repeated(text).unwrap_or((1, text));
    (!text.is_empty()).then_some(Line {
        when,
        facility: pri.map(|pri| pri / 8),
        severity: pri.map(|pri| pri % 8),
        program,
        text,
        count,
    })
}

/// A word, and what follows the blank after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text).filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Digits alone, as a number.
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |value, b| {
        b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0'))
    })
}

/// `PROGRAM[PID]: TEXT`. What has no such tag is all text.
fn tag(rest: &[u8]) -> (&[u8], &[u8]) {
    let end = rest
        .iter()
        .position(|b| matches!(b, b':' | b'[' | b' '))
        .unwrap_or(rest.len());
    let (program, after) = rest.split_at(end);
    let after = match after.strip_prefix(b"[") {
        Some(pid) => memchr::memchr(b']', pid).map(|at| &pid[at + 1..]),
        None => Some(after),
    };
    match after.and_then(|after| after.strip_prefix(b":")) {
        Some(text) if !program.is_empty() => (program, text.strip_prefix(b" ").unwrap_or(text)),
        _ => (b"", rest),
    }
}

/// `STAMP HOST PROGRAM PID ID DATA TEXT`; `-` is nothing.
fn rfc5424(rest: &[u8]) -> Option<(When, &[u8], &[u8])> {
    let (stamp, rest) = word(rest)?;
    let (when, left) = iso(stamp)?;
    let (_host, rest) = word(rest)?;
    let (program, rest) = word(rest)?;
    let (_pid, rest) = word(rest)?;
    let (_id, rest) = word(rest)?;
    let text = match rest.strip_prefix(b"-") {
        Some(text) => text,
        None => after_data(rest)?,
    };
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let program = if program == b"-" { b"" } else { program };
    left.is_empty().then_some((when, program, text))
}

/// What follows `[ID NAME="VALUE" …][…]`.
fn after_data(data: &[u8]) -> Option<&[u8]> {
    let (mut quoted, mut escaped, mut inside) = (false, false, false);
    for (at, b) in data.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if inside => quoted = !quoted,
            _ if quoted => {}
            b'[' if !inside => inside = true,
            b']' if inside => inside = false,
            _ if !inside => return (at > 0).then_some(&data[at..]),
            _ => {}
        }
    }
    (!inside && !data.is_empty()).then_some(b"")
}

/// `[12345.678901] TEXT`: ns since the machine's start.
fn uptime(line: &[u8]) -> Option<(i64, &[u8])> {
    let inner = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &inner[..inner.len().min(32)])?;
    let stamp = inner[..end].trim_ascii_start();
    let point = memchr::memchr(b'.', stamp)?;
    let seconds = number(&stamp[..point]).filter(|s| *s <= UPTIME_MAX_S)?;
    let text = &inner[end + 1..];
    let text = text.strip_prefix(b" ").unwrap_or(text);
    Some((seconds * NS_PER_S + fraction(&stamp[point + 1..])?, text))
}

/// ns of a fraction's digits; those beyond the ninth do not count.
fn fraction(digits: &[u8]) -> Option<i64> {
    let all = number(digits).is_some() || digits.len() > 18;
    let first = number(&digits[..digits.len().min(9)]).filter(|_| all)?;
    Some(first * 10i64.pow(9 - digits.len().min(9) as u32))
}

/// `Nov 23 00:31:16` or `Nov  3 00:31:16`.
fn yearless(line: &[u8]) -> Option<(When, &[u8])> {
    let (stamp, rest) = line.split_first_chunk::<15>()?;
    let month = MONTHS.chunks(3).position(|month| month == &stamp[..3])?;
    let mut after = [0; 12];
    after.copy_from_slice(&stamp[3..]);
    let month = month as u8 + 1;
    Some((When::Yearless { month, rest: after }, rest))
}

/// `2026-11-23T00:31:16`, with a fraction, `Z` or an offset such as `+01:00` where it has them.
fn iso(line: &[u8]) -> Option<(When, &[u8])> {
    let (stamp, mut rest) = line.split_first_chunk::<19>()?;
    let mut stamp = *stamp;
    if !matches!(stamp[10], b'T' | b' ') {
        return None;
    }
    stamp[10] = b' ';
    let local = civil(&stamp)?;
    let mut ns = 0;
    if let Some(digits) = rest.strip_prefix(b".") {
        let end = digits.iter().position(|b| !b.is_ascii_digit());
        let (digits, after) = digits.split_at(end.unwrap_or(digits.len()));
        (ns, rest) = (fraction(digits)?, after);
    }
    let (offset_s, rest) = match rest {
        [b'Z', rest @ ..] => (0, rest),
        [sign @ (b'+' | b'-'), h1, h2, rest @ ..] => {
            let rest = rest.strip_prefix(b":").unwrap_or(rest);
            let (minutes, rest) = rest.split_first_chunk::<2>()?;
            let seconds = number(&[*h1, *h2])? * 3600 + number(minutes)? * 60;
            (if *sign == b'-' { -seconds } else { seconds }, rest)
        }
        _ => {
            return Some((
                When::Local {
                    stamp,
                    ns: ns as u32,
                },
                rest,
            ))
        }
    };
    let utc = jiff::tz::Offset::UTC.to_timestamp(local).ok()?;
    Some((
        When::Utc((utc.as_second() - offset_s) * NS_PER_S + ns),
        rest,
    ))
}

/// `message repeated N times: [ TEXT]`, as rsyslog says it.
fn repeated(text: &[u8]) -> Option<(u64, &[u8])> {
    let (count, rest) = word(text.strip_prefix(b"message repeated ")?)?;
    let inner = rest.strip_prefix(b"times: [")?.strip_suffix(b"]")?;
    let count = number(count).filter(|count| (1..=1_000_000).contains(count))?;
    Some((count as u64, inner.strip_prefix(b" ").unwrap_or(inner)))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
