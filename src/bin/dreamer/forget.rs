//! `dreamer forget`: finds what is meant, asks, has it forgotten, and says what was touched.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use chrono::Utc;
use dreamer::config::{Config, Layers};
use dreamer::error::Error;
use dreamer::forget::{self, ForgetError, Manner, Meant, Named, Place, Touched};
use dreamer::openclaw::config::OpenClaw;

use crate::failure::{Failure, print};
use crate::output;

/// What was asked for.
pub(crate) struct Asked {
    pub(crate) id: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) is_sure: bool,
}

/// How.
pub(crate) struct Way {
    pub(crate) erase: bool,
    pub(crate) now: bool,
    pub(crate) episodes: bool,
}

/// Has memories forgotten. Asks first where more than one may be meant, and where there is no way back.
pub(crate) async fn forget(config: &Config, layers: &Layers, asked: &Asked, way: Way) -> Result<u8, Failure> {
    let named = match (&asked.id, &asked.text) {
        (Some(id), _) => Named::Id(id),
        (None, text) => Named::Text(text.as_deref().unwrap_or_default()),
    };
    let manner = match way.erase {
        false => Manner::Archive,
        true => {
            let address = || OpenClaw::read(layers).and_then(|gateway| gateway.listens_at());
            let now =
                way.now.then(address).transpose().map_err(|error| Error::from(ForgetError::from(error)))?;
            Manner::Erase { now, episodes: way.episodes }
        }
    };
    let meant = forget::find(config, named, asked.agent.as_deref()).await?;
    print(&listing(&meant))?;
    let must_ask = way.erase || asked.text.is_some();
    if must_ask && !asked.is_sure && !confirm(&question(meant.len(), way.erase))? {
        return Err(Failure::Memory("nothing was changed; --yes skips the question".to_owned()));
    }
    let ids: Vec<String> = meant.into_iter().map(|meant| meant.id).collect();
    let touched = forget::forget(config, &ids, &manner, Utc::now()).await?;
    print(&told(config, &touched, &manner))?;
    Ok(u8::from(!touched.edited.is_empty() || !touched.still_in.is_empty()))
}

fn listing(meant: &[Meant]) -> String {
    let columns = output::columns().saturating_sub(65).max(30);
    let rows: Vec<Vec<String>> = meant
        .iter()
        .map(|meant| {
            let place = match &meant.place {
                Place::Live => "live".to_owned(),
                Place::Archived(reason) => format!("archived ({})", reason.as_str()),
                Place::Erased => "forgotten already".to_owned(),
            };
            let text = meant.text.as_deref().unwrap_or("(only its tombstone is left)");
            vec![meant.id.clone(), place, output::shorten(text, columns)]
        })
        .collect();
    output::table(&rows)
}

fn question(count: usize, erase: bool) -> String {
    let what = if count == 1 { "this memory".to_owned() } else { format!("these {count} memories") };
    match erase {
        true => format!("Erase {what}? There is no way back. [y/N] "),
        false => format!("Have {what} forgotten? [y/N] "),
    }
}

/// Asks on the terminal; where nobody is there to answer, the answer is no.
fn confirm(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(question.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::of_output)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Failure::Output)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn told(config: &Config, touched: &Touched, manner: &Manner) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    match manner {
        Manner::Archive => {
            for id in &touched.live {
                line(format!("forgotten  {id}: it is in the archive; the way back: dreamer restore {id}"));
            }
            for id in &touched.kept_in_archive {
                line(format!("forgotten  {id}: it stays in the archive and does not come back by itself"));
            }
        }
        Manner::Erase { .. } => {
            for (place, count) in &touched.places {
                line(format!("erased     {count} in {place}"));
            }
        }
    }
    for (path, lines) in &touched.episodes {
        line(format!("erased     {lines} lines of {}", path.display()));
    }
    for (path, lines) in &touched.outside {
        line(match manner {
            Manner::Erase { episodes: true, .. } => format!("erased     {lines} lines of {}", path.display()),
            _ => format!(
                "left       {lines} lines of {}, which is the gateway's; --episodes blanks them",
                path.display()
            ),
        });
    }
    for id in &touched.edited {
        line(format!("left       {id}: it was edited meanwhile; look at it and run this again"));
    }
    for path in &touched.still_in {
        line(format!("left       the words still stand in {}: another memory says them", path.display()));
    }
    if !touched.successors.is_empty() {
        line("these memories were merged from it or say the same; forget them too with:".to_owned());
    }
    for memory in &touched.successors {
        let shown = output::shorten(&memory.text, output::columns().saturating_sub(70).max(30));
        line(format!("           dreamer forget {}  # {shown}", memory.id));
    }
    if let Some(until) = touched.old_versions_until {
        line(format!(
            "until      {}: old versions of the tables hold it, then a night removes them; with the gateway stopped, \
             --now does it at once",
            until.with_timezone(&config.timezone).format("%Y-%m-%d")
        ));
    }
    if let Manner::Erase { now: Some(_), .. } = manner {
        line("now        the tables were rewritten and hold no older version".to_owned());
    }
    line("what was said before is not learned again; what the user says from now on is".to_owned());
    text
}
