//! NREM: compress the day. Chunks in; drafts, reinforcements, revivals and a fate for every chunk out.
//! States the order of the stage; each step is a file of its own. Writes nothing.

pub mod ask;
pub mod category;
pub mod chunk;
pub mod cluster;
pub mod dedup;
pub mod distil;
pub mod draft;
mod first_person;
mod forgotten;
pub mod order;
pub mod quote;
#[cfg(test)]
pub(crate) mod sample;
pub mod select;
pub(crate) mod steer;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use crate::dream::Night;
use crate::episode::Speaker;
use crate::error::{Error, chain};
use crate::forget::scrub;
use crate::language;
use crate::memory::{Departure, Partition, Similarity};
use crate::nrem::ask::Answer;
use crate::nrem::chunk::{Chunk, Standing};
use crate::nrem::cluster::{Cluster, dot};
use crate::nrem::dedup::{Known, Outcome, Place, adds_nothing, dedup, says_the_same};
use crate::nrem::draft::{Decision, MemoryDraft};
use crate::nrem::select::Material;
use crate::plan::id_of_new;
use crate::providers::ProviderError;
use crate::queues::retry::{self, About};
use crate::remembered::Remembered;
use crate::state::journal::Fate;
use crate::store::{Neighbour, Query};

/// After so many nights of losing the ranking a chunk is passed over.
const NIGHTS: u32 = 3;
/// Memories a model may make of one cluster.
pub(crate) const MEMORIES_A_CLUSTER: usize = 2;

/// A draft that would be stored, unless REM finds otherwise.
#[derive(Debug, Clone)]
pub struct NewDraft {
    /// The id it will have.
    pub id: String,
    /// The draft.
    pub draft: MemoryDraft,
    /// Vector of exactly its text.
    pub vector: Vec<f32>,
    /// Live memories at or above the related threshold.
    pub near: Vec<Neighbour>,
    /// Live memories REM must look at whatever their similarity.
    pub against: Vec<String>,
}

/// A known memory that was said again.
#[derive(Debug, Clone)]
pub struct SaidAgain {
    /// The memory.
    pub id: String,
    /// Cosine of the two.
    pub similarity: Similarity,
    /// What said it.
    pub draft: MemoryDraft,
}

/// What became of a chunk, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkFate {
    /// Its fate.
    pub fate: Fate,
    /// Nights on which it competed and lost.
    pub nights: u32,
    /// Why, for the log.
    pub why: String,
}

/// What the user said tonight, whatever becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSaid {
    /// To which agent.
    pub agent: String,
    /// When.
    pub at: DateTime<Utc>,
    /// The words, normalised.
    pub words: String,
}

/// What NREM made of the night's material.
#[derive(Debug, Default)]
pub struct Compressed {
    /// Drafts for REM.
    pub drafts: Vec<NewDraft>,
    /// What the user said.
    pub said: Vec<UserSaid>,
    /// Known memories that were said again.
    pub reinforced: Vec<SaidAgain>,
    /// Faded memories that were said again and come back.
    pub revived: Vec<SaidAgain>,
    /// Drafts a person is asked about.
    pub review: Vec<MemoryDraft>,
    /// Every chunk's fate, by digest.
    pub fates: BTreeMap<String, ChunkFate>,
    /// The vectors of the chunks that were embedded, by digest.
    pub vectors: HashMap<String, Vec<f32>>,
    /// How many clusters the chunks made.
    pub clusters: usize,
    /// Why a provider's failure held chunks back.
    pub failed: Option<String>,
    /// Clusters whose reply could be read.
    pub readable: usize,
    /// Why a reply could not be read.
    pub unreadable: Option<String>,
    /// Chunks about which the reply could not be read: nights in vain, tonight included, and why.
    pub retrying: BTreeMap<String, (u32, String)>,
    /// Which limit held chunks back.
    pub exhausted: Option<String>,
    /// Chunks that say what was forgotten on purpose, by digest: no text of them is kept.
    pub forgotten: BTreeSet<String>,
    /// Chunks and drafts that were not learned again.
    pub skipped: usize,
    /// Ids of tombstones that the user's later words lift.
    pub lifted: BTreeSet<String>,
}

