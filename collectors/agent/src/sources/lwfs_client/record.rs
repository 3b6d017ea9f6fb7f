//! A record of a log's operations.

use super::runs::{OpenRun, Stream, NO_HANDLE};
use crate::event;
use crate::sources::preload::ring::fields::{write_fields, Times};
use tracepack::record::Run;

/// A log's times are to the second: what was logged in one was over by its end.
const GRAIN_NS: u64 = 1_000_000_000;

/// The fields of a run's event.
pub fn write(out: &mut Vec<u8>, stream: &Stream, open: &OpenRun) {
    const CLAIMS: &[u8] = b",\"layer\":\"compute\",\"source\":\"lwfs_client\",\"job\":null,\"uid\":null,\"process\":\"node\",\
        \"parent\":null,\"rank\":null";
    let run: &Run = &open.run;
    let path = open.file.as_ref().map(|file| {
        let mut json = Vec::new();
        event::string(&mut json, &file.path);
        json
    });
    let handle = match stream.handle {
        NO_HANDLE => -1,
        handle => handle as i64,
    };
    let times = Times {
        start: run.start as i64,
        end: run.end.saturating_add(GRAIN_NS) as i64,
        busy: 0,
        slow: 0,
        latency: run.histogram(),
    };
    let own = (handle, run.flags.into());
    write_fields(out, CLAIMS, b"\"\"", run, own, path.as_deref(), &times);
}
