//! Lustre: what its servers and clients say of themselves in the files of `/proc/fs/lustre`, `/sys/fs/lustre` and `/sys/kernel/debug/lustre`, the
//! parameters of `lctl get_param`. On a node nothing but those files is read; no command is run.
//!
//! The text is read by parsers of our own. The crate lustre_collector reads much of it too, and the tests hold ours against it; but it takes a
//! text whole or not at all, needs 0.15 s for 2,000 exports each second, and 0.7 MiB of the memory of an agent that has 3.5 (docs/agent.md).

pub mod capture;
pub(crate) mod exports;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub(crate) mod histogram;
pub(crate) mod job_stats;
pub(crate) mod llite;
mod look;
pub(crate) mod mdt;
pub(crate) mod operations;
pub(crate) mod osc;
pub(crate) mod ost;
pub mod params;
pub(crate) mod service;
pub(crate) mod stats;

#[cfg(test)]
#[path = "lustre/captures_tests.rs"]
mod captures_tests;
#[cfg(test)]
#[path = "lustre/many_tests.rs"]
mod many_tests;