impl Compressed {
    /// Gives chunks a fate. Where a chunk has several drafts the weightier fate counts: what must be tried again, then
    /// what was learned, then the rest.
    fn settle<'a>(
        &mut self,
        chunks: impl IntoIterator<Item = &'a Chunk>,
        fate: Fate,
        nights: u32,
        why: &str,
    ) {
        for chunk in chunks {
            let known = self.fates.get(&chunk.digest).map(|known| known.fate);
            if known.is_none_or(|known| weight(fate) >= weight(known)) {
                let why = why.to_owned();
                self.fates.insert(chunk.digest.clone(), ChunkFate { fate, nights, why });
            }
        }
    }
}

impl Compressed {
    /// Takes in what NREM made of another agent's chunks.
    fn take_in(&mut self, other: Self) {
        self.drafts.extend(other.drafts);
        self.said.extend(other.said);
        self.reinforced.extend(other.reinforced);
        self.revived.extend(other.revived);
        self.review.extend(other.review);
        self.fates.extend(other.fates);
        self.vectors.extend(other.vectors);
        self.clusters += other.clusters;
        self.failed = self.failed.take().or(other.failed);
        self.readable += other.readable;
        self.unreadable = self.unreadable.take().or(other.unreadable);
        self.retrying.extend(other.retrying);
        self.exhausted = self.exhausted.take().or(other.exhausted);
        self.forgotten.extend(other.forgotten);
        self.skipped += other.skipped;
        self.lifted.extend(other.lifted);
    }
}

fn weight(fate: Fate) -> u8 {
    match fate {
        Fate::Noise | Fate::Excluded => 0,
        Fate::RawOnly | Fate::PassedOver => 1,
        Fate::PendingReview => 2,
        Fate::Reinforced | Fate::Merged => 3,
        Fate::Stored => 4,
        Fate::HeldBack => 5,
    }
}

/// Compresses the night's material, each agent's by itself: with `MAX_NEW_MEMORIES` of its own, and with a fair share of
/// what is left of the night's requests, tokens and minutes. Those with the least come first, so that what they do not
/// need is there for the others.
///
/// # Errors
/// When the database cannot be read. A provider's failure is not an error here: it holds chunks back.
pub async fn compress(
    night: &Night<'_>,
    material: &Material,
    known: &Remembered,
) -> Result<Compressed, Error> {
    let mut agents: BTreeMap<&str, Vec<&Chunk>> = BTreeMap::new();
    for chunk in &material.chunks {
        agents.entry(&chunk.agent).or_default().push(chunk);
    }
    let mut agents: Vec<Vec<&Chunk>> = agents.into_values().collect();
    agents.sort_by_key(Vec::len);
    let mut compressed = Compressed::default();
    for (place, chunks) in agents.iter().enumerate() {
        night.budget.share(agents.len() - place);
        compressed.take_in(compress_agent(night, chunks, known).await?);
    }
    night.budget.share(1);
    Ok(compressed)
}

