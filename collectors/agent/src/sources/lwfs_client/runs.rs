//! The open runs of a log, and the handles that its opens named.
//!
//! The first pass of the preload library keeps a few runs in fixed places; a node's log has hundreds of handles at once, each a
//! pointer of 64 bits, so runs are looked up here by their stream. Whether an operation goes into a run is decided in one place
//! for both, `Run::takes`.

use super::table::{Table, Weigh};
use std::collections::VecDeque;
use std::rc::Rc;
use tracepack::record::{Operation, Run};
use tracepack::ring::file_id;

/// Longest path that is kept, bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// The handle of operations that have none.
pub const NO_HANDLE: u64 = u64::MAX;
/// Sums stay below this, so that a record can bear them.
const SUM_MAX: u64 = i64::MAX as u64;

/// A file's path and its id.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub path: Box<[u8]>,
    pub id: u64,
}

impl Named {
    /// `None`: it is no absolute path, or longer than any can be.
    pub fn new(path: &[u8]) -> Option<Rc<Named>> {
        let is_path = path.first() == Some(&b'/') && path.len() <= PATH_BYTES_MAX;
        (is_path && !path.contains(&0)).then(|| {
            Rc::new(Named {
                path: path.into(),
                id: file_id(path),
            })
        })
    }
}

/// Where operations may merge. Those of one stream but of other files (a handle was given anew) do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    pub handle: u64,
    /// The file's id where there is no handle, else 0.
    pub file: u64,
    pub errno: u16,
    pub op: u8,
}

/// Operations that merged.
#[derive(Debug)]
pub struct OpenRun {
    pub run: Run,
    pub file: Option<Rc<Named>>,
}

impl Weigh for OpenRun {
    fn weigh(&self) -> usize {
        self.file.weigh()
    }
}

impl Weigh for Option<Rc<Named>> {
    fn weigh(&self) -> usize {
        self.as_ref().map_or(0, |file| file.path.len())
    }
}

/// What handles stand for; when there are too many, the one that was opened longest ago is forgotten.
pub type Handles = Table<u64, Option<Rc<Named>>>;

/// Owned by one log; bounded in bytes: when there are too many runs, the one that was used longest ago is closed.
pub struct OpenRuns {
    pub table: Table<Stream, OpenRun>,
    /// Closed, to be written; a line closes a few, and the next one is read when they are written.
    pub closed: VecDeque<(Stream, OpenRun)>,
    window_ns: u64,
    /// Operations since it was last looked for runs whose window is over.
    since_look: usize,
    looked_ns: u64,
    /// When the last operation was.
    now_ns: u64,
}

impl OpenRuns {
    pub fn new(window_ns: u64, bytes_max: usize) -> OpenRuns {
        OpenRuns {
            table: Table::new(bytes_max),
            closed: VecDeque::new(),
            window_ns,
            since_look: 0,
            looked_ns: 0,
            now_ns: 0,
        }
    }

    /// Records `count` operations, of which `o` is the first and each of the others continues where the one before ended, if the
    /// stream's open run takes them for its own file. False: it does not.
    #[inline]
    pub fn extend(&mut self, stream: &Stream, o: Operation, count: u64) -> bool {
        let Some(open) = self.table.use_mut(stream) else {
            return false;
        };
        let o = Operation {
            file: open.run.file,
            ..o
        };
        add(&mut open.run, &o, count, self.window_ns)
    }

    /// Records them in any case.
    pub fn record(&mut self, stream: Stream, o: &Operation, count: u64, file: Option<&Rc<Named>>) {
        if let Some(open) = self.table.use_mut(&stream) {
            if add(&mut open.run, o, count, self.window_ns) {
                return;
            }
        }
        self.begin(stream, o, count - 1, file);
    }

    fn begin(&mut self, stream: Stream, o: &Operation, more: u64, file: Option<&Rc<Named>>) {
        let mut run = Run::of(o);
        if more > 0 {
            run.stride = o.size as i64;
            run.count += more;
            run.bytes += more * o.size;
        }
        let file = file.cloned();
        if let Some(before) = self.table.insert(stream, OpenRun { run, file }) {
            self.closed.push_back((stream, before));
        }
        self.fit();
    }

    /// Closes what is beyond the bound.
    pub fn fit(&mut self) {
        while self.table.is_over() {
            self.closed.extend(self.table.pop_oldest());
        }
    }

    /// Closes the runs of one stream.
    pub fn close(&mut self, stream: &Stream) {
        let run = self.table.remove(stream);
        self.closed.extend(run.map(|run| (*stream, run)));
    }

    /// An operation is at `now_ns`: closes the runs that none from now on can go into. That is looked for so seldom that it costs
    /// no more than the operations do.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.since_look += 1;
        self.now_ns = now_ns;
        if now_ns != self.looked_ns && self.since_look >= self.table.count() {
            self.close_over();
        }
    }

    /// Closes all runs whose window is over.
    pub fn close_over(&mut self) {
        let now_ns = self.now_ns;
        (self.looked_ns, self.since_look) = (now_ns, 0);
        let window_ns = self.window_ns;
        let is_over =
            |_: &Stream, open: &OpenRun| open.run.start.saturating_add(window_ns) < now_ns;
        let mut from = 0;
        while let Some((next, stream, run)) = self.table.take_next(from, is_over) {
            self.closed.push_back((stream, run));
            from = next;
        }
    }

    /// Closes all.
    pub fn close_all(&mut self) {
        while let Some(run) = self.table.pop_oldest() {
            self.closed.push_back(run);
        }
    }
}

/// Adds operations to a run if it takes them.
#[inline]
fn add(run: &mut Run, o: &Operation, count: u64, window_ns: u64) -> bool {
    let more = count - 1;
    let fits = run.count <= SUM_MAX - count
        && o.size
            .checked_mul(count)
            .is_some_and(|b| run.bytes <= SUM_MAX - b)
        && (more == 0 || goes_on(run, o));
    let takes = fits && run.takes(o, window_ns);
    if takes {
        run.extend(o);
        run.count += more;
        run.bytes += more * o.size;
    }
    takes
}

/// Whether a contiguous run that begins with `o` can go into `run`: its stride must be the same.
fn goes_on(run: &Run, o: &Operation) -> bool {
    match run.count {
        1 => o.offset.wrapping_sub(run.offset) == o.size,
        _ => run.stride as u64 == o.size,
    }
}
