//! The second pass: a job's records, which say almost the same thing once for each process, as blocks that say it once.
//!
//! docs/format.md tells what a block looks like. Structure first: the rows of each process are told by how they go along the *tracks* of those before
//! (`matcher`, `model`), values by what differs from the line that they lie on (`trend`), times by what they miss their rhythm by (`rhythm`). What is left
//! goes into streams of bytes, which zstd squeezes (`streams`).

pub mod block;
mod callings;
pub mod file_set;
mod fit;
mod frame;
pub mod grid;
pub mod head;
mod lanes;
mod matcher;
mod model;
mod names;
mod order;
mod output;
mod pack;
mod pools;
mod rhythm;
mod shape;
mod side;
mod streams;
pub mod table;
mod trend;
mod unpack;
mod wire;

pub use wire::Damage;
