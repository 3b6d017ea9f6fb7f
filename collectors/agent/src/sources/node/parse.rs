//! The texts of /proc that say what the machine as a whole does.

use crate::sources::samples::reading::{Found, Range, Reading};
use crate::sources::samples::text::{decimal, lines, number, quote, words};

/// In the order of the first line of /proc/stat; kernels before 2.6.11 have the first seven. What guests ran is in `cpu_user_ns`.
const PROCESSOR_TIMES: [&str; 8] = [
    "cpu_user_ns",
    "cpu_nice_ns",
    "cpu_system_ns",
    "cpu_idle_ns",
    "cpu_iowait_ns",
    "cpu_irq_ns",
    "cpu_softirq_ns",
    "cpu_steal_ns",
];
const PROCESSOR_TIMES_MIN: usize = 7;

const MEMORY: [(&[u8], &str); 10] = [
    (b"MemTotal:", "memory_total_bytes"),
    (b"MemFree:", "memory_free_bytes"),
    (b"MemAvailable:", "memory_available_bytes"),
    (b"Buffers:", "memory_buffers_bytes"),
    (b"Cached:", "memory_cached_bytes"),
    (b"Dirty:", "memory_dirty_bytes"),
    (b"Writeback:", "memory_writeback_bytes"),
    (b"Slab:", "memory_slab_bytes"),
    (b"SwapTotal:", "swap_total_bytes"),
    (b"SwapFree:", "swap_free_bytes"),
];

/// `/proc/stat`: the line of all processors. Idle and waiting times may go back a little (proc(5)).
pub fn processors(text: &[u8], ns_per_tick: u32, reading: &mut Reading, found: &mut Found) {
    let mut of_all = lines(text).filter(|(_, line, _)| line.starts_with(b"cpu "));
    let line = of_all.next().filter(|(_, _, is_whole)| *is_whole);
    let times = line.and_then(|(_, line, _)| {
        let times = words(line).skip(1).take(PROCESSOR_TIMES.len());
        times.map(number).collect::<Option<Vec<u64>>>()
    });
    let Some(times) = times.filter(|times| times.len() >= PROCESSOR_TIMES_MIN) else {
        let said = line.map_or("none".into(), |(_, line, _)| quote(line));
        return found.error(|| format!("/proc/stat: expected a line `cpu` with {PROCESSOR_TIMES_MIN} numbers or more, found {said}; look at it with: head -1 /proc/stat"));
    };
    for (name, ticks) in PROCESSOR_TIMES.iter().zip(times) {
        reading.counter(*name, ticks, Range::Unsteady, ns_per_tick);
    }
}

/// `/proc/loadavg`: `0.52 0.58 0.59 1/467 12345`
pub fn load(text: &[u8], reading: &mut Reading, found: &mut Found) {
    let all: Vec<&[u8]> = words(text).collect();
    let parsed = match all[..] {
        [one, five, fifteen, tasks, _] if text.ends_with(b"\n") => {
            let mut parts = tasks.splitn(2, |b| *b == b'/').map(number);
            let (running, tasks) = (parts.next().flatten(), parts.next().flatten());
            [one, five, fifteen]
                .map(decimal)
                .into_iter()
                .chain([running, tasks].map(|n| n.map(|n| n as f64)))
                .collect::<Option<Vec<f64>>>()
        }
        _ => None,
    };
    let Some(values) = parsed else {
        return found.error(|| format!("/proc/loadavg: expected `0.52 0.58 0.59 1/467 12345`, found {}; look at it with: cat /proc/loadavg", quote(text)));
    };
    let names = ["load_1m", "load_5m", "load_15m", "tasks_running", "tasks"];
    for (name, value) in names.into_iter().zip(values) {
        reading.gauge(name, value);
    }
}

/// `/proc/meminfo`: lines like `MemTotal:  24684096 kB`
pub fn memory(text: &[u8], reading: &mut Reading, found: &mut Found) {
    for (row, line, is_whole) in lines(text) {
        let mut words = words(line);
        let head = words.next().unwrap_or_default();
        let Some((_, name)) = MEMORY.iter().find(|(own, _)| *own == head) else {
            continue;
        };
        let kib = words.next().and_then(number).filter(|_| is_whole);
        let (Some(kib), Some(b"kB"), None) = (kib, words.next(), words.next()) else {
            found.error(|| format!("/proc/meminfo: line {row}: expected a number and kB, found {}; look at it with: cat /proc/meminfo", quote(line)));
            continue;
        };
        reading.gauge(*name, kib as f64 * 1024.0);
    }
}

/// `/proc/pressure/io`: lines like `some avg10=0.00 avg60=0.00 avg300=0.00 total=8712345`, in microseconds.
pub fn pressure(text: &[u8], reading: &mut Reading, found: &mut Found) {
    for (row, line, is_whole) in lines(text) {
        let mut words = words(line);
        let name = match words.next() {
            Some(b"some") => "io_pressure_some_ns",
            Some(b"full") => "io_pressure_full_ns",
            _ => "",
        };
        let total = words.find_map(|word| word.strip_prefix(b"total="));
        match total.and_then(number) {
            Some(us) if is_whole && !name.is_empty() => {
                reading.counter(name, us, Range::Bits64, 1000)
            }
            _ => found.error(|| format!("/proc/pressure/io: line {row}: expected some or full and total=, found {}; look at it with: cat /proc/pressure/io", quote(line))),
        }
    }
}
