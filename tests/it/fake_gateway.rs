//! A gateway that says what a real one said: frames recorded from openclaw 2026.9.6 (`tests/fixtures/gateway`), played
//! back over a WebSocket on loopback. It keeps what was asked, and writes the episode as the hook does: after it answered.

#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};
use std::net::TcpListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// The token of the recordings' gateway.
pub const TOKEN: &str = "test-gateway-token-0123456789";
/// The session in the recordings.
pub const SESSION_ID: &str = "e4f62b78-deb5-42e0-b840-0869c33bfa75";

/// What a recorded exchange says: the text behind its heading.
pub fn exchange(file: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gateway").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("### ").find(|section| section.starts_with(&format!("{name} ")));
    section.unwrap_or_else(|| panic!("{file} has no {name}")).to_string()
}

/// The frames that the gateway sent in an exchange.
fn sent_in(file: &str, name: &str) -> Vec<Value> {
    let text = exchange(file, name);
    text.lines()
        .filter_map(|line| line.strip_prefix("<< "))
        .map(|f| serde_json::from_str(f).unwrap())
        .collect()
}

/// The last answer in one of the exchanges W1 to W8.
pub fn transcript(name: &str) -> Value {
    sent_in("ws-transcript-2026.9.6.txt", name).pop().unwrap()
}

/// The answer in one of the exchanges S1 to S10.
pub fn recorded(name: &str) -> Value {
    sent_in("ws-session-2026.9.6.txt", name).pop().unwrap()
}

/// The answer of openclaw 2026.4.15 in one of the exchanges A1 to A5.
pub fn older(name: &str) -> Value {
    sent_in("ws-2026.4.15.txt", name).pop().unwrap()
}

/// What the program of openclaw 2026.4.15 says in one of P1 to P5: the lines behind the heading.
pub fn older_program(name: &str) -> String {
    exchange("ws-2026.4.15.txt", name).lines().skip(1).collect::<Vec<_>>().join("\n").trim().to_string()
}

/// What happens after a successful reset.
#[derive(Clone)]
pub enum Hook {
    /// An episode of this session key and id, with these messages, is written.
    Writes { key: String, id: String, messages: Vec<String> },
    /// Nothing: it is switched off.
    Off,
}

/// What the fake is to say.
#[derive(Clone)]
pub struct Script {
    /// The answer to the log-in; after one that is not ok the connection is closed with 1008.
    pub connect: Value,
    /// The answers to each method, one after the other; the last one again and again.
    pub answers: HashMap<&'static str, VecDeque<Value>>,
    /// What the hook does.
    pub hook: Hook,
    /// The method at which the gateway closes the connection, as for a restart.
    pub restarts_at: Option<&'static str>,
}

impl Script {
    /// A session with one message of the user, a reset that works, a hook that writes.
    pub fn new() -> Self {
        let script = Self {
            connect: sent_in("ws-transcript-2026.9.6.txt", "W1").remove(1),
            answers: HashMap::new(),
            hook: Hook::Writes {
                key: "agent:main:main".into(),
                id: SESSION_ID.into(),
                messages: vec![
                    "user: \"Anna visits on Thursday at noon.\"".into(),
                    "assistant: \"Noted.\"".into(),
                ],
            },
            restarts_at: None,
        };
        script
            .with("agents.list", &["S1"])
            .with("sessions.describe", &["S2"])
            .with("chat.history", &["S3"])
            .with("sessions.reset", &["S6"])
    }

    /// Recorded answers to a method.
    pub fn with(self, method: &'static str, names: &[&str]) -> Self {
        self.saying(method, names.iter().map(|name| recorded(name)).collect())
    }

    /// Any answers to a method.
    pub fn saying(mut self, method: &'static str, answers: Vec<Value>) -> Self {
        self.answers.insert(method, answers.into());
        self
    }

    pub fn hook(mut self, hook: Hook) -> Self {
        self.hook = hook;
        self
    }
}

