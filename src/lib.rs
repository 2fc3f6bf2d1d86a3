//! Dreamer, the night shift of an AI agent's memory.
//!
//! One line runs through the crate: Episode → Chunk → Cluster → MemoryDraft → Memory → Conflict → Resolution →
//! DreamPlan → DreamReport. [`dream`] states that order; before [`plan`] nothing changes a memory, after it
//! nothing is decided.

pub mod alert;
pub mod calibrate;
pub mod check_pairs;
pub mod config;
pub mod detail;
pub mod doctor;
pub mod dream;
pub mod episode;
pub mod error;
pub mod flush;
pub mod forget;
pub mod housekeeping;
pub mod language;
pub mod memory;
pub mod memory_archive;
pub mod nrem;
pub mod openclaw;
pub mod pin;
pub mod plan;
pub mod preview;
pub mod privacy;
pub mod providers;
pub mod queues;
pub mod reembed;
pub mod rem;
pub mod remembered;
pub mod report;
pub mod restore;
pub mod retention;
pub mod setup;
pub mod space;
pub mod state;
pub mod store;
pub mod thresholds;
pub mod trigger;
pub mod undo;
pub mod why;
