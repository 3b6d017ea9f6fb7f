//! Blocks of the second pass for Python: columns as buffers in, and as bytes out.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::borrow::Cow;
use std::ffi::c_int;
use tracepack::record::OP_NAMES;
use tracepack::second_pass::block::{self, Frame, Plan, Primer, Refused};
use tracepack::second_pass::file_set::FileSet;
use tracepack::second_pass::grid::{Bins, Grid};
use tracepack::second_pass::head::Precision;
use tracepack::second_pass::table::{
    Numbers, Strings, Table, Texts, Wanted, NO_CODE, NUMBERS, TEXTS,
};
use tracepack::second_pass::Damage;

pyo3::create_exception!(
    _native,
    DamagedError,
    PyValueError,
    "A block is damaged: what is wrong with it."
);
pyo3::create_exception!(
    _native,
    TooMuchError,
    PyValueError,
    "More records, or longer texts, than a block may have."
);

/// What blocks of one archive share. See tracepack/_native.pyi.
#[pyclass(frozen, name = "Primer")]
pub struct PyPrimer(Primer);

#[pymethods]
impl PyPrimer {
    #[new]
    fn new(py: Python<'_>, block: &[u8]) -> PyResult<Self> {
        py.detach(|| Primer::read(block)).map(Self).map_err(damaged)
    }
}

/// Which files a block has. See tracepack/_native.pyi.
#[pyclass(frozen, eq, name = "FileSet")]
#[derive(PartialEq)]
pub struct PyFileSet(FileSet);

#[pymethods]
impl PyFileSet {
    fn may_have(&self, path: &[u8]) -> bool {
        self.0.may_have(path)
    }
}

fn damaged(damage: Damage) -> PyErr {
    DamagedError::new_err(damage.to_string())
}

/// A buffer of a column that nobody can write to: it is read while other threads of Python run.
struct Held<T: Element>(PyBuffer<T>);

impl<T: Element> Held<T> {
    fn new(given: &Bound<'_, PyAny>, size: usize) -> PyResult<Self> {
        let buffer = PyBuffer::<T>::get(given)?;
        if !buffer.is_c_contiguous() || buffer.item_count() != size {
            return Err(PyValueError::new_err(format!(
                "a column has {} values, not {size} on end",
                buffer.item_count()
            )));
        }
        if !buffer.readonly() {
            return Err(PyBufferError::new_err(
                "a column is a buffer that can be written to, while others may run: give one that is read-only",
            ));
        }
        Ok(Self(buffer))
    }

    fn values(&self) -> &[T] {
        if self.0.item_count() == 0 {
            return &[];
        }
        // SAFETY: `new` has seen that the values lie on end, aligned, of this type, and not to be written to; the buffer keeps them there.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.item_count()) }
    }
}

type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

struct HeldNumbers(Held<i64>, Option<Held<u8>>);

impl HeldNumbers {
    fn new(given: &Given, rows: usize, each: usize) -> PyResult<Self> {
        let valid = given
            .1
            .as_ref()
            .map(|valid| Held::new(valid, rows))
            .transpose()?;
        Ok(Self(Held::new(&given.0, rows * each)?, valid))
    }

    fn numbers(&self) -> Numbers<'_> {
        let valid = self.1.as_ref().map_or(&[][..], Held::values);
        Numbers {
            values: Cow::Borrowed(self.0.values()),
            valid: Cow::Borrowed(valid),
        }
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn encode_block<'py>(
    py: Python<'py>,
    rows: usize,
    numbers: Vec<Given<'py>>,
    texts: Vec<(Bound<'py, PyAny>, Vec<Bound<'py, PyString>>)>,
    latency: Option<Given<'py>>,
    bins: (i64, i64),
    precision: (u64, u64, bool),
    primer: Option<&PyPrimer>,
    lanes_before: usize,
    is_primer: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let count = |what, given, wanted| {
        PyValueError::new_err(format!("there are {given} columns of {what}, not {wanted}"))
    };
    if numbers.len() != NUMBERS.len() {
        return Err(count("numbers", numbers.len(), NUMBERS.len()));
    }
    if texts.len() != TEXTS.len() {
        return Err(count("texts", texts.len(), TEXTS.len()));
    }
    let held = numbers
        .iter()
        .map(|given| HeldNumbers::new(given, rows, 1))
        .collect::<PyResult<Vec<_>>>()?;
    let codes = texts
        .iter()
        .map(|(codes, _)| Held::<i32>::new(codes, rows))
        .collect::<PyResult<Vec<_>>>()?;
    let mut known = Vec::new();
    for (_, texts) in &texts {
        let mut all = Strings::default();
        for text in texts {
            all.push(text.to_cow()?.as_bytes());
        }
        known.push(all);
    }
    let latency = latency
        .map(|given| HeldNumbers::new(&given, rows, 8))
        .transpose()?;
    let mut table = Table {
        rows,
        latency: latency
            .as_ref()
            .map(HeldNumbers::numbers)
            .unwrap_or_default(),
        ..Table::default()
    };
    for (column, held) in table.numbers.iter_mut().zip(&held) {
        *column = held.numbers();
    }
    for ((column, codes), texts) in table.texts.iter_mut().zip(&codes).zip(known) {
        if codes
            .values()
            .iter()
            .any(|&code| code < NO_CODE || code >= texts.len() as i32)
        {
            return Err(PyValueError::new_err(
                "a column has texts that are not there",
            ));
        }
        *column = Texts {
            codes: Cow::Borrowed(codes.values()),
            texts,
        };
    }
    let (from, width) = bins;
    let plan = Plan {
        precision: Precision {
            time: precision.0,
            offset: precision.1,
            handles: precision.2,
        },
        bins: Bins {
            from,
            width: width.max(1),
        },
        primer: primer.map(|primer| &primer.0),
        lanes_before,
        is_primer,
    };
    let packed = py.detach(|| block::encode(&table, &plan));
    let packed = packed.map_err(|refused| match refused {
        Refused::TooMuch(why) => TooMuchError::new_err(why),
        Refused::Wrong(why) => PyValueError::new_err(why),
    })?;
    Ok(PyBytes::new(py, &packed))
}

