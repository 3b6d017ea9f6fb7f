//! Writes the fields of events as JSON. Every field begins with a comma: the batch writes what comes before it.

/// Appends a whole number.
pub fn number(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a JSON string. Bytes that are no UTF-8 become `\xHH`.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for &b in chunk.valid().as_bytes() {
            match b {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
                0..=0x1f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
                _ => out.push(b),
            }
        }
        // As text, not as one mark for all: names that differ must stay different files.
        for &b in chunk.invalid() {
            out.extend_from_slice(format!("\\\\x{b:02x}").as_bytes());
        }
    }
    out.push(b'"');
}

/// Appends `,"name":`
pub fn name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

pub fn integer(out: &mut Vec<u8>, field: &str, value: i64) {
    name(out, field);
    number(out, value);
}

pub fn float(out: &mut Vec<u8>, field: &str, value: f64) {
    name(out, field);
    out.extend_from_slice(format!("{value:.6}").as_bytes());
}

/// Appends a list of whole numbers.
pub fn list(out: &mut Vec<u8>, values: &[u64]) {
    out.push(b'[');
    for (i, &value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        number(out, value.min(i64::MAX as u64) as i64);
    }
    out.push(b']');
}

/// A string, or null.
pub fn text(out: &mut Vec<u8>, field: &str, value: Option<&[u8]>) {
    name(out, field);
    match value {
        Some(value) => string(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// 16 hex digits, as 64-bit ids go over the wire.
pub fn hex(out: &mut Vec<u8>, value: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(
        (0..16)
            .rev()
            .map(|i| DIGITS[(value >> (4 * i)) as usize & 15]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_are_json() {
        for value in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
        }
        let mut out = Vec::new();
        hex(&mut out, 0xfe);
        assert_eq!(out, b"00000000000000fe");
        for (bytes, expected) in [
            (&b"plain"[..], "plain"),
            (b"q\"b\\n\n\x01", "q\"b\\n\n\x01"),
            ("Grüße".as_bytes(), "Grüße"),
            (b"a\xffb\xc3", "a\\xffb\\xc3"),
        ] {
            let mut out = Vec::new();
            string(&mut out, bytes);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), expected);
        }
    }
}
