//! All integration tests in one binary, since each extra one links LanceDB again.

mod cli;
mod fake_gateway;
mod fake_openai;
mod flush;
mod store;
