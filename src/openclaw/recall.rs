//! Which memories were used by day: `memory_recall` results, memories the gateway put before prompts, and what agents noted
//! in `recalls/*.jsonl`; also which were forgotten by `memory_forget`. Reads; what it means for a memory is `rem::fading`'s.
//!
//! The gateway puts three rows before nearly every prompt, relevant or not. Such a row counts only where its similarity to
//! the prompt reaches the related threshold, which needs the prompt's vector: each prompt is embedded once, ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;
use sha2::{Digest, Sha256};

use super::transcript::episodes::{Conversation, date_in};
use super::transcript::line::{Answer, Event};
use super::transcript::twins::{Spoken, twins};
use super::transcript::{Transcript, Transcripts, plain};
use crate::config::Config;
use crate::dream::Night;
use crate::episode::{Content, Episode, Message, Speaker};
use crate::error::{Error, chain};
use crate::language::counted;
use crate::memory::Memory;
use crate::nrem::cluster::dot;
use crate::plan::traces::Recalls;
use crate::providers;
use crate::remembered::Remembered;
use crate::state::StateError;
use crate::state::recalls::{RecallBook, RecallEvent, Way};

/// Prompts a night compares with what was put before them; the newest first, the rest follows on the next nights.
const PROMPTS_A_NIGHT: usize = 200;
/// Characters of a prompt that are embedded.
const PROMPT_CHARS: usize = 4_000;

/// A memory that an agent was given when it asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Use {
    agent: String,
    /// Its id; older gateways tell its text alone.
    id: Option<String>,
    text: String,
    day: NaiveDate,
    place: String,
}

/// A prompt with what the gateway put before it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    agent: String,
    /// Tells it from all others.
    key: String,
    text: String,
    injected: Vec<String>,
    day: NaiveDate,
    place: String,
}

/// A `memory_forget` call that deleted a memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forget {
    /// The agent that was told to.
    pub agent: String,
    /// The memory.
    pub id: String,
    /// What it said, as far as the transcript tells.
    pub text: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
    /// Session and call: it is carried out once.
    pub call: String,
}

/// What the transcripts and episode files of a night tell of the use of memories.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Uses {
    uses: Vec<Use>,
    prompts: Vec<Prompt>,
    /// Memories that were forgotten on purpose.
    pub forgets: Vec<Forget>,
    /// Agents whose transcripts could be read.
    readable: BTreeSet<String>,
}

impl Uses {
    /// Takes in the transcripts, with the conversations of each.
    pub(crate) fn of_transcripts(
        transcripts: &Transcripts,
        talks: &[Vec<Conversation>],
        timezone: Tz,
    ) -> Self {
        let mut uses = Self { readable: transcripts.readable.clone(), ..Self::default() };
        for (transcript, talks) in transcripts.list.iter().zip(talks) {
            uses.take_answers(transcript, timezone);
            for message in talks.iter().flat_map(|talk| &talk.messages) {
                uses.take_prompt(transcript, message, timezone);
            }
        }
        uses
    }

    /// What tools answered, also on branches that were left: the memory was used or deleted all the same.
    fn take_answers(&mut self, transcript: &Transcript, timezone: Tz) {
        let mut texts: HashMap<&str, &str> = HashMap::new();
        for line in &transcript.lines {
            let (Event::Answered(answer), Some(at)) = (&line.event, line.at) else { continue };
            let day = at.with_timezone(&timezone).date_naive();
            match answer {
                Answer::Recalled(memories) => {
                    for (id, text) in memories {
                        if let Some(id) = id {
                            texts.insert(id, text);
                        }
                        let (agent, place) = (transcript.agent.clone(), place_of(transcript, day));
                        self.uses.push(Use { agent, id: id.clone(), text: text.clone(), day, place });
                    }
                }
                Answer::Forgot { call, id, text } => {
                    let known = texts.get(id.as_str()).map(|text| (*text).to_owned());
                    self.forgets.push(Forget {
                        agent: transcript.agent.clone(),
                        id: id.clone(),
                        text: text.clone().or(known),
                        at,
                        call: format!("{} {call}", transcript.session),
                    });
                }
                Answer::Stored(_) | Answer::Nothing => {}
            }
        }
    }

    fn take_prompt(&mut self, transcript: &Transcript, message: &Message, timezone: Tz) {
        let Some(day) = message.at.map(|at| at.with_timezone(&timezone).date_naive()) else { return };
        let place = place_of(transcript, day);
        self.push(&transcript.agent, Some(&transcript.session), message, day, place);
    }

