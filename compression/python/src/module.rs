//! The module `tracepack._native`; what it gives Python is told in tracepack/_native.pyi.

use crate::block::{Block, Reader, Times};
use crate::bodies::bodies;
use crate::columns::{Column, Kind, Values, HISTOGRAM_BINS, NULL};
use crate::frames::{self, Bounds};
use crate::push;
use crate::second_pass::{
    bins_over, decode_block, encode_block, find_block, read_grids, read_head, DamagedError,
    PyColumn, PyFileSet, PyPrimer, TooMuchError,
};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

/// Reads records of one kind. See tracepack/__init__.py.
#[pyclass(frozen, name = "Reader")]
struct PyReader(Reader);

/// What `Reader.read` found in some payloads.
#[pyclass(frozen, name = "Block")]
struct PyBlock {
    block: Block,
    payloads: Vec<Py<PyBytes>>,
}

#[pymethods]
impl PyReader {
    #[new]
    fn new(kind: &str, fields: Vec<Bound<'_, PyDict>>) -> PyResult<Self> {
        let columns = fields.iter().map(field).collect::<PyResult<Vec<_>>>()?;
        let reader = Reader::new(kind, columns).map_err(|name| {
            PyValueError::new_err(format!("kind {kind} needs another field {name}"))
        })?;
        Ok(Self(reader))
    }

    fn read(
        &self,
        py: Python<'_>,
        payloads: Vec<Py<PyBytes>>,
        earliest_ns: i64,
        latest_ns: i64,
        longest_ns: i64,
        late_ns: i64,
    ) -> PyBlock {
        let times = Times {
            earliest: earliest_ns,
            latest: latest_ns,
            longest: longest_ns,
            late: late_ns,
        };
        let texts: Vec<&[u8]> = payloads
            .iter()
            .map(|payload| payload.as_bytes(py))
            .collect();
        let block = py.detach(|| self.0.read(texts.into_iter(), times));
        PyBlock { block, payloads }
    }
}

#[pymethods]
impl PyBlock {
    /// (first, count, node, boot, seq, late) of each span.
    fn spans<'py>(
        &self,
        py: Python<'py>,
    ) -> Vec<(usize, usize, Bound<'py, PyString>, u64, i64, usize)> {
        let block = &self.block;
        let boot = |row| block.columns[block.places.boot].number(row) as u64;
        let node = |row| text(py, block.columns[block.places.node].text(row));
        block
            .spans
            .iter()
            .map(|span| {
                (
                    span.first,
                    span.count,
                    node(span.row),
                    boot(span.row),
                    span.seq,
                    span.late,
                )
            })
            .collect()
    }

    /// A column of the records in some ranges (first payload, count): its values as bytes, 8 each, or codes of 4 with the texts
    /// that they are numbers of; and a byte for each, 0 where null, or None where none can be.
    #[allow(clippy::type_complexity)]
    fn column<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        ranges: Vec<(usize, usize)>,
    ) -> PyResult<(
        Bound<'py, PyBytes>,
        Option<Vec<Bound<'py, PyString>>>,
        Option<Bound<'py, PyBytes>>,
    )> {
        let column = self
            .block
            .columns
            .iter()
            .find(|column| *column.name == *name.as_bytes())
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let rows = self.rows(&ranges)?;
        let mut bytes = Vec::with_capacity(rows.len() * 8);
        let mut texts = None;
        match &column.values {
            Values::Numbers(numbers) => rows
                .iter()
                .for_each(|&row| bytes.extend(numbers[row].to_le_bytes())),
            Values::Histograms(bins) => {
                let of = |row: usize| &bins[row * HISTOGRAM_BINS..(row + 1) * HISTOGRAM_BINS];
                rows.iter().for_each(|&row| {
                    of(row)
                        .iter()
                        .for_each(|bin| bytes.extend(bin.to_le_bytes()))
                });
            }
            Values::Texts(known, codes) => {
                rows.iter().for_each(|&row| {
                    bytes.extend(
                        (if codes[row] == NULL {
                            -1
                        } else {
                            codes[row] as i32
                        })
                        .to_le_bytes(),
                    )
                });
                texts = Some(known.all().iter().map(|one| text(py, one)).collect());
            }
        }
        let valid = column.nullable.then(|| {
            PyBytes::new(
                py,
                &rows
                    .iter()
                    .map(|&row| u8::from(column.valid[row]))
                    .collect::<Vec<_>>(),
            )
        });
        Ok((PyBytes::new(py, &bytes), texts, valid))
    }

    /// The records in some ranges (first payload, count) as bodies of `_bulk`: (layer, day, payloads, body) of each.
    #[allow(clippy::type_complexity)]
    fn bulk<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(usize, usize)>,
        tail: &[u8],
        size: usize,
    ) -> PyResult<Vec<(Bound<'py, PyString>, i64, Vec<usize>, Bound<'py, PyBytes>)>> {
        self.rows(&ranges)?;
        let texts: Vec<&[u8]> = self
            .payloads
            .iter()
            .map(|payload| payload.as_bytes(py))
            .collect();
        let found = py.detach(|| bodies(&self.block, &texts, &ranges, tail, size));
        let layer = |row| text(py, self.block.columns[self.block.places.layer].text(row));
        Ok(found
            .into_iter()
            .map(|body| {
                (
                    layer(body.row),
                    body.day,
                    body.payloads,
                    PyBytes::new(py, &body.bytes),
                )
            })
            .collect())
    }
}

