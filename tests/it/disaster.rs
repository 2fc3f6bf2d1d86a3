//! Disks that fill up, files that break, folders that cannot be written: a clear error, the right exit code, nothing lost,
//! and the night after the repair is whole. Through the binary, as an operator meets it.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::home::{Home, State, copy, eventful};

const SETTINGS: [(&str, &str); 6] = [
    ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
    ("DREAMER_BUILTIN_MODEL", "lexical"),
    ("DREAMER_LLM_PROVIDER", "extractive"),
    ("DREAMER_TIMEZONE", "UTC"),
    ("DREAMER_FADE", "on"),
    // The home's nights lie long ago.
    ("DREAMER_RAW_DAYS", "off"),
];

fn dreamer(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
    command.env_clear().envs(SETTINGS).env("DREAMER_HOME", home).current_dir("/");
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An eventful home and what a clean night makes of it.
async fn prepared() -> (Home, State) {
    let home = eventful(&[]).await;
    let saved = home.outside("saved");
    copy(&home.config.home, &saved);
    let output = dreamer(&home.config.home).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let clean = home.state().await;
    go_back(&home);
    (home, clean)
}

fn go_back(home: &Home) {
    std::fs::remove_dir_all(&home.config.home).unwrap();
    copy(&home.outside("saved"), &home.config.home);
}

/// Rows and episodes as after a clean night, whatever ids and runs are.
async fn assert_whole(home: &Home, clean: &State, what: &str) {
    let output = dreamer(&home.config.home).output().unwrap();
    assert!(output.status.success(), "{what}: {}", told(&output));
    let state = home.state().await;
    assert_eq!(state.live.len(), clean.live.len(), "{what}");
    assert_eq!(state.archived.len(), clean.archived.len(), "{what}");
    assert_eq!((state.traces.len(), state.raw), (clean.traces.len(), clean.raw), "{what}");
    assert_eq!(state.episodes, clean.episodes, "{what}");
}

/// The files of a folder of a table.
fn files(home: &Home, table: &str, folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(&home.config.lancedb_uri).join(format!("{table}.lance")).join(folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_stops_the_night_and_a_repaired_one_is_whole() {
    let (home, clean) = prepared().await;
    let cases = [
        ("memories", "_versions", "half"),
        ("memories", "data", "half"),
        ("memories", "data", "nothing"),
        ("memory_traces", "_versions", "other"),
        ("memory_traces", "data", "half"),
        ("memories_archive", "data", "other"),
    ];
    for (table, folder, left) in cases {
        for path in files(&home, table, folder) {
            let bytes = std::fs::read(&path).unwrap();
            let broken = match left {
                "half" => &bytes[..bytes.len() / 2],
                "nothing" => &[][..],
                _ => &b"no table"[..],
            };
            std::fs::write(&path, broken).unwrap();
        }
        let output = dreamer(&home.config.home).output().unwrap();
        let what = format!("{table}/{folder} {left}: {}", told(&output));
        assert_eq!(output.status.code(), Some(1), "{what}");
        assert!(told(&output).contains(table) && told(&output).contains("could not"), "{what}");
        assert!(!told(&output).contains("RUST_BACKTRACE"), "{what}");
        go_back(&home);
        assert_whole(&home, &clean, &what).await;
        go_back(&home);
    }
}

/// Runs a script with file systems of its own; none where this machine does not allow that.
fn with_mounts(script: &str, home: &Path) -> Option<Output> {
    let try_it = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).output();
    if !try_it.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this machine gives no mounts of one's own (unshare --mount)");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-euc", script]).env("HOME_UNDER_TEST", home);
    command.env("DREAMER", env!("CARGO_BIN_EXE_dreamer")).envs(SETTINGS);
    Some(command.output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_stops_the_night_and_the_next_one_is_whole() {
    let (home, clean) = prepared().await;
    let size = walkdir::WalkDir::new(&home.config.home)
        .into_iter()
        .map(|entry| entry.unwrap().metadata().unwrap().len().next_multiple_of(4096))
        .sum::<u64>();
    // From nothing free to nearly enough: the disk fills up at another step each time.
    for free in [8, 40, 120, 400, 1000] {
        let script = format!(
            "aside=$(mktemp -d); cp -a $HOME_UNDER_TEST/. $aside; \
             mount -t tmpfs -o size={}k tmpfs $HOME_UNDER_TEST; cp -a $aside/. $HOME_UNDER_TEST; \
             set +e; DREAMER_HOME=$HOME_UNDER_TEST DREAMER_MIN_FREE_MB=0 $DREAMER; code=$?; set -e; \
             rm -rf $aside; cp -a $HOME_UNDER_TEST $aside; umount $HOME_UNDER_TEST; \
             rm -rf $HOME_UNDER_TEST/*; cp -a $aside/. $HOME_UNDER_TEST; rm -rf $aside; exit $code",
            size / 1024 + free
        );
        let Some(output) = with_mounts(&script, &home.config.home) else { return };
        let what = format!("{free} KiB free: {}", told(&output));
        assert!(matches!(output.status.code(), Some(0 | 1)), "{what}");
        assert!(output.status.success() || told(&output).contains("could not"), "{what}");
        if free < 40 {
            assert_eq!(output.status.code(), Some(1), "{what}");
        }
        assert_whole(&home, &clean, &what).await;
        go_back(&home);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_cannot_be_written_is_told_and_left_alone() {
    let (home, clean) = prepared().await;
    let before = home.state().await;
    let script = "mount --bind $HOME_UNDER_TEST $HOME_UNDER_TEST; mount -o remount,ro,bind $HOME_UNDER_TEST; \
                  DREAMER_HOME=$HOME_UNDER_TEST $DREAMER";
    let Some(output) = with_mounts(script, &home.config.home) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("Read-only file system"), "{}", told(&output));
    home.state().await.assert_same(&before, "a read-only home");
    assert_whole(&home, &clean, "written again").await;
}
