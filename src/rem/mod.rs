//! REM: integrate and fade. Drafts and unreconciled rows are compared with everything of their agent and scope,
//! judged, vetoed and resolved. States the order of the stage; writes nothing.

pub mod blacklist;
pub mod conflict;
pub mod fading;
pub mod judge;
pub mod resolution;
mod subject;
pub mod veto;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::dream::{Mode, Night};
use crate::error::Error;
use crate::forget::memorial::Said;
use crate::language;
use crate::memory::{Departure, Memory, Reconciled, Similarity, text_digest};
use crate::nrem::dedup::{adds_nothing, says_the_same};
use crate::nrem::draft::evidence;
use crate::nrem::{Compressed, NewDraft};
use crate::queues::retry::About;
use crate::rem::conflict::{Claim, MAX_CANDIDATES, Neighbourhood, Original, Relation, Verdict, entities_of};
use crate::rem::fading::LossBudget;
use crate::rem::resolution::{Resolution, Resolutions};
use crate::rem::veto::Veto;
use crate::remembered::Remembered;
use crate::state::journal::JudgedPair;
use crate::store::Query;

/// Rows of an agent taken up a night besides the drafts.
pub const ROWS_A_NIGHT: usize = 200;
/// Thirty days in milliseconds: the span of the monthly loss budget.
const THIRTY_DAYS: i64 = 30 * 24 * 60 * 60 * 1000;

/// A row that says again what the archive knows to be superseded: the gateway re-captured an old session.
#[derive(Debug, Clone, PartialEq)]
pub struct Recaptured {
    /// The row.
    pub id: String,
    /// The live memory that carries its content by now.
    pub successor: String,
}

/// A pair about which the judge's reply could not be read. Numbers are indexes of claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadablePair {
    /// The new claim.
    pub new: usize,
    /// The existing one.
    pub old: usize,
    /// The pair in the retry queue.
    pub about: About,
    /// Nights on which it was asked about in vain, tonight included.
    pub nights: u32,
    /// Why the reply could not be read.
    pub why: String,
}

/// What REM made of the drafts and rows.
#[derive(Debug, Default)]
pub struct Reconciliation {
    /// Drafts first (in the order of `Compressed::drafts`), then every live row.
    pub claims: Vec<Claim>,
    /// What is done about conflicts; numbers are indexes of `claims`.
    pub resolutions: Resolutions,
    /// Vectors of merged texts.
    pub merged_vectors: HashMap<String, Vec<f32>>,
    /// Rows that leave because the archive knows better.
    pub recaptured: Vec<Recaptured>,
    /// Ids of the rows taken up tonight.
    pub taken_up: BTreeSet<String>,
    /// Ids of the rows that wait for a later night.
    pub waiting: BTreeSet<String>,
    /// Pairs settled without a model.
    pub settled_by_rules: usize,
    /// Pairs that were candidates.
    pub candidates: usize,
    /// Replies that could not be read: both memories are kept, the pair stays open.
    pub unreadable: usize,
    /// The pairs they were about.
    pub retrying: Vec<UnreadablePair>,
    /// Why a provider's failure left conflicts open.
    pub failed: Option<String>,
    /// Which limit left conflicts open.
    pub exhausted: Option<String>,
}

/// Compares, judges and resolves.
///
/// # Errors
/// When the database cannot be read. A provider's failure is not an error here: it leaves conflicts open.
pub async fn reconcile(
    night: &Night<'_>,
    compressed: &Compressed,
    known: &Remembered,
    judged: &HashSet<JudgedPair>,
) -> Result<Reconciliation, Error> {
    let resolutions = Resolutions::guarded_by(night.config.merge_blacklist.clone());
    let mut rem =
        Reconciliation { claims: claims(compressed, known), resolutions, ..Reconciliation::default() };
    let places: HashMap<String, usize> =
        rem.claims.iter().enumerate().map(|(i, c)| (c.id.clone(), i)).collect();
    let may_leave = merge_budgets(known, night);
    let open = unreconciled(known);
    if night.mode == Mode::NremOnly {
        rem.waiting = open.iter().map(|row| row.id.clone()).collect();
        return Ok(rem);
    }
    settle_recaptured(&open, compressed, known, judged, &may_leave, &mut rem);
    settle_exact_duplicates(&open, known, &places, judged, &may_leave, &mut rem);
    let new = take_up(&open, compressed, &places, &mut rem);
    let vectors = vectors_of(night, &rem.claims, &new, compressed).await?;
    let new: Vec<usize> = new.into_iter().filter(|index| vectors.contains_key(index)).collect();
    let found = find_candidates(night, &new, &vectors, compressed, &places, &rem).await?;
    let open = settle_plain_duplicates(night, &new, &found, judged, &may_leave, &mut rem);
    let open = in_turns(open, &rem.claims);
    judge::judge(night, &open, &may_leave, &mut rem).await;
    embed_merged(night, &mut rem).await;
    keep_forgotten_apart(night, &mut rem);
    Ok(rem)
}

