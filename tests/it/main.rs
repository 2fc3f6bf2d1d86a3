//! All integration tests in one binary, since each extra one links LanceDB again.

mod cli;
mod fake_openai;
mod night;
mod store;