    /// Takes in the recalled blocks of the hook's files, but for those that the transcript of the session holds too.
    pub(crate) fn take_files(&mut self, files: &[Episode], spoken: &Spoken, timezone: Tz) {
        for file in files {
            let Content::Session(messages) = &file.content else { continue };
            for (message, twin) in messages.iter().zip(twins(file, spoken, timezone)) {
                if twin.is_none() {
                    let day = message.at.unwrap_or(file.said_at).with_timezone(&timezone).date_naive();
                    self.push(&file.agent, file.session_id.as_deref(), message, day, file.name.clone());
                }
            }
        }
    }

    fn push(&mut self, agent: &str, session: Option<&str>, message: &Message, day: NaiveDate, place: String) {
        let is_prompt =
            matches!(message.speaker, Speaker::User | Speaker::Person(_)) && message.noise.is_none();
        if !is_prompt || message.injected.is_empty() || message.text.trim().is_empty() {
            return;
        }
        let mut hash = Sha256::new();
        let day_text = day.to_string();
        let parts = [agent, session.unwrap_or_default(), &day_text, &message.text];
        for part in parts.into_iter().chain(message.injected.iter().map(String::as_str)) {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        self.prompts.push(Prompt {
            agent: agent.to_owned(),
            key: format!("{:x}", hash.finalize()),
            text: message.text.clone(),
            injected: message.injected.clone(),
            day,
            place,
        });
    }

    /// All of it under one agent: a table without agents is one agent's.
    pub(crate) fn under(mut self, agent: &str) -> Self {
        for of in
            self.uses.iter_mut().map(|u| &mut u.agent).chain(self.prompts.iter_mut().map(|p| &mut p.agent))
        {
            agent.clone_into(of);
        }
        for forget in &mut self.forgets {
            agent.clone_into(&mut forget.agent);
        }
        if !self.readable.is_empty() {
            self.readable = BTreeSet::from([agent.to_owned()]);
        }
        self
    }

    /// That of one agent alone.
    pub(crate) fn only(mut self, agent: &str) -> Self {
        self.uses.retain(|used| used.agent == agent);
        self.prompts.retain(|prompt| prompt.agent == agent);
        self.forgets.retain(|forget| forget.agent == agent);
        self.readable.retain(|readable| readable == agent);
        self
    }
}

fn place_of(transcript: &Transcript, day: NaiveDate) -> String {
    let kind =
        if transcript.path.extension().is_some_and(|end| end == "sqlite") { "sqlite" } else { "jsonl" };
    let name = format!("{day}-transcript-{}.{kind}", plain(&transcript.session));
    debug_assert!(date_in(&name).is_some());
    name
}

/// Rows by agent and text: recalled text is matched to rows by exactly what they say.
struct Rows<'a> {
    by_text: HashMap<(&'a str, &'a str), Vec<&'a Memory>>,
    known: &'a Remembered,
}

impl<'a> Rows<'a> {
    fn of(known: &'a Remembered) -> Self {
        let mut by_text: HashMap<_, Vec<&Memory>> = HashMap::new();
        for row in known.rows.values() {
            by_text.entry((row.partition.agent.as_str(), row.text.trim())).or_default().push(row);
        }
        Self { by_text, known }
    }

    /// The rows that say it, or those that carry on what said it: a gateway may hold the table of before the night open.
    fn saying(&self, agent: &str, text: &str) -> Vec<&'a Memory> {
        let text = text.trim();
        if let Some(rows) = self.by_text.get(&(agent, text)) {
            return rows.clone();
        }
        let archived = self.known.archived.values().map(|archived| &archived.memory);
        let said = archived.filter(|memory| memory.partition.agent == agent && memory.text.trim() == text);
        let mut rows: Vec<&Memory> = said.filter_map(|memory| live(self.known, &memory.id)).collect();
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        rows.dedup_by(|a, b| a.id == b.id);
        rows
    }
}

/// The row of that id, or the one that carries it on.
fn live<'a>(known: &'a Remembered, id: &str) -> Option<&'a Memory> {
    known.rows.get(id).or_else(|| known.rows.get(known.live_successor(id)?))
}

