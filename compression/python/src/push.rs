//! Items as Redis takes them: `RPUSH`, in its protocol.

use std::io::Write;

/// The command that pushes `items` to the list `name`.
pub fn rpush(name: &[u8], items: &[&[u8]]) -> Vec<u8> {
    // Of a bulk string: its sign, up to 20 digits, and both line ends.
    let around = 25;
    let size: usize = items.iter().map(|item| item.len() + around).sum();
    let mut out = Vec::with_capacity(size + name.len() + 3 * around);
    out.push(b'*');
    number(&mut out, items.len() + 2);
    for part in [&b"RPUSH"[..], name]
        .into_iter()
        .chain(items.iter().copied())
    {
        out.push(b'$');
        number(&mut out, part.len());
        out.extend(part);
        out.extend(b"\r\n");
    }
    out
}

fn number(out: &mut Vec<u8>, value: usize) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_an_array_of_bulk_strings() {
        let items: [&[u8]; 3] = [b"{}", b"", b"\r\n$1\r\n"];
        let packed = rpush(b"list", &items);
        let expected =
            b"*5\r\n$5\r\nRPUSH\r\n$4\r\nlist\r\n$2\r\n{}\r\n$0\r\n\r\n$6\r\n\r\n$1\r\n\r\n";
        assert_eq!(packed, expected);
    }
}
