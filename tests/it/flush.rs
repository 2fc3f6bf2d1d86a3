//! `session-flush` from outside: each recorded exchange gives the right message and exit code.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::fake_gateway::{
    FakeGateway, Hook, SESSION_ID, Script, TOKEN, exchange, older, older_program, recorded, transcript,
    write_episode,
};

/// A folder of its own with a workspace, a home and an `openclaw.json` in it, and a cleared environment.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(place.path("ws/memory")).unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Starts a fake and writes the settings of its gateway.
    fn gateway(&self, script: Script) -> FakeGateway {
        let gateway = FakeGateway::start(script, &self.path("ws"));
        self.settings(gateway.port, json!({}));
        gateway
    }

    /// Writes `openclaw.json`, in JSON5.
    fn settings(&self, port: u16, hooks: Value) {
        let workspace = json!(self.path("ws"));
        let text = format!(
            "// the gateway's\n{{ gateway: {{ port: {port}, bind: 'loopback', auth: {{ mode: 'token', token: '{TOKEN}' }} }},\n\
             agents: {{ defaults: {{ workspace: {workspace} }} }}, hooks: {hooks}, }}\n"
        );
        std::fs::create_dir_all(self.path(".openclaw")).unwrap();
        std::fs::write(self.path(".openclaw/openclaw.json"), text).unwrap();
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_session-flush"))
            .env_clear()
            .env("HOME", self.dir.path())
            .env("DREAMER_EPISODES_DIR", self.path("ws/memory"))
            .env("DREAMER_FLUSH_WAIT", "5")
            .envs(environment.iter().copied())
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        for told in [&output.stdout, &output.stderr] {
            assert!(!text(told).contains(TOKEN), "the token was printed: {}", text(told));
        }
        output
    }

    /// What a run says that must succeed.
    fn says(&self, args: &[&str], environment: &[(&str, &str)]) -> String {
        let output = self.run(args, environment);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What a run says on stderr that must fail; stdout stays empty.
    fn refused(&self, args: &[&str], environment: &[(&str, &str)], code: i32) -> String {
        let output = self.run(args, environment);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}{}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(told.lines().last().unwrap_or_default().starts_with("session-flush: could not "), "{told}");
        told
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A refusal of the reset because the session changed.
fn changed() -> Value {
    recorded("S4")
}

#[test]
fn a_session_is_ended_and_its_episode_reported() {
    let place = Place::new();
    let gateway = place.gateway(Script::new().saying("sessions.reset", vec![transcript("W1")]));
    let told = place.says(&[], &[]);
    let file = place.path("ws/memory/2026-11-30-0739.md");
    assert_eq!(told, format!("flushed agent:main:main: {} (2 messages, 1 of the user)\n", file.display()));
    let connect = &gateway.params_of("connect")[0];
    assert_eq!((&connect["minProtocol"], &connect["maxProtocol"]), (&json!(3), &json!(4)));
    assert_eq!(
        (&connect["client"]["id"], &connect["client"]["mode"]),
        (&json!("gateway-client"), &json!("backend"))
    );
    assert_eq!((&connect["role"], &connect["scopes"]), (&json!("operator"), &json!(["operator.admin"])));
    assert_eq!(connect["auth"], json!({ "token": TOKEN }));
    let reset = json!({ "key": "agent:main:main", "reason": "new", "expectedSessionId": SESSION_ID });
    assert_eq!(gateway.params_of("sessions.reset"), [reset]);
    assert_eq!(gateway.params_of("sessions.describe"), [json!({ "key": "agent:main:main" })]);
    assert_eq!(gateway.params_of("chat.history")[0]["sessionKey"], "agent:main:main");
}

#[test]
fn the_summary_names_file_session_and_counts() {
    let place = Place::new();
    let _gateway = place.gateway(Script::new());
    let summary: Value = serde_json::from_str(&place.says(&["--json"], &[])).unwrap();
    assert_eq!(summary["status"], "flushed");
    assert_eq!(summary["episode"], "2026-11-30-0739.md");
    assert_eq!((&summary["messages"], &summary["user_messages"]), (&json!(2), &json!(1)));
    assert_eq!(
        (&summary["session_key"], &summary["session_id"]),
        (&json!("agent:main:main"), &json!(SESSION_ID))
    );
}

#[test]
fn a_session_without_a_user_message_is_found_before_the_reset() {
    // W7: a reset would answer ok and write a file with only the notice.
    let place = Place::new();
    let script = Script::new().with("chat.history", &["S7"]).saying("sessions.reset", vec![transcript("W7")]);
    let gateway = place.gateway(script);
    let told = place.says(&[], &[]);
    assert!(told.starts_with("nothing to flush in agent:main:main: the user said nothing"), "{told}");
    assert!(!gateway.methods().contains(&"sessions.reset".to_string()), "{:?}", gateway.methods());
    assert_eq!(std::fs::read_dir(place.path("ws/memory")).unwrap().count(), 0);
}

#[test]
fn a_main_session_that_never_was_is_nothing_to_flush_and_a_named_one_is_an_error() {
    let place = Place::new();
    let gateway = place.gateway(Script::new().with("sessions.describe", &["S8"]));
    assert!(place.says(&[], &[]).contains("does not exist yet"));
    let told = place.refused(&["--session-key", "agent:main:nosuch"], &[], 1);
    assert!(told.contains("agent:main:nosuch") && told.contains("none is created"), "{told}");
    let told = place.refused(&["--agent", "work"], &[], 1);
    assert!(told.contains("no such agent, only main") && told.contains("DREAMER_AGENT"), "{told}");
    assert!(!gateway.methods().contains(&"sessions.reset".to_string()));
}

#[test]
fn a_missing_right_a_wrong_token_and_a_rejected_client_are_told_apart() {
    let place = Place::new();
    let refused = Script::new().saying("sessions.reset", vec![transcript("W4")]);
    let _gateway = place.gateway(refused);
    let told = place.refused(&[], &[], 1);
    assert!(told.contains("grants no operator.admin") && told.contains("gateway.auth.token"), "{told}");

    let mut wrong = Script::new();
    wrong.connect = transcript("W5");
    let gateway = place.gateway(wrong);
    let told = place.refused(&[], &[("OPENCLAW_GATEWAY_TOKEN", "another-token")], 1);
    assert!(told.contains("refuses the token") && told.contains("OPENCLAW_GATEWAY_TOKEN"), "{told}");
    assert!(!told.contains("another-token"), "{told}");
    assert_eq!(gateway.params_of("connect")[0]["auth"], json!({ "token": "another-token" }));

    let mut rejected = Script::new();
    rejected.connect = transcript("W6");
    let _gateway = place.gateway(rejected);
    let told = place.refused(&[], &[], 1);
    assert!(told.contains("rejects this client") && told.contains("--transport cli"), "{told}");
}

#[test]
fn a_gateway_that_is_not_there_is_told_with_its_address() {
    let place = Place::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    place.settings(port, json!({}));
    let told = place.refused(&[], &[], 1);
    assert!(told.contains(&format!("ws://127.0.0.1:{port}")) && told.contains("start the gateway"), "{told}");
    let url = format!("http://127.0.0.1:{port}/new");
    let told = place.refused(&["--transport", "http", "--url", &url], &[], 1);
    assert!(told.contains(&url) && told.contains("start the gateway"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_on_the_gateways_port_is_told() {
    let server = MockServer::start().await;
    let place = Place::new();
    place.settings(server.address().port(), json!({}));
    let told = place.refused(&[], &[], 1);
    assert!(told.contains("HTTP 404 instead of a WebSocket"), "{told}");
}

#[test]
fn a_session_that_changed_is_looked_at_once_more() {
    let place = Place::new();
    let gateway = place.gateway(Script::new().saying("sessions.reset", vec![changed(), recorded("S6")]));
    assert!(place.says(&[], &[]).starts_with("flushed agent:main:main"));
    let looked = ["sessions.describe", "chat.history", "sessions.reset"];
    assert_eq!(gateway.methods()[2..], [looked, looked].concat());

    let place = Place::new();
    let gateway = place.gateway(Script::new().saying("sessions.reset", vec![changed()]));
    let told = place.refused(&[], &[], 75);
    assert!(told.contains("changed twice") && told.contains("try again later"), "{told}");
    assert_eq!(gateway.params_of("sessions.reset").len(), 2);
}

#[test]
fn a_gateway_that_refuses_the_expected_id_is_asked_without_it() {
    let place = Place::new();
    let refusal = recorded("S5").to_string().replace("unknownField", "expectedSessionId");
    let refusal: Value = serde_json::from_str(&refusal).unwrap();
    let gateway = place.gateway(Script::new().saying("sessions.reset", vec![refusal, recorded("S6")]));
    assert!(place.says(&[], &[]).starts_with("flushed agent:main:main"));
    let resets = gateway.params_of("sessions.reset");
    assert_eq!(resets[0]["expectedSessionId"], SESSION_ID);
    assert_eq!(resets[1], json!({ "key": "agent:main:main", "reason": "new" }));
}

#[test]
fn an_older_gateway_that_cannot_describe_is_asked_for_the_history() {
    let place = Place::new();
    let mut script = Script::new();
    script.answers.remove("sessions.describe");
    script.answers.remove("agents.list");
    let gateway = place.gateway(script);
    assert!(place.says(&[], &[]).starts_with("flushed agent:main:main"));
    assert_eq!(gateway.params_of("sessions.reset")[0]["expectedSessionId"], SESSION_ID);
}

#[test]
fn an_answer_without_an_episode_is_a_failure_within_the_wait() {
    let place = Place::new();
    let _gateway = place.gateway(Script::new().hook(Hook::Off));
    // Lies there from an earlier night: no success.
    let messages = vec!["user: \"Old.\"".to_string()];
    let hook =
        Hook::Writes { key: "agent:main:main".into(), id: SESSION_ID.into(), messages: messages.clone() };
    write_episode(&hook, &place.path("ws"));
    let told = place.refused(&["--wait", "0.3"], &[], 1);
    let folder = place.path("ws/memory").display().to_string();
    for part in ["within 0.3 s", "openclaw hooks enable session-memory", "--wait", folder.as_str()] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }

    let place = Place::new();
    let other = Hook::Writes { key: "agent:work:main".into(), id: "another".into(), messages };
    let _gateway = place.gateway(Script::new().hook(other));
    let told = place.refused(&["--wait", "0.3"], &[], 1);
    assert!(told.contains("2026-11-30-0739.md appeared, which is of agent:work:main"), "{told}");
}

#[test]
fn an_episode_that_the_hook_could_not_fill_is_a_failure() {
    let place = Place::new();
    let messages = vec!["> Transcript content was unavailable: \"database is locked\"".to_string()];
    let hook = Hook::Writes { key: "agent:main:main".into(), id: SESSION_ID.into(), messages };
    let _gateway = place.gateway(Script::new().hook(hook));
    let told = place.refused(&[], &[], 1);
    assert!(told.contains("2026-11-30-0739.md") && told.contains("database is locked"), "{told}");
}

#[test]
fn a_hook_that_is_switched_off_is_found_before_the_reset() {
    let place = Place::new();
    let gateway = place.gateway(Script::new());
    place.settings(
        gateway.port,
        json!({ "internal": { "entries": { "session-memory": { "enabled": false } } } }),
    );
    let told = place.refused(&[], &[], 78);
    assert!(
        told.contains("openclaw.json") && told.contains("openclaw hooks enable session-memory"),
        "{told}"
    );
    assert!(!gateway.methods().contains(&"sessions.reset".to_string()));
}

#[test]
fn a_workspace_that_cannot_be_seen_is_found_before_the_reset() {
    let place = Place::new();
    let gateway = place.gateway(Script::new());
    std::fs::remove_dir_all(place.path("ws")).unwrap();
    let told = place.refused(&[], &[], 78);
    assert!(told.contains("cannot be seen from here") && told.contains("DREAMER_EPISODES_DIR"), "{told}");
    assert!(!gateway.methods().contains(&"sessions.reset".to_string()));
}

#[test]
fn an_agent_at_work_is_not_interrupted() {
    let place = Place::new();
    let gateway = place.gateway(Script::new().with("chat.history", &["S10"]));
    let told = place.refused(&["--wait", "0.2"], &[], 75);
    assert!(told.contains("the agent is at work") && told.contains("try again later"), "{told}");
    assert!(!gateway.methods().contains(&"sessions.reset".to_string()));

    let place = Place::new();
    let gateway = place.gateway(Script::new().with("chat.history", &["S10", "S3"]));
    assert!(place.says(&[], &[]).starts_with("flushed agent:main:main"));
    assert_eq!(gateway.params_of("chat.history").len(), 2, "it waits until the agent is done");
}

#[test]
fn a_gateway_that_is_busy_or_restarts_is_to_be_tried_again() {
    let place = Place::new();
    let busy = json!({ "type": "res", "ok": false, "error":
        { "code": "UNAVAILABLE", "message": "Session agent:main:main is still active; try again in a moment." } });
    let _gateway = place.gateway(Script::new().saying("sessions.reset", vec![busy]));
    assert!(place.refused(&[], &[], 75).contains("still active"));

    for at in ["connect", "sessions.reset"] {
        let mut script = Script::new();
        script.restarts_at = Some(at);
        let _gateway = place.gateway(script);
        let told = place.refused(&[], &[], 75);
        assert!(told.contains("1012 service restart") && told.contains("try again later"), "{told}");
    }
}

#[test]
fn a_dry_run_only_looks() {
    let place = Place::new();
    let gateway = place.gateway(Script::new());
    assert_eq!(place.says(&["--dry-run"], &[]), "would flush agent:main:main: 2 messages, 1 of the user\n");
    assert_eq!(gateway.methods()[1..], ["agents.list", "sessions.describe", "chat.history"]);
}

#[test]
fn what_the_hook_leaves_out_and_what_dreamer_will_not_see_is_warned_of() {
    let place = Place::new();
    let gateway = place.gateway(Script::new());
    place.settings(
        gateway.port,
        json!({ "internal": { "entries": { "session-memory": { "messages": 1 } } } }),
    );
    let hook = Hook::Writes {
        key: "agent:main:main".into(),
        id: SESSION_ID.into(),
        messages: vec!["assistant: \"Noted.\"".into()],
    };
    let gateway = FakeGateway::start(Script::new().hook(hook), &place.path("ws"));
    let url = format!("ws://127.0.0.1:{}", gateway.port);
    let output = place.run(&["--url", &url], &[("DREAMER_EPISODES_DIR", "")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    let dir = place.path("ws/memory").display().to_string();
    for part in [
        "the session had 2 messages and the hook keeps the last 1",
        "holds no message of the user",
        &format!("set DREAMER_EPISODES_DIR={dir}"),
    ] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
}

#[test]
fn what_cannot_be_used_is_a_matter_of_configuration() {
    let place = Place::new();
    let told = place.refused(&[], &[], 78);
    assert!(told.contains("no token is set") && told.contains("OPENCLAW_GATEWAY_TOKEN"), "{told}");
    place.settings(1, json!({}));
    for (args, environment, part) in [
        (&["--transport", "http"][..], &[][..], "--url"),
        (&["--transport", "http", "--url", "ws://127.0.0.1:1"], &[], "must be http:// or https://"),
        (&["--url", "ws://192.0.2.1:1"], &[], "unencrypted"),
        (&["--url", "wss://192.0.2.1:1"], &[], "not sent to another host"),
        (&["--url", "ws://me:secret@127.0.0.1:1"], &[], "must not hold a user or password"),
        (&["--transport", "cli", "--program", "/nonexistent"], &[], "DREAMER_FLUSH_PROGRAM"),
        (&[], &[("DREAMER_FLUSH_WAIT", "soon")], "from 0.1 to 3600"),
        (&[], &[("OPENCLAW_GATEWAY_PORT", "x")], "OPENCLAW_GATEWAY_PORT"),
        (&[], &[("OPENCLAW_CONFIG_PATH", "nowhere.json")], "nowhere.json"),
    ] {
        let told = place.refused(args, environment, 78);
        assert!(told.contains(part) && !told.contains("secret@"), "{part:?} is missing in {told}");
    }
    std::fs::write(place.path(".openclaw/openclaw.json"), format!("{{ a: 1,\n b: '{TOKEN}\n }}")).unwrap();
    assert!(place.refused(&[], &[], 78).contains("line 2"));
}

#[test]
fn flags_that_do_not_fit_are_usage_errors() {
    let place = Place::new();
    for args in [
        &["--transport", "http", "--url", "http://127.0.0.1:1/new", "--dry-run"][..],
        &["--wait", "0"],
        &["--transport", "udp"],
        &["--agent", "a", "--session-key", "agent:b:main"],
        &["--all", "--session-key", "agent:b:main"],
        &["--all", "--agent", "a"],
        &["now"],
    ] {
        place.settings(1, json!({}));
        let output = place.run(args, &[]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{args:?}");
    }
}

#[test]
fn the_token_is_found_where_it_is_set() {
    let place = Place::new();
    let gateway = place.gateway(Script::new());
    let settings = place.path(".openclaw/openclaw.json");
    let referring = std::fs::read_to_string(&settings).unwrap().replace(TOKEN, "${MY_TOKEN}");
    std::fs::write(&settings, referring).unwrap();
    let sent = |environment: &[(&str, &str)]| {
        place.says(&["--dry-run"], environment);
        gateway.params_of("connect").pop().unwrap()["auth"].clone()
    };
    assert_eq!(sent(&[("MY_TOKEN", "of the environment")]), json!({ "token": "of the environment" }));
    std::fs::write(place.path(".openclaw/.env"), "MY_TOKEN=of-the-gateways-env\n").unwrap();
    assert_eq!(sent(&[]), json!({ "token": "of-the-gateways-env" }));
    std::fs::write(place.path(".env"), "OPENCLAW_GATEWAY_TOKEN=of-our-env\n").unwrap();
    assert_eq!(sent(&[]), json!({ "token": "of-our-env" }));
    assert_eq!(sent(&[("OPENCLAW_GATEWAY_TOKEN", "stronger")]), json!({ "token": "stronger" }));
    std::fs::remove_file(place.path(".env")).unwrap();
    assert_eq!(sent(&[("OPENCLAW_GATEWAY_PASSWORD", "p")]), json!({ "password": "p" }));
}

/// A recorded HTTP exchange: where it went, the status and the answer.
fn http_exchange(name: &str) -> (String, ResponseTemplate) {
    let text = exchange("http-transcript-2026.9.6.txt", name);
    let url = text.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let route = url.splitn(4, '/').last().unwrap();
    let status = text.lines().find_map(|line| line.strip_prefix("HTTP/1.1 ")).unwrap();
    let kind = text.lines().find_map(|line| line.strip_prefix("Content-Type: ")).unwrap();
    let body = text.split("\n\n").nth(1).unwrap().split("\n-->").next().unwrap();
    let status: u16 = status.split(' ').next().unwrap().parse().unwrap();
    (format!("/{route}"), ResponseTemplate::new(status).set_body_raw(body.to_string(), kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_http_endpoint_is_a_failure_that_says_what_became_of_the_text() {
    for (name, parts) in [
        ("1", &["answered 200, but the text went to the model (a chat completion)", "--transport ws"][..]),
        ("2", &["answered 200, but the text went to the model (a response)", "--transport ws"]),
        ("3", &["answered 200, but the text went into a queue", "--transport ws"]),
        ("4", &["answered 200, but the text went to the model (an agent run)", "--transport ws"]),
        ("5", &["HTTP 404: Tool not available: sessions_send", "install a route"]),
        ("6", &["HTTP 400: admin HTTP RPC method is not supported: sessions.reset", "sessions.reset"]),
        ("7", &["refuses the token (HTTP 401)", "OPENCLAW_GATEWAY_TOKEN"]),
        ("8", &["refuses the token (HTTP 401)", "hooks.token"]),
        ("9", &["refuses the token (HTTP 401)", "OPENCLAW_GATEWAY_TOKEN"]),
    ] {
        let place = Place::new();
        let server = MockServer::start().await;
        place.settings(server.address().port(), json!({}));
        let (route, answer) = http_exchange(name);
        Mock::given(method("POST"))
            .and(path(route.as_str()))
            .respond_with(answer)
            .expect(1)
            .mount(&server)
            .await;
        let url = format!("{}{route}", server.uri());
        let told = place.refused(&["--transport", "http", "--url", &url, "--wait", "0.2"], &[], 1);
        for part in parts {
            assert!(told.contains(part), "{name}: {part:?} is missing in {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_of_the_operators_own_ends_the_session() {
    let place = Place::new();
    let server = MockServer::start().await;
    place.settings(server.address().port(), json!({}));
    let (route, answer) = http_exchange("10");
    let workspace = place.path("ws");
    let respond = move |_: &Request| {
        let messages = vec!["user: \"Anna visits.\"".to_string()];
        let hook = Hook::Writes { key: "agent:main:main".into(), id: "s-1".into(), messages };
        write_episode(&hook, &workspace);
        answer.clone()
    };
    let bearer = format!("Bearer {TOKEN}");
    Mock::given(method("POST"))
        .and(path(route.as_str()))
        .and(header("authorization", bearer.as_str()))
        .and(header("content-type", "application/json"))
        .respond_with(respond)
        .expect(1)
        .mount(&server)
        .await;
    let url = format!("{}{route}", server.uri());
    let told = place.says(&["--transport", "http", "--url", &url], &[]);
    assert!(told.ends_with("2026-11-30-0739.md (1 message, 1 of the user)\n"), "{told}");
    let body: Value = server.received_requests().await.unwrap()[0].body_json().unwrap();
    assert_eq!(body, json!({ "message": "/new", "sessionKey": "agent:main:main" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_says_ok_and_writes_nothing_or_is_busy_is_no_success() {
    let place = Place::new();
    let server = MockServer::start().await;
    place.settings(server.address().port(), json!({}));
    let (_, ended) = http_exchange("10");
    let failed = json!({ "ok": false, "error": { "code": "UNAVAILABLE", "message": "still active" } });
    for (route, answer) in [
        ("/new", ended),
        ("/busy", ResponseTemplate::new(503).set_body_string("restarting")),
        ("/failed", ResponseTemplate::new(500).set_body_json(failed)),
        ("/moved", ResponseTemplate::new(302).insert_header("location", "/new")),
    ] {
        Mock::given(method("POST")).and(path(route)).respond_with(answer).mount(&server).await;
    }
    let refused = |route: &str, code| {
        let url = format!("{}{route}", server.uri());
        place.refused(&["--transport", "http", "--url", &url, "--wait", "0.2"], &[], code)
    };
    assert!(refused("/new", 1).contains("openclaw hooks enable session-memory"));
    assert!(refused("/busy", 75).contains("HTTP 503: restarting"));
    assert!(refused("/failed", 1).contains("HTTP 500: still active"));
    assert!(refused("/moved", 1).contains("HTTP 302"));
}

/// A stand-in for the gateway's program: prints what was recorded, or what `refusal` says, and writes the episode.
fn program(place: &Place, refusal: &str) -> String {
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> calls.txt\nprintf '%s' \"$OPENCLAW_GATEWAY_TOKEN\" > token.txt\n\
         if [ -n '{refusal}' ]; then echo '{refusal}'; exit 1; fi\n\
         case $3 in\n  sessions.reset) cp episode.md ws/memory/2026-11-30-0739.md ;;\nesac\ncat \"$3.json\"\n"
    );
    for (method, name) in
        [("agents.list", "S1"), ("sessions.describe", "S2"), ("chat.history", "S3"), ("sessions.reset", "S6")]
    {
        std::fs::write(place.path(&format!("{method}.json")), recorded(name)["payload"].to_string()).unwrap();
    }
    let messages = vec!["user: \"Anna visits.\"".to_string()];
    let hook = Hook::Writes { key: "agent:main:main".into(), id: SESSION_ID.into(), messages };
    write_episode(&hook, &place.path("other"));
    std::fs::rename(place.path("other/memory/2026-11-30-0739.md"), place.path("episode.md")).unwrap();
    std::fs::write(place.path("openclaw"), script).unwrap();
    std::fs::set_permissions(place.path("openclaw"), std::fs::Permissions::from_mode(0o755)).unwrap();
    place.path("openclaw").display().to_string()
}

#[test]
fn the_gateways_program_ends_the_session_without_a_token_in_its_arguments() {
    let place = Place::new();
    place.settings(1, json!({}));
    let program = program(&place, "");
    std::fs::write(place.path(".env"), format!("OPENCLAW_GATEWAY_TOKEN={TOKEN}\n")).unwrap();
    let environment = [("PATH", "/usr/bin:/bin")];
    let told = place.says(&["--transport", "cli", "--program", &program], &environment);
    assert!(told.starts_with("flushed agent:main:main: "), "{told}");
    let calls = std::fs::read_to_string(place.path("calls.txt")).unwrap();
    let last = calls.lines().last().unwrap();
    assert!(last.starts_with("gateway call sessions.reset --params {"), "{last}");
    assert!(
        last.contains(&format!("\"expectedSessionId\":\"{SESSION_ID}\"")) && last.contains(" --json"),
        "{last}"
    );
    assert!(!calls.contains(TOKEN));
    assert_eq!(std::fs::read_to_string(place.path("token.txt")).unwrap(), TOKEN);
}

/// A gateway of 2026.4: it lets a client without a device in and grants it nothing.
fn of_2026_4() -> Script {
    let script = Script::new()
        .saying("agents.list", vec![older("A2")])
        .saying("sessions.describe", vec![older("A3")])
        .saying("chat.history", vec![older("A4")])
        .saying("sessions.reset", vec![older("A5")]);
    Script { connect: older("A1"), ..script }
}

/// Its program, which is paired.
fn program_of_2026_4(place: &Place) -> String {
    let program = program(place, "");
    let agents = older_program("P1").replace("\"@WORKSPACE@\"", &json!(place.path("ws")).to_string());
    std::fs::write(place.path("agents.list.json"), agents).unwrap();
    for (name, exchange) in [("unknown.txt", "P2"), ("expected.txt", "P3")] {
        std::fs::write(place.path(name), older_program(exchange)).unwrap();
    }
    let script = "#!/bin/sh\necho \"$3\" >> calls.txt\ncase \"$3 $5\" in\n\
         sessions.describe*) cat unknown.txt >&2; exit 1 ;;\n\
         sessions.reset*expectedSessionId*) cat expected.txt >&2; exit 1 ;;\n\
         sessions.reset*) cp episode.md ws/memory/2026-11-30-0739.md ;;\nesac\ncat \"$3.json\"\n";
    std::fs::write(place.path("openclaw"), script).unwrap();
    program
}

const PATH: (&str, &str) = ("PATH", "/usr/bin:/bin");

#[test]
fn a_gateway_that_grants_a_client_without_a_device_nothing_is_asked_through_its_program() {
    let place = Place::new();
    let gateway = place.gateway(of_2026_4());
    let program = program_of_2026_4(&place);
    let output = place.run(&["--json", "--program", &program], &[PATH]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("grants no operator.read") && told.contains(&format!("program {program} instead")),
        "{told}"
    );
    let summary: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&summary["status"], &summary["transport"]), (&json!("flushed"), &json!("cli")));
    assert_eq!(gateway.methods(), ["connect", "agents.list"], "once it refuses, nothing more is asked there");
    let calls = std::fs::read_to_string(place.path("calls.txt")).unwrap();
    let asked = ["agents.list", "sessions.describe", "chat.history", "sessions.reset", "sessions.reset"];
    assert_eq!(calls.lines().collect::<Vec<_>>(), asked);
}

#[test]
fn a_gateway_that_wants_the_device_paired_is_asked_through_its_program() {
    let place = Place::new();
    let refusal = json!({ "type": "res", "ok": false, "error": { "code": "NOT_PAIRED",
        "message": "device identity required", "details": { "code": "DEVICE_IDENTITY_REQUIRED" } } });
    let _gateway = place.gateway(Script { connect: refusal.clone(), ..Script::new() });
    let program = program(&place, "");
    let output = place.run(&["--program", &program], &[PATH]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("wants this device to be paired"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("flushed agent:main:main: "));
}

#[test]
fn without_the_gateways_program_its_refusal_is_what_is_told() {
    let refusal = json!({ "type": "res", "ok": false, "error": { "code": "NOT_PAIRED",
        "message": "device identity required", "details": { "code": "DEVICE_IDENTITY_REQUIRED" } } });
    for (script, part) in [
        (of_2026_4(), "grants no operator.admin"),
        (Script { connect: refusal, ..Script::new() }, "wants this device to be paired"),
    ] {
        let place = Place::new();
        let _gateway = place.gateway(script);
        let told = place.refused(&["--program", "/nonexistent"], &[], 1);
        assert!(told.lines().last().unwrap().contains(part), "{told}");
        assert!(told.contains("start the gateway's program /nonexistent"), "{told}");
    }
}

/// An `agents.list` with these agents, all with one workspace.
fn agents(ids: &[&str]) -> Value {
    let agents: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "workspace": "@WORKSPACE@" })).collect();
    json!({ "type": "res", "ok": true, "payload": { "defaultId": ids[0], "agents": agents } })
}

#[test]
fn all_agents_are_flushed_and_the_failure_of_one_does_not_stop_the_others() {
    let place = Place::new();
    let script = Script::new().saying("agents.list", vec![agents(&["ops", "home", "main"])]);
    let script = script.with("sessions.describe", &["S2", "S8", "S2"]);
    let busy = json!({ "type": "res", "ok": false, "error":
        { "code": "UNAVAILABLE", "message": "Session agent:ops:main is still active; try again in a moment." } });
    let gateway = place.gateway(script.clone().saying("sessions.reset", vec![busy, recorded("S6")]));
    let output = place.run(&["--all"], &[]);
    assert_eq!(output.status.code(), Some(75), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("nothing to flush in agent:home:main: "), "{lines:?}");
    assert!(lines[1].starts_with("flushed agent:main:main: ") && lines.len() == 2, "{lines:?}");
    assert!(
        text(&output.stderr).contains("session-flush: could not call sessions.reset"),
        "{}",
        text(&output.stderr)
    );
    let keys: Vec<Value> = gateway.params_of("sessions.describe").iter().map(|p| p["key"].clone()).collect();
    assert_eq!(keys, ["agent:ops:main", "agent:home:main", "agent:main:main"]);

    let place = Place::new();
    let _gateway = place.gateway(script);
    let told = place.run(&["--all", "--json"], &[("DREAMER_AGENTS", "main,gone")]);
    let outcomes: Value = serde_json::from_str(&text(&told.stdout)).unwrap();
    assert_eq!((&outcomes[0]["agent"], &outcomes[0]["status"]), (&json!("main"), &json!("flushed")));
    assert_eq!((&outcomes[1]["agent"], &outcomes[1]["status"]), (&json!("gone"), &json!("failed")));
    assert_eq!((&outcomes[1]["exit_code"], told.status.code()), (&json!(1), Some(1)));
    assert!(outcomes[1]["error"].as_str().unwrap().contains("no such agent, only ops, home, main"));
}

#[test]
fn an_agents_own_episodes_folder_is_where_dreamer_reads() {
    let place = Place::new();
    let _gateway = place.gateway(Script::new());
    let own = format!("main={}", place.path("ws/memory").display());
    let output = place.run(&["--all"], &[("DREAMER_AGENTS", &own), ("DREAMER_EPISODES_DIR", "elsewhere")]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let elsewhere = format!("main={}", place.path("elsewhere").display());
    std::fs::remove_dir_all(place.path("ws/memory")).unwrap();
    let output = place.run(&["--all"], &[("DREAMER_AGENTS", &elsewhere)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("set in DREAMER_AGENTS main="), "{}", text(&output.stderr));
}

#[test]
fn an_episode_with_fewer_messages_than_the_session_is_warned_of() {
    let place = Place::new();
    let hook = Hook::Writes {
        key: "agent:main:main".into(),
        id: SESSION_ID.into(),
        messages: vec!["user: \"Anna visits.\"".into()],
    };
    let _gateway = place.gateway(Script::new().hook(hook));
    let output = place.run(&["--json"], &[]);
    let summary: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(warning.contains("had 2 messages and 2026-11-30-0739.md holds 1 of them"), "{warning}");
}

#[test]
fn the_programs_errors_are_the_gateways() {
    for (refusal, code, part) in [
        (
            json!({ "ok": false, "error": { "type": "gateway_request_error", "code": "INVALID_REQUEST",
                "message": "unauthorized: gateway token mismatch", "details": { "code": "AUTH_TOKEN_MISMATCH" } } }),
            1,
            "refuses the token",
        ),
        (
            json!({ "ok": false, "error": { "type": "gateway_transport_error", "kind": "closed",
                "message": "Gateway not reachable", "reason": "connect ECONNREFUSED 127.0.0.1:18790" },
                "gateway": { "url": "ws://127.0.0.1:18790" } }),
            1,
            "reach the gateway at ws://127.0.0.1:18790",
        ),
        (json!("no such command"), 1, "no such command"),
    ] {
        let place = Place::new();
        place.settings(1, json!({}));
        let program = program(&place, &refusal.to_string());
        let told =
            place.refused(&["--transport", "cli", "--program", &program], &[("PATH", "/usr/bin:/bin")], code);
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
}
