//! `dreamer reembed`: shows what the move to another embedding model costs, asks, and tells how far it is.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use chrono::Utc;
use dreamer::config::{Config, Layers};
use dreamer::error::Error;
use dreamer::forget::ForgetError;
use dreamer::openclaw::config::OpenClaw;
use dreamer::reembed::{self, Moved, Mover, Outlook, Wish};
use serde_json::{Value, json};

use crate::args::Reembed;
use crate::failure::{Failure, print};
use crate::undo::refused;

/// Moves the stored vectors to the configured model.
pub(crate) async fn reembed(config: &Config, layers: &Layers, asked: Reembed) -> Result<u8, Failure> {
    let address = OpenClaw::read(layers).and_then(|gateway| gateway.listens_at());
    let gateway = Some(address.map_err(|error| Error::from(ForgetError::from(error)))?);
    let wish = Wish { to: asked.to, gateway, anyway: asked.anyway };
    let mover = Mover::of(config, Instant::now())?;
    let outlook = reembed::look(config, &mover, &wish).await?;
    let idle = outlook.is_done() && !wish.anyway;
    // One object is all that `--json` prints.
    if asked.dry_run || idle || !(asked.yes && asked.json) {
        let status = if idle { "nothing_to_do" } else { "shown" };
        print(&if asked.json { format!("{}\n", shown(status, &outlook)) } else { told(&outlook, idle) })?;
    }
    if asked.dry_run || idle {
        return Ok(0);
    }
    if !asked.yes
        && let Some(code) = refused("move the vectors?")
    {
        return Ok(code);
    }
    let moved = reembed::reembed(config, &mover, &wish, &Progress::default().told(), Utc::now()).await?;
    let text = if asked.json { format!("{}\n", done(&moved)) } else { what_now(config, &moved) };
    print(&text).map(|()| 0)
}

/// How far it is, on stderr: on a terminal one line that changes, elsewhere a line for every tenth.
#[derive(Default)]
struct Progress {
    tenth: AtomicUsize,
}

impl Progress {
    fn told(self) -> impl Fn(usize, usize) {
        move |done, all| {
            let mut stderr = io::stderr().lock();
            // Nobody who closed stderr wants to know.
            let _ = if stderr.is_terminal() {
                let end = if done == all { "\n" } else { "" };
                write!(stderr, "\rembedded {done} of {all} texts{end}").and_then(|()| stderr.flush())
            } else {
                let tenth = 1 + done * 10 / all.max(1);
                match self.tenth.swap(tenth, Ordering::Relaxed) == tenth {
                    true => Ok(()),
                    false => writeln!(stderr, "embedded {done} of {all} texts"),
                }
            };
        }
    }
}

fn told(outlook: &Outlook, idle: bool) -> String {
    let mut text = String::new();
    let from = outlook.from.as_deref().map(|from| format!(", the last run used {from}")).unwrap_or_default();
    let _ = writeln!(text, "table      vectors of {} numbers{from}", outlook.table_dim);
    let _ = writeln!(text, "model      {}, vectors of {} numbers", outlook.to, outlook.dim);
    if let Some(cosine) = outlook.cosine {
        let _ = writeln!(
            text,
            "agreement  median cosine {cosine:.3} between the table's vectors and the model's"
        );
    }
    if outlook.interrupted {
        text.push_str("state      an earlier move was interrupted while it wrote; this ends it\n");
    }
    if idle {
        text.push_str("the table's vectors are this model's already; `--anyway` embeds them all the same\n");
        return text;
    }
    let _ = writeln!(
        text,
        "to embed   {} of {} texts, about {} tokens",
        outlook.texts - outlook.ready,
        outlook.texts,
        outlook.tokens
    );
    let place = match &outlook.beside {
        None => "in place; the old vectors are kept for the way back".to_owned(),
        Some(folder) => format!("into a new database, {}; the old one stays as it is", folder.display()),
    };
    let _ = writeln!(text, "written    {place}");
    text
}

fn what_now(config: &Config, moved: &Moved) -> String {
    let mut text = String::new();
    let rows: Vec<String> = moved.rows.iter().map(|(table, rows)| format!("{rows} in {table}")).collect();
    let _ = writeln!(text, "vectors of {}: {}", moved.outlook.to, rows.join(", "));
    if moved.wordless > 0 {
        let _ =
            writeln!(text, "{} texts have no words to embed; their rows keep what they had", moved.wordless);
    }
    match &moved.outlook.beside {
        None => {
            text.push_str("set the same model in the gateway (plugins.entries.memory-lancedb.config.embedding) and start it\n");
            text.push_str("the way back: configure the model from before and run `dreamer reembed` again\n");
        }
        Some(folder) => {
            let _ = writeln!(text, "nothing reads it yet. To switch:");
            let _ = writeln!(text, "  1. DREAMER_LANCEDB_URI={}", shown_path(folder));
            text.push_str("  2. the same folder (dbPath), model and dimensions in the gateway's memory-lancedb settings\n");
            text.push_str("  3. start the gateway, then `dreamer preview`\n");
            let _ = writeln!(
                text,
                "the old database stays in {}; runs before the switch can only be taken back there",
                config.lancedb_uri
            );
        }
    }
    text
}

fn shown_path(folder: &std::path::Path) -> String {
    std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder)).display().to_string()
}

fn shown(status: &str, outlook: &Outlook) -> Value {
    json!({
        "status": status,
        "from": outlook.from,
        "to": outlook.to,
        "table_dim": outlook.table_dim,
        "dim": outlook.dim,
        "texts": outlook.texts,
        "to_embed": outlook.texts - outlook.ready,
        "tokens": outlook.tokens,
        "cosine": outlook.cosine,
        "interrupted": outlook.interrupted,
        "database": outlook.beside,
    })
}

fn done(moved: &Moved) -> Value {
    let mut object = shown("done", &moved.outlook);
    object["rows"] = json!(moved.rows);
    object["wordless"] = json!(moved.wordless);
    object["calls"] = json!(moved.calls);
    object
}
