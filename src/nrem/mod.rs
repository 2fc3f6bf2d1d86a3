//! NREM: compress the day.

pub mod chunk;