/// The recalls of the night: all in the book, all noted ones, and what tonight's transcripts and files add to them. A
/// provider that fails or has no budget left makes prompts wait for the next night.
///
/// # Errors
/// When the book, a file of noted recalls or the database cannot be read.
pub(crate) async fn read(
    night: &Night<'_>,
    known: &Remembered,
    uses: &Uses,
    vectors: &HashMap<String, Vec<f32>>,
    warnings: &mut Vec<String>,
) -> Result<Recalls, Error> {
    let book = RecallBook::read(&night.config.state_dir())?;
    let mut recalls = noted(night.config, warnings)?;
    recalls.readable_agents.clone_from(&uses.readable);
    let rows = Rows::of(known);
    let mut events: BTreeSet<RecallEvent> = BTreeSet::new();
    for ((id, day), place) in &recalls.noted {
        if let Some(row) = live(known, id) {
            events.insert(recalled(&row.id, *day, Way::Noted, place));
        }
    }
    for ((text, day), place) in &recalls.noted_texts {
        for row in known.rows.values().filter(|row| row.text.trim() == text.trim()) {
            events.insert(recalled(&row.id, *day, Way::Noted, place));
        }
    }
    events.retain(|event| !matches!(event, RecallEvent::Recalled { day, .. } if *day > night.today));
    for used in uses.uses.iter().filter(|used| used.day <= night.today) {
        let by_id =
            used.id.as_ref().and_then(|id| live(known, id)).filter(|row| row.partition.agent == used.agent);
        let by_text = if used.id.is_none() { rows.saying(&used.agent, &used.text) } else { vec![] };
        for row in by_id.into_iter().chain(by_text) {
            events.insert(recalled(&row.id, used.day, Way::Asked, &used.place));
        }
    }
    let counted: BTreeSet<(String, NaiveDate)> = events
        .iter()
        .filter_map(|event| match event {
            RecallEvent::Recalled { id, day, .. } => Some((id.clone(), *day)),
            _ => None,
        })
        .collect();
    events.extend(compare(night, &rows, uses, &book, &counted, vectors, warnings).await?);
    recalls.by_id.extend(book.all().map(|(id, day)| (id.to_owned(), day)));
    for event in &events {
        if let RecallEvent::Recalled { id, day, .. } = event {
            recalls.by_id.insert((id.clone(), *day));
        }
    }
    recalls.events = events.into_iter().filter(|event| !book.holds(event)).collect();
    Ok(recalls)
}

fn recalled(id: &str, day: NaiveDate, way: Way, place: &str) -> RecallEvent {
    RecallEvent::Recalled { id: id.to_owned(), day, way, place: place.to_owned() }
}

/// Compares prompts that were not compared yet with the rows that were put before them.
async fn compare(
    night: &Night<'_>,
    rows: &Rows<'_>,
    uses: &Uses,
    book: &RecallBook,
    counted_today: &BTreeSet<(String, NaiveDate)>,
    known_vectors: &HashMap<String, Vec<f32>>,
    warnings: &mut Vec<String>,
) -> Result<BTreeSet<RecallEvent>, Error> {
    let mut events = BTreeSet::new();
    let mut open: BTreeMap<&str, (&Prompt, Vec<&Memory>)> = BTreeMap::new();
    for prompt in
        uses.prompts.iter().filter(|prompt| prompt.day <= night.today && !book.is_compared(&prompt.key))
    {
        let put_before = prompt.injected.iter().flat_map(|text| rows.saying(&prompt.agent, text));
        // Once a memory and day: what counts already need not be compared.
        let counts = |row: &&Memory| {
            let trace = rows.known.traces.get(&row.id);
            trace.is_some_and(|trace| trace.recalled.contains(&prompt.day))
                || book.is_recalled(&row.id, prompt.day)
                || counted_today.contains(&(row.id.clone(), prompt.day))
        };
        let rest: Vec<&Memory> = put_before.filter(|row| !counts(row)).collect();
        if rest.is_empty() {
            events.insert(RecallEvent::Compared { prompt: prompt.key.clone() });
        } else {
            open.insert(&prompt.key, (prompt, rest));
        }
    }
    let mut open: Vec<(&Prompt, Vec<&Memory>)> = open.into_values().collect();
    open.sort_by(|(a, _), (b, _)| (b.day, &b.key).cmp(&(a.day, &a.key)));
    let waiting = open.split_off(PROMPTS_A_NIGHT.min(open.len())).len();
    if waiting > 0 {
        warnings.push(format!(
            "{} wait to be compared with the memories put before them",
            counted(waiting, "prompt")
        ));
    }
    if open.is_empty() {
        return Ok(events);
    }
    let texts: Vec<String> = open.iter().map(|(prompt, _)| words(night, &prompt.text)).collect();
    let Some(vectors) = embed(night, &texts, known_vectors, warnings).await else { return Ok(events) };
    let ids: BTreeSet<String> =
        open.iter().flat_map(|(_, rest)| rest.iter().map(|row| row.id.clone())).collect();
    let of_rows = night.store.vectors(&ids.into_iter().collect::<Vec<_>>()).await?;
    for ((prompt, rest), text) in open.iter().zip(&texts) {
        let Some(vector) = vectors.get(text) else { continue };
        for row in rest {
            let mut of_row = of_rows.get(&row.id).cloned().unwrap_or_default();
            if of_row.len() == vector.len()
                && providers::normalise(&mut of_row)
                && dot(&of_row, vector) >= night.thresholds.related
            {
                events.insert(recalled(&row.id, prompt.day, Way::Injected, &prompt.place));
            }
        }
        events.insert(RecallEvent::Compared { prompt: prompt.key.clone() });
    }
    Ok(events)
}

