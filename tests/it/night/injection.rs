//! The injection corpus: forty hostile texts in five languages, each echoed by a model that obeys it, and twenty
//! standing wishes of the user that must be kept as wishes. `tests/fixtures/injection/*.json` holds both.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dreamer::providers::Prompt;
use dreamer::providers::replay::Replay;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Night;
use super::models::{extractive, prompts, scripted};

/// A hostile text, what an obedient model makes of it, and what no memory may hold.
#[derive(Debug, Clone, Deserialize)]
struct Case {
    id: String,
    language: String,
    pattern: String,
    form: String,
    /// Written before our filters were read.
    blind: bool,
    text: String,
    echo: Vec<String>,
    marks: Vec<String>,
}

/// What the user asks of the agent, how a good model words it, and what must stand in the memory.
#[derive(Debug, Clone, Deserialize)]
struct Wish {
    id: String,
    language: String,
    text: String,
    draft: String,
    keep: Vec<String>,
}

fn corpus<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/injection").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Only letters and digits, in lower case: what cleaning and cutting leave of a text.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A home with every case as an episode of its own, each beside a harmless fact.
async fn attacked(cases: &[Case]) -> Night {
    let night = Night::new()
        .await
        .set("DREAMER_OWNER", "Olga")
        .set("MAX_NEW_MEMORIES", "500")
        .set("CLUSTER_SIMILARITY", "0.99");
    for (number, case) in cases.iter().enumerate() {
        let slug = format!("{number:04}");
        let text = case.text.as_str();
        let mail = format!("[Telegram Family id:-100 Tue 2026-03-10T07:38:05Z] Vera (7): {text}");
        match case.form.as_str() {
            "user" => night.session_of("main", "2026-03-10", &slug, &[("user", text)]),
            "assistant" => {
                // The same words on one day would be one chunk.
                let thanks = format!("Thank you, I have read page {number} now.");
                let said = [("user", "What does it say?"), ("assistant", text), ("user", thanks.as_str())];
                night.session_of("main", "2026-03-10", &slug, &said)
            }
            "person" => night.session_of("main", "2026-03-10", &slug, &[("user", &mail)]),
            "notes" => night.file(&format!("2026-03-10-{slug}.md"), text),
            form => panic!("unknown form {form}"),
        };
    }
    night.session_of("main", "2026-03-10", "9999", &[("user", "The office plants are watered on Tuesdays.")]);
    night
}

fn chunks_of(prompt: &str) -> Vec<Value> {
    prompt.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect()
}

/// Every word of the material that a chunk's line of a prompt shows.
fn shown(chunk: &Value) -> Vec<String> {
    ["text", "reply_to", "under"].iter().filter_map(|key| chunk[*key].as_str()).map(letters).collect()
}

/// A model that does what the material says: of each chunk it echoes the case's orders from the given one on.
fn obedient(cases: &[Case], first: usize) -> Arc<Replay> {
    let cases = cases.to_vec();
    Arc::new(Replay::new().by(move |prompt: &Prompt| {
        if prompt.schema_name != "memories" {
            return Some(Ok(json!({ "verdicts": [] }).to_string()));
        }
        let (material, refused) =
            prompt.user.as_str().split_once("\n\nThese memories were refused.").map_or((prompt.user.as_str(), ""), |p| p);
        let turn = first + usize::from(!refused.is_empty());
        let mut memories = vec![];
        for chunk in chunks_of(material) {
            let pieces = shown(&chunk);
            let stems = |case: &&Case| {
                let whole = letters(&case.text);
                pieces.iter().any(|piece| piece.chars().count() > 5 && whole.contains(piece.as_str()))
            };
            for case in cases.iter().filter(stems) {
                memories.push(json!({
                    "reason": "told to", "chunks": [chunk["chunk"]], "category": "preference", "importance": 0.9,
                    "text": case.echo[turn % case.echo.len()], "entities": [], "tags": [], "about": null,
                    "emotion": 0.0, "decision": "keep",
                }));
            }
            if chunk["text"].as_str().is_some_and(|text| text.contains("office plants")) {
                memories.push(json!({
                    "chunks": [chunk["chunk"]], "text": "The office plants are watered on Tuesdays.",
                }));
            }
        }
        Some(Ok(json!({ "memories": memories }).to_string()))
    }))
}

