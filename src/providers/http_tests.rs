#![allow(clippy::unwrap_used)]

use std::time::Instant;

use serde_json::json;
use wiremock::{MockServer, ResponseTemplate};

use super::*;
use crate::providers::budget::{Limits, Patience};
use crate::providers::fixtures::{answer, bodies, budget, error, limits, patience, server};
use crate::providers::openai::OPENAI;

const KEY: &str = "sk-proj-4f9aKeyThatMustNotShow_0123456789";

fn endpoint(server: &MockServer, budget: Arc<Budget>) -> Endpoint {
    Endpoint::new(&OPENAI, &format!("{}/v1", server.uri()), Some(SecretString::from(KEY)), "small", budget)
        .unwrap()
}

async fn post(endpoint: &Endpoint) -> Result<Value, Failure> {
    endpoint.post("embeddings", &json!({ "model": "small" })).await
}

/// The error of a request that must fail for good.
async fn failed(endpoint: &Endpoint) -> ProviderError {
    match post(endpoint).await.unwrap_err() {
        Failure::Final(error) => error,
        Failure::Rejected(rejection) => endpoint.refused(rejection),
    }
}

fn fine() -> ResponseTemplate {
    answer(200, json!({ "fine": true }))
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    for header in
        [("retry-after", "0"), ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), ("retry-after-ms", "3")]
    {
        let busy = || error(429, "slow down").insert_header(header.0, header.1);
        let server = server([busy(), busy(), fine()]).await;
        let budget = budget(9);
        assert_eq!(post(&endpoint(&server, budget.clone())).await.unwrap(), json!({ "fine": true }));
        assert_eq!((bodies(&server).await.len(), budget.spent().calls), (3, 3));
    }
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_is_kept() {
    let server = server([error(503, "starting").insert_header("retry-after-ms", "80"), fine()]).await;
    let start = Instant::now();
    post(&endpoint(&server, budget(9))).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn a_wait_beyond_a_minute_is_not_waited_for() {
    let server = server([error(429, "come back tomorrow").insert_header("retry-after", "61")]).await;
    let unreachable = failed(&endpoint(&server, budget(9))).await;
    assert!(matches!(unreachable, ProviderError::Unreachable { tries: 1, .. }), "{unreachable:?}");
    assert_eq!(bodies(&server).await.len(), 1);
}

#[test]
fn retry_after_is_read_as_seconds_or_as_a_date() {
    let now = "2026-03-10T02:00:00Z".parse().unwrap();
    for (value, wait) in [
        ("7", Some(Duration::from_secs(7))),
        (" 0.5 ", Some(Duration::from_millis(500))),
        ("-3", Some(Duration::ZERO)),
        ("Tue, 10 Mar 2026 02:00:30 GMT", Some(Duration::from_secs(30))),
        ("Tue, 10 Mar 2026 01:00:00 GMT", Some(Duration::ZERO)),
        ("soon", None),
        ("NaN", Some(Duration::ZERO)),
        ("1e300", None),
    ] {
        assert_eq!(crate::providers::retry_after::wait_of(value, now), wait, "{value}");
    }
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_unreachable_and_after_the_second_time_given_up() {
    let server = server([error(500, "the model crashed")]).await;
    let endpoint = endpoint(&server, budget(99));
    for sent in [4, 8, 8] {
        let unreachable = failed(&endpoint).await;
        assert!(matches!(unreachable, ProviderError::Unreachable { .. }), "{unreachable:?}");
        assert!(
            chain(&unreachable).contains("the server answered 500: the model crashed"),
            "{}",
            chain(&unreachable)
        );
        assert_eq!(bodies(&server).await.len(), sent);
    }
}

#[tokio::test]
async fn a_success_in_between_keeps_the_server() {
    let broken = || error(502, "bad gateway");
    let server = server([
        broken(),
        broken(),
        broken(),
        broken(),
        fine(),
        broken(),
        broken(),
        broken(),
        broken(),
        fine(),
    ])
    .await;
    let endpoint = endpoint(&server, budget(99));
    let outcomes =
        [post(&endpoint).await, post(&endpoint).await, post(&endpoint).await, post(&endpoint).await];
    assert_eq!(outcomes.map(|outcome| outcome.is_ok()), [false, true, false, true]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_unreachable() {
    let server = server([fine().set_delay(Duration::from_secs(30))]).await;
    let patience = Patience { request: Duration::from_millis(20), ..patience() };
    let unreachable = failed(&endpoint(&server, Budget::with_patience(limits(9), patience))).await;
    assert!(matches!(unreachable, ProviderError::Unreachable { tries: 4, .. }), "{unreachable:?}");
    assert!(chain(&unreachable).contains("timed out"), "{}", chain(&unreachable));
}

#[tokio::test]
async fn a_late_answer_is_followed_by_one_in_time() {
    let server = server([fine().set_delay(Duration::from_secs(30)), fine()]).await;
    let patience = Patience { request: Duration::from_millis(200), ..patience() };
    assert!(post(&endpoint(&server, Budget::with_patience(limits(9), patience))).await.is_ok());
}

#[tokio::test]
async fn a_slow_server_nearby_may_write_as_long_as_its_reply_needs() {
    let long = json!({ "model": "small", "messages": [], "max_completion_tokens": 7_400 });
    let late = || fine().set_delay(Duration::from_millis(300));
    let patience =
        Patience { request: Duration::from_millis(20), least_tokens_a_second: 10, tries: 1, ..patience() };
    let slow = server([late()]).await;
    let asked = endpoint(&slow, Budget::with_patience(limits(9), patience));
    assert!(asked.post::<Value>("chat/completions", &long).await.is_ok());
    // Vectors are not written token by token.
    assert!(asked.post::<Value>("embeddings", &json!({ "model": "small" })).await.is_err());
    assert!(asked.post::<Value>("chat/completions", &long).await.is_ok());
}

#[test]
fn the_patience_with_a_reply_grows_with_its_tokens_where_the_server_is_near_and_the_night_is_long() {
    let time_out = |base: &str, minutes: u64, concurrency: usize, tokens: u64| {
        let limits = Limits::new(9, minutes, concurrency, Instant::now());
        let endpoint = Endpoint::new(&OPENAI, base, None, "small", Budget::new(limits)).unwrap();
        endpoint.time_out(tokens).as_secs()
    };
    let near = "http://192.168.1.20:8080/v1";
    assert_eq!(time_out("https://api.openai.com/v1", 120, 1, 7_400), 180);
    assert_eq!((time_out(near, 120, 1, 7_400), time_out(near, 120, 4, 7_400)), (740, 2_960));
    assert_eq!(time_out(near, 120, 4, 0), 180);
    // A request on its way may end, but the night is not made longer for it than it was.
    assert!((180..=600).contains(&time_out(near, 10, 4, 7_400)));
    assert_eq!(time_out(near, 0, 4, 7_400), 180);
}

#[tokio::test]
async fn a_reply_that_had_all_the_time_it_could_need_is_not_waited_for_again() {
    let late = fine().set_delay(Duration::from_secs(30));
    let server = server([late]).await;
    let patience = Patience { request: Duration::from_millis(20), least_tokens_a_second: 10, ..patience() };
    let endpoint = endpoint(&server, Budget::with_patience(Limits { concurrency: 1, ..limits(9) }, patience));
    let ten_tokens = json!({ "model": "small", "messages": [], "max_tokens": 10 });
    assert!(endpoint.post::<Value>("chat/completions", &ten_tokens).await.is_err());
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn no_server_at_all_is_unreachable() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint =
        Endpoint::new(&OPENAI, &format!("http://user:pw@127.0.0.1:{port}/v1"), None, "small", budget(99))
            .unwrap();
    let error = failed(&endpoint).await;
    assert!(matches!(&error, ProviderError::Unreachable { tries: 4, .. }), "{error:?}");
    let shown = format!("{} {error:?}", chain(&error));
    assert!(shown.contains(&format!("http://127.0.0.1:{port}/v1")) && !shown.contains("user:pw"), "{shown}");
}

#[tokio::test]
async fn no_request_is_sent_beyond_the_budget() {
    let server = server([error(500, "no")]).await;
    let budget = budget(6);
    let endpoint = endpoint(&server, budget.clone());
    assert!(matches!(failed(&endpoint).await, ProviderError::Unreachable { tries: 4, .. }));
    let exhausted = failed(&endpoint).await;
    assert!(matches!(exhausted, ProviderError::Exhausted { what: "DREAMER_MAX_CALLS", .. }), "{exhausted:?}");
    assert!(matches!(failed(&endpoint).await, ProviderError::Exhausted { .. }));
    assert_eq!((bodies(&server).await.len(), budget.spent().calls), (6, 6));
}

#[tokio::test]
async fn many_requests_at_once_do_not_exceed_the_budget() {
    let server = server([fine()]).await;
    let endpoint = endpoint(&server, budget(5));
    let ask = || post(&endpoint);
    let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
    let (e, f, g, h) = tokio::join!(ask(), ask(), ask(), ask());
    let fine = [a, b, c, d, e, f, g, h].iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!((fine, bodies(&server).await.len()), (5, 5));
}

#[tokio::test]
async fn nothing_is_sent_after_the_deadline() {
    let server = server([fine()]).await;
    let limits = Limits { deadline: Instant::now(), ..limits(9) };
    let exhausted = failed(&endpoint(&server, Budget::with_patience(limits, patience()))).await;
    assert!(
        matches!(exhausted, ProviderError::Exhausted { what: "DREAMER_MAX_MINUTES", .. }),
        "{exhausted:?}"
    );
    assert_eq!(bodies(&server).await.len(), 0);
}

#[tokio::test]
async fn retries_come_from_one_pool() {
    let server = server([error(500, "no"), error(500, "no"), fine(), error(500, "no")]).await;
    let budget = Budget::with_patience(Limits { retries: 2, ..limits(99) }, patience());
    let (one, other) = (endpoint(&server, budget.clone()), endpoint(&server, budget));
    post(&one).await.unwrap();
    assert!(matches!(failed(&other).await, ProviderError::Unreachable { tries: 1, .. }));
}

#[tokio::test]
async fn a_refused_key_model_or_account_is_final_and_asked_for_once() {
    let quota = answer(
        429,
        json!({ "error": { "message": "You exceeded your quota", "code": "insufficient_quota" } }),
    );
    for (reply, status, remedy) in [
        (error(401, "Incorrect API key provided: sk-proj-4f9a****6789."), 401, "check OPENAI_API_KEY"),
        (error(403, "Forbidden"), 403, "check OPENAI_API_KEY"),
        (error(404, "The model `small` does not exist"), 404, "check the model's name"),
        (quota, 429, "insufficient_quota"),
        (ResponseTemplate::new(307).insert_header("location", "http://127.0.0.1:9/"), 307, "redirects"),
    ] {
        let server = server([reply]).await;
        let endpoint = endpoint(&server, budget(9));
        for _ in 0..2 {
            let refused = failed(&endpoint).await;
            let fits = matches!(&refused, ProviderError::Refused { status: s, detail, .. } if *s == status && detail.contains(remedy));
            assert!(fits, "{refused}");
            assert!(!refused.to_string().contains("4f9a"), "{refused}");
        }
        assert_eq!(bodies(&server).await.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_refused_request_does_not_stop_the_next() {
    let server = server([error(400, "too odd"), fine()]).await;
    let endpoint = endpoint(&server, budget(9));
    assert!(matches!(failed(&endpoint).await, ProviderError::Refused { status: 400, .. }));
    assert!(post(&endpoint).await.is_ok());
}

#[tokio::test]
async fn a_body_that_is_not_json_is_tried_again_and_at_last_malformed() {
    let broken = || ResponseTemplate::new(200).set_body_string("{\"data\": [");
    let first = server([broken(), fine()]).await;
    assert!(post(&endpoint(&first, budget(9))).await.is_ok());
    let second = server([broken()]).await;
    let malformed = failed(&endpoint(&second, budget(9))).await;
    assert!(matches!(malformed, ProviderError::Malformed { .. }), "{malformed:?}");
    assert_eq!(bodies(&second).await.len(), 4);
}

#[tokio::test]
async fn an_error_inside_a_success_is_an_error() {
    let busy = answer(200, json!({ "error": { "message": "upstream is busy", "code": 429 } }));
    let refused = answer(200, json!({ "error": { "message": "bad schema" } }));
    let server = server([busy, fine(), refused]).await;
    let endpoint = endpoint(&server, budget(9));
    assert!(post(&endpoint).await.is_ok());
    let refused = failed(&endpoint).await;
    assert!(matches!(&refused, ProviderError::Refused { detail, .. } if detail == "bad schema"), "{refused}");
}

#[tokio::test]
async fn errors_are_understood_in_the_ways_servers_write_them() {
    for body in [
        json!({ "error": { "message": "wrong size" } }).to_string(),
        json!({ "error": "wrong size" }).to_string(),
        json!({ "detail": "wrong size" }).to_string(),
        json!({ "message": "wrong size" }).to_string(),
        json!("wrong size").to_string(),
        "wrong\n  size".to_owned(),
    ] {
        let server = server([ResponseTemplate::new(400).set_body_string(&body)]).await;
        let refused = failed(&endpoint(&server, budget(9))).await;
        assert!(
            matches!(&refused, ProviderError::Refused { detail, .. } if detail == "wrong size"),
            "{body}: {refused}"
        );
    }
}

#[tokio::test]
async fn the_key_is_never_shown() {
    let echo = format!("key {KEY}, header Authorization: Bearer {KEY} {}", "and so on ".repeat(100));
    let server = server([error(400, &echo), error(500, &echo)]).await;
    let endpoint = endpoint(&server, budget(99));
    let (refused, unreachable) = (failed(&endpoint).await, failed(&endpoint).await);
    let shown = format!("{endpoint:?} {refused} {refused:?} {} {unreachable:?}", chain(&unreachable));
    assert!(!shown.contains("4f9a") && shown.contains("[removed]"), "{shown}");
    assert!(refused.to_string().chars().count() < 450, "{refused}");
}

#[test]
fn the_own_key_is_removed_whatever_it_looks_like() {
    let key = Some(SecretString::from("open sesame"));
    let endpoint = Endpoint::new(&OPENAI, "http://127.0.0.1:1/v1", key, "small", budget(1)).unwrap();
    assert_eq!(endpoint.shown("no key open sesame here"), "no key [removed] here");
}

#[test]
fn what_looks_like_a_key_is_removed_and_other_words_stay() {
    let endpoint = Endpoint::new(&OPENAI, "http://127.0.0.1:1/v1", None, "small", budget(1)).unwrap();
    for (said, shown) in [
        ("Incorrect API key provided: sk-12***89.", "Incorrect API key provided: [removed]"),
        ("token abcdefghijklmnopqrstuvwxyz0123456789", "token [removed]"),
        ("Bearer abc, again", "[removed], again"),
        (
            "the model text-embedding-3-small takes 8192 tokens",
            "the model text-embedding-3-small takes 8192 tokens",
        ),
        ("max_completion_tokens is not supported", "max_completion_tokens is not supported"),
    ] {
        assert_eq!(endpoint.shown(said), shown);
    }
}

#[test]
fn an_address_or_key_that_cannot_be_used_is_told_without_the_key() {
    for (base, key) in [("localhost without scheme", "k"), ("http://127.0.0.1/v1", "line\nend-4f9a")] {
        let error =
            Endpoint::new(&OPENAI, base, Some(SecretString::from(key)), "small", budget(1)).unwrap_err();
        assert!(
            matches!(&error, ProviderError::Unusable { .. }) && !error.to_string().contains("4f9a"),
            "{error}"
        );
    }
}

#[test]
fn a_proxy_is_left_out_for_this_machine_alone() {
    for (base, loopback) in [
        ("http://localhost:11434/v1", true),
        ("http://127.8.8.8/v1", true),
        ("http://[::1]:8080/v1", true),
        ("http://192.168.1.4/v1", false),
        ("https://localhost.example.com/v1", false),
        ("https://api.openai.com/v1", false),
    ] {
        assert_eq!(is_loopback(&Url::parse(base).unwrap()), loopback, "{base}");
    }
}
