//! Nights while a second process writes: it inserts, edits and deletes thousands of rows as a gateway does, on its own open
//! handle. Nothing it wrote is lost, nothing it deleted comes back, and every night ends.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dreamer::memory::Memory;
use dreamer::providers::local::lexical;
use dreamer::store::{Inherit, NewRow, Store};

use crate::home::{Home, at, day, memory, session};

/// Tells the copy of this program that it is the writer, and where the database lies.
const DATABASE: &str = "TEST_WRITER_DATABASE";
/// Rows of a round: inserted, edited, deleted.
const ROUND: (usize, usize, usize) = (12, 3, 3);

fn rounds() -> usize {
    if std::env::var_os("TEST_LONG").is_some() { 600 } else { 90 }
}

/// Texts that mean nothing to each other.
fn text(n: usize, edition: usize) -> String {
    let word = |salt: usize| {
        let mut x = (n * 31 + salt * 7919 + edition * 104_729) as u64 ^ 0x9e37_79b9;
        let letter = |_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((x >> 33) % 26) as u8)
        };
        (0..9).map(letter).collect::<String>()
    };
    format!("{} {} {} {}.", word(1), word(2), word(3), word(4))
}

fn row(n: usize) -> NewRow {
    let memory = Memory { importance: 0.7, ..memory(&format!("beside-{n}"), &text(n, 0), 0.7) };
    let vector = lexical::vector(&memory.text);
    NewRow { memory, vector, inherit: Inherit::Nothing, only_if: vec![] }
}

/// Whatever another writer does, a gateway tries until it is done.
macro_rules! insist {
    ($attempt:expr) => {{
        let mut tries = 0;
        loop {
            match $attempt {
                Ok(done) => break done,
                Err(error) if tries == 200 => panic!("{error}"),
                Err(_) => tries += 1,
            }
        }
    }};
}

/// The second process. In an ordinary run of the tests it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn writer() {
    let Some(database) = std::env::var_os(DATABASE) else { return };
    let database = database.into_string().unwrap();
    let fresh = std::time::Duration::ZERO;
    let connection = lancedb::connect(&database).read_consistency_interval(fresh).execute().await.unwrap();
    let table = connection.open_table("memories").execute().await.unwrap();
    // Rows are built by the store, edited and deleted on a handle that stays open.
    let store = Store::open(&database).await.unwrap();
    let (each, edits, deletes) = ROUND;
    for round in 0..rounds() {
        let first = round * each;
        let rows: Vec<NewRow> = (first..first + each).map(row).collect();
        insist!(store.insert(&rows).await);
        for n in first..first + edits {
            let change = || {
                let vector = format!("{:?}", lexical::vector(&text(n, 1)));
                let text = format!("'{}'", text(n, 1));
                table
                    .update()
                    .only_if(format!("id = 'beside-{n}'"))
                    .column("text", text)
                    .column("vector", vector)
            };
            insist!(change().execute().await);
        }
        let gone: Vec<String> =
            (first + edits..first + edits + deletes).map(|n| format!("'beside-{n}'")).collect();
        insist!(table.delete(&format!("id IN ({})", gone.join(", "))).await);
        writeln!(std::io::stdout(), "round {round} done").unwrap();
    }
}

fn start_writer(database: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "beside::writer", "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the writer has left behind: id and text.
fn expected() -> BTreeMap<String, String> {
    let (each, edits, deletes) = ROUND;
    let all = (0..rounds() * each).filter(|n| !(edits..edits + deletes).contains(&(n % each)));
    all.map(|n| (format!("beside-{n}"), text(n, usize::from(n % each < edits)))).collect()
}

fn talk(home: &Home, n: u64) {
    let said = [
        ("user", format!("On day {n} I counted {} herons at the pond.", 100 + n)),
        ("assistant", "Noted.".to_owned()),
        ("user", format!("Our team standup moved to {}:00 every weekday.", 8 + n % 4)),
    ];
    let said: Vec<(&str, &str)> = said.iter().map(|(who, text)| (*who, text.as_str())).collect();
    home.episode(&format!("{}.md", day(n)), &session(day(n), &said));
}

#[tokio::test(flavor = "multi_thread")]
async fn nights_and_a_writer_do_not_hurt_each_other() {
    let home = Home::new(&[]).await;
    home.add(&[memory("old", "The user once saw a heron by the pond.", 0.16)]).await;
    let mut writer = start_writer(&home.config.lancedb_uri);
    let mut nights = 0;
    while writer.try_wait().unwrap().is_none() {
        nights += 1;
        talk(&home, nights);
        let report = home.night(at(nights, 22)).await;
        assert!(report.failure.is_none(), "{:?}", report.failure);
    }
    assert!(writer.wait().unwrap().success());
    assert!(nights >= 2, "only {nights} nights met the writer");
    // Two more without it: no plan is left behind.
    for n in [nights + 1, nights + 2] {
        talk(&home, n);
        let report = home.night(at(n, 22)).await;
        assert!(report.failure.is_none() && !report.warnings.join(" ").contains("interrupted"), "{report:?}");
    }
    let store = home.store().await;
    let live: BTreeMap<String, String> =
        store.rows("main").await.unwrap().memories.into_iter().map(|row| (row.id, row.text)).collect();
    let archived: BTreeMap<String, String> = store
        .archived_all("main")
        .await
        .unwrap()
        .into_iter()
        .map(|archived| (archived.memory.id, archived.memory.text))
        .collect();
    let expected = expected();
    for (id, text) in &expected {
        let found = live.get(id).or_else(|| archived.get(id));
        assert_eq!(found, Some(text), "{id} is lost or stale");
    }
    let theirs = live.keys().filter(|id| id.starts_with("beside-"));
    let resurrected: Vec<&String> = theirs.filter(|id| !expected.contains_key(*id)).collect();
    assert!(resurrected.is_empty(), "{resurrected:?}");
    assert!(Path::new(&home.config.lancedb_uri).is_dir());
    println!(
        "{nights} nights met {} rows of the writer, {} of them archived",
        expected.len(),
        archived.len()
    );
}
