//! What bellrock-agent is made of. See docs/agent.md. A library only so that other programs of this project can reach its
//! readers (benches/, fuzz/); nobody else is promised anything.

pub mod agent;
mod clock;
pub mod config;
mod counters;
mod event;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod log;
pub mod memory;
mod metrics;
pub mod print;
#[cfg(any(test, feature = "fuzz"))]
mod random;
#[cfg(any(test, feature = "fuzz"))]
mod scratch;
mod ship;
pub mod sources;
pub mod sys;
#[cfg(any(test, feature = "fuzz"))]
mod testing;
