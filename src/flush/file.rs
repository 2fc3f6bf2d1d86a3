//! The episode file: in which folders it may appear, and the wait for it. What such a file looks like is
//! `openclaw::hook`'s to know.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::look::pause;
use super::{FlushError, Settings};
use crate::openclaw::config::OpenClaw;
use crate::openclaw::gateway::session::Agent;
use crate::openclaw::hook::{self, Seen, Written};

/// The session whose episode is waited for.
pub(super) struct Wanted {
    /// Its key as it was asked for and as the gateway writes it.
    pub(super) keys: Vec<String>,
    /// Its id. The hook may write another key where agents share a workspace, never another id.
    pub(super) id: Option<String>,
}

impl Wanted {
    fn is(&self, written: &Written) -> bool {
        self.keys.contains(&written.key) || self.id.as_ref().is_some_and(|id| *id == written.id)
    }
}

/// The folders in which the episode may appear: the workspace's that the gateway names, or else that its settings name;
/// and where Dreamer reads.
pub(super) fn folders(
    openclaw: &OpenClaw,
    agents: Option<&[Agent]>,
    agent: &str,
    settings: &Settings,
) -> Vec<PathBuf> {
    let said = agents.into_iter().flatten().find(|known| known.id.eq_ignore_ascii_case(agent));
    // In a container the gateway's own path means nothing here.
    let said = said.and_then(|agent| agent.workspace.clone()).filter(|workspace| workspace.is_dir());
    let workspace = said.unwrap_or_else(|| openclaw.workspace(agent));
    let mut folders = vec![workspace.join("memory")];
    // Which of them it is among several agents is not what the gateway says.
    let mut more = openclaw.memory_folders(agent);
    if agents.is_none() {
        more.push(workspace.join(agent).join("memory"));
    }
    more.push(settings.episodes_of(agent).to_path_buf());
    for folder in more {
        if !folders.iter().any(|known| same(known, &folder)) {
            folders.push(folder);
        }
    }
    folders
}

pub(super) fn check_folders(
    key: &str,
    folders: &[PathBuf],
    openclaw: &OpenClaw,
    agent: &str,
) -> Result<(), FlushError> {
    // The hook makes the memory folder itself, in a workspace that is there.
    let workspace_is_here = folders.first().and_then(|memory| memory.parent()).is_some_and(Path::is_dir);
    if workspace_is_here || folders.iter().skip(1).any(|folder| folder.is_dir()) {
        return Ok(());
    }
    Err(FlushError::NoFolder { key: key.to_string(), workspace: openclaw.workspace(agent) })
}

pub(super) fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Waits for a new or changed file of the session that is no longer being written.
pub(super) async fn await_file(
    wanted: &Wanted,
    folders: &[PathBuf],
    before: &Seen,
    wait: Duration,
) -> Result<(PathBuf, Written), FlushError> {
    let deadline = Instant::now() + wait;
    let mut last = before.clone();
    let mut other = String::new();
    loop {
        let is_over = Instant::now() >= deadline;
        let now = hook::look(folders);
        // Two looks that agree: the hook writes the file in one go, but not atomically.
        let settled = now
            .iter()
            .filter(|(path, size)| before.get(*path) != Some(size) && last.get(*path) == Some(size));
        for (path, _) in settled {
            let Some(written) = std::fs::read_to_string(path).ok().and_then(|text| hook::read(&text)) else {
                continue;
            };
            if wanted.is(&written) {
                return Ok((path.clone(), written));
            }
            other = format!(" ({} appeared, which is of {})", name_of(path), written.key);
        }
        if is_over {
            let key = wanted.keys.first().cloned().unwrap_or_default();
            let folders = folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(" or ");
            return Err(FlushError::NoFile { key, seconds: wait.as_secs_f64(), folders, other });
        }
        last = now;
        tokio::time::sleep(pause(wait, Duration::from_millis(250))).await;
    }
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
