//! Records as bodies of Elasticsearch's `_bulk`: their own JSON, as it came, with an id before it and a field put in at its end.

use std::io::Write;

use crate::block::Block;

const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// What an id and the lines round a document take, about.
const AROUND: usize = 128;

/// Of one layer and one day (since the epoch, UTC).
pub struct Body {
    /// Of the first record.
    pub row: usize,
    pub day: i64,
    pub payloads: Vec<usize>,
    pub bytes: Vec<u8>,
    layer: i64,
}

/// The records in some ranges (first payload, count) in bodies of at most `size` bytes, unless a record alone has more. tail: what each document gets
/// at its end, `,"name":value`. `texts`: all payloads of the block.
pub fn bodies(
    block: &Block,
    texts: &[&[u8]],
    ranges: &[(usize, usize)],
    tail: &[u8],
    size: usize,
) -> Vec<Body> {
    let mut done: Vec<Body> = Vec::new();
    let mut open: Vec<Body> = Vec::new();
    let places = block.places;
    for payload in ranges
        .iter()
        .flat_map(|&(first, count)| first..first + count)
    {
        let Some(row) = block.row(payload) else {
            continue;
        };
        let (layer, day) = (
            block.columns[places.layer].number(row),
            block.columns[places.start].number(row).div_euclid(DAY_NS),
        );
        let place = open
            .iter()
            .position(|body| body.layer == layer && body.day == day);
        let place = place.unwrap_or_else(|| {
            open.push(Body {
                row,
                day,
                payloads: Vec::new(),
                bytes: Vec::with_capacity(size.min(1 << 22) + AROUND),
                layer,
            });
            open.len() - 1
        });
        let needed = texts[payload].len() + tail.len() + AROUND;
        if !open[place].payloads.is_empty() && open[place].bytes.len() + needed > size {
            let next = Body {
                row,
                day,
                payloads: Vec::new(),
                bytes: Vec::with_capacity(size.min(1 << 22) + AROUND),
                layer,
            };
            done.push(std::mem::replace(&mut open[place], next));
        }
        let (boot, seq) = (
            block.columns[places.boot].number(row) as u64,
            block.columns[places.seq].number(row),
        );
        open[place].add(
            payload,
            block.columns[places.node].text(row),
            boot,
            seq,
            texts[payload],
            tail,
        );
    }
    done.append(&mut open);
    done
}

impl Body {
    /// The node's name needs no quoting: one that does is unusual. A usual payload ends with its bracket, but for blanks.
    fn add(
        &mut self,
        number: usize,
        node: &[u8],
        boot: u64,
        seq: i64,
        payload: &[u8],
        tail: &[u8],
    ) {
        let end = payload.iter().rposition(|&byte| byte == b'}').unwrap_or(0);
        self.payloads.push(number);
        self.bytes.extend(b"{\"index\":{\"_id\":\"");
        self.bytes.extend(node);
        // Writing to memory does not fail.
        let _ = writeln!(self.bytes, "/{boot:016x}/{seq}\"}}}}");
        self.bytes.extend(&payload[..end]);
        self.bytes.extend(tail);
        self.bytes.extend(b"}\n");
    }
}
