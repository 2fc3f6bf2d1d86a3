//! Alerts end to end: what reaches a service, what a service that does not take it leads to, and that a failing week
//! sends two messages.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use chrono_tz::Tz;
use dreamer::alert::{AlertError, Courier, Message, Origin, Patience};
use dreamer::config::{AlertTarget, Config, Layers};
use dreamer::error::chain;
use serde_json::Value;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

const TOKEN: &str = "123456789:AAEhiddenhiddenhiddenhiddenhidden12";
const HIDDEN_PATH: &str = "/services/T0/B0/hiddenhidden";

fn patience() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        request: Duration::from_secs(5),
        pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
    }
}

fn message() -> Message {
    let origin = Origin::new("nas", "/home/ann/.dreamer".as_ref(), Tz::UTC);
    Message::of_text("hello", "2026-03-01T03:00:00Z".parse().unwrap(), &origin)
}

/// The target of a provider whose address is `server`.
fn target(provider: &str, server: &str) -> AlertTarget {
    let url = format!("{server}{HIDDEN_PATH}");
    let values = [
        ("DREAMER_HOME", "/h"),
        ("DREAMER_ALERT_PROVIDER", provider),
        ("DREAMER_ALERT_TELEGRAM_BOT_TOKEN", TOKEN),
        ("DREAMER_ALERT_TELEGRAM_CHAT_ID", "-100123"),
        ("DREAMER_ALERT_SLACK_WEBHOOK_URL", &url),
        ("DREAMER_ALERT_WEBHOOK_URL", &url),
    ];
    Config::resolve(&Layers::of(&values)).unwrap().0.alerts
}

async fn server(answers: &[ResponseTemplate]) -> MockServer {
    let server = MockServer::start().await;
    for (at, answer) in answers.iter().enumerate() {
        let mock = Mock::given(any()).respond_with(answer.clone());
        let is_last = at + 1 == answers.len();
        if is_last { mock.mount(&server).await } else { mock.up_to_n_times(1).mount(&server).await }
    }
    server
}

async fn deliver(provider: &str, server: &MockServer, patience: Patience) -> Result<(), AlertError> {
    let target = target(provider, &server.uri());
    Courier::with(&target, &server.uri(), patience).unwrap().deliver(&message()).await
}

fn status(status: u16, body: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_string(body)
}

