//! Privacy: no planted secret survives on the way to the store, an embedder or a prompt; look-alikes stay.
#![allow(clippy::unwrap_used)]

pub mod corpus;
mod modes;
mod night;

use dreamer::config::MaskPii;
use dreamer::privacy::Privacy;

use corpus::{Planted, lookalikes, phrases, planted};

/// The ways a text takes, by name.
fn ways(text: &str) -> [(&'static str, String); 6] {
    let external = Privacy::new(MaskPii::External, true);
    let always = Privacy::new(MaskPii::Always, true);
    let never = Privacy::new(MaskPii::Never, false);
    [
        ("store", external.to_store(text)),
        ("store, masked", always.to_store(text)),
        ("embedder", external.to_embed(text).as_str().to_owned()),
        ("prompt", external.to_prompt(text).as_str().to_owned()),
        ("prompt, masked for good", always.to_prompt(text).as_str().to_owned()),
        ("prompt, never masked", never.to_prompt(text).as_str().to_owned()),
    ]
}

/// What survives of the planted secrets, a line each.
fn survivors(planted: &[Planted]) -> Vec<String> {
    let leak = |planted: &Planted| {
        ways(&planted.text).into_iter().find_map(|(way, text)| {
            planted.survivor(&text).map(|piece| format!("{} ({way}): {piece}\n    {text}", planted.name))
        })
    };
    planted.iter().filter_map(leak).collect()
}

#[test]
fn no_kind_of_secret_survives_in_any_context() {
    let planted = planted();
    assert!(planted.len() >= 50 * 5);
    for planted in &planted {
        assert!(planted.survivor(&planted.text).is_some(), "{} is not planted", planted.name);
    }
    let survivors = survivors(&planted);
    assert!(survivors.is_empty(), "{} of {}:\n{}", survivors.len(), planted.len(), survivors.join("\n"));
}

#[test]
fn characters_that_nobody_sees_hide_no_secret() {
    let planted: Vec<Planted> =
        planted().iter().chain(&phrases()).map(Planted::with_hidden_characters).collect();
    let survivors = survivors(&planted);
    assert!(survivors.is_empty(), "{} of {}:\n{}", survivors.len(), planted.len(), survivors.join("\n"));
}

#[test]
fn no_password_survives_in_any_language() {
    let phrases = phrases();
    for phrase in &phrases {
        assert!(phrase.survivor(&phrase.text).is_some(), "{} is not planted", phrase.name);
    }
    let survivors = survivors(&phrases);
    assert!(survivors.is_empty(), "{} of {}:\n{}", survivors.len(), phrases.len(), survivors.join("\n"));
}

#[test]
fn look_alikes_are_left_alone_everywhere() {
    let all = lookalikes();
    assert!(all.len() >= 50);
    let mut masked = Vec::new();
    for (kind, text) in &all {
        if let Some((way, changed)) = ways(text).into_iter().find(|(_, changed)| changed != text) {
            masked.push(format!("{kind} ({way}): {changed}"));
        }
    }
    assert!(masked.is_empty(), "{} of {}:\n{}", masked.len(), all.len(), masked.join("\n"));
}