/// Everything REM sees: tonight's drafts, then every live row.
fn claims(compressed: &Compressed, known: &Remembered) -> Vec<Claim> {
    let drafts = compressed.drafts.iter().map(claim_of_draft);
    drafts.chain(known.rows.values().map(|row| claim_of_row(row, known))).collect()
}

fn claim_of_draft(new: &NewDraft) -> Claim {
    let draft = &new.draft;
    let said_on = draft.said_on();
    Claim {
        id: new.id.clone(),
        text: draft.text.clone(),
        said_at: draft.said_at(),
        said_on,
        partition: crate::memory::Partition::of_agent(draft.agent()),
        importance: draft.importance.get(),
        category: draft.category,
        pinned: false,
        is_draft: true,
        originals: vec![Original { id: new.id.clone(), text: draft.text.clone(), said_on }],
        evidence: evidence(&draft.chunks),
        entities: draft.entities.clone(),
    }
}

fn claim_of_row(row: &Memory, known: &Remembered) -> Claim {
    let trace = known.traces.get(&row.id).filter(|trace| trace.digest == text_digest(&row.text));
    let itself = || Original { id: row.id.clone(), text: row.text.clone(), said_on: known.said_on(&row.id) };
    let originals: Vec<Original> = match trace {
        Some(trace) if !trace.merged_from.is_empty() => trace
            .merged_from
            .iter()
            // An original that was forgotten is not written into another merge.
            .filter(|id| known.archived.get(*id).is_none_or(|a| a.reason != Departure::Forgotten))
            .filter_map(|id| {
                Some(Original {
                    id: id.clone(),
                    text: known.text(id)?.to_owned(),
                    said_on: known.said_on(id),
                })
            })
            .collect(),
        _ => vec![itself()],
    };
    Claim {
        id: row.id.clone(),
        text: row.text.clone(),
        said_at: known.said_at(&row.id),
        said_on: known.said_on(&row.id),
        partition: row.partition.clone(),
        importance: row.importance,
        category: row.category,
        // A pin holds for the memory, also after the gateway edited its text.
        pinned: known.traces.get(&row.id).is_some_and(|trace| trace.pinned),
        is_draft: false,
        originals: if originals.is_empty() { vec![itself()] } else { originals },
        evidence: vec![],
        entities: match trace {
            Some(trace) if !trace.entities.is_empty() => trace.entities.clone(),
            _ => entities_of(&row.text),
        },
    }
}

/// How many rows of each agent may leave by merging tonight.
fn merge_budgets(known: &Remembered, night: &Night<'_>) -> BTreeMap<String, usize> {
    let budget = |agent: String| {
        let merging = loss_budget(known, night, &agent).merging;
        (agent, merging)
    };
    known.agents().into_iter().map(budget).collect()
}

/// How many of an agent's memories may leave tonight.
pub fn loss_budget(known: &Remembered, night: &Night<'_>, agent: &str) -> LossBudget {
    let since = night.now.timestamp_millis() - THIRTY_DAYS;
    LossBudget::of(known.rows_of(agent).count(), known.faded_since(agent, since))
}

/// How far a row is: one without a trace, or with another text than its trace, was never compared.
fn reconciled(row: &Memory, known: &Remembered) -> Reconciled {
    match known.traces.get(&row.id) {
        Some(trace) if trace.digest == text_digest(&row.text) => trace.reconciled,
        _ => Reconciled::Waiting,
    }
}

/// How many rows no night has compared yet: captured or changed since the last one, or beyond what it could take up.
/// Conflicts that a night left open are not among them: they alone would make every night due, however little is new.
pub fn never_compared(known: &Remembered) -> usize {
    known.rows.values().filter(|row| reconciled(row, known) == Reconciled::Waiting).count()
}

