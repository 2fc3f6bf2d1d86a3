//! Privacy: secrets are removed for good, personal data is masked for providers beyond this machine.
//! [`Outbound`] is text that may leave; only [`Privacy`] can build it, so that the compiler enforces the policy.

/// Text that may leave this process, to a provider. Only [`Privacy`] makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound(String);

impl Outbound {
    /// The text as it will be sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