async fn compress_agent(
    night: &Night<'_>,
    chunks: &[&Chunk],
    known: &Remembered,
) -> Result<Compressed, Error> {
    let mut compressed = Compressed::default();
    let most = night.budget.tokens_left().or(night.config.max_tokens);
    let evidence = set_aside(chunks.iter().copied(), &mut compressed);
    compressed.said =
        evidence.iter().copied().filter(|chunk| chunk.speaker == Speaker::User).map(said).collect();
    let (evidence, over) = order::within_tokens(night, most, evidence);
    let too_many = (!over.is_empty()).then(|| order::TOO_MANY.to_owned());
    for chunk in over {
        let nights = nights_of(chunk, &night.nights_before);
        compressed.settle([chunk], Fate::HeldBack, nights, order::TOO_MANY);
    }
    let Some(chunks) = embed_chunks(night, evidence, &mut compressed).await? else {
        return Ok(compressed);
    };
    let chunks = forgotten::set_aside(night, chunks, &mut compressed);
    let clusters = cluster::cluster(chunks, night.thresholds.cluster);
    let novelty = novelty(night, &clusters).await?;
    let nights = &night.nights_before;
    let mut ranked = order::first_in_line(cluster::rank(clusters, &novelty), nights);
    compressed.clusters = ranked.len();
    while !ranked.is_empty() && compressed.failed.is_none() && compressed.exhausted.is_none() {
        let room = night.config.max_new_memories.saturating_sub(compressed.drafts.len());
        let most = room.min(night.reasoner.most_a_cluster()).max(1);
        // A wave that could not overshoot: nothing is asked for that there is no room for.
        let a_wave = room / most;
        if a_wave == 0 {
            break;
        }
        let wave = order::oldest_first(ranked.drain(..a_wave.min(ranked.len())).collect());
        let answers = ask::distil(night.reasoner, night.privacy, wave, most).await;
        let mut drafts = Vec::new();
        for (cluster, answer) in answers {
            drafts.extend(take_answer(night, cluster, answer, &mut compressed));
        }
        place_drafts(night, drafts, known, &mut compressed).await?;
        // A model that says nothing usable is as good as none: the night must not end as if it were done.
        if let Some(why) = compressed.unreadable.as_ref().filter(|_| compressed.readable == 0) {
            let model = night.reasoner.name();
            compressed.failed = compressed.failed.take().or(Some(format!("use any reply of {model}: {why}")));
        }
    }
    leave_over(&ranked, nights, &mut compressed);
    forgotten::drop_questions(night, &mut compressed);
    compressed.exhausted = compressed.exhausted.or(too_many);
    Ok(compressed)
}

fn said(chunk: &Chunk) -> UserSaid {
    UserSaid { agent: chunk.agent.clone(), at: chunk.said_at, words: language::normalise(&chunk.text) }
}

/// The chunks that say something: those a night pays for.
pub(crate) fn evidence(chunks: &[Chunk]) -> Vec<&Chunk> {
    set_aside(chunks, &mut Compressed::default())
}

/// Noise, excluded chunks and small talk get their fate at once: nothing is paid for them.
fn set_aside<'a>(chunks: impl IntoIterator<Item = &'a Chunk>, compressed: &mut Compressed) -> Vec<&'a Chunk> {
    let mut evidence = Vec::new();
    for chunk in chunks {
        match chunk.standing {
            Standing::Noise(why) => compressed.settle([chunk], Fate::Noise, 0, why),
            Standing::Excluded => compressed.settle([chunk], Fate::Excluded, 0, "tagged #tmp or #no_archive"),
            Standing::Evidence if is_small_talk(chunk) => {
                compressed.settle([chunk], Fate::Noise, 0, "small talk")
            }
            Standing::Evidence if scrub::is_blanked(&chunk.text) => {
                compressed.settle([chunk], Fate::Noise, 0, "erased on purpose")
            }
            Standing::Evidence => evidence.push(chunk),
        }
    }
    evidence
}

fn is_small_talk(chunk: &Chunk) -> bool {
    let says_nothing = |text: &str| {
        let mut sentences = language::sentences(text).into_iter().filter(|s| !s.trim().is_empty()).peekable();
        sentences.peek().is_none() || sentences.all(language::is_small_talk)
    };
    let before = chunk.reply_to.as_deref();
    says_nothing(&chunk.text) && before.is_none_or(|text| says_nothing(text) || language::is_question(text))
}

/// Embeds the evidence. None when that failed: everything is then held back.
async fn embed_chunks(
    night: &Night<'_>,
    evidence: Vec<&Chunk>,
    compressed: &mut Compressed,
) -> Result<Option<Vec<(Chunk, Vec<f32>)>>, Error> {
    let chunks: Vec<Chunk> = evidence.iter().map(|chunk| without_secrets(night, chunk)).collect();
    let texts: Vec<_> = chunks.iter().map(|chunk| night.privacy.to_embed(&chunk.text)).collect();
    match night.embedder.embed(&texts).await {
        Ok(vectors) => {
            for (chunk, vector) in chunks.iter().zip(&vectors) {
                compressed.vectors.insert(chunk.digest.clone(), vector.clone());
            }
            Ok(Some(chunks.into_iter().zip(vectors).collect()))
        }
        Err(error) => {
            hold_back(&chunks, &error, &night.nights_before, compressed);
            Ok(None)
        }
    }
}

