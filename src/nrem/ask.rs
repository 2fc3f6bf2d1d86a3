//! Asking a model to distil: calls run side by side, every draft is checked, a refused one is asked for once more, and
//! what fails twice falls back to the source's own words. What a failed call was about is handed back whole.

use std::collections::{BTreeMap, HashSet};

use crate::nrem::cluster::Cluster;
use crate::nrem::distil::{self, Distilled};
use crate::nrem::draft::{Decision, MemoryDraft, problems};
use crate::privacy::Privacy;
use crate::providers::{LanguageModel, Prompt, ProviderError, Reasoner, extractive};
use crate::queues::retry::extra_calls;

/// What became of a cluster.
#[derive(Debug)]
pub enum Answer {
    /// Its checked drafts, none when nothing in it is worth a memory; and the digests of chunks that say something else,
    /// for which there was no room: they are tried again.
    Drafts(Vec<MemoryDraft>, Vec<String>),
    /// It has something, but no wording passed the check: kept raw.
    RawOnly(String),
    /// The reply could not be read.
    Unreadable(String),
    /// The budget is used up.
    Exhausted(String),
    /// The provider failed.
    Failed(String),
}

/// Distils clusters, at most `most` memories each; the answers come in the order of the clusters' calls.
pub async fn distil(
    reasoner: &Reasoner<'_>,
    privacy: &Privacy,
    clusters: Vec<Cluster>,
    most: usize,
) -> Vec<(Cluster, Answer)> {
    match reasoner {
        Reasoner::Extractive => clusters
            .into_iter()
            .map(|cluster| {
                let drafts = extractive::distil(&cluster, most);
                let open = extractive::not_said(&cluster, &drafts);
                (cluster, Answer::Drafts(drafts, open))
            })
            .collect(),
        Reasoner::Model(model) => {
            let calls = distil::batches(clusters)
                .into_iter()
                .map(|batch| distil_apart(model.as_ref(), privacy, batch, most));
            // How many of them are on the wire at once is the budget's business.
            futures::future::join_all(calls).await.into_iter().flatten().collect()
        }
    }
}

/// A call, or a part of one whose reply could not be read.
struct Part {
    clusters: Vec<Cluster>,
    /// Memories a cluster.
    most: usize,
    /// Whether it is a piece of the cluster of this number, which was cut apart.
    piece_of: Option<usize>,
}

impl Part {
    /// Two halves: of the clusters, or of the chunks of the only one. The part itself when it is one chunk.
    fn halves(mut self, number: usize) -> Result<[Self; 2], Self> {
        if self.clusters.len() > 1 {
            let rest = self.clusters.split_off(self.clusters.len() / 2);
            let second = Self { clusters: rest, ..self };
            return Ok([Self { clusters: self.clusters, most: self.most, piece_of: None }, second]);
        }
        let half = self.clusters[0].chunks.len() / 2;
        if half == 0 {
            return Err(self);
        }
        let mut first = self.clusters.remove(0);
        let rest = (first.chunks.split_off(half), first.vectors.split_off(half));
        let second = Cluster { chunks: rest.0, vectors: rest.1, rank: first.rank };
        let (most, piece_of) = (self.most.div_ceil(2), self.piece_of.or(Some(number)));
        Ok([first, second].map(|cluster| Self { clusters: vec![cluster], most, piece_of }))
    }
}

