//! What a night reads besides the memories: the episodes of all sources, each message once, and what was used of the
//! memories by day. Reads only; what cannot be read is told, not fatal.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Mode;
use super::read::read_episodes;
use crate::config::Config;
use crate::episode::{Episode, Reading};
use crate::error::Error;
use crate::language::counted;
use crate::openclaw::recall::Uses;
use crate::openclaw::transcript;
use crate::openclaw::transcript::episodes::{Conversation, conversations, date_in, episodes, session_in};
use crate::openclaw::transcript::{Transcripts, twins};
use crate::remembered::Remembered;
use crate::state::journal::Journal;
use crate::store::Store;

/// A timed run leaves a conversation alone in which something was said so recently: it goes on.
const STILL_WARM: Duration = Duration::from_secs(10 * 60);

/// What a night has read.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The episodes, those of transcripts first: they know more of the same message than a file does.
    pub episodes: Vec<Episode>,
    /// What was used of the memories.
    pub uses: Uses,
}

/// Where and when a night reads.
#[derive(Clone, Copy)]
pub(crate) struct Where<'a> {
    /// The settings.
    pub config: &'a Config,
    /// The database.
    pub store: &'a Store,
    /// The chunk journal.
    pub journal: &'a Journal,
    /// Which stages run.
    pub mode: Mode,
    /// Whether the timer started the run.
    pub timed: bool,
    /// The time of the night.
    pub now: DateTime<Utc>,
}

/// Reads the episodes and the use of memories.
///
/// # Errors
/// When the episodes folder cannot be listed.
pub(crate) fn read_sources(
    place: Where<'_>,
    known: &Remembered,
    warnings: &mut Vec<String>,
) -> Result<Sources, Error> {
    let Where { config, store, journal, mode, timed, now } = place;
    let reading = reading(config);
    let mut files = match mode {
        Mode::RemOnly => vec![],
        _ if !config.episode_source.has_files() => vec![],
        _ if config.episode_source.has_transcripts() && !has_folder(config) => {
            warnings.push(format!(
                "the episodes folder {} does not exist (yet): only transcripts were read",
                config.episodes_dir.display()
            ));
            vec![]
        }
        _ => read_episodes(config, store, timed, now, warnings)?,
    };
    let transcripts = transcripts(config, store, known);
    warnings.extend(transcripts.warnings.iter().cloned());
    let talks: Vec<Vec<Conversation>> =
        transcripts.list.iter().map(|transcript| conversations(transcript, &reading)).collect();
    let each = transcripts.list.iter().zip(&talks);
    let mut said: Vec<Episode> =
        each.flat_map(|(transcript, talks)| episodes(transcript, talks, &reading)).collect();
    if !store.has_agent() {
        said.iter_mut().for_each(|episode| episode.agent.clone_from(&config.agent));
    }
    let mut uses = Uses::of_transcripts(&transcripts, &talks, config.timezone);
    if !store.has_agent() {
        uses = uses.under(&config.agent);
    }
    let told = twins::spoken(&said, &files);
    uses.take_files(&files, &told, config.timezone);
    twins::lend_recalls(&mut files, &told, config.timezone);
    let with_transcripts = config.episode_source.has_transcripts() && mode != Mode::RemOnly;
    if with_transcripts {
        twins::recognise(&mut said, &files, &ends(&transcripts, &talks), journal, config.timezone);
    }
    let spoken = if with_transcripts { twins::spoken(&said, &files) } else { HashMap::new() };
    twins::align(&mut files, &spoken, journal, config.timezone);
    let mut all = if with_transcripts { said } else { vec![] };
    if timed {
        leave_warm(&mut all, now, warnings);
    }
    all.extend(files);
    Ok(Sources { episodes: all, uses })
}

/// Whether there is any folder of episodes.
pub(crate) fn has_folder(config: &Config) -> bool {
    config.folders().iter().any(|folder| folder.path.is_dir())
}

fn reading(config: &Config) -> Reading {
    Reading { owner: config.owner.clone(), agent: config.agent.clone(), timezone: config.timezone }
}

/// The transcripts of the agents whose memories are in the table. Without a gateway there is nobody to have written them,
/// unless the operator names them as a source.
fn transcripts(config: &Config, store: &Store, known: &Remembered) -> Transcripts {
    if !config.has_gateway() && !config.episode_source.has_transcripts() {
        return Transcripts::default();
    }
    let ours: BTreeSet<String> = known.agents().into_iter().chain([config.agent.clone()]).collect();
    let wanted = |agent: &str| match config.agents.is_empty() {
        // A table without agents is shared by all of them.
        true => !store.has_agent() || ours.contains(agent),
        false => config.is_ours(agent),
    };
    let mut found = transcript::read(&config.gateway_state_dir, wanted, None);
    if config.episode_source.has_transcripts() && found.list.is_empty() && found.warnings.is_empty() {
        found.warnings.push(format!(
            "no transcript lies under {}; is OPENCLAW_STATE_DIR the gateway's folder?",
            config.gateway_state_dir.display()
        ));
    }
    found
}

/// When the conversations of each session ended.
fn ends(transcripts: &Transcripts, talks: &[Vec<Conversation>]) -> HashMap<String, Vec<DateTime<Utc>>> {
    let mut ends: HashMap<String, Vec<DateTime<Utc>>> = HashMap::new();
    for (transcript, talks) in transcripts.list.iter().zip(talks) {
        ends.entry(transcript.session.clone())
            .or_default()
            .extend(talks.iter().filter_map(|talk| talk.ended));
    }
    ends
}

fn leave_warm(episodes: &mut Vec<Episode>, now: DateTime<Utc>, warnings: &mut Vec<String>) {
    let before = episodes.len();
    episodes.retain(|episode| (now - episode.said_at).to_std().is_ok_and(|age| age >= STILL_WARM));
    let warm = before - episodes.len();
    if warm > 0 {
        let (conversations, waits) =
            (counted(warm, "conversation"), if warm == 1 { "goes on: it waits" } else { "go on: they wait" });
        warnings.push(format!("{conversations} of the last ten minutes {waits} for the next night"));
    }
}

/// The episodes of a transcript's session under one name, with the file they lie in: for what is asked about one place.
pub(crate) fn episodes_named(config: &Config, name: &str, has_agent: bool) -> Vec<(PathBuf, Episode)> {
    let Some(session) = session_in(name) else { return Vec::new() };
    let reading = reading(config);
    let found = transcript::read(&config.gateway_state_dir, |_| true, Some(session));
    let mut named = Vec::new();
    for transcript in &found.list {
        let talks = conversations(transcript, &reading);
        for mut episode in
            episodes(transcript, &talks, &reading).into_iter().filter(|episode| episode.name == name)
        {
            if !has_agent {
                episode.agent.clone_from(&config.agent);
            }
            named.push((transcript.path.clone(), episode));
        }
    }
    named
}

/// Whether that is the name of a transcript's episode.
pub(crate) fn is_of_transcript(name: &str) -> bool {
    session_in(name).is_some()
}

/// The day in the name of an episode of any source.
pub(crate) fn day_in(name: &str) -> Option<chrono::NaiveDate> {
    crate::episode::date_in(name).or_else(|| date_in(name))
}