/// Rows that were never compared or have an open conflict; newest first.
pub fn unreconciled(known: &Remembered) -> Vec<&Memory> {
    let open = |row: &&Memory| reconciled(row, known) != Reconciled::Done;
    let mut rows: Vec<&Memory> = known.rows.values().filter(open).collect();
    rows.sort_by(|a, b| known.said_at(&b.id).cmp(&known.said_at(&a.id)).then_with(|| a.id.cmp(&b.id)));
    rows
}

/// A row whose text an archived, superseded memory had goes the way that one went, unless the user said it after what is
/// remembered now, or somebody took that back.
fn settle_recaptured(
    open: &[&Memory],
    compressed: &Compressed,
    known: &Remembered,
    judged: &HashSet<JudgedPair>,
    may_leave: &BTreeMap<String, usize>,
    rem: &mut Reconciliation,
) {
    let mut gone: HashMap<(String, &crate::memory::Partition), &str> = HashMap::new();
    for (id, archived) in &known.archived {
        if archived.reason != Departure::Faded && known.live_successor(id).is_some() {
            gone.insert((text_digest(&archived.memory.text), &archived.memory.partition), id);
        }
    }
    // What the user says anew counts, whatever became of it tonight; an old message that was read again does not.
    let said_again = |row: &Memory, successor: &str| {
        let (text, since) = (language::normalise(&row.text), known.said_at(successor));
        compressed
            .said
            .iter()
            .any(|said| said.agent == row.partition.agent && said.at > since && said.words.contains(&text))
    };
    // One that was seen before, and had to wait, is no less captured again; one that somebody brought back is not.
    let captured = |row: &&&Memory| {
        reconciled(row, known) == Reconciled::Waiting && !known.archived.contains_key(&row.id)
    };
    let mut leaving: BTreeMap<&str, usize> = BTreeMap::new();
    for row in open.iter().filter(captured) {
        let Some(old) = gone.get(&(text_digest(&row.text), &row.partition)) else { continue };
        let Some(successor) = known.live_successor(old) else { continue };
        let left = leaving.entry(&row.partition.agent).or_default();
        let room = *left < may_leave.get(&row.partition.agent).copied().unwrap_or(0);
        let apart = known.rows.get(successor).is_some_and(|other| are_apart(&row.text, &other.text, judged));
        if successor != row.id && room && !apart && !said_again(row, successor) {
            *left += 1;
            rem.recaptured.push(Recaptured { id: row.id.clone(), successor: successor.to_owned() });
        }
    }
}

/// Whether the pair is settled already: two rows with the same words, too, once somebody took it back that they became one.
fn are_apart(one: &str, other: &str, judged: &HashSet<JudgedPair>) -> bool {
    judged.contains(&JudgedPair::of(&text_digest(one), &text_digest(other)))
}

/// Rows with the same words: one stays, without asking anybody.
fn settle_exact_duplicates(
    open: &[&Memory],
    known: &Remembered,
    places: &HashMap<String, usize>,
    judged: &HashSet<JudgedPair>,
    may_leave: &BTreeMap<String, usize>,
    rem: &mut Reconciliation,
) {
    let mut same: HashMap<(String, &crate::memory::Partition), Vec<usize>> = HashMap::new();
    let gone: HashSet<String> = rem.recaptured.iter().map(|r| r.id.clone()).collect();
    for row in known.rows.values().filter(|row| !gone.contains(&row.id)) {
        same.entry((language::normalise(&row.text), &row.partition)).or_default().push(places[&row.id]);
    }
    for row in open.iter().filter(|row| !gone.contains(&row.id)) {
        let index = places[&row.id];
        let twins = &same[&(language::normalise(&row.text), &row.partition)];
        if rem.resolutions.is_taken(index) {
            continue;
        }
        // A pinned memory and its duplicate both stay: the veto says so once, below.
        let is_pinned = |index: usize| rem.claims[index].pinned;
        let stays = |other: &&usize| {
            let apart = are_apart(&row.text, &rem.claims[**other].text, judged);
            let free = !apart && !is_pinned(index) && !is_pinned(**other);
            **other != index && free && rem.resolutions.may_keep(**other)
        };
        if let Some(twin) = twins.iter().find(stays).copied() {
            let reason = "the same words".to_owned();
            settle_by_rule(index, twin, 1.0, reason, may_leave, rem);
        }
    }
}

