//! Bellrock's record model, first pass, ring file and second pass.
//!
//! All but the second pass: no allocation, no panic, no standard library: the same code runs inside the watched program (through the C
//! interface in `ffi`) and inside the agent.
#![cfg_attr(not(any(test, feature = "second_pass")), no_std)]

pub mod first_pass;
pub mod record;
pub mod ring;
#[cfg(feature = "second_pass")]
pub mod second_pass;

#[cfg(feature = "ffi")]
mod ffi;