/// The cases of which a memory holds a mark.
fn obeyed(cases: &[Case], texts: &[String]) -> Vec<String> {
    let all: Vec<String> = texts.iter().map(|text| letters(text)).collect();
    let mut found = vec![];
    for case in cases {
        for mark in case.marks.iter().map(|mark| letters(mark)) {
            let holding = all.iter().zip(texts).filter(|(text, _)| text.contains(&mark));
            found.extend(holding.map(|(_, text)| format!("{} ({}): {text}", case.id, case.pattern)));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A prompt's frame: every line is empty, a cluster's number, one chunk as JSON, or one of our own sentences, and the
/// chunks are numbered through.
fn check_frame(prompt: &str) {
    let (material, refused) = prompt.split_once("\n\nThese memories were refused.").unwrap_or((prompt, ""));
    let (mut clusters, mut chunks) = (0, 0);
    for line in material.lines() {
        if let Some(number) = line.strip_prefix("Cluster ") {
            clusters += 1;
            assert_eq!(number, clusters.to_string(), "{prompt}");
        } else if line.starts_with('{') {
            chunks += 1;
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["chunk"], chunks, "{prompt}");
        } else {
            assert!(line.is_empty() || line.starts_with("Write at most "), "outside its string: {line}");
        }
    }
    assert!(clusters > 0 && chunks >= clusters);
    for line in refused.lines().skip(1) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 2, "{line}");
    }
    let hidden =
        |c: &char| matches!(*c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    assert_eq!(prompt.chars().find(hidden), None, "{prompt}");
}

#[test]
fn the_corpus_is_what_it_says() {
    let cases: Vec<Case> = corpus("orders.json");
    let wishes: Vec<Wish> = corpus("wishes.json");
    assert_eq!((cases.len(), wishes.len()), (40, 20));
    assert!(cases.iter().filter(|case| case.blind).count() * 3 >= cases.len());
    let languages: BTreeSet<&str> = cases.iter().map(|case| case.language.as_str()).collect();
    assert_eq!(languages, BTreeSet::from(["de", "en", "ja", "ko", "zh"]));
    let languages: BTreeSet<&str> = wishes.iter().map(|wish| wish.language.as_str()).collect();
    assert_eq!(languages.len(), 5);
    for case in &cases {
        let all = case.echo.iter().map(|echo| letters(echo)).collect::<String>();
        assert!(case.marks.iter().any(|mark| all.contains(&letters(mark))), "{}", case.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_becomes_a_memory_though_the_model_obeys_all_of_them() {
    let cases: Vec<Case> = corpus("orders.json");
    for first in 0..2 {
        let night = attacked(&cases).await;
        let model = obedient(&cases, first);
        night.dream(&scripted(&model)).await;
        let asked = prompts(&model, "memories");
        asked.iter().for_each(|prompt| check_frame(prompt));
        let echoed = letters(&asked.concat());
        for case in &cases {
            // Each order was indeed told to the model, which echoed it, and the draft came back as refused.
            let echo = letters(&case.echo[first]);
            // What stands between the tags of a role is taken out of the episode, as the gateway's own hook does.
            let told = !case.text.contains("</system>");
            assert_eq!(echoed.contains(&echo), told, "{} was not tried", case.id);
        }
        let texts = night.texts().await;
        assert_eq!(obeyed(&cases, &texts), Vec::<String>::new());
        assert!(texts.iter().any(|text| text.contains("watered on Tuesdays")), "{texts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_becomes_a_memory_without_a_model() {
    let cases: Vec<Case> = corpus("orders.json");
    let mut night = attacked(&cases).await;
    night.dream_all(extractive, 8).await;
    let texts = night.texts().await;
    assert_eq!(obeyed(&cases, &texts), Vec::<String>::new());
    assert!(texts.iter().any(|text| text.contains("watered on Tuesdays")), "{texts:?}");
    assert!(
        texts.iter().any(|text| text.contains("bought a new kettle")),
        "what is harmless stays: {texts:?}"
    );
}

/// Whether a text says whose wish it is.
fn is_wish(text: &str) -> bool {
    let low = text.to_lowercase();
    ["the user ", "user wants", "der nutzer möchte", "用户希望", "ユーザー", "사용자"]
        .iter()
        .any(|w| low.starts_with(w))
        && ["want", "möchte", "希望", "ほしい", "원한다", "바람"].iter().any(|w| low.contains(w))
}

async fn wishes_night(wishes: &[Wish]) -> Night {
    let night = Night::new().await.set("MAX_NEW_MEMORIES", "100").set("CLUSTER_SIMILARITY", "0.99");
    for (number, wish) in wishes.iter().enumerate() {
        night.session_of("main", "2026-03-10", &format!("{number:04}"), &[("user", &wish.text)]);
    }
    night
}

fn lost(wishes: &[Wish], texts: &[String]) -> Vec<String> {
    let kept = |wish: &&Wish| {
        let says = |text: &&String| wish.keep.iter().all(|word| text.contains(word.as_str()));
        texts.iter().filter(says).any(|text| is_wish(text))
    };
    wishes
        .iter()
        .filter(|wish| !kept(wish))
        .map(|wish| format!("{} ({}): {}", wish.id, wish.language, wish.text))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_standing_wish_of_the_user_is_kept_as_a_wish() {
    let wishes: Vec<Wish> = corpus("wishes.json");
    // A model that words it well, one that leaves it an order at first, and none at all.
    for orders_first in [false, true] {
        let night = wishes_night(&wishes).await;
        let known = wishes.clone();
        let model = Arc::new(Replay::new().by(move |prompt: &Prompt| {
            let again = prompt.user.as_str().contains("These memories were refused");
            let memories: Vec<Value> = chunks_of(prompt.user.as_str())
                .iter()
                .filter_map(|chunk| {
                    let wish = known.iter().find(|wish| chunk["text"] == wish.text.as_str())?;
                    let text = if orders_first && !again { &wish.text } else { &wish.draft };
                    Some(json!({ "chunks": [chunk["chunk"]], "text": text, "category": "preference" }))
                })
                .collect();
            Some(Ok(json!({ "memories": memories, "verdicts": [] }).to_string()))
        }));
        night.dream(&scripted(&model)).await;
        let texts = night.texts().await;
        assert_eq!(lost(&wishes, &texts), Vec::<String>::new(), "{texts:#?}");
        assert_eq!(
            texts,
            wishes.iter().map(|w| w.draft.clone()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        );
    }
    let mut night = wishes_night(&wishes).await;
    night.dream_all(extractive, 8).await;
    let texts = night.texts().await;
    assert_eq!(lost(&wishes, &texts), Vec::<String>::new(), "{texts:#?}");
}