/// The chunk as it may be kept: its secrets are gone before anything else sees it.
fn without_secrets(night: &Night<'_>, chunk: &Chunk) -> Chunk {
    Chunk {
        text: night.privacy.to_store(&chunk.text),
        reply_to: chunk.reply_to.as_deref().map(|text| night.privacy.to_store(text)),
        context: chunk.context.iter().map(|text| night.privacy.to_store(text)).collect(),
        headings: chunk.headings.iter().map(|text| night.privacy.to_store(text)).collect(),
        ..chunk.clone()
    }
}

/// Everything waits: the embedder cannot be reached, so nothing may be compared or written tonight.
pub fn hold_everything(night: &Night<'_>, material: &Material, error: &ProviderError) -> Compressed {
    let mut compressed = Compressed::default();
    hold_back(&material.chunks, error, &night.nights_before, &mut compressed);
    compressed
}

fn hold_back(
    chunks: &[Chunk],
    error: &ProviderError,
    nights: &HashMap<String, u32>,
    compressed: &mut Compressed,
) {
    let why = chain(error);
    for chunk in chunks {
        compressed.settle([chunk], Fate::HeldBack, nights_of(chunk, nights), &why);
    }
    match error {
        ProviderError::Exhausted { .. } => compressed.exhausted = Some(why),
        _ => compressed.failed = Some(why),
    }
}

fn nights_of(chunk: &Chunk, nights: &HashMap<String, u32>) -> u32 {
    nights.get(&chunk.digest).copied().unwrap_or(0)
}

/// 1 − the highest similarity of a cluster's leader to anything remembered.
async fn novelty(night: &Night<'_>, clusters: &[Cluster]) -> Result<Vec<f64>, Error> {
    let queries: Vec<Query> = clusters
        .iter()
        .map(|cluster| Query {
            vector: cluster.vectors[0].clone(),
            partition: Partition::of_agent(&cluster.chunks[0].agent),
            exclude: None,
        })
        .collect();
    let nearest = night.store.neighbours(&queries, Similarity(0.0), 1, &night.config.agent).await?;
    Ok(nearest.iter().map(|near| 1.0 - near.first().map_or(0.0, |n| f64::from(n.similarity.0))).collect())
}

/// Takes in what became of a cluster; returns its drafts that may become memories.
fn take_answer(
    night: &Night<'_>,
    cluster: Cluster,
    answer: Answer,
    compressed: &mut Compressed,
) -> Vec<MemoryDraft> {
    let nights = &night.nights_before;
    match answer {
        Answer::Drafts(drafts, open) => take_drafts(&cluster, drafts, &open, nights, compressed),
        Answer::RawOnly(why) => {
            compressed.readable += 1;
            compressed.settle(
                &cluster.chunks,
                Fate::RawOnly,
                0,
                &format!("no wording passed the check: {why}"),
            );
            vec![]
        }
        Answer::Unreadable(why) => {
            compressed.unreadable = Some(why.clone());
            for chunk in &cluster.chunks {
                let about = About::Chunk(chunk.digest.clone());
                let tried = night.retry.nights(&about, night.now) + 1;
                let fate = if tried >= retry::NIGHTS { Fate::PendingReview } else { Fate::HeldBack };
                compressed.settle(
                    [chunk],
                    fate,
                    nights_of(chunk, nights),
                    &format!("unreadable reply: {why}"),
                );
                compressed.retrying.insert(chunk.digest.clone(), (tried, why.clone()));
            }
            vec![]
        }
        Answer::Exhausted(why) => {
            hold_cluster(&cluster, &why, nights, compressed);
            compressed.exhausted = Some(why);
            vec![]
        }
        Answer::Failed(why) => {
            hold_cluster(&cluster, &why, nights, compressed);
            compressed.failed = Some(why);
            vec![]
        }
    }
}