/// A prompt as it is embedded: without secrets, and not longer than an embedder takes.
fn words(night: &Night<'_>, text: &str) -> String {
    night.privacy.to_store(text).chars().take(PROMPT_CHARS).collect()
}

/// Vectors of unit length by text: those the night has already, and the others in one go.
async fn embed(
    night: &Night<'_>,
    texts: &[String],
    known: &HashMap<String, Vec<f32>>,
    warnings: &mut Vec<String>,
) -> Option<HashMap<String, Vec<f32>>> {
    let mut vectors: HashMap<String, Vec<f32>> = HashMap::new();
    let mut missing: BTreeSet<&String> = BTreeSet::new();
    for text in texts {
        match known.get(text) {
            Some(vector) => {
                vectors.insert(text.clone(), vector.clone());
            }
            None => {
                missing.insert(text);
            }
        }
    }
    let outbound: Vec<_> = missing.iter().map(|text| night.privacy.to_embed(text)).collect();
    if !outbound.is_empty() {
        match night.embedder.embed(&outbound).await {
            Ok(found) => vectors.extend(missing.into_iter().cloned().zip(found)),
            Err(error) => {
                let prompts = counted(outbound.len(), "prompt");
                warnings.push(format!("recalls: {prompts} wait for the next night: {}", chain(&error)));
                return None;
            }
        }
    }
    vectors.retain(|_, vector| providers::normalise(vector));
    Some(vectors)
}

/// Recalls any agent may have noted in `recalls/*.jsonl`: `{"id" or "text", "at"}` a line.
pub(crate) fn noted(config: &Config, warnings: &mut Vec<String>) -> Result<Recalls, StateError> {
    #[derive(serde::Deserialize)]
    struct Line {
        id: Option<String>,
        text: Option<String>,
        at: DateTime<Utc>,
    }
    let dir = config.recalls_dir();
    let mut recalls = Recalls::default();
    let failed = |path: &Path, source| StateError::Read { path: path.to_path_buf(), source };
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(recalls),
        Err(e) => return Err(failed(&dir, e)),
    };
    let mut files = BTreeSet::new();
    for entry in entries {
        files.insert(entry.map_err(|e| failed(&dir, e))?.path());
    }
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl")) {
        let bytes = std::fs::read(&path).map_err(|e| failed(&path, e))?;
        recalls.readable = true;
        let place = format!("recalls/{}", path.file_name().unwrap_or_default().to_string_lossy());
        for (number, line) in
            String::from_utf8_lossy(&bytes).lines().enumerate().filter(|(_, l)| !l.trim().is_empty())
        {
            match serde_json::from_str::<Line>(line) {
                Ok(Line { id: Some(id), at, .. }) => {
                    let day = at.with_timezone(&config.timezone).date_naive();
                    recalls.noted.entry((id.clone(), day)).or_insert_with(|| place.clone());
                    recalls.by_id.insert((id, day));
                }
                Ok(Line { text: Some(text), at, .. }) => {
                    let day = at.with_timezone(&config.timezone).date_naive();
                    recalls.noted_texts.entry((text.clone(), day)).or_insert_with(|| place.clone());
                    recalls.by_text.insert((text, day));
                }
                _ => warnings.push(format!(
                    "{}:{}: no recall, passed over: a line is {{\"id\" or \"text\", \"at\"}}",
                    path.display(),
                    number + 1
                )),
            }
        }
    }
    Ok(recalls)
}
