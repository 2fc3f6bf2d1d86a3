//! The models: whether the embedding model answers and is the table's, and whether the language model answers in the form it
//! was asked for. One call each, none with `--offline`; the builtin ones cost nothing and are always asked.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::table::Table;
use super::{Asking, Line};
use crate::config::{Config, EmbeddingProvider, LlmProvider};
use crate::dream::probe::{PROBED, SAME_MODEL, agreement, sample_of};
use crate::error::{chain, way_to_move};
use crate::openclaw::config::OpenClaw;
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits, Patience};
use crate::providers::{Prompt, Reasoner, configured, reply};

/// How long a model may take, a cold one included.
const REQUEST: Duration = Duration::from_secs(60);

/// What came of asking the embedding model.
#[derive(Debug, Clone, PartialEq)]
enum Embeds {
    /// Nobody asked it.
    NotAsked(&'static str),
    /// It gave nothing: why.
    Failed(String),
    /// It answered: the length of its vectors, that of the table's, and how many rows agree how well.
    Answers { length: usize, table: Option<usize>, agrees: Option<(usize, f32)> },
}

/// What came of asking the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Talks {
    /// There is none.
    Rules,
    /// Nobody asked it.
    NotAsked(&'static str),
    /// It gave nothing: why.
    Failed(String),
    /// It answered something else: what is wrong with it.
    Otherwise(String),
    /// It answered as asked.
    Answers,
}

/// Both models by name, and what came of asking them.
#[derive(Debug, Clone)]
pub(super) struct Found {
    embedding_model: String,
    embeds: Embeds,
    language_model: String,
    talks: Talks,
}

pub(super) async fn look(config: &Config, table: &Table, asking: Asking) -> Found {
    let language_model = match config.llm_provider {
        LlmProvider::OpenAi => config.openai.llm_model.clone(),
        LlmProvider::Ollama => config.ollama.llm_model.clone(),
        LlmProvider::Extractive => String::new(),
    };
    Found {
        embedding_model: config.embedding_model().to_owned(),
        embeds: embeds(config, table, asking).await,
        language_model,
        talks: talks(config, asking).await,
    }
}

/// Two calls at most, each tried once: somebody is waiting.
fn budget() -> std::sync::Arc<Budget> {
    let limits = Limits { retries: 0, ..Limits::new(4, 5, 1, Instant::now()) };
    Budget::with_patience(
        limits,
        Patience { request: REQUEST, cold: REQUEST, tries: 1, ..Patience::default() },
    )
}

async fn embeds(config: &Config, table: &Table, asking: Asking) -> Embeds {
    if config.check_embedder().is_err() {
        return Embeds::NotAsked("it is not set up (see settings)");
    }
    if asking == Asking::Nobody && !config.embedding_provider.is_in_process() {
        return Embeds::NotAsked("--offline");
    }
    let embedder = match configured::embedder(config, budget()) {
        Ok(embedder) => embedder,
        Err(error) => return Embeds::Failed(chain(&error)),
    };
    let privacy = Privacy::new(config.mask_pii, false);
    let mut stored = Vec::new();
    let mut texts = Vec::new();
    if let Ok(open) = table {
        let sample = sample_of(open.memories.iter());
        let ids: Vec<String> = sample.iter().map(|row| row.id.clone()).collect();
        let mut vectors = match open.store.vectors(&ids).await {
            Ok(vectors) => vectors,
            Err(error) => return Embeds::Failed(chain(&error)),
        };
        for row in sample {
            if let Some(vector) = vectors.remove(&row.id) {
                texts.push(privacy.to_embed(&row.text));
                stored.push(vector);
            }
        }
    }
    if texts.is_empty() {
        texts.push(privacy.to_embed("dimension"));
    }
    match embedder.embed(&texts).await {
        Ok(vectors) => {
            let length = vectors.first().map_or(0, Vec::len);
            let table = table.as_ref().ok().map(|open| open.store.dim());
            let agrees = match table == Some(length) {
                true => agreement(stored, vectors),
                false => None,
            };
            Embeds::Answers { length, table, agrees }
        }
        Err(error) => Embeds::Failed(chain(&error)),
    }
}

/// What the language model is asked for.
#[derive(Deserialize)]
struct Answer {
    ready: bool,
}

async fn talks(config: &Config, asking: Asking) -> Talks {
    if config.llm_provider == LlmProvider::Extractive {
        return Talks::Rules;
    }
    if config.check_night().is_err() {
        return Talks::NotAsked("it is not set up (see settings)");
    }
    if asking == Asking::Nobody {
        return Talks::NotAsked("--offline");
    }
    let model = match configured::reasoner(config, budget()) {
        Ok(Reasoner::Model(model)) => model,
        Ok(Reasoner::Extractive) => return Talks::Rules,
        Err(error) => return Talks::Failed(chain(&error)),
    };
    let prompt = Prompt {
        system: "Answer with one JSON object and nothing else.".into(),
        user: Privacy::new(config.mask_pii, config.prompts_leave()).to_prompt("Answer {\"ready\": true}."),
        schema_name: "ready",
        schema: json!({
            "type": "object",
            "properties": { "ready": { "type": "boolean" } },
            "required": ["ready"],
            "additionalProperties": false
        }),
        // The answer has ten; a model that thinks first needs room for that, too.
        max_tokens: 1_000,
    };
    match model.complete(&prompt).await {
        Ok(said) => match reply::parse::<Answer>(&said.text) {
            Ok(Answer { ready: true }) => Talks::Answers,
            Ok(_) => Talks::Otherwise("it was asked for true and said false".into()),
            Err(why) => Talks::Otherwise(why),
        },
        Err(error) => Talks::Failed(chain(&error)),
    }
}

pub(super) fn lines(found: &Found) -> Vec<Line> {
    vec![of_embedding(found), of_language(found)]
}

fn of_embedding(found: &Found) -> Line {
    const CHECK: &str = "embedding";
    let model = &found.embedding_model;
    match &found.embeds {
        Embeds::NotAsked(why) => Line::ok(CHECK, format!("{model} was not asked: {why}")),
        Embeds::Failed(why) => Line::fail(
            CHECK,
            format!("could not {why}"),
            "start its server, or correct its address, key or name",
        ),
        Embeds::Answers { length, table: Some(table), .. } if table != length => Line::fail(
            CHECK,
            format!("{model} makes vectors of {length} numbers, the table holds {table}"),
            format!("set the provider and model that wrote the table{}", way_to_move(model, *table)),
        ),
        Embeds::Answers { agrees: Some((rows, cosine)), .. } if *cosine <= SAME_MODEL => Line::fail(
            CHECK,
            format!(
                "{model} is not the model that wrote the table: {rows} rows embedded again agree with {cosine:.3} only, more than {SAME_MODEL} is needed"
            ),
            "set the provider and model that wrote the table",
        ),
        Embeds::Answers { agrees: Some((rows, cosine)), .. } => {
            let of = if *rows < PROBED { "" } else { ", spread over the table," };
            Line::ok(
                CHECK,
                format!("{model} answers and is the table's: {rows} rows{of} agree with {cosine:.3}"),
            )
        }
        Embeds::Answers { length, .. } => {
            Line::ok(CHECK, format!("{model} answers with {length} numbers; no row to compare with"))
        }
    }
}

/// Whether the gateway embeds with the model that we have: another one of the same length is found by nobody else before
/// the table holds rows.
pub(super) fn of_gateway(config: &Config, openclaw: Option<&OpenClaw>) -> Option<Line> {
    let openclaw = openclaw.filter(|openclaw| openclaw.found() && config.has_gateway())?;
    let theirs = openclaw.memory().embedding?.model;
    let ours = config.embedding_model();
    // Ollama takes a name without a tag for the latest one.
    let plain = |name: &str| name.trim_end_matches(":latest").to_lowercase();
    if plain(&theirs) == plain(ours) {
        return None;
    }
    let remedy = match config.embedding_provider {
        EmbeddingProvider::OpenAi => format!("set OPENAI_EMBEDDING_MODEL={theirs}"),
        EmbeddingProvider::Ollama => format!("set OLLAMA_EMBEDDING_MODEL={theirs}"),
        EmbeddingProvider::Builtin | EmbeddingProvider::SentenceTransformers => {
            "set DREAMER_EMBEDDING_PROVIDER and its model to what the gateway has".to_owned()
        }
    };
    Some(Line::warn("embedding", format!("the gateway embeds with {theirs}, and we with {ours}"), remedy))
}

fn of_language(found: &Found) -> Line {
    const CHECK: &str = "language model";
    let model = &found.language_model;
    match &found.talks {
        Talks::Rules => Line::ok(CHECK, "none: sentences are chosen by rules"),
        Talks::NotAsked(why) => Line::ok(CHECK, format!("{model} was not asked: {why}")),
        Talks::Failed(why) => Line::fail(
            CHECK,
            format!("could not {why}"),
            "start its server, or correct its address, key or name",
        ),
        Talks::Otherwise(why) => Line::fail(
            CHECK,
            format!("{model} answers, and not in the form it was asked for: {why}"),
            "set a model that can answer in JSON",
        ),
        Talks::Answers => Line::ok(CHECK, format!("{model} answers in the form it was asked for")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn told(embeds: Embeds, talks: Talks) -> [(Level, String); 2] {
        let found = Found { embedding_model: "e".into(), embeds, language_model: "l".into(), talks };
        [of_embedding(&found), of_language(&found)].map(|line| (line.level, line.what))
    }

    #[test]
    fn the_embedding_model_must_be_the_tables() {
        let answers =
            |length, table, agrees| told(Embeds::Answers { length, table, agrees }, Talks::Rules)[0].clone();
        assert_eq!(answers(64, Some(64), Some((3, 0.999))).0, Level::Ok);
        assert_eq!(
            answers(64, None, None),
            (Level::Ok, "e answers with 64 numbers; no row to compare with".into())
        );
        let other = answers(64, Some(64), Some((5, 0.4)));
        assert!(other.0 == Level::Fail && other.1.contains("0.400 only"), "{other:?}");
        let longer = answers(64, Some(1536), None);
        assert!(
            longer.0 == Level::Fail && longer.1.contains("64 numbers, the table holds 1536"),
            "{longer:?}"
        );
    }

    #[test]
    fn a_model_that_is_not_asked_is_said_and_one_that_fails_fails() {
        let [embedding, language] = told(Embeds::NotAsked("--offline"), Talks::NotAsked("--offline"));
        assert_eq!(embedding, (Level::Ok, "e was not asked: --offline".into()));
        assert_eq!(language, (Level::Ok, "l was not asked: --offline".into()));
        let [embedding, language] = told(Embeds::Failed("reach e".into()), Talks::Failed("reach l".into()));
        assert_eq!((embedding.0, language.0), (Level::Fail, Level::Fail));
        assert_eq!(told(Embeds::NotAsked("x"), Talks::Otherwise("no JSON".into()))[1].0, Level::Fail);
        assert_eq!(told(Embeds::NotAsked("x"), Talks::Answers)[1].0, Level::Ok);
        assert!(told(Embeds::NotAsked("x"), Talks::Rules)[1].1.contains("by rules"));
    }

    #[test]
    fn another_model_than_the_gateways_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        let settings = "{plugins: {entries: {'memory-lancedb': {config: {embedding: {model: 'text-embedding-3-large'}}}}}}";
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), settings).unwrap();
        let told = |model: &str| {
            let (home, database) = (path("home"), path("lancedb"));
            let set = [
                ("DREAMER_HOME", &*home),
                ("DREAMER_LANCEDB_URI", &*database),
                ("DREAMER_EMBEDDING_PROVIDER", "openai"),
                ("OPENAI_EMBEDDING_MODEL", model),
            ];
            let mut layers = crate::config::Layers::of(&set);
            layers.user_home = Some(dir.path().to_owned());
            let openclaw = OpenClaw::read(&layers).unwrap();
            of_gateway(&Config::resolve(&layers).unwrap().0, Some(&openclaw))
        };
        assert_eq!(told("text-embedding-3-large"), None);
        let other = told("text-embedding-3-small").unwrap();
        assert!(other.level == Level::Warn && other.what.contains("text-embedding-3-large"), "{other:?}");
        assert_eq!(other.remedy.as_deref(), Some("set OPENAI_EMBEDDING_MODEL=text-embedding-3-large"));
    }
}
