//! Records from the wire for Python: checked against the schema and put into columns without a Python object for each.

pub mod block;
pub mod bodies;
pub mod columns;
pub mod frames;
#[cfg(feature = "module")]
mod module;
pub mod push;
pub mod scan;
#[cfg(feature = "module")]
mod second_pass;