fn settle_by_rule(
    new: usize,
    old: usize,
    similarity: f32,
    reason: String,
    may_leave: &BTreeMap<String, usize>,
    rem: &mut Reconciliation,
) {
    let candidates = vec![conflict::Candidate { claim: old, similarity: Similarity(similarity) }];
    let verdict = Verdict {
        candidate: 0,
        relation: Relation::Duplicate,
        reason,
        new_subject: String::new(),
        old_subject: String::new(),
        texts: vec![],
        prompt: None,
    };
    rem.settled_by_rules += 1;
    rem.resolutions.take_in(&Neighbourhood { new, candidates }, vec![verdict], &rem.claims, may_leave);
}

/// Tonight's new claims: the drafts, then at most 200 rows of each agent, newest first. The others wait.
fn take_up(
    open: &[&Memory],
    compressed: &Compressed,
    places: &HashMap<String, usize>,
    rem: &mut Reconciliation,
) -> Vec<usize> {
    let mut new: Vec<usize> = (0..compressed.drafts.len()).collect();
    let mut taken_up: BTreeMap<&str, usize> = BTreeMap::new();
    let gone: HashSet<String> = rem.recaptured.iter().map(|r| r.id.clone()).collect();
    for row in open.iter().filter(|row| !gone.contains(&row.id)) {
        let index = places[&row.id];
        let taken_up = taken_up.entry(&row.partition.agent).or_default();
        if rem.resolutions.is_taken(index) {
            *taken_up += 1;
            rem.taken_up.insert(row.id.clone());
        } else if *taken_up < ROWS_A_NIGHT {
            *taken_up += 1;
            rem.taken_up.insert(row.id.clone());
            new.push(index);
        } else {
            rem.waiting.insert(row.id.clone());
        }
    }
    new
}

/// Vectors of the new claims. A row with an unusable vector has none and is compared with nothing.
async fn vectors_of(
    night: &Night<'_>,
    claims: &[Claim],
    new: &[usize],
    compressed: &Compressed,
) -> Result<HashMap<usize, Vec<f32>>, Error> {
    let rows: Vec<String> =
        new.iter().filter(|i| !claims[**i].is_draft).map(|i| claims[*i].id.clone()).collect();
    let mut of_rows = night.store.vectors(&rows).await?;
    let mut vectors: HashMap<usize, Vec<f32>> = HashMap::new();
    for &index in new {
        let vector = match compressed.drafts.get(index) {
            Some(new) => Some(new.vector.clone()),
            None => of_rows.remove(&claims[index].id),
        };
        let Some(mut vector) = vector.filter(|vector| vector.len() == night.store.dim()) else { continue };
        if crate::providers::normalise(&mut vector) {
            vectors.insert(index, vector);
        }
    }
    Ok(vectors)
}

