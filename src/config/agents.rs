//! Which agents a run touches (`DREAMER_AGENTS`), in which folders their episodes lie, and whose an episode there is.
//! Reading the folders is `dream::read`'s work.

use std::fs;
use std::path::{Path, PathBuf};

use super::resolve::folder;
use super::{Config, Layers, inside};
use crate::episode::Reading;

/// An agent that `DREAMER_AGENTS` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id, as in `agentId` and in session keys.
    pub id: String,
    /// Its own folder of episodes; none when they lie in `DREAMER_EPISODES_DIR`.
    pub folder: Option<PathBuf>,
}

/// A folder of episodes, or of archived ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// Whose its episodes without a session key are.
    pub agent: String,
    /// The agents it belongs to; empty when it is everybody's.
    pub of: Vec<String>,
    /// Where its done episodes go.
    pub archive: PathBuf,
}

impl Config {
    /// Where episodes are read: `DREAMER_EPISODES_DIR` for every agent without a folder of its own, then the agents' own.
    pub fn folders(&self) -> Vec<Folder> {
        let mut folders: Vec<Folder> = Vec::new();
        if self.agents.is_empty() || self.agents.iter().any(|agent| agent.folder.is_none()) {
            folders.push(self.shared());
        }
        for agent in &self.agents {
            let Some(path) = &agent.folder else { continue };
            match folders.iter_mut().find(|known| same(&known.path, path)) {
                // Agents with one workspace: the session key says whose an episode is.
                Some(known) => known.of.push(agent.id.clone()),
                None => folders.push(Folder {
                    path: path.clone(),
                    agent: agent.id.clone(),
                    of: vec![agent.id.clone()],
                    archive: self.archive_dir().join(&agent.id),
                }),
            }
        }
        folders
    }

    /// Where done episodes lie: the archive of the folder of all, and below it those of the agents with folders of their
    /// own, also of agents that are no longer named.
    pub fn archives(&self) -> Vec<Folder> {
        let root = self.archive_dir();
        let mut archives = vec![Folder { path: root.clone(), ..self.shared() }];
        let mut own: Vec<PathBuf> = fs::read_dir(&root)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())))
            .map(|entry| entry.path())
            .collect();
        own.sort();
        archives.extend(own.into_iter().filter_map(|path| {
            let id = path.file_name()?.to_str().filter(|id| is_id(id))?.to_owned();
            Some(Folder { archive: path.clone(), path, of: vec![id.clone()], agent: id })
        }));
        archives
    }

    /// The folder or archive in which that very file lies.
    pub fn folder_of(&self, file: &Path) -> Option<Folder> {
        let parent = file.parent()?;
        let is_it = |folder: &Folder| same(&folder.path, parent);
        self.folders().into_iter().find(is_it).or_else(|| self.archives().into_iter().find(is_it))
    }

    /// How an episode in that folder is read.
    pub fn reading(&self, folder: &Folder) -> Reading {
        Reading { owner: self.owner.clone(), agent: folder.agent.clone(), timezone: self.timezone }
    }

    /// Whether a run touches that agent: it is named, or nobody is.
    pub fn is_ours(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|known| known.id == agent)
    }

    /// Whether this very run touches that agent: [`Self::is_ours`], and `--agent` names no other.
    pub fn touches(&self, agent: &str) -> bool {
        self.is_ours(agent) && self.only_agent.as_ref().is_none_or(|only| only == agent)
    }

    /// Whether only this home reads what lies there.
    pub fn owns(&self, path: &Path) -> bool {
        inside(path, &self.home)
    }

    /// Whether a gateway uses the memories of that agent: its episodes or the database lie outside the home.
    pub fn has_gateway_of(&self, agent: &str) -> bool {
        let own = |known: &Agent| known.id == agent && known.folder.is_some();
        let outside =
            match self.agents.iter().find(|known| own(known)).and_then(|known| known.folder.as_ref()) {
                Some(folder) => !self.owns(folder),
                None => !self.owns(&self.episodes_dir),
            };
        outside || !self.owns(Path::new(&self.lancedb_uri))
    }

    fn shared(&self) -> Folder {
        Folder {
            path: self.episodes_dir.clone(),
            agent: self.agent.clone(),
            of: vec![],
            archive: self.archive_dir(),
        }
    }
}

/// Reads `DREAMER_AGENTS`: ids with commas between them, each alone or as `id=FOLDER`.
pub(crate) fn agents(value: &str, layers: &Layers) -> Result<Vec<Agent>, String> {
    let mut agents: Vec<Agent> = Vec::new();
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (id, path) = match part.split_once('=') {
            Some((id, path)) => (id.trim(), Some(path.trim())),
            None => (part, None),
        };
        if !is_id(id) {
            return Err(format!(
                "names the agent `{id}`: an id is letters, digits, `-`, `_` and `.`, 64 at most, such as main,work=~/work/memory"
            ));
        }
        if agents.iter().any(|known| known.id == id) {
            return Err(format!("names the agent `{id}` twice"));
        }
        let folder = path.map(|path| own_folder(id, path, layers)).transpose()?;
        agents.push(Agent { id: id.to_owned(), folder });
    }
    match agents.is_empty() {
        true => Err("names no agent; leave it unset for every agent of the table".into()),
        false => Ok(agents),
    }
}