/// One call. When its reply cannot be read it is asked again in halves, within a bound that grows with the logarithm of
/// its chunks: one chunk that no model can answer about must not hold the others back.
async fn distil_apart(
    model: &dyn LanguageModel,
    privacy: &Privacy,
    batch: Vec<Cluster>,
    most: usize,
) -> Vec<(Cluster, Answer)> {
    let largest = batch.iter().map(|cluster| cluster.chunks.len()).max().unwrap_or(1);
    let mut calls_left = extra_calls(batch.len()) + extra_calls(largest);
    let mut settled: Vec<(Option<usize>, Cluster, Answer)> = Vec::new();
    let mut due = vec![Part { clusters: batch, most, piece_of: None }];
    let mut number = 0;
    while let Some(part) = due.pop() {
        let Part { most, piece_of, .. } = part;
        let (clusters, error) = match distil_batch(model, privacy, part.clusters, most).await {
            Ok(asked) => {
                settled
                    .extend(asked.answers.into_iter().map(|(cluster, answer)| (piece_of, cluster, answer)));
                let Some((clusters, why)) = asked.unanswered else { continue };
                // Fewer than before: at least one cluster of this call has its answer.
                if calls_left >= 1 {
                    calls_left -= 1;
                    due.push(Part { clusters, most, piece_of });
                    continue;
                }
                (clusters, NoDrafts::Unreadable(why))
            }
            Err(failed) => failed,
        };
        let mut rest = Part { clusters, most, piece_of };
        if matches!(error, NoDrafts::Unreadable(_)) && calls_left >= 2 {
            number += 1;
            match rest.halves(number) {
                Ok([first, second]) => {
                    calls_left -= 2;
                    due.extend([second, first]);
                    continue;
                }
                Err(whole) => rest = whole,
            }
        }
        settled.extend(rest.clusters.into_iter().map(|cluster| (piece_of, cluster, error.answer())));
    }
    within_room(settled, most)
}

/// Pieces of one cluster may have no more memories together than it could have had whole: the chunks of further ones are
/// tried again.
fn within_room(settled: Vec<(Option<usize>, Cluster, Answer)>, most: usize) -> Vec<(Cluster, Answer)> {
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let mut answers = Vec::new();
    for (piece_of, cluster, mut answer) in settled {
        if let (Some(whole), Answer::Drafts(drafts, open)) = (piece_of, &mut answer) {
            let taken = taken.entry(whole).or_default();
            let room = most.saturating_sub(*taken).min(drafts.len());
            open.extend(drafts.split_off(room).into_iter().flat_map(|draft| draft.chunks).map(|c| c.digest));
            *taken += drafts.len();
        }
        answers.push((cluster, answer));
    }
    answers
}

/// What a call that could be read says.
struct Asked {
    /// Clusters with their answers.
    answers: Vec<(Cluster, Answer)>,
    /// Clusters about which it says nothing, although it may have meant to, and why.
    unanswered: Option<(Vec<Cluster>, String)>,
}

/// Asks once, checks and mends.
///
/// # Errors
/// When there is no reply, or none that can be read: the clusters come back.
async fn distil_batch(
    model: &dyn LanguageModel,
    privacy: &Privacy,
    batch: Vec<Cluster>,
    most: usize,
) -> Result<Asked, (Vec<Cluster>, NoDrafts)> {
    let first = ask(model, privacy, &distil::prompt(&batch, most, privacy), &batch, most).await;
    let drafts = match first {
        Ok(drafts) => drafts,
        Err(error) => return Err((batch, error)),
    };
    let no_room: HashSet<String> = drafts.iter().flat_map(|distilled| distilled.no_room.clone()).collect();
    let mut answers = Vec::new();
    let mut again: Vec<Refused> = Vec::new();
    let mut unanswered: Option<(Vec<Cluster>, String)> = None;
    for (cluster, distilled) in batch.into_iter().zip(drafts) {
        if let Some(why) = distilled.unanswered {
            unanswered.get_or_insert_with(|| (vec![], why.to_owned())).0.push(cluster);
            continue;
        }
        let (good, refused) = check(distilled.drafts);
        if refused.is_empty() {
            let open = without_room(&cluster, &good, &no_room);
            answers.push((cluster, Answer::Drafts(good, open)));
        } else {
            again.push((cluster, good, refused));
        }
    }
    answers.extend(mend(model, privacy, again, most, &no_room).await);
    Ok(Asked { answers, unanswered })
}

/// Chunks of a cluster whose memory found no room, and that no kept draft rests on.
fn without_room(cluster: &Cluster, kept: &[MemoryDraft], no_room: &HashSet<String>) -> Vec<String> {
    let rests =
        |digest: &String| kept.iter().flat_map(|draft| &draft.chunks).any(|chunk| chunk.digest == *digest);
    let digests = cluster.chunks.iter().map(|chunk| &chunk.digest);
    digests.filter(|digest| no_room.contains(*digest) && !rests(digest)).cloned().collect()
}

