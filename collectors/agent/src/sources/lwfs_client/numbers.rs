//! Numbers in a log's lines: bytes in, the number and what follows it out.

/// A whole number below 2^63.
#[inline]
pub fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut at) = text.first_chunk::<8>().map_or((0, 0), digits);
    // 19 digits cannot overflow.
    while let Some(digit) = text.get(at).map(|b| b.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        if at == 19 {
            return None;
        }
        value = value * 10 + digit as u64;
        at += 1;
    }
    (at > 0 && value <= i64::MAX as u64).then(|| (value, &text[at..]))
}

/// What the digits at the beginning of eight bytes say, and how many there are. All eight at once, in the bytes of a word.
#[inline]
fn digits(text: &[u8; 8]) -> (u64, usize) {
    let word = u64::from_le_bytes(*text) ^ 0x3030_3030_3030_3030;
    // The top bit of each byte that is no digit; what it carries over goes only into those after it.
    let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    // Zeros before the digits, then neighbours are joined: to pairs, to fours, to eight.
    let word = word << (64 - 8 * count);
    let pairs = (word.wrapping_mul(2561) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(6_553_601) >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(42_949_672_960_001) >> 32, count)
}

const NO_DIGIT: u8 = 255;
const HEX_DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut i = 0;
    while i < 16 {
        table[b"0123456789abcdef"[i] as usize] = i as u8;
        table[b"0123456789ABCDEF"[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// `0x` and 1 to 16 hex digits.
#[inline]
pub fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"0x")?;
    let (mut value, mut at) = (0u64, 0);
    while let Some(&byte) = text.get(at) {
        let digit = HEX_DIGITS[byte as usize];
        if digit == NO_DIGIT {
            break;
        }
        if at == 16 {
            return None;
        }
        value = (value << 4) | digit as u64;
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}
