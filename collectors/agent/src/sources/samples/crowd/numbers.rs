//! Numbers of as many bytes as they need: seven bits a byte, the lowest first.

pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `None`: it breaks off, or is larger than a number can be.
pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = (byte & 0x7f) as u64;
        if part << shift >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The bytes of the number at the front, taken off.
pub fn take_bytes<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let end = bytes.iter().position(|byte| *byte < 0x80);
    let (number, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
    *bytes = rest;
    number
}
