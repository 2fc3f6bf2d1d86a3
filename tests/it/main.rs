//! Integration tests, one module a subject: every further binary would link LanceDB again.

mod store;
