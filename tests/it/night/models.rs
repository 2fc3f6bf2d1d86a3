//! Models for nights: embedders whose similarities a test decides, and a language model that answers from a script by
//! what stands in the prompt, as a real one would. Prompts can be read afterwards.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use dreamer::config::MaskPii;
use dreamer::dream::Models;
use dreamer::privacy::{Outbound, Privacy};
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::replay::Replay;
use dreamer::providers::{Embedder, LanguageModel, Prompt, ProviderError, Reasoner, Reply, local};
use serde_json::{Value, json};

use crate::fake_openai::vector;

pub(super) fn lexical() -> Box<dyn Embedder> {
    local::open("lexical", "".as_ref()).unwrap()
}

pub(super) async fn embed(embedder: &dyn Embedder, text: &str) -> Vec<f32> {
    let text = Privacy::new(MaskPii::Never, false).to_embed(text);
    embedder.embed(&[text]).await.unwrap().remove(0)
}

pub(super) fn models(embedder: Box<dyn Embedder>, reasoner: Reasoner<'static>) -> Models {
    Models { embedder, reasoner, budget: Budget::new(Limits::new(200, 60, 4, Instant::now())) }
}

pub(super) fn extractive() -> Models {
    models(lexical(), Reasoner::Extractive)
}

/// An embedder from a function of the text.
pub(super) struct By<F>(pub(super) F);

#[async_trait]
impl<F: Fn(&str) -> Vec<f32> + Send + Sync> Embedder for By<F> {
    fn model(&self) -> &str {
        "scripted"
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        Ok(texts.iter().map(|text| (self.0)(text.as_str())).collect())
    }
}

/// Everything means the same to it.
pub(super) fn blind(dim: usize) -> Box<dyn Embedder> {
    Box::new(By(move |_: &str| {
        let mut same = vec![0.0; dim];
        same[0] = 1.0;
        same
    }))
}

/// Texts that name a topic have a cosine of about 0.8 with each other, equal texts 1, and others what their words have
/// in common: 64 numbers.
pub(super) fn by_topic(topics: &'static [&'static str]) -> Box<dyn Embedder> {
    Box::new(By(move |text: &str| {
        let words = vector(text, 64 - topics.len());
        let lower = text.to_lowercase();
        let topic = topics.iter().position(|topic| lower.contains(topic));
        let (own, rest) = if topic.is_some() { (0.9_f32, 0.19_f32.sqrt()) } else { (0.0, 1.0) };
        let mut whole: Vec<f32> = words.into_iter().map(|x| x * rest).collect();
        whole.extend((0..topics.len()).map(|place| if Some(place) == topic { own } else { 0.0 }));
        whole
    }))
}

