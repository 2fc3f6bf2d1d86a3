//! x

/// m
pub const MODEL: &str = "lexical";
/// t
pub const THRESHOLDS: super::super::Thresholds =
    super::super::Thresholds { cluster: 0.5, duplicate: 0.43, related: 0.31 };
/// l
pub struct Lexical;
#[async_trait::async_trait]
impl super::Embedder for Lexical {
    fn model(&self) -> &str {
        MODEL
    }
    async fn embed(
        &self,
        _t: &[crate::privacy::Outbound],
    ) -> Result<Vec<Vec<f32>>, super::super::ProviderError> {
        Ok(vec![])
    }
}
