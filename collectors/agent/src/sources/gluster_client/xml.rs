//! The little of XML that Gluster's commands print, as it comes: elements without attributes, text, five entities and numbered ones.
//!
//! Anything else is refused. Nothing but the open elements' names and one element's text is kept.

const DEPTH_MAX: usize = 16;
const TAG_BYTES_MAX: usize = 160;
const TEXT_BYTES_MAX: usize = 4096;

#[derive(Default)]
pub struct Xml {
    /// The open elements' names, `/` between.
    path: String,
    depth: usize,
    /// Text of the innermost one, as long as it has no elements in it.
    text: Vec<u8>,
    tag: Option<Vec<u8>>,
    line: usize,
    is_closed: bool,
    fault: Option<String>,
}

impl Xml {
    /// Takes what comes next, however it is cut, and calls `each` with each element that ends: its path and, if it has no others in it, its text.
    pub fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str, &str)) {
        for byte in bytes {
            if self.fault.is_some() {
                return;
            }
            if let Err(what) = self.take(*byte, each) {
                self.fault = Some(format!("line {}: {what}", self.line + 1));
            }
            self.line += (*byte == b'\n') as usize;
        }
    }

    /// What was wrong, once all was given.
    pub fn finish(&self) -> Result<(), String> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None if self.is_closed && self.tag.is_none() => Ok(()),
            None => Err(format!("line {}: it breaks off", self.line + 1)),
        }
    }

    fn take(&mut self, byte: u8, each: &mut dyn FnMut(&str, &str)) -> Result<(), String> {
        if let Some(mut tag) = self.tag.take() {
            if byte == b'>' {
                return self.tagged(&tag, each);
            }
            if tag.len() == TAG_BYTES_MAX {
                return Err(format!("a tag of more than {TAG_BYTES_MAX} bytes"));
            }
            tag.push(byte);
            self.tag = Some(tag);
            return Ok(());
        }
        match byte {
            b'<' => self.tag = Some(Vec::new()),
            _ if self.depth == 0 && !byte.is_ascii_whitespace() => {
                return Err("text outside of all elements".into());
            }
            _ if self.text.len() == TEXT_BYTES_MAX => {
                return Err(format!("a text of more than {TEXT_BYTES_MAX} bytes"));
            }
            _ if self.depth > 0 => self.text.push(byte),
            _ => {}
        }
        Ok(())
    }

    fn tagged(&mut self, tag: &[u8], each: &mut dyn FnMut(&str, &str)) -> Result<(), String> {
        let unexpected = || format!("unexpected <{}>", tag.escape_ascii());
        match tag {
            [b'?', .., b'?'] if self.depth == 0 && !self.is_closed => Ok(()),
            [b'/', name @ ..] => {
                let own = self.path.rsplit('/').next().unwrap_or_default();
                if self.depth == 0 || name != own.as_bytes() {
                    return Err(unexpected());
                }
                self.close(each)
            }
            [name @ .., b'/'] if is_name(name) && !self.is_closed => {
                self.open(name)?;
                self.close(each)
            }
            name if is_name(name) && !self.is_closed => self.open(name),
            _ => Err(unexpected()),
        }
    }

    fn open(&mut self, name: &[u8]) -> Result<(), String> {
        if !self.text.trim_ascii().is_empty() {
            return Err("text beside elements".into());
        }
        if self.depth == DEPTH_MAX {
            return Err(format!("elements in more than {DEPTH_MAX} others"));
        }
        self.text.clear();
        self.depth += 1;
        if self.depth > 1 {
            self.path.push('/');
        }
        self.path.extend(name.iter().map(|byte| *byte as char));
        Ok(())
    }

    fn close(&mut self, each: &mut dyn FnMut(&str, &str)) -> Result<(), String> {
        let text = unescape(&self.text).ok_or("a text that is none")?;
        each(&self.path, text.trim_ascii());
        self.text.clear();
        self.depth -= 1;
        self.path.truncate(self.path.rfind('/').unwrap_or(0));
        self.is_closed = self.depth == 0;
        Ok(())
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_good)
}

/// `None`: it is no UTF-8, or has an entity that is none.
fn unescape(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split('&');
    let mut out = parts.next()?.to_string();
    for part in parts {
        let (entity, rest) = part.split_once(';')?;
        out.push(match entity {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => numbered(entity)?,
        });
        out.push_str(rest);
    }
    Some(out)
}

fn numbered(entity: &str) -> Option<char> {
    let digits = entity.strip_prefix('#')?;
    let code = match digits.strip_prefix('x') {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    char::from_u32(code.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], cut: usize) -> (Vec<String>, Result<(), String>) {
        let (mut xml, mut all) = (Xml::default(), Vec::new());
        for part in text.chunks(cut) {
            xml.feed(part, &mut |path, text| all.push(format!("{path}={text}")));
        }
        (all, xml.finish())
    }

    #[test]
    fn elements_are_told_as_they_end_however_the_text_is_cut() {
        let text = b"<?xml version=\"1.0\"?>\n<a>\n  <b>1 &lt;/b&gt; &#65;&#x42;</b><c/>\n</a>\n";
        for cut in 1..text.len() {
            let (all, ended) = read(text, cut);
            assert_eq!(all, ["a/b=1 </b> AB", "a/c=", "a="], "{cut}");
            assert_eq!(ended, Ok(()));
        }
    }

    #[test]
    fn what_gluster_does_not_print_is_refused_where_it_stands() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        let long = format!("<a>{}", "x".repeat(TEXT_BYTES_MAX + 1));
        let wide = format!("<{}", "x".repeat(TAG_BYTES_MAX + 1));
        for (text, error) in [
            ("", "line 1: it breaks off"),
            ("<a><b>1</b>\n", "line 2: it breaks off"),
            ("<a></b>", "line 1: unexpected </b>"),
            ("</a>", "line 1: unexpected </a>"),
            ("<a b='1'>", "line 1: unexpected <a b=\\'1\\'>"),
            ("<a>\n<!-- -->", "line 2: unexpected <!-- -->"),
            ("<!DOCTYPE a>", "line 1: unexpected"),
            ("<a></a><b>", "line 1: unexpected <b>"),
            ("<a></a><b/>", "line 1: unexpected <b/>"),
            ("<a></a>x", "line 1: text outside"),
            ("<a>x<b>", "line 1: text beside"),
            ("<a>&nbsp;</a>", "line 1: a text that is none"),
            ("<a>&#xd800;</a>", "line 1: a text that is none"),
            ("<a>&</a>", "line 1: a text that is none"),
            (&deep, "line 1: elements in more than"),
            (&long, "line 1: a text of more than"),
            (&wide, "line 1: a tag of more than"),
        ] {
            let said = read(text.as_bytes(), 7).1.unwrap_err();
            assert!(said.starts_with(error), "{text}: {said}");
        }
        assert!(read(b"<a>\xff</a>", 3).1.is_err());
    }
}
