//! A log's cursor in the spool: where reading has come to, the handles, the open runs, and the closed ones that the batch had no room for.
//!
//! A block is: length and path of the log, its place, the places of the two tables that changed (all of them where all is asked
//! for), the closed runs. Numbers are little-endian.

use super::runs::{Named, OpenRun, Stream, NO_HANDLE};
use super::tail::Place;
use super::trace::Trace;
use crate::sources::preload::ring::fields::is_sane;
use std::rc::Rc;
use tracepack::record::Run;

/// Instead of a path's length: there is none.
const NO_PATH: u16 = u16::MAX;

/// Appends a log's block.
pub fn write(out: &mut Vec<u8>, log: &[u8], place: &Place, trace: &Trace, all: bool) {
    bytes(out, Some(log));
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
    u64(out, trace.clock.last_s() as u64);
    out.extend_from_slice(&print_bytes.to_le_bytes());
    out.push(skipping as u8);
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

/// Takes blocks apart.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|a| a[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Option<&[u8]>> {
        let length = match self.u16()? {
            NO_PATH => return Some(None),
            length => length as usize,
        };
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(bytes))
    }

    fn named(&mut self) -> Option<Option<Rc<Named>>> {
        Some(self.bytes()?.and_then(Named::new))
    }

    fn run(&mut self) -> Option<(Stream, OpenRun)> {
        let handle = self.u64()?;
        let (errno, op, flags) = (self.u16()?, self.u8()?, self.u8()?);
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = self.u64()?;
        }
        let file = self.named()?;
        let id = file.as_ref().map_or(0, |file| file.id);
        let [offset, stride, size, count, bytes, start, end] = numbers;
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

    /// Reads a section, calling `each` with the place and what it holds.
    fn section<T>(
        &mut self,
        mut content: impl FnMut(&mut Self) -> Option<T>,
        mut each: impl FnMut(u32, Option<T>),
    ) -> Option<()> {
        for _ in 0..self.u32()? {
            let place = self.u32()?;
            let held = match self.u8()? {
                0 => None,
                _ => Some(content(self)?),
            };
            each(place, held);
        }
        Some(())
    }

    /// The path of the log whose block comes next.
    pub fn log(&mut self) -> Option<Vec<u8>> {
        self.bytes()?.map(<[u8]>::to_vec)
    }

    /// What follows a log's path. `None`: it breaks off.
    pub fn state(&mut self, trace: &mut Trace) -> Option<Place> {
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = self.u64()?;
        }
        let [inode, offset, size, modified_ns, print] = numbers;
        trace.clock.resume(self.u64()? as i64);
        let (print_bytes, skipping) = (self.u32()?, self.u8()? != 0);
        let handles = &mut trace.handles;
        self.section(
            |r| Some((r.u64()?, r.named()?)),
            |place, held| {
                handles.restore(place, held);
            },
        )?;
        let runs = &mut trace.runs;
        self.section(Reader::run, |place, held| {
            runs.table.restore(place, held);
        })?;
        runs.closed.clear();
        self.section(Reader::run, |_, held| runs.closed.extend(held))?;
        Some(Place {
            inode,
            offset,
            size,
            modified_ns: modified_ns as i64,
            print_bytes,
            print,
            skipping,
        })
    }
}
