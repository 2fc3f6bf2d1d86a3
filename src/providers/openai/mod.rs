//! Any server with the OpenAI API: embeddings and chat completions.
//! Servers differ in the parameters they accept; each adaptation is found once and remembered per instance.
//! Sending, retrying and counting is `http.rs`'s work.

pub mod chat;
pub mod embeddings;

pub use chat::OpenAiChat;
pub use embeddings::OpenAiEmbedder;