/// A language model that knows what to make of certain words.
#[derive(Default)]
pub(super) struct Script {
    drafts: Vec<(&'static str, Value)>,
    mended: Vec<(&'static str, Value)>,
    verdicts: Vec<(&'static str, &'static str, Value)>,
    rubbish: bool,
    poison: Vec<&'static str>,
}

impl Script {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A chunk with these words is remembered so.
    pub(super) fn remember(self, words: &'static str, text: &str) -> Self {
        self.remember_as(words, json!({ "text": text }))
    }

    pub(super) fn remember_as(mut self, words: &'static str, draft: Value) -> Self {
        self.drafts.push((words, draft));
        self
    }

    /// What it answers about such a chunk when its first draft was refused.
    pub(super) fn mend(mut self, words: &'static str, text: &str) -> Self {
        self.mended.push((words, json!({ "text": text })));
        self
    }

    /// How a new memory with these words relates to an existing one with those. Anything else is unrelated.
    pub(super) fn judge(
        mut self,
        new: &'static str,
        old: &'static str,
        relation: &str,
        subjects: (&str, &str),
        text: &str,
    ) -> Self {
        let texts: Vec<&str> = if text.is_empty() { vec![] } else { vec![text] };
        let verdict = json!({
            "reason": "scripted", "relation": relation,
            "new_subject": subjects.0, "old_subject": subjects.1, "texts": texts,
        });
        self.verdicts.push((new, old, verdict));
        self
    }

    /// Its judgements cannot be read.
    pub(super) fn judge_in_rubbish(mut self) -> Self {
        self.rubbish = true;
        self
    }

    /// A prompt with these words has no reply that can be read.
    pub(super) fn poison(mut self, words: &'static str) -> Self {
        self.poison.push(words);
        self
    }

    fn answer(&self, prompt: &Prompt) -> String {
        if self.poison.iter().any(|words| prompt.user.as_str().contains(words)) {
            return "What a lovely day.".into();
        }
        match prompt.schema_name {
            "memories" => self.distil(prompt.user.as_str()),
            "verdicts" if self.rubbish => "Both sound lovely, I cannot choose.".into(),
            "verdicts" => self.relate(prompt.user.as_str()),
            other => panic!("nobody asks for {other}"),
        }
    }

    fn distil(&self, material: &str) -> String {
        let (material, refused) =
            material.split_once("These memories were refused").unwrap_or((material, ""));
        let known = if refused.is_empty() { &self.drafts } else { &self.mended };
        let mut memories = vec![];
        for chunk in json_lines(material) {
            let text = chunk["text"].as_str().unwrap();
            for (_, draft) in known.iter().filter(|(words, _)| text.contains(words)) {
                let mut memory = json!({
                    "reason": "scripted", "chunks": [chunk["chunk"]], "category": "fact", "importance": 0.6,
                    "entities": [], "tags": [], "about": null, "emotion": 0.0, "decision": "keep",
                });
                memory.as_object_mut().unwrap().extend(draft.as_object().unwrap().clone());
                memories.push(memory);
            }
        }
        json!({ "memories": memories }).to_string()
    }

    fn relate(&self, material: &str) -> String {
        let mut claims = json_lines(material).into_iter();
        let new = claims.next().unwrap();
        let new = new["text"].as_str().unwrap();
        let verdicts = claims.map(|old| {
            let text = old["text"].as_str().unwrap();
            let fits = |(a, b, _): &&(&str, &str, Value)| new.contains(a) && text.contains(b);
            let unrelated = json!({
                "reason": "scripted", "relation": "unrelated", "new_subject": "", "old_subject": "", "texts": [],
            });
            let mut verdict = self.verdicts.iter().find(fits).map_or(unrelated, |(.., verdict)| verdict.clone());
            verdict["memory"] = old["memory"].clone();
            verdict
        });
        json!({ "verdicts": verdicts.collect::<Vec<_>>() }).to_string()
    }

    pub(super) fn model(self) -> Arc<Replay> {
        Arc::new(Replay::new().by(move |prompt| Some(Ok(self.answer(prompt)))))
    }
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// A model of which the test keeps a hold, to read its prompts.
struct Shared(Arc<Replay>);

#[async_trait]
impl LanguageModel for Shared {
    fn model(&self) -> &str {
        self.0.model()
    }

    async fn complete(&self, prompt: &Prompt) -> Result<Reply, ProviderError> {
        self.0.complete(prompt).await
    }
}

pub(super) fn reasoner(replay: &Arc<Replay>) -> Reasoner<'static> {
    Reasoner::Model(Box::new(Shared(replay.clone())))
}

/// Lexical vectors and this script.
pub(super) fn scripted(replay: &Arc<Replay>) -> Models {
    models(lexical(), reasoner(replay))
}

/// The prompts of one kind, `memories` or `verdicts`.
pub(super) fn prompts(replay: &Replay, kind: &str) -> Vec<String> {
    let all = replay.prompts().into_iter().filter(|prompt| prompt.schema_name == kind);
    all.map(|prompt| prompt.user.as_str().to_owned()).collect()
}
