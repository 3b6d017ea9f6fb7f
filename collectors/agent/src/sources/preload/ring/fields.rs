//! The fields of a `run` event.

use crate::event;
use tracepack::record::{
    latency_bucket, Op, Run, LATENCY_BOUNDS_NS, LATENCY_BUCKETS, OP_NAMES, UNSEEN_WHY,
};
use tracepack::ring::{file_id, read, SLOTS};

/// The fields that all runs of a process share, as its ring says.
pub fn claims_of(view: &read::HeaderView, uid: u32, process: &str) -> Vec<u8> {
    let job =
        Some(view.job()).filter(|j| !j.is_empty() && j.iter().all(|b| (b' '..=b'~').contains(b)));
    claims(job, uid, process, view.parent_pid(), view.rank())
}

/// The same, from what is known. `parent` 0 and `rank` below 0: none.
pub fn claims(job: Option<&[u8]>, uid: u32, process: &str, parent: u32, rank: i32) -> Vec<u8> {
    let mut out = Vec::new();
    event::text(&mut out, "layer", Some(b"compute"));
    event::text(&mut out, "source", Some(b"preload"));
    event::text(&mut out, "job", job);
    event::integer(&mut out, "uid", uid.into());
    event::text(&mut out, "process", Some(process.as_bytes()));
    match parent {
        0 => event::text(&mut out, "parent", None),
        pid => event::integer(&mut out, "parent", pid.into()),
    }
    match rank {
        0.. => event::integer(&mut out, "rank", rank.into()),
        _ => event::text(&mut out, "rank", None),
    }
    out
}

/// A path's last part, as JSON; of a path in JSON.
pub fn base_name(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => [b"\"", &path[slash + 1..]].concat(),
        None => path.to_vec(),
    }
}

/// Whether a run can be true: its numbers fit a record and its operation is one.
pub fn is_sane(run: &Run) -> bool {
    let max = i64::MAX as u64;
    (1..OP_NAMES.len()).contains(&run.op.into())
        && run.count > 0
        && [run.count, run.bytes, run.size].iter().all(|&v| v <= max)
        && run.slow_count() <= run.count
        && (run.slot as usize) < SLOTS
}

/// A run's times: UTC and spans, ns.
pub struct Times {
    pub start: i64,
    pub end: i64,
    pub busy: i64,
    pub slow: i64,
    pub latency: [u64; LATENCY_BUCKETS],
}

/// The latency histogram of a run whose slowest operation took `slow_ns`, in the agent's reckoning: the program's own differs from it by
/// up to 0.2 %, so the highest bucket may not be that one's.
pub fn latency(run: &Run, slow_ns: i64) -> [u64; LATENCY_BUCKETS] {
    let mut counts = run.histogram();
    let slowest = latency_bucket(slow_ns as u64, &LATENCY_BOUNDS_NS);
    let top = counts.iter().rposition(|&n| n > 0).unwrap_or(slowest);
    // From above, all lie below the slowest; from below, at least that one itself does not.
    let moved = if top > slowest { counts[top] } else { 1 };
    if top != slowest {
        counts[top] -= moved;
        counts[slowest] += moved;
    }
    counts
}

/// Writes the fields of a `run` event; `program` and `path`: as JSON.
pub fn write_run(
    out: &mut Vec<u8>,
    claims: &[u8],
    program: &[u8],
    run: &Run,
    path: Option<&[u8]>,
    times: &Times,
) {
    let own = match run.op == Op::Unseen as u8 {
        // -1: several were folded into one, whose reasons are gone.
        true => (-1, run.handle.max(0) & UNSEEN_WHY),
        false => (run.handle.into(), run.flags.into()),
    };
    write_fields(out, claims, program, run, own, path, times);
}

/// The same with another handle and other flags than the run's own: those of other sources may be wider.
pub fn write_fields(
    out: &mut Vec<u8>,
    claims: &[u8],
    program: &[u8],
    run: &Run,
    (handle, flags): (i64, i32),
    path: Option<&[u8]>,
    times: &Times,
) {
    let whole = |v: u64| v.min(i64::MAX as u64) as i64;
    out.extend_from_slice(claims);
    event::name(out, "program");
    out.extend_from_slice(program);
    event::text(out, "op", Some(Op::name(run.op).unwrap_or("").as_bytes()));
    event::name(out, "file");
    out.extend_from_slice(path.unwrap_or(b"null"));
    event::name(out, "file_id");
    if run.file == 0 {
        out.extend_from_slice(b"null");
    } else {
        out.push(b'"');
        event::hex(out, run.file);
        out.push(b'"');
    }
    event::integer(out, "handle", handle);
    event::integer(out, "offset", whole(run.offset));
    event::integer(out, "stride", run.stride);
    event::integer(out, "size", whole(run.size));
    event::integer(out, "count", whole(run.count));
    event::integer(out, "bytes", whole(run.bytes));
    event::integer(out, "start", times.start);
    event::integer(out, "end", times.end);
    event::integer(out, "busy_ns", times.busy);
    event::integer(out, "slow_ns", times.slow);
    event::integer(out, "errno", run.errno.into());
    event::integer(out, "flags", flags.into());
    // Where all are in the slowest one's bucket, that says it already.
    if times.latency.iter().filter(|&&n| n > 0).count() > 1 {
        event::name(out, "latency");
        event::list(out, &times.latency);
    }
}

/// Writes a `run` event that says why the calls of the program at `path` cannot be seen, found at `at` (UTC, ns).
pub fn write_unseen(out: &mut Vec<u8>, claims: &[u8], path: &[u8], why: i32, at: i64) {
    let mut json = Vec::new();
    event::string(&mut json, path);
    let run = Run {
        file: file_id(path),
        op: Op::Unseen as u8,
        count: 1,
        handle: why,
        ..Run::default()
    };
    let times = Times {
        start: at,
        end: at,
        busy: 0,
        slow: 0,
        latency: [0; LATENCY_BUCKETS],
    };
    write_run(out, claims, &base_name(&json), &run, Some(&json), &times);
}
