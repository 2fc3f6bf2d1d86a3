//! All integration tests in one binary, since each extra one links LanceDB again.

mod alerts;
mod beside;
mod cli;
mod crash;
mod disaster;
mod fading;
mod fake_gateway;
mod fake_ollama;
mod fake_openai;
mod first_night;
mod flush;
mod home;
mod kill;
mod night;
mod ollama;
mod plan;
mod readme;
mod store;
mod units;
mod vanished;