fn own_folder(id: &str, path: &str, layers: &Layers) -> Result<PathBuf, String> {
    let is_absolute = path.starts_with('/') || path == "~" || path.starts_with("~/") || path.contains("://");
    if !is_absolute {
        return Err(format!("gives `{id}` the folder `{path}`: it must be absolute, or begin with ~/"));
    }
    folder(path, layers).map_err(|why| format!("gives `{id}` a folder that {why}"))
}

/// What the gateway allows as an agent's id; it names a folder of the archive, too.
fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(plain)
}

/// Whether the two are one folder, symbolic links followed as far as both exist.
pub(super) fn same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, Problem};

    fn resolve(values: &[(&str, &str)]) -> Result<Config, Vec<Problem>> {
        let mut all = vec![("DREAMER_HOME", "/srv/dreamer")];
        all.extend(values);
        Config::resolve(&Layers::of(&all)).map(|(config, _)| config).map_err(|error| match error {
            ConfigError::Invalid { problems } => problems,
            other => panic!("{other}"),
        })
    }

    fn places(config: &Config) -> Vec<(String, String, String)> {
        let text = |path: &Path| path.display().to_string();
        let of = |folder: Folder| (text(&folder.path), folder.agent, text(&folder.archive));
        config.folders().into_iter().map(of).collect()
    }

    fn place(path: &str, agent: &str, archive: &str) -> (String, String, String) {
        (path.into(), agent.into(), format!("/srv/dreamer/episodes/archive{archive}"))
    }

    #[test]
    fn nobody_named_is_everybody_in_the_one_folder() {
        let config = resolve(&[]).unwrap();
        assert_eq!(places(&config), [place("/srv/dreamer/episodes", "main", "")]);
        assert!(config.is_ours("anybody"));
    }

    #[test]
    fn each_named_agent_has_its_own_folder_or_the_one_of_all() {
        let config = resolve(&[("DREAMER_AGENTS", "main, work=/w/memory , kid=/k/memory")]).unwrap();
        let expected = [
            place("/srv/dreamer/episodes", "main", ""),
            place("/w/memory", "work", "/work"),
            place("/k/memory", "kid", "/kid"),
        ];
        assert_eq!(places(&config), expected);
        assert!(config.is_ours("kid") && !config.is_ours("stranger"));
        assert!(config.has_gateway_of("work"));
        assert!(!config.has_gateway_of("main"));
    }

    #[test]
    fn the_folder_of_all_is_not_read_when_everybody_has_an_own_one() {
        let config = resolve(&[("DREAMER_AGENTS", "a=/a,b=/b")]).unwrap();
        assert_eq!(places(&config), [place("/a", "a", "/a"), place("/b", "b", "/b")]);
        assert_eq!(config.agent, "a", "the first one stands for what names nobody");
    }

    #[test]
    fn agents_with_one_workspace_share_its_folder() {
        let config = resolve(&[("DREAMER_AGENTS", "a=/x,b=/x")]).unwrap();
        assert_eq!(places(&config), [place("/x", "a", "/a")]);
        assert_eq!(config.folders()[0].of, ["a", "b"]);
        let all = resolve(&[("DREAMER_AGENTS", "main=/m"), ("DREAMER_EPISODES_DIR", "/m")]).unwrap();
        assert_eq!(places(&all), [place("/m", "main", "")], "its folder is the one of all");
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_variable() {
        let long = "a".repeat(65);
        for (value, part) in [
            ("a,,b,a", "twice"),
            ("a=memory", "absolute"),
            ("a=", "absolute"),
            ("a=s3://bucket", "a folder that"),
            ("../a", "an id is"),
            ("=/x", "an id is"),
            (long.as_str(), "64 at most"),
            (",", "names no agent"),
            ("a=/srv/dreamer/episodes/archive", "archive"),
            ("a=/srv/dreamer/episodes/archive/b", "archive"),
        ] {
            let problems = resolve(&[("DREAMER_AGENTS", value)]).unwrap_err();
            assert_eq!((problems.len(), problems[0].variable), (1, "DREAMER_AGENTS"), "{value}");
            assert!(problems[0].allowed.contains(part), "{value}: {}", problems[0].allowed);
        }
        let problems = resolve(&[("DREAMER_AGENTS", "a,b"), ("DREAMER_AGENT", "c")]).unwrap_err();
        assert_eq!(problems[0].variable, "DREAMER_AGENT");
        assert!(problems[0].allowed.contains("a, b"), "{}", problems[0].allowed);
    }
}