/// A column that was read. Python has it as a buffer, without another copy.
#[pyclass(frozen, name = "Column")]
pub struct PyColumn(Values);

enum Values {
    Numbers(Vec<i64>),
    Codes(Vec<i32>),
    Bytes(Vec<u8>),
}

#[pymethods]
impl PyColumn {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes: &[u8] = match &slf.get().0 {
            Values::Numbers(values) => bytes(values),
            Values::Codes(values) => bytes(values),
            Values::Bytes(values) => values,
        };
        // SAFETY: the bytes stay where they are as long as the column lives, which the view holds; they are told to be read only.
        let filled = unsafe {
            pyo3::ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr() as *mut _,
                bytes.len() as isize,
                1,
                flags,
            )
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

/// Values, and unless all are there a bit each, as Arrow has them: 0 where null.
type Read = (Py<PyColumn>, Option<Py<PyColumn>>);
/// Which numbers, texts and whether latency is wanted, and of which file.
type Chosen = (
    [bool; NUMBERS.len()],
    [bool; TEXTS.len()],
    bool,
    Option<Vec<u8>>,
);
/// Codes, as `Read`; and of the texts that they stand for where each ends, behind a 0, and all of them on end.
type ReadTexts = (Read, Py<PyColumn>, Py<PyColumn>);
type ReadTable = (usize, Vec<Read>, Vec<ReadTexts>, Option<Read>);

#[pyfunction]
#[pyo3(signature = (packed, primer=None, chosen=None))]
pub fn decode_block(
    py: Python<'_>,
    packed: &[u8],
    primer: Option<&PyPrimer>,
    chosen: Option<Chosen>,
) -> PyResult<ReadTable> {
    let wanted = chosen.as_ref().map_or(Wanted::ALL, |chosen| Wanted {
        file: chosen.3.as_deref(),
        numbers: chosen.0,
        texts: chosen.1,
        latency: chosen.2,
    });
    let table = py
        .detach(|| block::decode_some(packed, primer.map(|primer| &primer.0), &wanted))
        .map_err(damaged)?;
    let column = |values: Values| Py::new(py, PyColumn(values));
    let bits = |valid: Option<Vec<u8>>| valid.map(|bits| column(Values::Bytes(bits))).transpose();
    let read = |numbers: Numbers| {
        let valid = (!numbers.valid.is_empty()).then(|| bits_where(&numbers.valid, |&is| is != 0));
        let values = Values::Numbers(numbers.values.into_owned());
        PyResult::Ok((column(values)?, bits(valid)?))
    };
    let mut texts = Vec::new();
    for Texts {
        codes,
        texts: known,
    } in table.texts
    {
        let (known, ends) = known.into_parts();
        let ends = ends.into_iter().map(|end| end as i32).collect();
        let valid = codes
            .contains(&NO_CODE)
            .then(|| bits_where(&codes, |&code| code != NO_CODE));
        texts.push((
            (column(Values::Codes(codes.into_owned()))?, bits(valid)?),
            column(Values::Codes(ends))?,
            column(Values::Bytes(known))?,
        ));
    }
    let numbers = table
        .numbers
        .into_iter()
        .map(read)
        .collect::<PyResult<Vec<_>>>()?;
    let latency = (!table.latency.values.is_empty())
        .then(|| read(table.latency))
        .transpose()?;
    Ok((table.rows, numbers, texts, latency))
}

/// A bit for each value, the lowest of each byte first.
fn bits_where<T>(values: &[T], is: impl Fn(&T) -> bool) -> Vec<u8> {
    let byte = |values: &[T]| {
        let values = values.iter().rev();
        values.fold(0, |byte, value| byte << 1 | u8::from(is(value)))
    };
    values.chunks(8).map(byte).collect()
}

/// What a block is, by its beginning: see tracepack/_native.pyi.
#[pyfunction]
pub fn read_head<'py>(py: Python<'py>, block: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let frame = Frame::read(block).map_err(damaged)?;
    let head = frame.head(block).map_err(damaged)?;
    let zone = &head.zone;
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let texts = |bounds: &Option<(Vec<u8>, Vec<u8>)>| {
        bounds
            .as_ref()
            .map(|(least, largest)| (text(least), text(largest)))
    };
    let ops = PyDict::new(py);
    for (name, sums) in OP_NAMES
        .iter()
        .zip(&zone.sums)
        .filter(|(_, sums)| sums.records > 0)
    {
        ops.set_item(
            name,
            (
                sums.records,
                sums.operations,
                sums.bytes,
                sums.busy_ns,
                sums.errors,
            ),
        )?;
    }
    let told = PyDict::new(py);
    told.set_item("is_primer", frame.is_primer)?;
    told.set_item("is_primed", frame.is_primed)?;
    told.set_item("rows", head.rows)?;
    told.set_item("processes", head.lanes)?;
    told.set_item("bytes", frame.size())?;
    told.set_item("head_bytes", frame.head_size())?;
    let Precision {
        time,
        offset,
        handles,
    } = head.precision;
    told.set_item("precision", (time, offset, handles))?;
    told.set_item("start_ns", zone.start)?;
    told.set_item("end_ns", zone.end)?;
    told.set_item("nodes", texts(&zone.nodes))?;
    told.set_item("files", texts(&zone.files))?;
    told.set_item("ranks", zone.ranks)?;
    told.set_item("offsets", zone.offsets)?;
    told.set_item("ops", ops)?;
    let files = head.files.map(|files| Py::new(py, PyFileSet(files)));
    told.set_item("file_set", files.transpose()?)?;
    Ok(told)
}

