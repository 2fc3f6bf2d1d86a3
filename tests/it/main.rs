//! All integration tests in one binary, since each extra one links LanceDB again.

mod alerts;
mod cli;
mod fake_openai;
mod store;
mod units;
