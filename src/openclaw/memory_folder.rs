//! Where the gateway writes an agent's episodes. Its settings leave that open where several agents share the default
//! workspace (openclaw 2026.9.6 runs in `W/main`, while its own `agents list` says `W`), so what lies on the disk counts:
//! the folder in which an agent's newest session runs, or in which its newest episode lies.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use super::config::OpenClaw;
use super::hook;
use super::transcript::{Header, headers};

/// The folder of the notes in a workspace.
const MEMORY: &str = "memory";

impl OpenClaw {
    /// The folder in which an agent's episodes appear, as far as the disk and the settings tell.
    pub fn memory_folder(&self, agent: &str) -> PathBuf {
        let allowed = self.workspaces(agent);
        let headers = headers(self.state_dir(), agent);
        newest(agent, &allowed, &headers).unwrap_or_else(|| {
            // Its own workspace, once the gateway has made it, else the one that the settings name.
            let there = allowed.iter().rev().find(|workspace| workspace.is_dir());
            there.unwrap_or(&allowed[0]).join(MEMORY)
        })
    }

    /// Every folder in which an agent's episodes may appear.
    pub(crate) fn memory_folders(&self, agent: &str) -> Vec<PathBuf> {
        self.workspaces(agent).into_iter().map(|workspace| workspace.join(MEMORY)).collect()
    }

    /// The workspaces that the settings allow for: more than one where several agents share the default one.
    fn workspaces(&self, agent: &str) -> Vec<PathBuf> {
        let named = self.workspace(agent);
        let has_own = self.agent_entry(agent).is_some_and(|entry| entry.get("workspace").is_some());
        let shares = !has_own && self.agents().len() > 1 && self.default_agent().eq_ignore_ascii_case(agent);
        let below = shares.then(|| named.join(agent));
        [named].into_iter().chain(below).collect()
    }
}

/// The folder of the newest sign of the agent.
fn newest(agent: &str, allowed: &[PathBuf], headers: &[Header]) -> Option<PathBuf> {
    let folder = |workspace: &Path| workspace.join(MEMORY);
    let is_allowed = |cwd: &Path| allowed.iter().any(|workspace| same(workspace, cwd));
    // A session of a program or a subagent may run anywhere.
    let sessions = headers
        .iter()
        .filter(|header| header.cwd.is_dir() && is_allowed(&header.cwd))
        .filter_map(|header| Some((SystemTime::from(header.at?), folder(&header.cwd))));
    let places =
        allowed.iter().map(PathBuf::as_path).chain(headers.iter().map(|header| header.cwd.as_path()));
    let mut folders: Vec<PathBuf> = places.map(folder).collect();
    folders.sort();
    folders.dedup();
    let key = format!("agent:{}:", agent.to_lowercase());
    let files = hook::look(&folders).into_iter().filter_map(|(path, (_, modified))| {
        let written = hook::read(&std::fs::read_to_string(&path).ok()?)?;
        written.key.to_lowercase().starts_with(&key).then_some((modified?, path.parent()?.to_owned()))
    });
    sessions.chain(files).max().map(|(_, folder)| folder)
}

fn same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// When something is said to have happened, where it is a time.
pub(super) fn time(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use std::fs;

    /// Two agents that share a workspace, of which `main` is the default one.
    fn shared() -> (tempfile::TempDir, OpenClaw) {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join(".openclaw");
        fs::create_dir_all(dir.path().join("ws")).unwrap();
        fs::create_dir(&state).unwrap();
        let settings =
            "{agents: {defaults: {workspace: '~/ws'}, list: [{id: 'main', default: true}, {id: 'work'}]}}";
        fs::write(state.join("openclaw.json"), settings).unwrap();
        let mut layers = Layers::of(&[]);
        layers.user_home = Some(dir.path().to_owned());
        let openclaw = OpenClaw::read(&layers).unwrap();
        (dir, openclaw)
    }

    fn session(dir: &Path, name: &str, cwd: &Path, at: &str) {
        let folder = dir.join(".openclaw/agents/main/sessions");
        fs::create_dir_all(&folder).unwrap();
        let header = serde_json::json!({"type": "session", "id": name, "timestamp": at, "cwd": cwd});
        fs::write(folder.join(format!("{name}.jsonl")), format!("{header}\n")).unwrap();
    }

    fn episode(folder: &Path, key: &str) {
        fs::create_dir_all(folder).unwrap();
        let text = format!(
            "# Session: 2026-11-30 07:39:48 UTC\n\n- **Session Key**: {key}\n- **Session ID**: s\n\nuser: \"hi\"\n"
        );
        fs::write(folder.join("2026-11-30.md"), text).unwrap();
    }

    #[test]
    fn the_newest_session_says_where_the_gateway_runs() {
        let (dir, openclaw) = shared();
        let ws = dir.path().join("ws");
        assert_eq!(openclaw.memory_folder("main"), ws.join("memory"), "nothing is known yet");
        fs::create_dir(ws.join("main")).unwrap();
        assert_eq!(openclaw.memory_folder("main"), ws.join("main/memory"), "the gateway has made it");
        session(dir.path(), "old", &ws, "2026-11-01T07:00:00Z");
        assert_eq!(openclaw.memory_folder("main"), ws.join("memory"));
        session(dir.path(), "new", &ws.join("main"), "2026-11-30T07:00:00Z");
        session(dir.path(), "elsewhere", dir.path(), "2026-11-30T09:00:00Z");
        assert_eq!(openclaw.memory_folder("main"), ws.join("main/memory"));
        assert_eq!(openclaw.memory_folder("work"), ws.join("work/memory"));
    }

    #[test]
    fn an_episode_of_the_agent_says_more_than_an_older_session() {
        let (dir, openclaw) = shared();
        let ws = dir.path().join("ws");
        fs::create_dir(ws.join("main")).unwrap();
        session(dir.path(), "s", &ws.join("main"), "2020-01-01T07:00:00Z");
        episode(&ws.join("memory"), "agent:work:main");
        assert_eq!(openclaw.memory_folder("main"), ws.join("main/memory"), "that one is of another agent");
        episode(&ws.join("memory"), "agent:main:main");
        assert_eq!(openclaw.memory_folder("main"), ws.join("memory"));
    }

    #[test]
    fn a_workspace_of_its_own_is_the_only_one() {
        let (_dir, openclaw) = shared();
        assert_eq!(openclaw.memory_folders("main").len(), 2);
        assert_eq!(openclaw.memory_folders("work").len(), 1);
    }
}