/// Where in some bytes the first block begins from a place on that can be read as far as its fixed beginning; None: nowhere.
#[pyfunction]
pub fn find_block(py: Python<'_>, data: &[u8], from: usize) -> Option<usize> {
    py.detach(|| block::find(data, from))
}

/// The bins of an interval: (from_ns, width_ns).
#[pyfunction]
pub fn bins_over(from_ns: i64, until_ns: i64) -> (i64, i64) {
    let bins = Bins::over(from_ns, until_ns);
    (bins.from, bins.width)
}

type Grids = (
    (i64, i64),
    (Vec<String>, Vec<String>),
    Py<PyColumn>,
    Py<PyColumn>,
    Py<PyColumn>,
);

/// What the sums of several blocks are gathered in, column by column.
#[derive(Default)]
struct Gathered {
    bins: Option<Bins>,
    firsts: Vec<String>,
    lasts: Vec<String>,
    groups: Vec<i64>,
    places: Vec<i32>,
    cells: Vec<i64>,
}

impl Gathered {
    fn add(&mut self, grid: Grid) -> Result<(), Damage> {
        if *self.bins.get_or_insert(grid.bins) != grid.bins {
            return Err(Damage(
                "the blocks are not of one archive: their bins of time differ",
            ));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for group in grid.groups {
            for (bin, cell) in group.cells {
                self.places.extend([self.firsts.len() as i32, bin as i32]);
                self.cells.extend(cell);
            }
            self.firsts.push(text(&group.node));
            self.lasts.push(text(&group.last));
            let ranks = group.ranks.map_or([0; 3], |ranks| {
                let further = ranks.high.wrapping_sub(ranks.low) as u64;
                let count = (further - ranks.missing).saturating_add(1);
                [ranks.low, ranks.high, count.min(i64::MAX as u64) as i64]
            });
            self.groups
                .extend([group.processes as i64, group.nodes as i64]);
            self.groups.extend(ranks);
        }
        Ok(())
    }
}

/// The stored sums of some blocks, by their beginnings. See tracepack/_native.pyi.
#[pyfunction]
pub fn read_grids(py: Python<'_>, heads: Vec<Bound<'_, PyBytes>>) -> PyResult<Grids> {
    let texts: Vec<&[u8]> = heads.iter().map(|head| head.as_bytes()).collect();
    let gather = || -> Result<Gathered, Damage> {
        // One by one, so that what is there at once is what is asked for and a single head.
        let mut all = Gathered::default();
        for head in texts {
            all.add(Frame::read(head)?.head(head)?.grid)?;
        }
        Ok(all)
    };
    let all = py.detach(gather).map_err(damaged)?;
    let bins = all.bins.unwrap_or_default();
    let column = |values: Values| Py::new(py, PyColumn(values));
    Ok((
        (bins.from, bins.width),
        (all.firsts, all.lasts),
        column(Values::Numbers(all.groups))?,
        column(Values::Codes(all.places))?,
        column(Values::Numbers(all.cells))?,
    ))
}

/// Whole numbers as they lie in memory.
fn bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: whole numbers have no gaps, and any of their bytes is one.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
