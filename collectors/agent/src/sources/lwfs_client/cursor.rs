//! A log's cursor in the spool: where reading has come to, the handles, the open runs, and the closed ones that the batch had no room for.
//!
//! A block is: length and path of the log, its place, how far its lines are counted, the places of the two tables that changed (all of
//! them where all is asked for), the closed runs. Numbers are little-endian.

use super::runs::{Named, OpenRun, Stream, NO_HANDLE};
use super::table::PLACES_MAX;
use super::trace::Trace;
use crate::sources::cursors::Reader;
use crate::sources::log_file::place::Place;
use crate::sources::preload::ring::fields::is_sane;
use std::rc::Rc;
use tracepack::record::Run;

/// Instead of a path's length: there is none.
const NO_PATH: u16 = u16::MAX;

/// Bits: the place lies in a line that is passed over; how far lines are counted is told (earlier agents did not).
const SKIPPING: u8 = 1;
const COUNTED: u8 = 2;

/// Appends a log's cursor, but for its path.
pub fn write(out: &mut Vec<u8>, place: &Place, trace: &Trace, all: bool) {
    let Place {
        inode,
        offset,
        size,
        modified_ns,
        print_bytes,
        print,
        skipping,
    } = *place;
    for number in [inode, offset, size, modified_ns as u64, print] {
        u64(out, number);
    }
    u64(out, trace.resume_s() as u64);
    out.extend_from_slice(&print_bytes.to_le_bytes());
    out.push(COUNTED | (skipping as u8 * SKIPPING));
    u64(out, trace.counted_to);
    section(out, trace.handles.spoolable(all), |out, (handle, file)| {
        u64(out, *handle);
        named(out, file);
    });
    section(
        out,
        trace.runs.table.spoolable(all),
        |out, (stream, open)| {
            run(out, stream, open);
        },
    );
    let closed = trace
        .runs
        .closed
        .iter()
        .map(|(stream, open)| (0, Some((stream, open))));
    section(out, closed, |out, (stream, open)| run(out, stream, open));
}

/// How many, then the place of each and what it holds.
fn section<T>(
    out: &mut Vec<u8>,
    places: impl Iterator<Item = (u32, Option<T>)>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0u32;
    for (place, content) in places {
        count += 1;
        out.extend_from_slice(&place.to_le_bytes());
        out.push(content.is_some() as u8);
        if let Some(content) = content {
            write(out, content);
        }
    }
    out[at..at + 4].copy_from_slice(&count.to_le_bytes());
}

fn u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let bytes = bytes.filter(|b| b.len() < NO_PATH as usize);
    let length = bytes.map_or(NO_PATH, |b| b.len() as u16);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn named(out: &mut Vec<u8>, file: &Option<Rc<Named>>) {
    bytes(out, file.as_ref().map(|file| &file.path[..]));
}

fn run(out: &mut Vec<u8>, stream: &Stream, open: &OpenRun) {
    u64(out, stream.handle);
    out.extend_from_slice(&stream.errno.to_le_bytes());
    out.push(stream.op);
    let run = &open.run;
    out.push(run.flags as u8);
    for number in [
        run.offset,
        run.stride as u64,
        run.size,
        run.count,
        run.bytes,
        run.start,
        run.end,
    ] {
        u64(out, number);
    }
    named(out, &open.file);
}

fn read_bytes<'a>(r: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    match r.u16()? {
        NO_PATH => Some(None),
        length => r.take(length as usize).map(Some),
    }
}

fn read_named(r: &mut Reader) -> Option<Option<Rc<Named>>> {
    Some(read_bytes(r)?.and_then(Named::new))
}

fn read_run(r: &mut Reader) -> Option<(Stream, OpenRun)> {
    let handle = r.u64()?;
    let (errno, op, flags) = (r.u16()?, r.u8()?, r.u8()?);
    let [offset, stride, size, count, bytes, start, end] = r.u64s()?;
    let file = read_named(r)?;
    let id = file.as_ref().map_or(0, |file| file.id);
    let stream = Stream {
        handle,
        file: if handle == NO_HANDLE { id } else { 0 },
        errno,
        op,
    };
    let run = Run {
        file: id,
        offset,
        stride: stride as i64,
        size,
        count,
        bytes,
        start,
        end,
        handle: -1,
        errno,
        op,
        flags: flags.into(),
        ..Run::default()
    };
    is_sane(&run).then_some((stream, OpenRun { run, file }))
}

/// Places of a table and what each holds.
type Places<T> = Vec<(u32, Option<T>)>;

fn read_section<T>(
    r: &mut Reader,
    mut content: impl FnMut(&mut Reader) -> Option<T>,
) -> Option<Places<T>> {
    let mut places = Vec::new();
    for _ in 0..r.u32()? {
        let place = r.u32()?;
        if place as usize > PLACES_MAX {
            return None;
        }
        let held = match r.u8()? {
            0 => None,
            _ => Some(content(r)?),
        };
        places.push((place, held));
    }
    Some(places)
}

/// Gives a trace back what follows a log's path, and answers the place. `None`: it breaks off or makes no sense, and the trace is as it was.
pub fn state(r: &mut Reader, trace: &mut Trace) -> Option<Place> {
    let [inode, offset, size, modified_ns, print, last_s] = r.u64s()?;
    let (print_bytes, flags) = (r.u32()?, r.u8()?);
    let counted_to = match flags & COUNTED {
        0 => 0,
        _ => r.u64()?,
    };
    let handles = read_section(r, |r| Some((r.u64()?, read_named(r)?)))?;
    let runs = read_section(r, read_run)?;
    let closed = read_section(r, read_run)?;

    trace.clock.resume(last_s as i64);
    trace.counted_to = counted_to;
    for (place, held) in handles {
        trace.handles.restore(place, held);
    }
    for (place, held) in runs {
        trace.runs.table.restore(place, held);
    }
    trace.runs.closed.clear();
    let closed = closed.into_iter().filter_map(|(_, held)| held);
    trace.runs.closed.extend(closed);
    Some(Place {
        inode,
        offset,
        size,
        modified_ns: modified_ns as i64,
        print_bytes,
        print,
        skipping: flags & SKIPPING != 0,
    })
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