/// Pairs (new, other, cosine): similar rows, similar drafts, what dedup and the distiller pointed at, and what shares
/// a rare entity.
async fn find_candidates(
    night: &Night<'_>,
    new: &[usize],
    vectors: &HashMap<usize, Vec<f32>>,
    compressed: &Compressed,
    places: &HashMap<String, usize>,
    rem: &Reconciliation,
) -> Result<Vec<(usize, usize, f32)>, Error> {
    let related = night.thresholds.related;
    let claims = &rem.claims;
    let mut found = Vec::new();
    let rows: Vec<usize> = new.iter().copied().filter(|index| !claims[*index].is_draft).collect();
    let queries: Vec<Query> = rows
        .iter()
        .map(|index| Query {
            vector: vectors[index].clone(),
            partition: claims[*index].partition.clone(),
            exclude: Some(claims[*index].id.clone()),
        })
        .collect();
    let near =
        night.store.neighbours(&queries, Similarity(related), MAX_CANDIDATES, &night.config.agent).await?;
    for (index, neighbours) in rows.iter().zip(near) {
        found.extend(neighbours.iter().filter_map(|n| Some((*index, *places.get(&n.id)?, n.similarity.0))));
    }
    for (index, draft) in compressed.drafts.iter().enumerate() {
        found.extend(draft.near.iter().filter_map(|n| Some((index, *places.get(&n.id)?, n.similarity.0))));
    }
    // Drafts are not in the table yet, so the stream above cannot find them.
    let own: Vec<Vec<f32>> = new.iter().map(|index| vectors[index].clone()).collect();
    let with_a_draft =
        |(one, other, _): &(usize, usize, f32)| claims[*one].is_draft || claims[*other].is_draft;
    found.extend(conflict::among_the_new(claims, new, &own, related).into_iter().filter(with_a_draft));
    let mut pointed: Vec<(usize, usize)> = conflict::sharing_a_rare_entity(claims, new);
    for (index, draft) in compressed.drafts.iter().enumerate() {
        pointed.extend(draft.against.iter().filter_map(|id| Some((index, *places.get(id)?))));
    }
    let gone: HashSet<usize> = rem.recaptured.iter().filter_map(|r| places.get(&r.id)).copied().collect();
    let others: Vec<String> = pointed.iter().map(|(_, other)| claims[*other].id.clone()).collect();
    let other_vectors = night.store.vectors(&others).await?;
    for (one, other) in pointed {
        let vector = vectors.get(&other).or_else(|| other_vectors.get(&claims[other].id));
        let similarity = vector.map_or(0.0, |vector| crate::nrem::cluster::dot(&vectors[&one], vector));
        found.push((one, other, similarity));
    }
    found.retain(|(one, other, _)| {
        let free = |index: usize| !gone.contains(&index) && !rem.resolutions.is_taken(index);
        free(*one) && free(*other)
    });
    Ok(found)
}

/// Settles pairs at or above the duplicate threshold in which nothing that matters differs; returns what is left for
/// the judge.
fn settle_plain_duplicates(
    night: &Night<'_>,
    new: &[usize],
    found: &[(usize, usize, f32)],
    judged: &HashSet<JudgedPair>,
    may_leave: &BTreeMap<String, usize>,
    rem: &mut Reconciliation,
) -> Vec<Neighbourhood> {
    let all = conflict::neighbourhoods(&rem.claims, new, found, judged);
    rem.candidates = all.iter().map(|n| n.candidates.len()).sum();
    let mut vetoed: HashSet<(usize, usize)> = HashSet::new();
    for neighbourhood in &all {
        for candidate in &neighbourhood.candidates {
            let (one, other) = (&rem.claims[neighbourhood.new], &rem.claims[candidate.claim]);
            let taken =
                rem.resolutions.is_taken(neighbourhood.new) || !rem.resolutions.may_keep(candidate.claim);
            if taken || candidate.similarity.0 < night.thresholds.duplicate {
                continue;
            }
            let same = says_the_same(&one.text, one.said_on, &other.text, other.said_on);
            if same && adds_nothing(&one.text, &other.text) {
                let (new, old, similarity) = (neighbourhood.new, candidate.claim, candidate.similarity.0);
                settle_by_rule(new, old, similarity, "nothing that matters differs".into(), may_leave, rem);
                if !rem.resolutions.is_taken(new) && (rem.claims[new].pinned || rem.claims[old].pinned) {
                    vetoed.insert((new, old));
                }
            }
        }
    }
    let open = |n: &Neighbourhood| !rem.resolutions.is_taken(n.new);
    let mut left: Vec<Neighbourhood> = all.into_iter().filter(open).collect();
    for neighbourhood in &mut left {
        // The same words that could not become one tonight are no question to a judge: they would be kept apart for good.
        let same_words = |candidate: &conflict::Candidate| {
            let (one, other) = (&rem.claims[neighbourhood.new], &rem.claims[candidate.claim]);
            language::normalise(&one.text) == language::normalise(&other.text)
        };
        neighbourhood.candidates.retain(|candidate| !same_words(candidate));
        // Settled for good: no judge need be asked.
        let new = neighbourhood.new;
        neighbourhood.candidates.retain(|candidate| !vetoed.contains(&(new, candidate.claim)));
        let before = neighbourhood.candidates.len();
        neighbourhood.candidates.retain(|candidate| !rem.resolutions.is_taken(candidate.claim));
        if neighbourhood.candidates.len() < before {
            rem.resolutions.waiting.insert(neighbourhood.new);
        }
    }
    left.retain(|neighbourhood| !neighbourhood.candidates.is_empty());
    left
}

