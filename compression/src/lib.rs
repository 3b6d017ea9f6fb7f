//! Bellrock's record model, first pass and ring file.
//!
//! No allocation, no panic, no standard library: the same code runs inside the watched program (through the C
//! interface in `ffi`) and inside the agent.
#![cfg_attr(not(test), no_std)]

pub mod first_pass;
pub mod record;
pub mod ring;

#[cfg(feature = "ffi")]
mod ffi;
