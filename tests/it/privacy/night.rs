//! Whole nights of the real program on episodes that hold every kind of secret: nothing of them stands anywhere under the
//! home, in a request, in what the program prints, or in an alert.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dreamer::memory::Memory;
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::corpus::{CONTEXTS, Planted, phrases, planted};
use crate::fake_openai::{FakeOpenAi, Reply, Running};
use crate::home::{Home, day, memory, session};

/// How many bytes of a secret in a row are a leak.
const PIECE: usize = 12;

/// Every piece of every secret, to look for in bytes.
struct Pieces {
    long: HashSet<Vec<u8>>,
    short: Vec<Vec<u8>>,
}

impl Pieces {
    fn of(planted: &[Planted]) -> Self {
        let all = planted.iter().flat_map(Planted::pieces).map(String::into_bytes);
        let (long, short): (Vec<_>, Vec<_>) = all.partition(|piece| piece.len() >= PIECE);
        let long = long.into_iter().map(|piece| piece[..PIECE].to_vec()).collect();
        Self { long, short: short.into_iter().collect::<HashSet<_>>().into_iter().collect() }
    }

    /// A piece that stands in these bytes.
    fn found_in(&self, bytes: &[u8]) -> Option<String> {
        let long = bytes.windows(PIECE).find(|window| self.long.contains(*window)).map(<[u8]>::to_vec);
        let short =
            || self.short.iter().find(|piece| bytes.windows(piece.len()).any(|w| w == **piece)).cloned();
        long.or_else(short).map(|piece| String::from_utf8_lossy(&piece).into_owned())
    }
}

/// A model that remembers every chunk in its own words, whatever it holds, and finds nothing alike.
async fn echo() -> Running {
    let answer = |body: &Value| {
        let asked = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let lines: Vec<Value> = asked.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if body["response_format"]["json_schema"]["name"] == "verdicts" {
            let verdicts: Vec<Value> = lines
                .iter()
                .filter(|line| line["memory"].is_u64())
                .map(|line| {
                    json!({ "memory": line["memory"], "reason": "strangers", "relation": "unrelated", "new_subject": "",
                            "old_subject": "", "texts": [] })
                })
                .collect();
            return Reply::json(&json!({ "verdicts": verdicts }));
        }
        let memories: Vec<Value> = lines
            .iter()
            .filter(|line| line["chunk"].is_u64())
            .map(|line| {
                let text: String = line["text"].as_str().unwrap().chars().take(280).collect();
                json!({ "reason": "echo", "chunks": [line["chunk"]], "category": "fact", "importance": 0.6, "entities": [text],
                        "tags": [], "about": null, "emotion": 0.0, "decision": "keep", "text": text })
            })
            .collect();
        Reply::json(&json!({ "memories": memories }))
    };
    FakeOpenAi::new().dim(1024).chat(answer).start().await
}

