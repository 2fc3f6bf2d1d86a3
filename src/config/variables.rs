//! The variables this build reads: one table, from which `resolve` takes the defaults, `show` the order, and the
//! tests what `.env.example` and the README must name. What a value may be is decided in `resolve`.

/// One variable.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What counts when nobody sets it; none when it depends on something else (the home, the model, the system).
    pub default: Option<&'static str>,
    /// Its value is never printed.
    pub secret: bool,
}

const fn plain(name: &'static str, default: &'static str) -> Variable {
    Variable { name, default: Some(default), secret: false }
}

const fn open(name: &'static str) -> Variable {
    Variable { name, default: None, secret: false }
}

const fn secret(name: &'static str) -> Variable {
    Variable { name, default: None, secret: true }
}

/// Every variable this build reads, in the order in which people are shown them.
pub const VARIABLES: &[Variable] = &[
    open("DREAMER_HOME"),
    open("DREAMER_EPISODES_DIR"),
    plain("DREAMER_EPISODE_SOURCE", "files"),
    open("DREAMER_LANCEDB_URI"),
    plain("DREAMER_EMBEDDING_PROVIDER", "openai"),
    plain("DREAMER_LLM_PROVIDER", "openai"),
    plain("DREAMER_BUILTIN_MODEL", "use-multilingual-3"),
    plain("ST_MODEL_NAME", "all-MiniLM-L6-v2"),
    plain("HF_ENDPOINT", "https://huggingface.co"),
    secret("HF_TOKEN"),
    open("HF_HOME"),
    open("HF_HUB_CACHE"),
    secret("OPENAI_API_KEY"),
    plain("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    plain("OPENAI_EMBEDDING_MODEL", "text-embedding-3-small"),
    plain("OPENAI_LLM_MODEL", "gpt-4.1-nano"),
    secret("OPENAI_EMBEDDING_API_KEY"),
    open("OPENAI_EMBEDDING_BASE_URL"),
    plain("OLLAMA_BASE_URL", "http://localhost:11434"),
    plain("OLLAMA_EMBEDDING_MODEL", "nomic-embed-text"),
    plain("OLLAMA_LLM_MODEL", "qwen2.5:3b"),
    open("DREAMER_EMBEDDING_DIM"),
    open("CLUSTER_SIMILARITY"),
    open("DEDUP_SIMILARITY"),
    open("CONTRADICTION_SIMILARITY"),
    plain("IMPORTANCE_DECAY_RATE", "0.05"),
    plain("SOFT_DELETE_THRESHOLD", "0.15"),
    plain("DREAMER_FADE", "auto"),
    plain("MAX_EPISODES_PER_RUN", "7"),
    plain("MAX_NEW_MEMORIES", "20"),
    plain("DREAMER_MAX_CALLS", "200"),
    plain("DREAMER_MAX_TOKENS", "off"),
    plain("DREAMER_MAX_MINUTES", "120"),
    plain("DREAMER_CONCURRENCY", "4"),
    plain("DREAMER_AGENT", "main"),
    open("DREAMER_AGENTS"),
    open("DREAMER_OWNER"),
    open("DREAMER_TIMEZONE"),
    plain("DREAMER_MASK_PII", "external"),
    open("DREAMER_MERGE_BLACKLIST"),
    plain("DREAMER_WINDOW", "01:00-05:00"),
    plain("DREAMER_MIN_NEW", "5"),
    plain("DREAMER_SNAPSHOT_DAYS", "7"),
    plain("DREAMER_RAW_DAYS", "30"),
    plain("DREAMER_ARCHIVE_DAYS", "off"),
    plain("DREAMER_MIN_FREE_MB", "100"),
    plain("DREAMER_ALERT_PROVIDER", "off"),
    secret("DREAMER_ALERT_TELEGRAM_BOT_TOKEN"),
    open("DREAMER_ALERT_TELEGRAM_CHAT_ID"),
    secret("DREAMER_ALERT_SLACK_WEBHOOK_URL"),
    secret("DREAMER_ALERT_WEBHOOK_URL"),
];

/// Every variable that `session-flush` reads alone (of these the nights use `OPENCLAW_STATE_DIR` too, to find transcripts),
/// in the order in which people are shown them: the gateway's own names where it has one.
pub const FLUSH_VARIABLES: &[Variable] = &[
    open("OPENCLAW_CONFIG_PATH"),
    open("OPENCLAW_STATE_DIR"),
    open("OPENCLAW_GATEWAY_URL"),
    open("OPENCLAW_GATEWAY_PORT"),
    Variable { name: "OPENCLAW_GATEWAY_TOKEN", default: None, secret: true },
    Variable { name: "OPENCLAW_GATEWAY_PASSWORD", default: None, secret: true },
    open("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS"),
    plain("DREAMER_FLUSH_TRANSPORT", "ws"),
    plain("DREAMER_FLUSH_WAIT", "30"),
    plain("DREAMER_FLUSH_PROGRAM", "openclaw"),
];

/// The variable of that name, if one of our programs reads it.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().chain(FLUSH_VARIABLES).find(|v| v.name == name)
}

/// Names that are common elsewhere, or were meant, and are no settings here: each with the one to set instead.
const STRANGERS: [(&str, &str); 9] = [
    ("MAX_NEW_MEMORY", "MAX_NEW_MEMORIES"),
    ("OLLAMA_EMBED_MODEL", "OLLAMA_EMBEDDING_MODEL"),
    ("OLLAMA_HOST", "OLLAMA_BASE_URL"),
    ("OLLAMA_MODEL", "OLLAMA_LLM_MODEL"),
    ("OLLAMA_URL", "OLLAMA_BASE_URL"),
    ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
    ("OPENAI_CHAT_MODEL", "OPENAI_LLM_MODEL"),
    ("OPENAI_HOST", "OPENAI_BASE_URL"),
    ("OPENAI_MODEL", "OPENAI_LLM_MODEL"),
];

/// The variable to set instead of a name that is common elsewhere.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    STRANGERS.iter().find(|(stranger, _)| *stranger == name).map(|(_, instead)| *instead)
}

/// The known name that `name` is most likely a slip of: at most two letters off, or three in a long name.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let allowed = if name.len() > 16 { 3 } else { 2 };
    VARIABLES
        .iter()
        .chain(FLUSH_VARIABLES)
        .map(|v| (distance(name, v.name), v.name))
        .filter(|(d, _)| *d <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein distance over bytes; the names are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        for (slip, meant) in [
            ("DREAMER_HOEM", Some("DREAMER_HOME")),
            ("DREAMER_EMBEDING_PROVIDER", Some("DREAMER_EMBEDDING_PROVIDER")),
            ("DREAMER_MAX_CALL", Some("DREAMER_MAX_CALLS")),
            ("DREAMER_ALERT_PROVIDR", Some("DREAMER_ALERT_PROVIDER")),
            ("DREAMER_UNRELATED", None),
        ] {
            assert_eq!(nearest(slip), meant, "{slip}");
        }
    }
}