fn hold_cluster(cluster: &Cluster, why: &str, nights: &HashMap<String, u32>, compressed: &mut Compressed) {
    for chunk in &cluster.chunks {
        compressed.settle([chunk], Fate::HeldBack, nights_of(chunk, nights), why);
    }
}

/// Gives the chunks no draft rests on their fate, and sorts out the drafts that are not to be remembered.
fn take_drafts(
    cluster: &Cluster,
    drafts: Vec<MemoryDraft>,
    open: &[String],
    nights: &HashMap<String, u32>,
    compressed: &mut Compressed,
) -> Vec<MemoryDraft> {
    compressed.readable += 1;
    let some = !drafts.is_empty();
    for chunk in &cluster.chunks {
        let states = some && !language::is_question(&chunk.text) && !is_small_talk(chunk);
        let (fate, why) = if states {
            (Fate::RawOnly, "its cluster's memory covers it")
        } else {
            (Fate::Noise, "nothing to remember")
        };
        if open.contains(&chunk.digest) {
            let why = "it says something that tonight's memory of its cluster does not";
            compressed.settle([chunk], Fate::HeldBack, nights_of(chunk, nights), why);
        } else {
            compressed.settle([chunk], fate, 0, why);
        }
    }
    let mut kept = Vec::new();
    for draft in drafts {
        match draft.decision {
            Decision::Archive => compressed.settle(&draft.chunks, Fate::RawOnly, 0, "kept as raw text"),
            Decision::PendingReview => {
                compressed.settle(&draft.chunks, Fate::PendingReview, 0, &draft.reason);
                compressed.review.push(draft);
            }
            Decision::Keep | Decision::Merge => kept.push(draft),
        }
    }
    kept
}

/// Embeds drafts and decides what each is: new, known already, or a faded memory that comes back.
async fn place_drafts(
    night: &Night<'_>,
    drafts: Vec<MemoryDraft>,
    known: &Remembered,
    compressed: &mut Compressed,
) -> Result<(), Error> {
    let drafts: Vec<MemoryDraft> = drafts
        .into_iter()
        .map(|draft| MemoryDraft { text: night.privacy.to_store(&draft.text), ..draft })
        .collect();
    let texts: Vec<_> = drafts.iter().map(|draft| night.privacy.to_embed(&draft.text)).collect();
    let vectors = match night.embedder.embed(&texts).await {
        Ok(vectors) => vectors,
        Err(error) => {
            for draft in &drafts {
                hold_back(&draft.chunks, &error, &night.nights_before, compressed);
            }
            return Ok(());
        }
    };
    let queries: Vec<Query> = drafts
        .iter()
        .zip(&vectors)
        .map(|(draft, vector)| Query {
            vector: vector.clone(),
            partition: Partition::of_agent(draft.agent()),
            exclude: None,
        })
        .collect();
    let related = Similarity(night.thresholds.related);
    let limit = crate::rem::conflict::MAX_CANDIDATES;
    let agent = &night.config.agent;
    let live = night.store.neighbours(&queries, Similarity(-1.0), limit, agent).await?;
    let duplicate = Similarity(night.thresholds.duplicate);
    let archived = night.store.archive_neighbours(&queries, duplicate, limit, agent).await?;
    for (((draft, vector), near), gone) in drafts.into_iter().zip(vectors).zip(live).zip(archived) {
        let nearest = near.first().map(|n| n.id.clone());
        let near: Vec<Neighbour> = near.into_iter().filter(|n| n.similarity >= related).collect();
        let resembling = resembling(&near, &gone, known);
        place_draft(night, draft, vector, near, nearest, &resembling, compressed);
    }
    Ok(())
}

fn resembling(near: &[Neighbour], gone: &[Neighbour], known: &Remembered) -> Vec<Known> {
    let place_of = |id: &str| match known.archived.get(id) {
        Some(archived) => Place::Archive(archived.reason, known.live_successor(id).map(str::to_owned)),
        None => Place::Live,
    };
    let known_text = |n: &Neighbour, place: Place| {
        Some(Known {
            id: n.id.clone(),
            text: known.text(&n.id)?.to_owned(),
            said_on: known.said_on(&n.id),
            similarity: n.similarity.0,
            place,
        })
    };
    let live = near.iter().filter_map(|n| known_text(n, Place::Live));
    // A restored row is live and its old copy may still be archived: the live one counts.
    let archived = gone
        .iter()
        .filter(|n| !known.rows.contains_key(&n.id))
        .filter_map(|n| known_text(n, place_of(&n.id)));
    live.chain(archived).collect()
}