/// The questions of all agents in turns: when the budget runs out, it has not gone to one of them alone.
fn in_turns(open: Vec<Neighbourhood>, claims: &[Claim]) -> Vec<Neighbourhood> {
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Neighbourhood)> = open
        .into_iter()
        .map(|neighbourhood| {
            let turn = asked.entry(claims[neighbourhood.new].partition.agent.clone()).or_default();
            *turn += 1;
            (*turn, neighbourhood)
        })
        .collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, neighbourhood)| neighbourhood).collect()
}

/// A merge whose text says what was forgotten on purpose does not happen: both stay as they are.
fn keep_forgotten_apart(night: &Night<'_>, rem: &mut Reconciliation) {
    let Reconciliation { resolutions, claims, merged_vectors, .. } = rem;
    for resolution in &mut resolutions.list {
        let Resolution::Merge { new, old, texts, similarity, reason, .. } = resolution else { continue };
        let newer = &claims[*new];
        let is_forgotten = |text: &String| {
            let vector = merged_vectors.get(text).map(|vector| (vector.as_slice(), night.embedder.model()));
            let said = Said { agent: &newer.partition.agent, text, said_on: Some(newer.said_on), vector };
            !night.memorial.matching(said, night.thresholds.duplicate).is_empty()
        };
        if texts.iter().any(is_forgotten) {
            let veto = Some(Veto("the merged text would say what was forgotten on purpose".into()));
            let (new, old, similarity, reason) = (*new, *old, *similarity, std::mem::take(reason));
            resolutions.judged.push(JudgedPair::of(&claims[new].digest(), &claims[old].digest()));
            *resolution = Resolution::KeepBoth { new, old, similarity, reason, veto };
        }
    }
}

/// Embeds merged texts. If that fails the merges do not happen: their pairs stay open.
async fn embed_merged(night: &Night<'_>, rem: &mut Reconciliation) {
    for resolution in &mut rem.resolutions.list {
        if let Resolution::Merge { texts, .. } = resolution {
            *texts = texts.iter().map(|text| night.privacy.to_store(text)).collect();
        }
    }
    let texts: Vec<String> = rem
        .resolutions
        .list
        .iter()
        .filter_map(|resolution| match resolution {
            Resolution::Merge { texts, .. } => Some(texts.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    let outbound: Vec<_> = texts.iter().map(|text| night.privacy.to_embed(text)).collect();
    match night.embedder.embed(&outbound).await {
        Ok(vectors) => rem.merged_vectors = texts.into_iter().zip(vectors).collect(),
        Err(error) => {
            judge::note_failure(&error, rem);
            let (merges, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut rem.resolutions.list)
                .into_iter()
                .partition(|resolution| matches!(resolution, Resolution::Merge { .. }));
            rem.resolutions.list = rest;
            for merge in merges {
                if let Resolution::Merge { new, old, .. } = merge {
                    rem.resolutions.waiting.extend([new, old]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Category, Partition, Trace};

    #[test]
    fn what_was_never_compared_is_new_and_an_open_conflict_is_not() {
        let row = |id: &str| Memory {
            id: id.into(),
            text: format!("text of {id}"),
            importance: 0.5,
            category: Category::Fact,
            created_at: 0,
            partition: Partition::of_agent("main"),
        };
        let trace = |id: &str, reconciled| {
            let trace = Trace::of_row(&row(id), chrono::NaiveDate::default(), "model", "run");
            (id.to_owned(), Trace { reconciled, ..trace })
        };
        let mut known = Remembered {
            rows: ["captured", "changed", "done", "open", "beyond"].map(|id| (id.to_owned(), row(id))).into(),
            traces: [
                trace("changed", Reconciled::Done),
                trace("done", Reconciled::Done),
                trace("open", Reconciled::Open),
                trace("beyond", Reconciled::Waiting),
            ]
            .into(),
            archived: HashMap::new(),
            timezone: chrono_tz::Tz::UTC,
        };
        for memory in known.rows.values_mut().filter(|memory| memory.id == "changed") {
            memory.text.push_str(", another one");
        }
        assert_eq!(never_compared(&known), 3);
        let ids: Vec<&str> = unreconciled(&known).iter().map(|memory| memory.id.as_str()).collect();
        assert_eq!(ids, ["beyond", "captured", "changed", "open"]);
    }
}
