//! What we know of the gateway: its session files, its envelopes and notices. It lives here and nowhere else.

pub mod session;
