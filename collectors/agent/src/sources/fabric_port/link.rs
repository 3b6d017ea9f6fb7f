//! What a link can carry, and how ports of InfiniBand count.

use crate::sources::samples::reading::{Range, Reading, Value, What};

/// Data is counted in words of so many bytes.
pub const WORD_BYTES: u32 = 4;
/// Where counters of InfiniBand end, and stay until somebody clears them: they were specified narrow, and wider ones came later.
pub const BITS4: u64 = 0xf;
pub const BITS8: u64 = 0xff;
pub const BITS16: u64 = 0xffff;
pub const BITS32: u64 = 0xffff_ffff;

/// Data that a lane carries, Mbit/s: without what the line's code adds (8b/10b up to QDR, then 64b/66b).
const SPEEDS: [(&str, u32); 9] = [
    ("SDR", 2_000),
    ("DDR", 4_000),
    ("QDR", 8_000),
    ("FDR10", 10_000),
    ("FDR", 13_636),
    ("EDR", 25_000),
    ("HDR", 50_000),
    ("NDR", 100_000),
    ("XDR", 200_000),
];

pub const BYTES_PER_MBIT: f64 = 125_000.0;

/// Mbit/s each way, of a link such as `4X` `EDR`; none where nobody knows.
pub fn mbit_per_s(width: &str, speed: &str) -> Option<u32> {
    let lanes = width.strip_suffix(['x', 'X'])?;
    let lanes: u32 = lanes
        .parse()
        .ok()
        .filter(|lanes| (1..=16).contains(lanes))?;
    let (_, mbit) = SPEEDS.iter().find(|(name, _)| *name == speed)?;
    Some(lanes * mbit)
}

/// Adds a counter that may stand at its end, `top`. `part`: each begins anew by itself, since somebody may clear errors and leave the rest.
pub fn count(
    reading: &mut Reading,
    part: &str,
    name: &'static str,
    raw: u64,
    top: u64,
    scale: u32,
) {
    let range = match top {
        u64::MAX => Range::Bits64,
        top => Range::UpTo(top),
    };
    reading.part(part);
    reading.counter(name, raw, range, scale);
}

/// So many times a link's bandwidth is more than it can have moved, though it was faster before, or some reads are missing.
const IMPOSSIBLE: f64 = 16.0;
/// What no link moves, bytes a second: 12X XDR.
const FASTEST: f64 = 300e9;

/// Adds what is told of the link itself, and what it can move at most; `bandwidth`: bytes a second each way, 0 where it is down.
pub fn describe(reading: &mut Reading, bandwidth: Option<f64>) {
    let at_end = |value: &&Value| matches!(value.what, What::Counter { raw, range, .. } if range == Range::UpTo(raw));
    let known = bandwidth.filter(|known| *known > 0.0);
    reading.bytes_per_s_max = Some(IMPOSSIBLE * known.unwrap_or(FASTEST));
    let saturated = reading.values.iter().filter(at_end).count();
    reading.part("");
    reading.gauge("saturated_counters", saturated as f64);
    if let Some(bandwidth) = bandwidth {
        reading.gauge("bandwidth_bytes_per_s", bandwidth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_its_lanes_data() {
        for (width, speed, expected) in [
            ("4x", "SDR", Some(8_000)),
            ("4X", "QDR", Some(32_000)),
            ("1X", "FDR10", Some(10_000)),
            ("4X", "FDR", Some(54_544)),
            ("4X", "EDR", Some(100_000)),
            ("12X", "HDR", Some(600_000)),
            ("2x", "NDR", Some(200_000)),
            ("4x", "???", None),
            ("??", "EDR", None),
            ("x", "EDR", None),
            ("0X", "EDR", None),
            ("-4X", "EDR", None),
            ("99999999999X", "EDR", None),
        ] {
            assert_eq!(mbit_per_s(width, speed), expected, "{width} {speed}");
        }
    }
}
