//! A message as it is shipped: one record of kind `message`.

use crate::event;
use crate::sources::cursors::Reader;

/// Of a message's text, characters; of a longer one the rest is cut off, and CUT put there.
pub const TEXT_CHARACTERS_MAX: usize = 1000;
const CUT: char = '…';
pub const PROGRAM_CHARACTERS_MAX: usize = 64;
#[rustfmt::skip]
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// Who wrote it, as far as its log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Kernel,
    Root,
    User,
    /// The log tells only what the writer claimed.
    Claimed,
}

const ORIGINS: [(Origin, &str); 4] = [
    (Origin::Kernel, "kernel"),
    (Origin::Root, "root"),
    (Origin::User, "user"),
    (Origin::Claimed, "claimed"),
];

impl Origin {
    pub fn name(self) -> &'static str {
        ORIGINS[self as usize].1
    }

    /// Whether its word is taken for what happened to the machine. A log that does not tell who wrote it is taken at its word, too.
    pub fn is_believed(self) -> bool {
        self != Origin::User
    }
}

/// Text and program have their bounds; nothing in them is a control character, or one of order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it was said first and last, ns since the epoch.
    pub start: i64,
    pub end: i64,
    /// How often.
    pub count: u64,
    pub severity: u8,
    pub facility: Option<u8>,
    pub origin: Origin,
    /// Empty: the log tells none.
    pub program: String,
    pub text: String,
    /// Empty: none that is known.
    pub event: String,
}

impl Message {
    /// Whether the other says the same again.
    pub fn is_again(&self, other: &Message) -> bool {
        let told = |m: &Message| (m.severity, m.facility, m.origin);
        told(self) == told(other) && self.text == other.text && self.program == other.program
    }

    /// Appends a record's fields. `log`: where it stood.
    pub fn write_fields(&self, log: &str, out: &mut Vec<u8>) {
        let text = |text: &'_ str| Some(text.as_bytes().to_vec()).filter(|text| !text.is_empty());
        event::integer(out, "start", self.start);
        event::integer(out, "end", self.end);
        event::integer(out, "count", self.count.min(i64::MAX as u64) as i64);
        event::integer(out, "severity", self.severity.into());
        let facility = self.facility.and_then(|f| FACILITIES.get(f as usize));
        event::text(out, "facility", facility.map(|name| name.as_bytes()));
        event::text(out, "origin", Some(self.origin.name().as_bytes()));
        event::text(out, "log", Some(log.as_bytes()));
        event::text(out, "program", text(&self.program).as_deref());
        event::text(out, "event", text(&self.event).as_deref());
        event::text(out, "text", Some(self.text.as_bytes()));
    }

    pub fn write_cursor(&self, out: &mut Vec<u8>) {
        for number in [self.start as u64, self.end as u64, self.count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let facility = self.facility.unwrap_or(u8::MAX);
        out.extend_from_slice(&[self.severity, facility, self.origin as u8]);
        for text in [&self.program, &self.text, &self.event] {
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// `None`: it breaks off or makes no sense.
    pub fn read_cursor(cursor: &mut Reader) -> Option<Message> {
        let [start, end, count] = cursor.u64s()?;
        let (severity, facility, origin) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        let mut text = || {
            let length = cursor.u16()?;
            String::from_utf8(cursor.take(length.into())?.to_vec()).ok()
        };
        Some(Message {
            start: start as i64,
            end: end as i64,
            count,
            severity: Some(severity).filter(|s| *s <= 7)?,
            facility: Some(facility).filter(|f| *f != u8::MAX),
            origin: ORIGINS.get(origin as usize)?.0,
            program: text()?,
            text: text()?,
            event: text()?,
        })
    }
}

/// Characters that are not seen, and change the order in which others are read.
fn is_order(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Text of so many characters at most that can be shown: bytes that are none, and control characters, become `\xHH`, and characters of order `\u{HHHH}`.
pub fn shown(bytes: &[u8], characters_max: usize) -> String {
    let mut out = String::new();
    let mut room = characters_max;
    let mut put = |piece: &str, out: &mut String| {
        // What stands for one byte is not cut.
        let length = piece.chars().count();
        let fits = length <= room;
        room = if fits { room - length } else { 0 };
        out.push_str(if fits { piece } else { "" });
        fits
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let fits = match c {
                '\t' => put(" ", &mut out),
                c if c.is_control() => put(&format!("\\x{:02x}", c as u32), &mut out),
                c if is_order(c) => put(&format!("\\u{{{:x}}}", c as u32), &mut out),
                c => put(c.encode_utf8(&mut [0; 4]), &mut out),
            };
            if !fits {
                out.push(CUT);
                return out;
            }
        }
        for b in chunk.invalid() {
            if !put(&format!("\\x{b:02x}"), &mut out) {
                out.push(CUT);
                return out;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_be_shown_and_is_cut_where_it_is_long() {
        assert_eq!(shown(b"a\x1b[31m\xff\tb\n", 100), "a\\x1b[31m\\xff b\\x0a");
        assert_eq!(shown("Grüße".as_bytes(), 5), "Grüße");
        assert_eq!(shown("Grüße".as_bytes(), 4), "Grüß…");
        assert_eq!(shown(b"abc\x07", 5), "abc…");
        assert_eq!(shown(&[b'x'; 5000], 1000).chars().count(), 1001);
        assert_eq!(shown(b"", 3), "");
        let turned = "a\u{202e}b\u{2066}\u{200f}";
        assert_eq!(
            shown(turned.as_bytes(), 100),
            "a\\u{202e}b\\u{2066}\\u{200f}"
        );
    }

    #[test]
    fn a_cursor_gives_a_message_back() {
        for (origin, name) in ORIGINS {
            assert_eq!(origin.name(), name);
            let message = Message {
                start: 5,
                end: 7,
                count: 3,
                severity: 2,
                facility: Some(0),
                origin,
                program: "kernel".into(),
                text: "Grüße".into(),
                event: String::new(),
            };
            let mut out = Vec::new();
            message.write_cursor(&mut out);
            assert_eq!(Message::read_cursor(&mut Reader(&out)), Some(message));
            for length in 0..out.len() {
                assert_eq!(Message::read_cursor(&mut Reader(&out[..length])), None);
            }
        }
    }
}
