//! All integration tests in one binary, since each extra one links LanceDB again.

mod cli;
mod crash;
mod fading;
mod fake_ollama;
mod fake_openai;
mod first_night;
mod home;
mod night;
mod ollama;
mod plan;
mod store;
