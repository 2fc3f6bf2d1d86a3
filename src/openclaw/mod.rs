//! What we know of the gateway: its session files, its envelopes and notices, its settings, how it is asked. It lives here
//! and nowhere else.

pub mod config;
#[cfg(test)]
mod corpus;
pub mod dreaming;
pub(crate) mod envelope;
pub mod gateway;
pub mod hook;
pub mod lengths;
pub mod memory_folder;
pub mod memory_settings;
pub mod models;
pub(crate) mod noise;
mod notes;
mod quoted;
pub(crate) mod recall;
pub mod session;
pub(crate) mod stamp;
pub(crate) mod transcript;
pub mod wanted;