/// Splits drafts into those that pass and those that do not, with what is wrong. A draft that is not to be remembered
/// needs no check.
fn check(drafts: Vec<MemoryDraft>) -> (Vec<MemoryDraft>, Vec<(MemoryDraft, Vec<String>)>) {
    let mut good = Vec::new();
    let mut refused = Vec::new();
    for draft in drafts {
        let problems = if draft.decision == Decision::Archive { vec![] } else { problems(&draft) };
        if problems.is_empty() { good.push(draft) } else { refused.push((draft, problems)) }
    }
    (good, refused)
}

type Refused = (Cluster, Vec<MemoryDraft>, Vec<(MemoryDraft, Vec<String>)>);

/// Asks once more about refused drafts; what fails again becomes a quote of its source, or nothing.
async fn mend(
    model: &dyn LanguageModel,
    privacy: &Privacy,
    again: Vec<Refused>,
    most: usize,
    no_room: &HashSet<String>,
) -> Vec<(Cluster, Answer)> {
    if again.is_empty() {
        return vec![];
    }
    let clusters: Vec<Cluster> = again.iter().map(|(cluster, ..)| cluster.clone()).collect();
    let refused: Vec<(MemoryDraft, Vec<String>)> =
        again.iter().flat_map(|(.., refused)| refused.clone()).collect();
    let prompt = distil::prompt_again(&clusters, &refused, most, privacy);
    let second = ask(model, privacy, &prompt, &clusters, most).await.ok();
    let mut second = second.unwrap_or_default().into_iter();
    let mut answers = Vec::new();
    for (cluster, mut drafts, refused) in again {
        let (good, mut bad) = match second.next() {
            Some(Distilled { unanswered: None, drafts, .. }) => check(drafts),
            _ => (vec![], refused.clone()),
        };
        let room = refused.len();
        let mended = good.into_iter().take(room).collect::<Vec<_>>();
        bad.truncate(room - mended.len());
        drafts.extend(mended);
        let quotes = bad.iter().filter_map(|(draft, _)| distil::verbatim(draft, &cluster));
        for quote in quotes {
            if !drafts.iter().any(|draft| draft.text == quote.text) {
                drafts.push(quote);
            }
        }
        let answer = if drafts.is_empty() {
            let why = refused.iter().flat_map(|(_, problems)| problems).next();
            Answer::RawOnly(why.cloned().unwrap_or_default())
        } else {
            let open = without_room(&cluster, &drafts, no_room);
            Answer::Drafts(drafts, open)
        };
        answers.push((cluster, answer));
    }
    answers
}

enum NoDrafts {
    Unreadable(String),
    Exhausted(String),
    Failed(String),
}

impl NoDrafts {
    fn answer(&self) -> Answer {
        match self {
            Self::Unreadable(why) => Answer::Unreadable(why.clone()),
            Self::Exhausted(why) => Answer::Exhausted(why.clone()),
            Self::Failed(why) => Answer::Failed(why.clone()),
        }
    }
}

