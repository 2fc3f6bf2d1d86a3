//! Where a model lies: in a folder that is named, in Dreamer's own store, or in the cache that the Python programs fill.
//! Nothing is fetched here; that is `pull`'s, on request.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Hub, OpenError};

/// The organisation of names without one.
const ORGANISATION: &str = "sentence-transformers";

/// Whether this can be the name of a model on the hub, with or without its organisation.
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !part.contains("..")
            && !part.contains("--")
            && part.len() <= 96
    };
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() <= 2 && parts.into_iter().all(is_part)
}

/// The name on the hub, organisation first.
pub(super) fn on_hub(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{ORGANISATION}/{name}") }
}

/// The model's folder in Dreamer's store: `all-MiniLM-L6-v2`, `intfloat--multilingual-e5-small`.
pub fn in_store(name: &str) -> String {
    let own = name.strip_prefix(ORGANISATION).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
    if own.eq_ignore_ascii_case(super::DEFAULT) { super::DEFAULT.to_owned() } else { own.replace('/', "--") }
}

/// The folder of a model.
///
/// # Errors
/// When there is none on this machine.
pub(super) fn find(name: &str, store: &Path, hub: &Hub) -> Result<PathBuf, OpenError> {
    let name = name.trim();
    if Path::new(name).is_absolute() {
        let folder = PathBuf::from(name);
        return if folder.is_dir() { Ok(folder) } else { Err(OpenError::NoFolder { folder }) };
    }
    if !is_name(name) {
        return Err(OpenError::NoName { name: name.to_owned() });
    }
    let own = store.join(in_store(name));
    if own.is_dir() {
        return Ok(own);
    }
    let mut names = vec![on_hub(name)];
    // Models from before the hub had organisations.
    if !name.contains('/') {
        names.push(name.to_owned());
    }
    let cached = names
        .iter()
        .find_map(|name| snapshot(&hub.cache.join(format!("models--{}", name.replace('/', "--")))));
    cached.ok_or_else(|| OpenError::Absent { name: name.to_owned(), store: own, cache: hub.cache.clone() })
}

/// The snapshot of a cached model that `main` stands for, or the newest where that is not said.
fn snapshot(repo: &Path) -> Option<PathBuf> {
    let snapshots = repo.join("snapshots");
    let main = fs::read_to_string(repo.join("refs/main")).ok();
    let main = main.map(|revision| snapshots.join(revision.trim())).filter(|folder| is_model(folder));
    main.or_else(|| {
        let mut found: Vec<_> = fs::read_dir(&snapshots)
            .ok()?
            .flatten()
            .filter(|entry| is_model(&entry.path()))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        found.sort();
        found.pop().map(|(_, path)| path)
    })
}

/// Whether anything of a model was fetched there: other programs fetch single files.
fn is_model(folder: &Path) -> bool {
    folder.join(super::description::CONFIG).is_file() || folder.join(super::description::MODULES).is_file()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (path, content) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Self(dir)
        }

        fn find(&self, name: &str) -> Result<String, String> {
            let hub = Hub { cache: self.0.path().join("hub"), ..Hub::default() };
            let found = find(name, &self.0.path().join("store"), &hub);
            let inside = |path: PathBuf| path.strip_prefix(self.0.path()).unwrap().display().to_string();
            found.map(inside).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn the_store_comes_first_then_the_cache_by_what_main_stands_for() {
        let mini = "hub/models--sentence-transformers--all-MiniLM-L6-v2";
        let (old, new) =
            (format!("{mini}/snapshots/aa/config.json"), format!("{mini}/snapshots/bb/config.json"));
        let main = format!("{mini}/refs/main");
        let e5 = "hub/models--intfloat--e5-small/snapshots/cc/config.json";
        let files = [
            (old.as_str(), "{}"),
            (&new, "{}"),
            (&main, "aa\n"),
            (e5, "{}"),
            ("hub/models--bare/snapshots/dd/config.json", "{}"),
        ];
        let machine = Machine::new(&files);
        assert_eq!(machine.find("all-MiniLM-L6-v2").unwrap(), format!("{mini}/snapshots/aa"));
        assert_eq!(
            machine.find("sentence-transformers/all-MiniLM-L6-v2").unwrap(),
            format!("{mini}/snapshots/aa")
        );
        assert_eq!(machine.find("intfloat/e5-small").unwrap(), "hub/models--intfloat--e5-small/snapshots/cc");
        assert_eq!(machine.find("bare").unwrap(), "hub/models--bare/snapshots/dd");
        fs::create_dir_all(machine.0.path().join("store/all-MiniLM-L6-v2")).unwrap();
        fs::create_dir_all(machine.0.path().join("store/intfloat--e5-small")).unwrap();
        assert_eq!(machine.find("sentence-transformers/all-minilm-l6-v2").unwrap(), "store/all-MiniLM-L6-v2");
        assert_eq!(machine.find("intfloat/e5-small").unwrap(), "store/intfloat--e5-small");
    }

    #[test]
    fn half_a_cache_is_no_model_and_the_command_that_fetches_one_is_named() {
        let machine = Machine::new(&[
            ("hub/models--a--b/snapshots/aa/README.md", ""),
            ("hub/models--a--b/refs/main", "aa"),
        ]);
        let told = machine.find("a/b").unwrap_err();
        assert!(told.contains("`dreamer model pull a/b`") && told.contains("hub"), "{told}");
        assert!(machine.find("/no/such/folder").unwrap_err().contains("/no/such/folder"));
    }

    #[test]
    fn what_is_no_name_never_becomes_a_path() {
        for name in ["", "../x", "a/../b", "a/b/c", "a//b", ".hidden", "a b", "a--b", "x/", "-x"] {
            assert!(!is_name(name), "{name}");
            assert!(Machine::new(&[]).find(name).is_err(), "{name}");
        }
        assert!(is_name("intfloat/multilingual-e5-small") && is_name("bge_m3.1"));
    }
}