async fn bodies(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.unwrap();
    requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

#[tokio::test]
async fn each_service_gets_its_body_at_its_address() {
    for (provider, answer, path, field) in [
        (
            "telegram",
            status(200, r#"{"ok":true,"result":{}}"#),
            format!("/bot{TOKEN}/sendMessage"),
            "chat_id",
        ),
        ("slack", status(200, "ok"), HIDDEN_PATH.into(), "blocks"),
        ("webhook", status(204, ""), HIDDEN_PATH.into(), "event"),
    ] {
        let server = server(&[answer]).await;
        deliver(provider, &server, patience()).await.unwrap();
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests.len(), 1, "{provider}");
        assert_eq!((requests[0].method.as_str(), requests[0].url.path()), ("POST", path.as_str()));
        assert_eq!(requests[0].headers["content-type"], "application/json");
        let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
        assert!(!body[field].is_null() && body.to_string().contains("hello"), "{body}");
    }
}

#[tokio::test]
async fn an_alert_that_is_refused_says_what_to_do_and_never_where_it_was_sent() {
    let unknown = r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#;
    for (provider, answer, tries, told) in [
        ("telegram", status(400, unknown), 1, "write to the bot once"),
        ("telegram", status(400, TOKEN), 1, "CHAT_ID"),
        ("telegram", status(401, TOKEN), 1, "BOT_TOKEN"),
        ("telegram", status(403, TOKEN), 1, "may not write there"),
        ("telegram", status(404, TOKEN), 1, "BOT_TOKEN"),
        ("telegram", status(429, TOKEN).insert_header("retry-after", "30"), 2, "fewer messages"),
        ("telegram", status(500, TOKEN), 2, "the next run"),
        ("telegram", status(200, "<html>hotel</html>"), 1, "login page"),
        ("slack", status(404, "no_service"), 1, "SLACK_WEBHOOK_URL"),
        ("slack", status(200, "<html>hotel</html>"), 1, "login page"),
        ("webhook", status(400, HIDDEN_PATH), 1, "check its address"),
        ("webhook", status(503, ""), 2, "it is ill"),
    ] {
        let server = server(&[answer]).await;
        let error = deliver(provider, &server, patience()).await.unwrap_err();
        let said = format!("{} {error:?}", chain(&error));
        assert!(said.contains(told), "{provider}: {said}");
        assert!(!said.contains("hidden") && !said.contains("127.0.0.1"), "{said}");
        assert_eq!(server.received_requests().await.unwrap().len(), tries, "{provider}: {said}");
    }
}

#[tokio::test]
async fn a_service_that_recovers_gets_the_alert_at_the_second_try() {
    for first in [status(429, ""), status(502, "")] {
        let server = server(&[first, status(200, "ok")]).await;
        deliver("slack", &server, patience()).await.unwrap();
        assert_eq!(server.received_requests().await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = server(&[status(200, "ok")]).await;
    let server = server(&[ResponseTemplate::new(302).insert_header("location", elsewhere.uri())]).await;
    let error = deliver("slack", &server, patience()).await.unwrap_err();
    assert!(error.to_string().contains("do not follow"), "{error}");
    assert_eq!(elsewhere.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_service_that_is_silent_or_gone_is_tried_twice_and_never_named_by_its_address() {
    let silent = server(&[status(200, "ok").set_delay(Duration::from_secs(60))]).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone_address = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let brief = Patience { request: Duration::from_millis(200), ..patience() };
    for (address, patience) in [(silent.uri(), brief), (gone_address, patience())] {
        for provider in ["telegram", "slack", "webhook"] {
            let target = target(provider, &address);
            let error =
                Courier::with(&target, &address, patience).unwrap().deliver(&message()).await.unwrap_err();
            let said = format!("{} {error:?}", chain(&error));
            assert!(said.contains("in 2 tries"), "{said}");
            assert!(!said.contains("hidden") && !said.contains("/bot"), "{said}");
        }
    }
    assert_eq!(silent.received_requests().await.unwrap().len(), 6);
}

/// A home with the example, whose language model is a server that answers as it is told.
struct Place {
    dir: tempfile::TempDir,
    model: MockServer,
    hook: MockServer,
}

/// What no alert may hold: words of the example's episodes, and of the server's answer.
const PRIVATE: &str = "Ann is allergic to cats";

impl Place {
    async fn new() -> Self {
        let quota = serde_json::json!({
            "error": { "message": format!("You exceeded your quota: {PRIVATE}"), "code": "insufficient_quota" },
        });
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            model: server(&[ResponseTemplate::new(429).set_body_json(quota)]).await,
            hook: server(&[status(200, "")]).await,
        };
        let output = place.run(&["setup", "--example"], &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for episode in place.episodes() {
            // A timed run leaves alone what changed in the last ten minutes.
            let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            std::fs::File::options().write(true).open(episode).unwrap().set_modified(long_ago).unwrap();
        }
        place
    }

    fn episodes(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path(".dreamer/episodes")).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        let hook = format!("{}{HIDDEN_PATH}", self.hook.uri());
        Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TZ", "UTC")
            .env("DREAMER_WINDOW", "off")
            .env("DREAMER_MIN_NEW", "off")
            .env("DREAMER_ALERT_PROVIDER", "webhook")
            .env("DREAMER_ALERT_WEBHOOK_URL", hook)
            .envs(environment.iter().copied())
            .current_dir(self.dir.path())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// A night whose model has no quota left.
    fn failing_night(&self, args: &[&str], more: &[(&str, &str)]) -> Output {
        let url = format!("{}/v1", self.model.uri());
        let environment =
            [&[("DREAMER_LLM_PROVIDER", "openai"), ("OPENAI_BASE_URL", url.as_str())], more].concat();
        self.run(args, &environment)
    }

    async fn alerts(&self) -> Vec<Value> {
        bodies(&self.hook).await
    }

    async fn kinds(&self) -> Vec<String> {
        let word = |alert: &Value, name: &str| alert[name].as_str().unwrap().to_string();
        self.alerts().await.iter().map(|a| format!("{} {}", word(a, "event"), word(a, "status"))).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_week_sends_two_messages_and_none_of_the_users_words() {
    let place = Place::new().await;
    let words: String = place.episodes().into_iter().map(read).collect();
    for night in 1..=7 {
        let output = place.failing_night(&["--if-due"], &[]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert_eq!(place.kinds().await, ["failure raised"], "night {night}");
    }
    for _ in 0..2 {
        assert_eq!(place.run(&[], &[]).status.code(), Some(0));
        assert_eq!(place.kinds().await, ["failure raised", "failure over"]);
    }
    let alerts = place.alerts().await;
    let said = alerts[0]["text"].as_str().unwrap();
    for part in ["insufficient_quota", "held back", "answered 429", "dream-log/"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let log = std::fs::read_to_string(alerts[0]["dream_log"].as_str().unwrap()).unwrap();
    assert!(log.contains(PRIVATE), "the answer stays where the operator finds it: {log}");
    let all = format!("{alerts:?}");
    let sentences: Vec<&str> = words.lines().filter(|line| line.len() > 30).collect();
    assert!(sentences.len() > 5, "{words}");
    for private in sentences.into_iter().chain([PRIVATE, "exceeded", "hiddenhidden"]) {
        assert!(!all.contains(private), "{private} in {all}");
    }
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_and_no_provider_tell_nobody() {
    let place = Place::new().await;
    assert_eq!(place.failing_night(&["--dry-run"], &[]).status.code(), Some(1));
    assert_eq!(place.failing_night(&[], &[("DREAMER_ALERT_PROVIDER", "off")]).status.code(), Some(1));
    assert_eq!(place.kinds().await, Vec::<String>::new());
    assert!(!place.path(".dreamer/state/alerts.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_that_is_not_delivered_is_a_warning_and_told_by_the_next_night() {
    let place = Place::new().await;
    let refusing = server(&[status(403, HIDDEN_PATH)]).await;
    let url = format!("{}{HIDDEN_PATH}", refusing.uri());
    // Even a log of everything names no address.
    let more = [("DREAMER_ALERT_WEBHOOK_URL", url.as_str()), ("RUST_LOG", "trace")];
    let output = place.failing_night(&[], &more);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "the night's own code: {told}");
    assert!(told.contains("warning: could not send an alert to the webhook: it answered 403"), "{told}");
    assert!(!told.contains("hiddenhidden"), "{told}");
    assert_eq!(refusing.received_requests().await.unwrap().len(), 1);
    place.failing_night(&[], &[]);
    assert_eq!(place.kinds().await, ["failure raised"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_keep_a_timed_run_from_starting_are_told_once() {
    let place = Place::new().await;
    let bad = [("DREAMER_TIMEZONE", "Berlin")];
    assert_eq!(place.run(&[], &bad).status.code(), Some(78));
    assert_eq!(place.kinds().await, Vec::<String>::new(), "who starts it by hand reads it");
    for _ in 0..3 {
        assert_eq!(place.run(&["--if-due"], &bad).status.code(), Some(78));
    }
    assert_eq!(place.kinds().await, ["failure raised"]);
    assert!(place.alerts().await[0]["text"].as_str().unwrap().contains("DREAMER_TIMEZONE=Berlin"));
    assert_eq!(place.run(&["--if-due"], &[]).status.code(), Some(0));
    assert_eq!(place.kinds().await, ["failure raised", "failure over"]);

    let file = place.path(".dreamer/.env");
    let url = format!("DREAMER_ALERT_WEBHOOK_URL={}{HIDDEN_PATH}\n", place.hook.uri());
    std::fs::write(&file, format!("OPENAI_API_KEY sk-hidden-1234\nDREAMER_ALERT_PROVIDER=webhook\n{url}"))
        .unwrap();
    let only_file = [("DREAMER_ALERT_PROVIDER", ""), ("DREAMER_ALERT_WEBHOOK_URL", "")];
    assert_eq!(place.run(&["--if-due"], &only_file).status.code(), Some(78));
    let last = place.alerts().await.pop().unwrap().to_string();
    assert!(last.contains("line 1 is not NAME=value") && !last.contains("sk-hidden"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_an_alert_takes_can_be_tried() {
    let place = Place::new().await;
    let output = place.run(&["alert", "hello <b>"], &[]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "sent\n"));
    let alert = &place.alerts().await[0];
    assert_eq!((&alert["event"], &alert["status"]), (&"message".into(), &"sent".into()));
    assert!(alert["text"].as_str().unwrap().contains("hello <b>"));

    let off = place.run(&["alert", "hello"], &[("DREAMER_ALERT_PROVIDER", "off")]);
    assert_eq!(off.status.code(), Some(78));
    assert!(text(&off.stderr).contains("telegram, slack or webhook"));
    let missing = place.run(&["alert", "hello"], &[("DREAMER_ALERT_PROVIDER", "slack")]);
    assert_eq!(missing.status.code(), Some(78));
    assert!(text(&missing.stderr).contains("DREAMER_ALERT_SLACK_WEBHOOK_URL"));
    let gone = place.run(&["alert", "hello"], &[("DREAMER_ALERT_WEBHOOK_URL", "http://127.0.0.1:9/hidden")]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(!text(&gone.stderr).contains("hidden"), "{}", text(&gone.stderr));
    assert_eq!(place.run(&["alert"], &[]).status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_fails_is_told_once_until_it_works_again() {
    let place = Place::new().await;
    let unit = ["alert", "--unit", "session-flush.service"];
    let over = [&unit[..], &["--over"]].concat();
    assert_eq!(text(&place.run(&over, &[]).stdout), "not sent: there is nothing new to tell\n");
    for told in ["sent\n", "not sent: there is nothing new to tell\n"] {
        let output = place.run(&unit, &[("MONITOR_SERVICE_RESULT", "timeout")]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), told));
    }
    place.run(&over, &[]);
    let name = "unit:session-flush.service";
    assert_eq!(place.kinds().await, [format!("{name} raised"), format!("{name} over")]);
    assert!(place.alerts().await[0]["text"].as_str().unwrap().contains("(timeout)"));

    place.failing_night(&[], &[]);
    place.run(&["alert", "--unit", "dreamer.service"], &[]);
    assert_eq!(place.kinds().await[2..], ["failure raised"], "the night has told it already");
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_does_not_write_half_of_the_alert_settings_into_a_home() {
    let place = Place::new().await;
    let written = read(place.path(".dreamer/.env"));
    assert!(!written.contains("\nDREAMER_ALERT_"), "{written}");
    let none = [("DREAMER_ALERT_PROVIDER", ""), ("DREAMER_ALERT_WEBHOOK_URL", "")];
    let output = place.run(&["config"], &none);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_gets_levels_and_nobody_gets_timestamps_or_colour() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new().await;
    let year = regex::Regex::new(r"(?m)^\S{0,3}20\d\d-").unwrap();
    let file = std::fs::File::create(place.path("stderr")).unwrap();
    let metadata = file.metadata().unwrap();
    let stream = format!("{}:{}", metadata.dev(), metadata.ino());
    for (stream, warning, story) in [
        (stream.as_str(), "<4>warning: DREAMER_HOEM", "<6>dream log"),
        ("1:2", "warning: DREAMER_HOEM", "dream log"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", place.dir.path())
            .env("JOURNAL_STREAM", stream)
            .env("DREAMER_HOEM", "/x")
            .current_dir(place.dir.path())
            .arg("--verbose")
            .stderr(std::fs::File::create(place.path("stderr")).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success());
        let told = read(place.path("stderr"));
        assert!(told.lines().any(|line| line.starts_with(warning)), "{told}");
        assert!(told.lines().any(|line| line.starts_with(story)), "{told}");
        assert!(!told.contains('\u{1b}') && !year.is_match(&told), "{told}");
    }
}
