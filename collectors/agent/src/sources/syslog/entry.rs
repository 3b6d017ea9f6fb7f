//! One entry of the journal as `journalctl -o json` prints it: a line of JSON. Text in, what it says out.

use super::message::Origin;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// What is asked for of each entry; its cursor and time come anyway. Of a field over 4 KiB journalctl says that it is there, and no more.
pub const FIELDS: &str = "MESSAGE,PRIORITY,SYSLOG_FACILITY,SYSLOG_IDENTIFIER,_COMM,_TRANSPORT,_UID";
/// A field that is short in every entry, as no program can set it.
pub const SHORT_FIELD: &str = "_UID";
/// Told in place of a message that is not given out.
const TOO_LONG: &[u8] = b"(a message of more than 4 KiB)";
/// Longest cursor that is kept.
pub const CURSOR_BYTES_MAX: usize = 1024;

/// A field: text, bytes where it is none, several of these where an entry has it more than once, or nothing where it is too long.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Bytes(Vec<u8>),
    #[serde(borrow)]
    Several(Vec<Field<'a>>),
    Nothing(()),
}

impl Field<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Field::Text(text) => text.as_bytes(),
            Field::Bytes(bytes) => bytes,
            Field::Several(all) => all.first().map_or(b"", Field::bytes),
            Field::Nothing(()) => b"",
        }
    }

    fn is_too_long(&self) -> bool {
        match self {
            Field::Several(all) => all.first().is_some_and(Field::is_too_long),
            Field::Nothing(()) => true,
            _ => false,
        }
    }

    fn number(&self) -> Option<i64> {
        std::str::from_utf8(self.bytes()).ok()?.parse().ok()
    }
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "__CURSOR", borrow)]
    cursor: Cow<'a, str>,
    #[serde(rename = "__REALTIME_TIMESTAMP", borrow)]
    time_us: Cow<'a, str>,
    #[serde(rename = "MESSAGE", borrow, default, deserialize_with = "present")]
    message: Option<Field<'a>>,
    #[serde(rename = "PRIORITY", borrow)]
    priority: Option<Field<'a>>,
    #[serde(rename = "SYSLOG_FACILITY", borrow)]
    facility: Option<Field<'a>>,
    #[serde(rename = "SYSLOG_IDENTIFIER", borrow)]
    identifier: Option<Field<'a>>,
    #[serde(rename = "_COMM", borrow)]
    comm: Option<Field<'a>>,
    #[serde(rename = "_TRANSPORT", borrow)]
    transport: Option<Field<'a>>,
    #[serde(rename = "_UID", borrow)]
    uid: Option<Field<'a>>,
}

/// A field that is there, even if it is nothing.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Field<'a>>, D::Error> {
    Field::deserialize(from).map(Some)
}

/// What an entry says.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub cursor: String,
    /// ns since the epoch.
    pub time: i64,
    pub severity: Option<u8>,
    pub facility: Option<u8>,
    pub origin: Origin,
    pub program: Vec<u8>,
    pub text: Vec<u8>,
}

/// `None`: it is cut, or no entry.
pub fn parse(line: &[u8]) -> Option<Entry> {
    let fields: Fields = serde_json::from_slice(line).ok()?;
    let bytes = |field: &Option<Field>| field.as_ref().map_or(Vec::new(), |f| f.bytes().to_vec());
    let small = |field: &Option<Field>, most: i64| {
        let number = field.as_ref()?.number()?;
        (0..=most).contains(&number).then_some(number as u8)
    };
    // The journal itself says by which way a message came and whose process sent it; nobody else can set these fields.
    let origin = match fields.transport.as_ref().map_or(&b""[..], Field::bytes) {
        b"kernel" => Origin::Kernel,
        _ if fields.uid.as_ref().and_then(Field::number) == Some(0) => Origin::Root,
        _ => Origin::User,
    };
    let mut program = bytes(&fields.identifier);
    if origin == Origin::Kernel {
        program = super::line::KERNEL.to_vec();
    } else if program.is_empty() {
        program = bytes(&fields.comm);
    }
    let text = match &fields.message {
        Some(message) if message.is_too_long() => TOO_LONG.to_vec(),
        message => bytes(message),
    };
    let is_cursor = (1..=CURSOR_BYTES_MAX).contains(&fields.cursor.len());
    Some(Entry {
        cursor: is_cursor.then(|| fields.cursor.into_owned())?,
        time: fields.time_us.parse::<i64>().ok()?.checked_mul(1_000)?,
        severity: small(&fields.priority, 7),
        facility: small(&fields.facility, 23),
        origin,
        program,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &str) -> Option<Entry> {
        let head = r#"{"__CURSOR":"s=6a;i=8c1","__REALTIME_TIMESTAMP":"1795394353459725""#;
        parse(format!("{head}{fields}}}").as_bytes())
    }

    #[test]
    fn entries_say_who_wrote_them() {
        let told = |fields: &str| {
            let entry = entry(fields).unwrap();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            (
                entry.origin,
                entry.severity,
                text(&entry.program),
                text(&entry.text),
            )
        };
        let kernel = r#","_TRANSPORT":"kernel","PRIORITY":"3","MESSAGE":"I/O error, dev sdz, sector 8","SYSLOG_IDENTIFIER":"kernel""#;
        let said = "I/O error, dev sdz, sector 8".to_string();
        assert_eq!(
            told(kernel),
            (Origin::Kernel, Some(3), "kernel".into(), said)
        );
        let root = r#","_TRANSPORT":"syslog","_UID":"0","SYSLOG_IDENTIFIER":"mdadm","MESSAGE":"x""#;
        assert_eq!(told(root), (Origin::Root, None, "mdadm".into(), "x".into()));
        // logger -t kernel, by anyone.
        let forged = r#","_TRANSPORT":"syslog","_UID":"65534","SYSLOG_IDENTIFIER":"kernel","PRIORITY":"0","MESSAGE":"LBUG""#;
        assert_eq!(
            told(forged),
            (Origin::User, Some(0), "kernel".into(), "LBUG".into())
        );
        let bytes = r#","_COMM":"x","MESSAGE":[101,27,255],"PRIORITY":"9""#;
        assert_eq!(entry(bytes).unwrap().text, [101, 27, 255]);
        assert_eq!(told(bytes).0, Origin::User);
        let several = r#","MESSAGE":["first",[115]],"_UID":["0","1"]"#;
        assert_eq!(
            told(several),
            (Origin::Root, None, "".into(), "first".into())
        );
        for (message, text) in [
            ("null", "(a message of more than 4 KiB)"),
            (r#"[null,"x"]"#, "(a message of more than 4 KiB)"),
            (r#"["x",null]"#, "x"),
            ("\"\"", ""),
            ("[]", ""),
        ] {
            assert_eq!(
                told(&format!(r#","MESSAGE":{message}"#)).3,
                text,
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_no_entry_is_none() {
        assert_eq!(entry("").unwrap().time, 1_795_394_353_459_725_000);
        for line in [
            "",
            "{}",
            "[]",
            "-- No entries --",
            r#"{"__CURSOR":"","__REALTIME_TIMESTAMP":"1"}"#,
            r#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"9223372036854775807"}"#,
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        let whole = r#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1","MESSAGE":"x"}"#;
        for length in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..length]), None, "{length}");
        }
    }
}
