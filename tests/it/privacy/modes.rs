//! What Dreamer makes is its owner's alone; what the gateway made keeps its modes.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::home::{Home, at, day, session};

fn modes(folder: &Path) -> BTreeMap<PathBuf, u32> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let mode = |entry: walkdir::DirEntry| {
        (entry.path().to_owned(), entry.metadata().unwrap().permissions().mode() & 0o777)
    };
    entries.map(mode).collect()
}

fn setup(folder: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", folder)
        .env("DREAMER_TIMEZONE", "UTC")
        .current_dir(folder)
        .args(["setup", "--example"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_dreamer_makes_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    setup(dir.path());
    let home = dir.path().join(".dreamer");
    let modes = modes(&home);
    for needed in ["state/chunks.jsonl", "state/lock", ".env", "dream-log", "runs", "lancedb"] {
        assert!(modes.contains_key(&home.join(needed)), "no {needed} was made");
    }
    let open: Vec<_> = modes
        .iter()
        // LanceDB makes the files in its folder itself; nobody else gets into the folder.
        .filter(|(path, _)| !path.starts_with(home.join("lancedb")) || **path == home.join("lancedb"))
        .filter(|(path, mode)| **mode != if path.is_dir() { 0o700 } else { 0o600 })
        .map(|(path, mode)| format!("{:o} {}", mode, path.display()))
        .collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_made_keeps_its_modes() {
    let home = Home::new(&[]).await;
    home.episode(
        &format!("{}.md", day(0)),
        &session(day(0), &[("user", "Our office moved to the harbour.")]),
    );
    let chosen = |mode| std::fs::Permissions::from_mode(mode);
    let folders =
        [home.config.home.clone(), home.config.episodes_dir.clone(), (&*home.config.lancedb_uri).into()];
    for folder in &folders {
        std::fs::set_permissions(folder, chosen(0o750)).unwrap();
    }
    let before = modes(Path::new(&home.config.lancedb_uri));
    home.night(at(0, 20)).await;
    for folder in folders {
        assert_eq!(
            std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o750,
            "{}",
            folder.display()
        );
    }
    let after = modes(Path::new(&home.config.lancedb_uri));
    assert!(before.iter().all(|(path, mode)| after.get(path).is_none_or(|now| now == mode)));
}
