//! JSON as agents write it, read strictly: a reader that takes a part of what JSON allows, and says of the rest only that it is for a slower one.

/// What a slower reader has to look at: it may be good, or no JSON at all.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusual;

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
        if self.bytes[self.at..].starts_with(b"null") {
            self.at += 4;
            return true;
        }
        false
    }

    /// A string without escapes and control characters, without its quotes; UTF-8.
    pub fn string(&mut self) -> Result<&'a [u8], Unusual> {
        self.take(b'"')?;
        let rest = &self.bytes[self.at..];
        let mut ascii = true;
        for (length, &byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    let text = &rest[..length];
                    if !ascii && std::str::from_utf8(text).is_err() {
                        return Err(Unusual);
                    }
                    self.at += length + 1;
                    return Ok(text);
                }
                b'\\' | 0..=0x1f => return Err(Unusual),
                0x80.. => ascii = false,
                _ => {}
            }
        }
        Err(Unusual)
    }

    /// A whole number of 64 bits, written without fraction or exponent.
    pub fn integer(&mut self) -> Result<i64, Unusual> {
        let negative = self.peek() == Some(b'-');
        if negative {
            self.at += 1;
        }
        let first = self.at;
        let mut value: i64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            // Below zero, since there is one number more there.
            let next = value
                .checked_mul(10)
                .and_then(|v| v.checked_sub(i64::from(digit - b'0')));
            value = next.ok_or(Unusual)?;
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
            Ok(value)
        } else {
            value.checked_neg().ok_or(Unusual)
        }
    }
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