impl PyBlock {
    fn rows(&self, ranges: &[(usize, usize)]) -> PyResult<Vec<usize>> {
        let wrong = |payload| PyIndexError::new_err(format!("payload {payload} is in no span"));
        let mut rows = Vec::new();
        for &(first, count) in ranges {
            for payload in first..first.saturating_add(count) {
                rows.push(self.block.row(payload).ok_or_else(|| wrong(payload))?);
            }
        }
        Ok(rows)
    }
}

fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    // The scanner has seen that it is UTF-8.
    PyString::new(py, &String::from_utf8_lossy(bytes))
}

/// A field as pipeline/schema has it: {name, type, nullable, low, high, values, max_length}.
fn field(given: &Bound<'_, PyDict>) -> PyResult<Column> {
    fn get<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
        given
            .get_item(name)?
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))?
            .extract()
            .map_err(Into::into)
    }
    let (name, kind): (String, String) = (get(given, "name")?, get(given, "type")?);
    let kind = match kind.as_str() {
        "integer" => Kind::Integer {
            low: get(given, "low")?,
            high: get(given, "high")?,
        },
        "hex64" => Kind::Hex,
        "string" => {
            let values: Option<Vec<String>> = get(given, "values")?;
            let values =
                values.map(|values| values.iter().map(|value| value.as_bytes().into()).collect());
            Kind::Text {
                values,
                length: get(given, "max_length")?,
            }
        }
        "histogram" => Kind::Histogram,
        _ => {
            return Err(PyValueError::new_err(format!(
                "field {name} has a type that is not read here: {kind}"
            )))
        }
    };
    Ok(Column::new(&name, kind, get(given, "nullable")?))
}

/// What a zlib stream expands to.
#[pyclass(frozen, name = "Inflated")]
struct PyInflated(frames::Inflated);

#[pyfunction]
fn inflate(py: Python<'_>, packed: Bound<'_, PyBytes>, bound: usize) -> PyResult<PyInflated> {
    let packed = packed.as_bytes();
    let found = py.detach(|| frames::inflate(packed, bound));
    found.map(PyInflated).map_err(PyValueError::new_err)
}

#[pymethods]
impl PyInflated {
    fn __len__(&self) -> usize {
        self.0.plain.len()
    }

    #[getter]
    fn taken(&self) -> usize {
        self.0.taken
    }

    #[getter]
    fn ended(&self) -> bool {
        self.0.ended
    }

    /// J frames at its beginning: payloads, the last one's sequence number, and where they end.
    fn frames<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        payload_bytes: usize,
        all_bytes: usize,
    ) -> PyResult<(Bound<'py, PyList>, u32, usize)> {
        let bounds = Bounds {
            frames: most,
            payload: payload_bytes,
            all: all_bytes,
        };
        let found = frames::split(&self.0.plain, bounds);
        let texts = found.payloads.iter().map(|at| &self.0.plain[at.clone()]);
        let payloads = PyList::new(py, texts.map(|text| PyBytes::new(py, text)))?;
        Ok((payloads, found.last, found.end))
    }

    /// At most `size` bytes from a place on.
    fn part<'py>(&self, py: Python<'py>, at: usize, size: usize) -> Bound<'py, PyBytes> {
        let rest = self.0.plain.get(at..).unwrap_or_default();
        PyBytes::new(py, &rest[..size.min(rest.len())])
    }
}

#[pyfunction]
fn rpush<'py>(
    py: Python<'py>,
    name: &[u8],
    items: &Bound<'py, PyList>,
    begin: usize,
    size: usize,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let mut taken: Vec<Bound<'_, PyBytes>> = Vec::new();
    let (mut end, mut bytes) = (begin, 0);
    while bytes < size && end < items.len() {
        let item = items.get_item(end)?.cast_into::<PyBytes>()?;
        bytes += item.as_bytes().len();
        taken.push(item);
        end += 1;
    }
    let texts: Vec<&[u8]> = taken.iter().map(|item| item.as_bytes()).collect();
    let packed = py.detach(|| push::rpush(name, &texts));
    Ok((PyBytes::new(py, &packed), end))
}

/// Places of the items that do not begin as a JSON object does.
#[pyfunction]
fn no_objects(items: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
    let mut places = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if !item.cast_into::<PyBytes>()?.as_bytes().starts_with(b"{") {
            places.push(place);
        }
    }
    Ok(places)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(inflate, module)?)?;
    module.add_function(wrap_pyfunction!(rpush, module)?)?;
    module.add_function(wrap_pyfunction!(no_objects, module)?)?;
    module.add_function(wrap_pyfunction!(encode_block, module)?)?;
    module.add_function(wrap_pyfunction!(decode_block, module)?)?;
    module.add("DamagedError", module.py().get_type::<DamagedError>())?;
    module.add("TooMuchError", module.py().get_type::<TooMuchError>())?;
    module.add_function(wrap_pyfunction!(read_head, module)?)?;
    module.add_function(wrap_pyfunction!(find_block, module)?)?;
    module.add_function(wrap_pyfunction!(bins_over, module)?)?;
    module.add_function(wrap_pyfunction!(read_grids, module)?)?;
    module.add_class::<PyPrimer>()?;
    module.add_class::<PyFileSet>()?;
    module.add_class::<PyColumn>()?;
    module.add_class::<PyInflated>()?;
    module.add_class::<PyReader>()?;
    module.add_class::<PyBlock>()
}
