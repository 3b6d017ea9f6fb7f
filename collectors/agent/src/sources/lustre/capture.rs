//! What `lctl get_param` printed: parameters one after the other, `NAME=TEXT`, where a text of several lines begins on the next one.

use super::super::samples::text::{lines, number};
use std::collections::BTreeMap;
use std::ops::Range;

/// How the name of a client's parameters is cut: the address in it holds dots.
const EXPORTS: &str = ".exports.";
const TIME: &[u8] = b"snapshot_time";
const NAME_BYTES_MAX: usize = 512;

/// A capture in memory.
#[derive(Default)]
pub struct Capture {
    bytes: Vec<u8>,
    /// By path.
    texts: BTreeMap<String, Range<usize>>,
}

impl Capture {
    pub fn new(bytes: Vec<u8>) -> Capture {
        let mut texts: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut now: Option<(String, usize)> = None;
        let mut at = 0;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if let Some((path, length)) = name(line) {
                if let Some((path, from)) = now.replace((path, at + length + 1)) {
                    texts.entry(path).or_insert(from..at);
                }
            }
            at += line.len();
        }
        if let Some((path, from)) = now {
            texts.entry(path).or_insert(from..at);
        }
        Capture { bytes, texts }
    }

    /// How many parameters it holds.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn text(&self, path: &str) -> Option<&[u8]> {
        let text = &self.bytes[self.texts.get(path)?.clone()];
        // What begins on the next line.
        Some(text.strip_prefix(b"\n").unwrap_or(text))
    }

    /// The folders in a folder; "" is what they all lie in.
    pub fn folders(&self, dir: &str) -> impl Iterator<Item = String> + '_ {
        let prefix = match dir {
            "" => String::new(),
            dir => format!("{dir}/"),
        };
        let names = self.texts.range(prefix.clone()..).map(|(path, _)| path);
        let names = names.map_while(move |path| path.strip_prefix(&*prefix));
        let mut last = "";
        names.filter_map(move |rest| {
            let (name, _) = rest.split_once('/')?;
            (name != last).then(|| {
                last = name;
                name.to_string()
            })
        })
    }

    /// When it was made, UTC in ns, as its first time says.
    pub fn time_ns(&self) -> Option<i64> {
        lines(&self.bytes).find_map(|(_, line, _)| {
            let at = memchr::memmem::find(line, TIME)?;
            let rest = line[at + TIME.len()..].trim_ascii_start();
            let rest = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            i64::try_from(number(&rest[..digits])?)
                .ok()?
                .checked_mul(1_000_000_000)
        })
    }
}

/// The path of the parameter that a line begins, and how long its name is.
fn name(line: &[u8]) -> Option<(String, usize)> {
    let end = line.iter().take(NAME_BYTES_MAX).position(|b| *b == b'=')?;
    let name = std::str::from_utf8(&line[..end]).ok()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    // No key of Lustre's own texts has a dot before a `=`.
    if !name.contains('.') || !name.chars().all(is_name) {
        return None;
    }
    let path = match name.split_once(EXPORTS) {
        None => name.replace('.', "/"),
        Some((target, rest)) => {
            let (client, file) = rest.rsplit_once('.')?;
            format!("{}/exports/{client}/{file}", target.replace('.', "/"))
        }
    };
    Some((path, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_cut_where_names_begin() {
        let text = "obdfilter.fs-OST0000.num_exports=7\nobdfilter.fs-OST0000.stats=\nsnapshot_time 1700000001.5 secs.nsecs\nopen 1 samples [reqs]\n\
                    ost.OSS.ost_io.stats=snapshot_time 9 secs\nmdt.fs-MDT0000.exports.10.0.0.1@tcp.stats=\nx=1\na b.c=2\n";
        let capture = Capture::new(text.into());
        let all: Vec<&str> = capture.texts.keys().map(String::as_str).collect();
        assert_eq!(
            all,
            [
                "mdt/fs-MDT0000/exports/10.0.0.1@tcp/stats",
                "obdfilter/fs-OST0000/num_exports",
                "obdfilter/fs-OST0000/stats",
                "ost/OSS/ost_io/stats",
            ]
        );
        let text = |path| String::from_utf8(capture.text(path).unwrap().to_vec()).unwrap();
        assert_eq!(text("obdfilter/fs-OST0000/num_exports"), "7\n");
        assert_eq!(text("ost/OSS/ost_io/stats"), "snapshot_time 9 secs\n");
        assert_eq!(
            text("mdt/fs-MDT0000/exports/10.0.0.1@tcp/stats"),
            "x=1\na b.c=2\n"
        );
        let folders = |dir| capture.folders(dir).collect::<Vec<_>>().join(" ");
        assert_eq!(folders(""), "mdt obdfilter ost");
        assert_eq!(folders("mdt/fs-MDT0000/exports"), "10.0.0.1@tcp");
        assert_eq!(folders("obdfilter/fs-OST0000"), "");
        assert_eq!(capture.time_ns(), Some(1_700_000_001_000_000_000));
        assert_eq!(Capture::new(b"nothing\n".to_vec()).len(), 0);
    }
}