async fn ask(
    model: &dyn LanguageModel,
    privacy: &Privacy,
    prompt: &Prompt,
    clusters: &[Cluster],
    most: usize,
) -> Result<Vec<Distilled>, NoDrafts> {
    let reply = model.complete(prompt).await.map_err(|error| match error {
        ProviderError::Exhausted { .. } => NoDrafts::Exhausted(error.to_string()),
        // A server that refuses one prompt for its content answers so; one that refuses all of them fails the night.
        ProviderError::CutOff { .. }
        | ProviderError::Malformed { .. }
        | ProviderError::Refused { status: 400 | 413 | 422, .. } => NoDrafts::Unreadable(error.to_string()),
        _ => NoDrafts::Failed(crate::error::chain(&error)),
    })?;
    let mut distilled =
        distil::parse(&privacy.restore(&reply.text), clusters, most).map_err(NoDrafts::Unreadable)?;
    let digest = prompt.digest();
    for draft in distilled.iter_mut().flat_map(|distilled| &mut distilled.drafts) {
        draft.prompt = Some(digest.clone());
    }
    Ok(distilled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::MaskPii;
    use crate::nrem::sample::chunk;
    use crate::providers::replay::Replay;

    const SAID: [(&str, &str); 3] = [
        ("I moved to Lisbon in March.", "The user moved to Lisbon in March."),
        ("My dog is called Biscuit.", "The user's dog is called Biscuit."),
        ("I play the violin every evening.", "The user plays the violin every evening."),
    ];

    fn reply(answers: &[(&[usize], &str)]) -> String {
        let memories: Vec<Value> =
            answers.iter().map(|(chunks, text)| json!({ "chunks": chunks, "text": text })).collect();
        json!({ "memories": memories }).to_string()
    }

    /// What becomes of the three clusters, in their order: the texts remembered, or why the reply could not be read.
    async fn ask_about_all(model: &Replay) -> Vec<Result<Vec<String>, String>> {
        let of = |(text, _): &(&str, &str)| Cluster {
            chunks: vec![chunk(text, "user")],
            vectors: vec![vec![1.0]],
            rank: 0.0,
        };
        let clusters: Vec<Cluster> = SAID.iter().map(of).collect();
        let privacy = Privacy::new(MaskPii::Never, true);
        let mut answers = distil_apart(model, &privacy, clusters, 2).await;
        answers.sort_by_key(|(cluster, _)| SAID.iter().position(|(text, _)| *text == cluster.chunks[0].text));
        let outcome = |(_, answer)| match answer {
            Answer::Drafts(drafts, open) if open.is_empty() => {
                Ok(drafts.into_iter().map(|draft: MemoryDraft| draft.text).collect())
            }
            Answer::Unreadable(why) => Err(why),
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(outcome).collect()
    }

    #[tokio::test]
    async fn a_cluster_whose_answer_names_no_chunk_is_asked_about_again() {
        let [lisbon, dog, violin] = SAID.map(|(_, memory)| memory);
        let model = Replay::in_order([
            reply(&[(&[1], lisbon), (&[], dog)]),
            // Two clusters, numbered anew: this time one is left out on purpose.
            reply(&[(&[2], violin)]),
        ]);
        let outcomes = ask_about_all(&model).await;
        assert_eq!(outcomes, [Ok(vec![lisbon.into()]), Ok(vec![]), Ok(vec![violin.into()])]);
        let prompts = model.prompts();
        assert_eq!(prompts.len(), 2);
        assert!(!prompts[1].user.as_str().contains("Lisbon"));
    }

    #[tokio::test]
    async fn a_reply_whose_answers_name_no_chunk_is_unreadable_and_asked_again_in_halves() {
        let [lisbon, dog, violin] = SAID.map(|(_, memory)| memory);
        let model = Replay::in_order([
            reply(&[(&[], lisbon), (&[9], dog)]),
            reply(&[(&[], lisbon)]),
            reply(&[(&[1], dog), (&[2], violin)]),
        ]);
        let outcomes = ask_about_all(&model).await;
        assert_eq!(outcomes, [Ok(vec![lisbon.into()]), Ok(vec![dog.into()]), Ok(vec![violin.into()])]);
        assert_eq!(model.prompts().len(), 3);
    }

    #[tokio::test]
    async fn what_never_gets_an_answer_waits_as_unreadable_and_is_not_settled_as_empty() {
        let lisbon = SAID[0].1;
        let model = Replay::new().by(move |prompt| {
            let first: &[usize] = if prompt.user.as_str().contains("Lisbon") { &[1] } else { &[7] };
            // Alone it is read whatever its number is, so it answers nothing that can be read.
            let is_alone = !prompt.user.as_str().contains("Cluster 2");
            Some(Ok(if is_alone { "Hm.".into() } else { reply(&[(first, lisbon), (&[], "Lost.")]) }))
        });
        let outcomes = ask_about_all(&model).await;
        assert_eq!(outcomes[0], Ok(vec![lisbon.into()]));
        assert!(outcomes[1..].iter().all(Result::is_err), "{outcomes:?}");
        assert!(model.prompts().len() <= 1 + extra_calls(3) + extra_calls(1));
    }
}