/// A running fake.
pub struct FakeGateway {
    pub port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl FakeGateway {
    /// Starts one that serves until the test ends. `workspace` is the agent's.
    pub fn start(script: Script, workspace: &Path) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let gateway = Running {
            script: Arc::new(Mutex::new(script)),
            asked: asked.clone(),
            workspace: workspace.into(),
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(gateway.clone().serve(stream));
                }
            });
        });
        Self { port, asked }
    }

    /// The frames that were received, in order.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// The methods that were called, in order.
    pub fn methods(&self) -> Vec<String> {
        self.asked().iter().map(|frame| frame["method"].as_str().unwrap().to_string()).collect()
    }

    /// The parameters of the calls of one method.
    pub fn params_of(&self, method: &str) -> Vec<Value> {
        let asked = self.asked();
        asked.iter().filter(|frame| frame["method"] == method).map(|frame| frame["params"].clone()).collect()
    }
}

#[derive(Clone)]
struct Running {
    script: Arc<Mutex<Script>>,
    asked: Arc<Mutex<Vec<Value>>>,
    workspace: PathBuf,
}

impl Running {
    async fn serve(self, stream: TcpStream) {
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
        let challenge = sent_in("ws-transcript-2026.9.6.txt", "W1").remove(0);
        socket.send(Message::text(challenge.to_string())).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            let method = frame["method"].as_str().unwrap().to_string();
            self.asked.lock().unwrap().push(frame.clone());
            if self.script.lock().unwrap().restarts_at.is_some_and(|at| at == method) {
                let frame = CloseFrame { code: CloseCode::Restart, reason: "service restart".into() };
                let _ = socket.close(Some(frame)).await;
                return;
            }
            // A gateway with something to tell tells it at any time.
            let tick = json!({ "type": "event", "event": "tick", "payload": { "ts": 1 } });
            socket.send(Message::text(tick.to_string())).await.unwrap();
            let mut answer = self.answer(&method);
            answer["id"] = frame["id"].clone();
            let ok = answer["ok"] == true;
            socket.send(Message::text(answer.to_string())).await.unwrap();
            if method == "connect" && !ok {
                let reason = answer["error"]["message"].as_str().unwrap_or_default().to_string();
                let frame = CloseFrame { code: CloseCode::Policy, reason: reason.into() };
                let _ = socket.close(Some(frame)).await;
                return;
            }
            if method == "sessions.reset" && ok {
                write_episode(&self.script.lock().unwrap().hook, &self.workspace);
            }
        }
    }

    fn answer(&self, method: &str) -> Value {
        let mut script = self.script.lock().unwrap();
        if method == "connect" {
            return script.connect.clone();
        }
        let Some(answers) = script.answers.get_mut(method) else {
            let text = recorded("S9").to_string().replace("nosuch.method", method);
            return serde_json::from_str(&text).unwrap();
        };
        let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
        let workspace = serde_json::to_string(&self.workspace.display().to_string()).unwrap();
        serde_json::from_str(&answer.to_string().replace("\"@WORKSPACE@\"", &workspace)).unwrap()
    }
}

/// Writes an episode as the hook does.
pub fn write_episode(hook: &Hook, workspace: &Path) {
    let Hook::Writes { key, id, messages } = hook else { return };
    let memory = workspace.join("memory");
    std::fs::create_dir_all(&memory).unwrap();
    let name =
        (1..).map(|n| if n == 1 { "2026-11-30-0739.md".into() } else { format!("2026-11-30-0739-{n}.md") });
    let path = name.map(|name: String| memory.join(name)).find(|path| !path.exists()).unwrap();
    let text = format!(
        "# Session: 2026-11-30 07:39:48 UTC\n\n- **Session Key**: {key}\n- **Session ID**: {id}\n\
         - **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n{}\n",
        messages.join("\n")
    );
    std::fs::write(path, text).unwrap();
}