/// Runs the program with everything it logs.
fn dreamer(home: &Home, arguments: &[&str], server: &str, alerts: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", home.outside("nobody"))
        .env("DREAMER_HOME", &home.config.home)
        .env("DREAMER_TIMEZONE", "UTC")
        .env("DREAMER_FADE", "off")
        .env("DREAMER_EMBEDDING_DIM", "1024")
        .env("MAX_NEW_MEMORIES", "1000")
        .env("DREAMER_MAX_CALLS", "5000")
        .env("CLUSTER_SIMILARITY", "0.95")
        .env("DEDUP_SIMILARITY", "0.98")
        .env("CONTRADICTION_SIMILARITY", "0.7")
        .env("OPENAI_BASE_URL", server)
        .env("OPENAI_API_KEY", "test")
        .env("DREAMER_ALERT_PROVIDER", "webhook")
        .env("DREAMER_ALERT_WEBHOOK_URL", alerts)
        .env("RUST_LOG", "debug")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Every text that the database holds, as the program reads it: on disk it may be compressed.
async fn stored(home: &Home) -> Vec<(&'static str, String)> {
    let store = home.store().await;
    let rows = store.row_json(None, false).await.unwrap();
    let rows = rows.into_iter().filter(|row| !row["id"].as_str().unwrap().starts_with("captured"));
    vec![
        ("memories", Value::from(rows.map(Value::from).collect::<Vec<_>>()).to_string()),
        ("archive", format!("{:?}", store.archived_all("main").await.unwrap())),
        ("traces", format!("{:?}", store.traces().await.unwrap().traces)),
        ("raw memories", format!("{:?}", store.raw_all().await.unwrap())),
    ]
}

/// Files under the home that hold a piece; the episodes are kept as they were written.
fn holding(home: &Path, pieces: &Pieces, spared: &[&str]) -> Vec<String> {
    let files =
        walkdir::WalkDir::new(home).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    let ours = files.filter(|file| {
        let path = file.path().strip_prefix(home).unwrap().to_str().unwrap().to_owned();
        !path.starts_with("episodes/") && !spared.iter().any(|spared| path.contains(spared))
    });
    let found = ours.filter_map(|file| {
        let piece = pieces.found_in(&std::fs::read(file.path()).unwrap())?;
        Some(format!("{}: {piece}", file.path().display()))
    });
    found.collect()
}

fn captured() -> [Memory; 2] {
    [
        memory("captured-1", "The user's card for the gym has the PIN 4711 and opens locker 12.", 0.7),
        memory("captured-2", "The user said: my wifi password is Regenbogen-Fisch-2031.", 0.7),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_leaves_no_planted_secret_anywhere() {
    let home = Home::new(&[]).await;
    home.add(&captured()).await;
    let planted: Vec<Planted> =
        planted().into_iter().chain(phrases().into_iter().filter(|p| p.hidden[0].len() >= 8)).collect();
    let pieces = Pieces::of(&planted);
    for (number, context) in CONTEXTS.iter().enumerate() {
        let texts: Vec<&str> =
            planted.iter().filter(|p| p.name.ends_with(context)).map(|p| p.text.as_str()).collect();
        assert!(texts.len() >= 50);
        let day = day(number as u64);
        if number % 2 == 0 {
            let messages: Vec<(&str, &str)> = texts.iter().map(|text| ("user", *text)).collect();
            home.episode(&format!("{day}.md"), &session(day, &messages));
        } else {
            home.episode(&format!("{day}.md"), &format!("# Notes\n\n{}\n", texts.join("\n\n")));
        }
    }
    let told: Vec<(&str, &str)> =
        planted.iter().filter(|p| p.name.contains(": ")).map(|p| ("user", p.text.as_str())).collect();
    home.episode(&format!("{}.md", day(5)), &session(day(5), &told));

    let (server, alerts) = (echo().await, MockServer::start().await);
    Mock::given(any()).respond_with(ResponseTemplate::new(204)).mount(&alerts).await;
    let night = dreamer(&home, &[], &server.base_url(), &alerts.uri());
    let printed =
        format!("{}{}", String::from_utf8_lossy(&night.stdout), String::from_utf8_lossy(&night.stderr));
    assert_eq!(night.status.code(), Some(0), "{printed}");
    assert_eq!(server.wrong(), Vec::<String>::new());

    // A night on which the provider fails sends an alert.
    home.episode(&format!("{}.md", day(6)), &session(day(6), &told));
    let broken = FakeOpenAi::new().dim(1024).chat(|_| Reply::Status(401)).start().await;
    let failed = dreamer(&home, &[], &broken.base_url(), &alerts.uri());
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
    let sent = alerts.received_requests().await.unwrap();
    assert!(!sent.is_empty(), "{}", String::from_utf8_lossy(&failed.stderr));

    for (what, bytes) in [("stdout", &night.stdout), ("stderr", &night.stderr), ("stderr", &failed.stderr)] {
        assert_eq!(pieces.found_in(bytes), None, "{what}");
    }
    for request in
        server.chats().iter().chain(&server.embeddings()).chain(&broken.chats()).chain(&broken.embeddings())
    {
        assert_eq!(pieces.found_in(request.to_string().as_bytes()), None, "{request}");
    }
    assert!(sent.iter().all(|alert| pieces.found_in(&alert.body).is_none()));
    assert_eq!(holding(&home.config.home, &pieces, &[]), Vec::<String>::new());
    let stored = stored(&home).await;
    for (table, text) in &stored {
        assert_eq!(pieces.found_in(text.as_bytes()), None, "{table}");
    }
    // Something was learned, and something was removed from it.
    assert!(home.texts().await.len() > 100, "{}", home.texts().await.len());
    assert!(stored.iter().any(|(table, text)| *table == "raw memories" && text.contains("[secret removed]")));
    assert!(
        pieces
            .found_in(&std::fs::read(home.config.episodes_dir.join(format!("{}.md", day(6)))).unwrap())
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_the_gateway_wrote_with_a_secret_stay_and_are_told_by_their_ids() {
    let home = Home::new(&[]).await;
    let captured = captured();
    home.add(&captured).await;
    home.add(&[memory("plain", "The user's locker at the gym has the number 12.", 0.7)]).await;
    home.hello(0);
    let (server, alerts) = (echo().await, MockServer::start().await);
    let night = dreamer(&home, &[], &server.base_url(), &alerts.uri());
    let printed =
        format!("{}{}", String::from_utf8_lossy(&night.stdout), String::from_utf8_lossy(&night.stderr));
    assert_eq!(night.status.code(), Some(0), "{printed}");
    let logs = std::fs::read_dir(home.config.dream_log_dir()).unwrap();
    let log: String = logs.map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap()).collect();
    let told =
        "2 memories the gateway wrote hold what looks like a secret; they stay until you delete them: ids ";
    assert!(log.contains(told) && log.contains("captured-1") && log.contains("captured-2"), "{log}");
    let texts = home.texts().await;
    assert!(captured.iter().all(|row| texts.contains(&row.text)), "{texts:?}");
    for secret in ["Regenbogen-Fisch", "PIN 4711"] {
        assert!(!log.contains(secret) && !printed.contains(secret), "{secret}");
        let asked = format!("{:?}{:?}", server.chats(), server.embeddings());
        assert!(!asked.contains(secret), "{secret} was sent");
    }
    let pieces = Pieces { long: HashSet::from([b"Regenbogen-F".to_vec()]), short: vec![] };
    // The row, its before-image and its archive copy are the gateway's words.
    let own = ["lancedb/memories.lance", "lancedb/memories_archive.lance", "/before/", "memory-archive/"];
    assert_eq!(holding(&home.config.home, &pieces, &own), Vec::<String>::new());
}
