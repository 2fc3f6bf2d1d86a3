//! `--agent`: a run touches one agent alone.

use dreamer::error::Error;

use super::models::{Script, scripted};
use super::{AGENT, FULL, Night};

async fn with_two() -> Night {
    let mut night = Night::new().await.set("DREAMER_FADE", "on").set("IMPORTANCE_DECAY_RATE", "0.9");
    for agent in [AGENT, "other"] {
        night.known_of(agent, "The user likes cats.", "2026-01-05").await;
        night.known_of(agent, "The user likes cats.", "2026-01-06").await;
        night.session_of(agent, "2026-03-10", agent, &[("user", "I moved to Lisbon in March.")]);
    }
    night
}

async fn dream_for(night: &Night, agent: &str) -> Result<dreamer::report::DreamReport, Error> {
    let mut config = night.config();
    config.only_agent = Some(agent.to_owned());
    let model = Script::new().remember("Lisbon", "The user moved to Lisbon in March.").model();
    dreamer::dream::dream_with(&config, FULL, &scripted(&model), night.now, std::time::Instant::now()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_one_agents_rows_traces_days_and_episodes_change() {
    let mut night = with_two().await;
    let of = |rows: Vec<dreamer::memory::Memory>, agent: &str| {
        let mut rows: Vec<_> = rows.into_iter().filter(|row| row.partition.agent == agent).collect();
        rows.sort_by(|a, b| (&a.text, &a.id).cmp(&(&b.text, &b.id)));
        rows
    };
    let before = night.memories().await;
    for _ in 0..2 {
        let report = dream_for(&night, "other").await.unwrap();
        night.check_sums(&report);
        assert_eq!(of(night.memories().await, AGENT), of(before.clone(), AGENT));
        night.next();
    }
    let other: Vec<String> = of(night.memories().await, "other").into_iter().map(|row| row.text).collect();
    assert_eq!(other, ["The user likes cats.", "The user moved to Lisbon in March."]);
    let traces = night.store().await.traces().await.unwrap().traces;
    assert!(traces.values().all(|trace| trace.agent == "other"), "{traces:?}");
    let days = std::fs::read_to_string(night.home().join("state/active-days.json")).unwrap();
    assert!(days.contains("\"other\"") && !days.contains("\"main\""), "{days}");
    assert_eq!(night.files("episodes").into_iter().collect::<Vec<_>>(), ["2026-03-10-main.md"]);

    // The other one's night is whole afterwards.
    let report = night
        .dream(&scripted(&Script::new().remember("Lisbon", "The user moved to Lisbon in March.").model()))
        .await;
    assert_eq!(report.created.len(), 1, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_and_a_dry_run_count_the_one_agent_alone() {
    let night = with_two().await;
    let mut config = night.config();
    config.only_agent = Some("other".into());
    let model = || Script::new().remember("Lisbon", "The user moved to Lisbon in March.").model();
    let dry = dreamer::dream::Options { dry_run: true, ..FULL };
    let planned =
        dreamer::dream::dream_with(&config, dry, &scripted(&model()), night.now, std::time::Instant::now())
            .await
            .unwrap();
    assert_eq!(planned.live, (2, 2));
    // `apply` needs not be told the agent again.
    let done = dreamer::dream::apply(&night.config(), &planned.run, night.now, std::time::Instant::now())
        .await
        .unwrap();
    assert_eq!(done.live, (2, 2));
    assert_eq!(night.memories().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_agent_is_refused_with_those_there_are() {
    let night = with_two().await;
    let before = night.digests();
    let error = dream_for(&night, "nobody").await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("main, other"), "{error}");
    assert_eq!(night.digests(), before);
}
