//! JSON as agents write it, read strictly: a reader that takes a part of what JSON allows, and says of the rest only that it is for a slower one.

/// What a slower reader has to look at: it may be good, or no JSON at all.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusual;

/// Digits that a number has at most.
const DIGITS_MAX: usize = 19;

pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Blanks between tokens. A line end is unusual: a record is one line wherever it goes from here.
    pub fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    pub fn take(&mut self, byte: u8) -> Result<(), Unusual> {
        if self.peek() != Some(byte) {
            return Err(Unusual);
        }
        self.at += 1;
        Ok(())
    }

    pub fn end(&self) -> Result<(), Unusual> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(Unusual)
        }
    }

    pub fn null(&mut self) -> bool {
        self.take_all(b"null")
    }

    /// Takes these bytes, if they come next.
    pub fn take_all(&mut self, bytes: &[u8]) -> bool {
        let found = self.rest().starts_with(bytes);
        if found {
            self.at += bytes.len();
        }
        found
    }

    /// Takes this text as a string, if it comes next: one that `string` gave before.
    pub fn take_text(&mut self, text: &[u8]) -> bool {
        let found = match self.rest() {
            [b'"', rest @ ..] => rest.starts_with(text) && rest.get(text.len()) == Some(&b'"'),
            _ => false,
        };
        if found {
            self.at += text.len() + 2;
        }
        found
    }

    /// A string without escapes and control characters, without its quotes; UTF-8.
    pub fn string(&mut self) -> Result<&'a [u8], Unusual> {
        self.take(b'"')?;
        let rest = self.rest();
        let mut ascii = true;
        let mut length = 0;
        loop {
            length += plain(&rest[length..]);
            match rest.get(length) {
                Some(b'"') => {
                    let text = &rest[..length];
                    if !ascii && std::str::from_utf8(text).is_err() {
                        return Err(Unusual);
                    }
                    self.at += length + 1;
                    return Ok(text);
                }
                Some(0x80..) => ascii = false,
                _ => return Err(Unusual),
            }
            length += 1;
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// A whole number of 64 bits, written without fraction or exponent.
    pub fn integer(&mut self) -> Result<i64, Unusual> {
        let negative = self.peek() == Some(b'-');
        if negative {
            self.at += 1;
        }
        let first = self.at;
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            // So many always fit, and more are too many for 63 bits.
            if self.at - first == DIGITS_MAX {
                return Err(Unusual);
            }
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        let digits = self.at - first;
        if digits == 0
            || (digits > 1 && self.bytes[first] == b'0')
            || matches!(self.peek(), Some(b'.' | b'e' | b'E'))
        {
            return Err(Unusual);
        }
        if negative {
            0_i64.checked_sub_unsigned(value).ok_or(Unusual)
        } else {
            i64::try_from(value).map_err(|_| Unusual)
        }
    }
}

/// How many bytes at the beginning are of a string's usual ones: ASCII, but for control characters, quotes and backslashes.
fn plain(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(&word) = bytes[length..].first_chunk::<8>() {
        let found = special(u64::from_le_bytes(word));
        if found != 0 {
            return length + found.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let rest = bytes[length..].iter();
    length
        + rest
            .take_while(|&&byte| matches!(byte, 0x20..=0x7f) && byte != b'"' && byte != b'\\')
            .count()
}

/// Of eight bytes, the highest bit of each that is none of a string's usual ones. Of those above the first, some may be marked that are.
fn special(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let below = |word: u64, bound: u64| word.wrapping_sub(bound * EACH) & !word;
    let is = |byte: u8| below(word ^ (u64::from(byte) * EACH), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\') | word) & HIGH
}

/// 16 hex digits, as agents write them: others mean the same number, but would be other words in a document.
pub fn hex64(text: &[u8]) -> Result<u64, Unusual> {
    if text.len() != 16 {
        return Err(Unusual);
    }
    let mut value = 0_u64;
    for &byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return Err(Unusual),
        };
        value = value << 4 | u64::from(digit);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(text: &str) -> Result<i64, Unusual> {
        let mut scanner = Scanner::new(text.as_bytes());
        let value = scanner.integer()?;
        scanner.end()?;
        Ok(value)
    }

    #[test]
    fn whole_numbers_of_64_bits_are_taken() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(&value.to_string()), Ok(value));
        }
    }

    #[test]
    fn other_numbers_are_not() {
        for text in [
            "",
            "-",
            "01",
            "-01",
            "+1",
            "1.0",
            "1e3",
            "1E3",
            "9223372036854775808",
            "-9223372036854775809",
            "0x1",
            "1 ",
        ] {
            assert_eq!(integer(text), Err(Unusual), "{text}");
        }
    }

    #[test]
    fn strings_are_taken_as_they_are() {
        for text in ["", "a", "/scratch/ä/€/𝄞", "a b"] {
            let quoted = format!("\"{text}\"");
            let mut scanner = Scanner::new(quoted.as_bytes());
            assert_eq!(scanner.string(), Ok(text.as_bytes()));
            assert_eq!(scanner.end(), Ok(()));
        }
    }

    #[test]
    fn strings_with_escapes_or_of_no_utf8_are_not() {
        for text in [
            &b"\"a"[..],
            b"a\"",
            b"\"\\n\"",
            b"\"\n\"",
            b"\"\x00\"",
            b"\"\xff\"",
            b"\"\xed\xa0\x80\"",
            b"",
        ] {
            assert_eq!(Scanner::new(text).string(), Err(Unusual), "{text:?}");
        }
    }

    #[test]
    fn strings_end_at_the_first_byte_that_is_not_usual_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut text = vec![b'a'; 24];
                text[place] = byte;
                let usual = matches!(byte, 0x20..=0x7f) && byte != b'"' && byte != b'\\';
                assert_eq!(
                    plain(&text),
                    if usual { 24 } else { place },
                    "{byte} at {place}"
                );
            }
        }
    }

    #[test]
    fn a_text_is_taken_again_only_if_all_of_it_comes() {
        for (bytes, text, at) in [
            (&b"\"ab\","[..], &b"ab"[..], 4),
            (b"\"\"", b"", 2),
            (b"\"abc\"", b"ab", 0),
            (b"\"a\"", b"ab", 0),
            (b"\"ab", b"ab", 0),
            (b"ab\"", b"ab", 0),
            (b"", b"", 0),
        ] {
            let mut scanner = Scanner::new(bytes);
            assert_eq!(scanner.take_text(text), at > 0, "{bytes:?}");
            assert_eq!(scanner.at, at);
        }
    }

    #[test]
    fn hex_numbers_have_16_small_digits() {
        assert_eq!(hex64(b"00000000deadbeef"), Ok(0xdead_beef));
        assert_eq!(hex64(b"ffffffffffffffff"), Ok(u64::MAX));
        for text in [
            &b""[..],
            b"deadbeef",
            b"00000000DEADBEEF",
            b"00000000deadbeeg",
            b"00000000000000001",
            b"-000000000000001",
        ] {
            assert_eq!(hex64(text), Err(Unusual), "{text:?}");
        }
    }
}