fn place_draft(
    night: &Night<'_>,
    draft: MemoryDraft,
    vector: Vec<f32>,
    near: Vec<Neighbour>,
    nearest: Option<String>,
    resembling: &[Known],
    compressed: &mut Compressed,
) {
    if let Some(twin) = twin_of(&draft, &vector, compressed, night.thresholds.duplicate) {
        compressed.settle(&draft.chunks, Fate::Stored, 0, "said twice tonight");
        compressed.drafts[twin].draft.chunks.extend(draft.chunks);
        return;
    }
    // The very words that a later state took the place of, read once more: they are history, and told as such already.
    let is_history = |known: &&Known| {
        matches!(known.place, Place::Archive(Departure::Superseded | Departure::Duplicate, Some(_)))
            && draft.said_on() <= known.said_on
            && language::normalise(&draft.text) == language::normalise(&known.text)
    };
    if resembling.iter().any(|known| is_history(&known)) {
        compressed.settle(&draft.chunks, Fate::Merged, 0, "superseded since; its successor carries it");
        return;
    }
    let outcome = dedup(&draft.text, draft.said_on(), resembling, night.thresholds.duplicate);
    if !forgotten::may_be_learned(night, &draft, &vector, &outcome, compressed) {
        return;
    }
    match outcome {
        Outcome::Reinforce { id, similarity } => {
            compressed.settle(&draft.chunks, Fate::Reinforced, 0, "known already");
            compressed.reinforced.push(SaidAgain { id, similarity: Similarity(similarity), draft });
        }
        Outcome::Revive { id, similarity } => {
            compressed.settle(&draft.chunks, Fate::Reinforced, 0, "had faded, comes back");
            compressed.revived.push(SaidAgain { id, similarity: Similarity(similarity), draft });
        }
        Outcome::New { mut against } => {
            if draft.decision == Decision::Merge {
                against.extend(nearest);
            }
            let conflicts = !near.is_empty() || !against.is_empty();
            if night.mode.holds_conflicts_back() && conflicts {
                let why = "it may conflict with what is known: the next full night decides";
                for chunk in &draft.chunks {
                    compressed.settle([chunk], Fate::HeldBack, nights_of(chunk, &night.nights_before), why);
                }
                return;
            }
            compressed.settle(&draft.chunks, Fate::Stored, 0, "");
            let id = id_of_new(&night.run, draft.agent(), &draft.text);
            compressed.drafts.push(NewDraft { id, draft, vector, near, against });
        }
    }
}

/// A draft of tonight that says the same.
fn twin_of(draft: &MemoryDraft, vector: &[f32], compressed: &Compressed, duplicate: f32) -> Option<usize> {
    compressed.drafts.iter().position(|other| {
        other.draft.agent() == draft.agent()
            && dot(&other.vector, vector) >= duplicate
            && says_the_same(&draft.text, draft.said_on(), &other.draft.text, other.draft.said_on())
            && adds_nothing(&draft.text, &other.draft.text)
    })
}

/// What there was no room or budget for competes again on the next night; after three it is passed over.
fn leave_over(clusters: &[Cluster], nights: &HashMap<String, u32>, compressed: &mut Compressed) {
    let stopped = compressed.failed.clone().or_else(|| compressed.exhausted.clone());
    for cluster in clusters {
        if let Some(why) = &stopped {
            hold_cluster(cluster, why, nights, compressed);
            continue;
        }
        for chunk in &cluster.chunks {
            let lost = nights_of(chunk, nights) + 1;
            let (fate, why) = if lost >= NIGHTS {
                (Fate::PassedOver, "lost the ranking on three nights")
            } else {
                (Fate::HeldBack, "MAX_NEW_MEMORIES was reached")
            };
            compressed.settle([chunk], fate, lost, why);
        }
    }
}
