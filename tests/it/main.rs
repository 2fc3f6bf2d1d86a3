//! All integration tests in one binary, since each extra one links LanceDB again.

mod cli;
mod store;
