//! What we know of the gateway: its session files, its envelopes and notices. It lives here and nowhere else.

pub(crate) mod envelope;
pub(crate) mod noise;
pub mod session;
pub(crate) mod stamp;
