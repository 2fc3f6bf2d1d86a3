//! What no judge may do: a veto keeps both, is counted and told, and the pair is not asked about again. A reply that
//! cannot be read leaves the pair open.

use dreamer::dream::Options;
use dreamer::memory::Reconciled;
use dreamer::report::Status;

use super::models::{Script, by_topic, embed, models, prompts, reasoner, scripted};
use super::{AGENT, FULL, Night};

struct Case {
    topics: &'static [&'static str],
    known: &'static str,
    said: &'static str,
    draft: &'static str,
    verdict: (&'static str, (&'static str, &'static str), &'static str),
    why: &'static str,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_veto_keeps_both_is_told_and_is_final() {
    let cases = [
        Case {
            topics: &["standup"],
            known: "Standup is at 9:00.",
            said: "The standup moved to 10:00 by the way.",
            draft: "Standup moved to 10:00.",
            verdict: ("state_change", ("Standup", "Standup"), "Standup is at 10:00 since 2026-03-10."),
            why: "would lose",
        },
        Case {
            topics: &["工"],
            known: "张工住在北京。",
            said: "章工去了上海工作。",
            draft: "章工去了上海。",
            verdict: ("state_change", ("章工", "张工"), "张工以前住在北京，2026-03-10起去了上海。"),
            why: "different subjects",
        },
        Case {
            topics: &["ann"],
            known: "Anna lives in Berlin.",
            said: "Anne lives in Madrid now.",
            draft: "Anne lives in Madrid now.",
            verdict: (
                "state_change",
                ("Anne", "Anna"),
                "Anna lives in Madrid since 2026-03-10, before in Berlin.",
            ),
            why: "different subjects",
        },
        Case {
            topics: &["owns"],
            known: "The user owns a cat.",
            said: "I have a dog, so the user owns a dog.",
            draft: "The user owns a dog.",
            verdict: ("state_change", ("The user", "The user"), "The user owns a dog, before a cat."),
            why: "can both hold",
        },
        Case {
            topics: &["owns"],
            known: "The user owns a cat.",
            said: "I have a dog, so the user owns a dog.",
            draft: "The user owns a dog.",
            verdict: ("duplicate", ("The user", "The user"), ""),
            why: "called the same",
        },
        Case {
            topics: &["standup"],
            known: "Standup is at 9:00.",
            said: "The standup moved to 10:00 by the way.",
            draft: "Standup moved to 10:00.",
            verdict: ("state_change", ("The meeting", "Standup"), "Standup is at 10:00, before at 9:00."),
            why: "does not stand in",
        },
        Case {
            topics: &["standup"],
            known: "Standup is at 9:00.",
            said: "The standup moved to 10:00 by the way.",
            draft: "Standup moved to 10:00.",
            verdict: ("state_change", ("Standup", "Standup"), ""),
            why: "no merged text",
        },
    ];
    for case in cases {
        let mut night = Night::without_table().scripted_embedder(64);
        dreamer::store::Store::create(&night.config().lancedb_uri, 64).await.unwrap();
        let embedder = || by_topic(case.topics);
        let vector = embed(embedder().as_ref(), case.known).await;
        night.insert(AGENT, case.known, "2026-01-05", vector).await;
        night.session("2026-03-10", &[("user", case.said)]);
        let (relation, subjects, text) = case.verdict;
        let script = || {
            let script = Script::new().remember(case.said, case.draft);
            script.judge(case.draft, case.known, relation, subjects, text).model()
        };
        let model = script();
        let report = night.dream(&models(embedder(), reasoner(&model))).await;
        assert_eq!(prompts(&model, "verdicts").len(), 1, "{}", case.draft);
        assert_eq!((report.rem.vetoed, report.rem.kept_both, report.rem.merged), (1, 1, 0), "{}", case.draft);
        let mut both = [case.known, case.draft];
        both.sort_unstable();
        assert_eq!(night.texts().await, both);
        assert!(night.archive().await.is_empty());
        let log = std::fs::read_to_string(report.dream_log.as_ref().unwrap()).unwrap();
        assert!(
            log.contains("## Kept both, against the judge") && log.contains(case.why),
            "{}: {log}",
            case.why
        );

        let again = script();
        night.next();
        let report = night.dream(&models(embedder(), reasoner(&again))).await;
        assert_eq!((report.rem.candidates, again.prompts().len()), (0, 0), "{} is asked again", case.draft);
        assert_eq!(night.texts().await, both);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_on_the_merge_blacklist_are_never_merged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.txt");
    std::fs::write(&file, "# people\n张工\t章工\nAnn=Anne\n").unwrap();
    for list in ["张工=章工;Ann=Anne", file.to_str().unwrap()] {
        for (topic, known, said, subjects, text) in [
            (
                &["ann"][..],
                "Ann lives in Berlin.",
                "Anne lives in Madrid now.",
                ("Anne", "Ann"),
                "Ann lives in Madrid now, before in Berlin.",
            ),
            (
                &["工"],
                "张工住在北京。",
                "章工现在住在上海。",
                ("章工", "张工"),
                "章工现在住在上海，以前住在北京。",
            ),
        ] {
            let mut night = Night::without_table().scripted_embedder(64).set("DREAMER_MERGE_BLACKLIST", list);
            dreamer::store::Store::create(&night.config().lancedb_uri, 64).await.unwrap();
            let vector = embed(by_topic(topic).as_ref(), known).await;
            night.insert(AGENT, known, "2026-01-05", vector).await;
            night.session("2026-03-10", &[("user", said)]);
            let model =
                Script::new().remember(said, said).judge(said, known, "state_change", subjects, text).model();
            let report = night.dream(&models(by_topic(topic), reasoner(&model))).await;
            assert_eq!((report.rem.vetoed, report.rem.merged + report.rem.consolidated), (1, 0), "{known}");
            let why = report.kept[0].veto.as_deref().unwrap_or_default();
            assert!(why.contains("merge blacklist"), "{why}");
            assert_eq!(night.memories().await.len(), 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_judgement_keeps_both_and_is_asked_again() {
    let mut night = Night::new().await;
    night.known("The user likes cats.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    let allergic = "The user is allergic to cats now.";
    let rubbish = Script::new().remember("allergic", allergic).judge_in_rubbish().model();
    let report = night.dream(&scripted(&rubbish)).await;
    assert_eq!((report.waiting.unreadable, report.rem.kept_both, report.rem.merged), (1, 0, 0));
    assert_eq!(report.status.as_str(), "done", "a small model's bad reply is no failure of the night");
    assert_eq!(night.texts().await, [allergic, "The user likes cats."]);
    let open = night.memories().await.into_iter().find(|m| m.text == allergic).unwrap();
    assert_eq!(night.trace(&open.id).await.reconciled, Reconciled::Open);
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    assert!(log.contains("could not be read"), "{log}");

    // It waits for a night that has something new, and does not use up a window by itself.
    for (name, value) in [("DREAMER_WINDOW", "off"), ("DREAMER_MIN_NEW", "1")] {
        night.settings.insert(name.into(), value.into());
    }
    let timed = Options { if_due: true, ..FULL };
    let silent = Script::new().model();
    let report = night.next().try_dream(timed, &scripted(&silent)).await.unwrap();
    assert_eq!((report.status, silent.prompts().len()), (Status::NotDue, 0));

    let merged = "The user used to like cats and is allergic to cats since 2026-03-10.";
    let able = Script::new()
        .judge("allergic", "likes cats", "state_change", ("The user", "The user"), merged)
        .model();
    let report = night.next().dream(&scripted(&able)).await;
    assert_eq!((prompts(&able, "verdicts").len(), report.rem.merged, report.waiting.unreadable), (1, 1, 0));
    assert_eq!(night.texts().await, [merged]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_memory_stays_whatever_the_judge_says() {
    let mut night = Night::new().await;
    let id = night.known("The user likes cats.", "2026-01-05").await;
    night.dream(&scripted(&Script::new().model())).await;
    let trace = night.trace(&id).await;
    night.store().await.put_traces(&[dreamer::memory::Trace { pinned: true, ..trace }]).await.unwrap();
    night.session("2026-03-11", &[("user", "Bad news: I am allergic to cats now.")]);
    let merged = "The user used to like cats and is allergic to cats since 2026-03-11.";
    let model = Script::new()
        .remember("allergic", "The user is allergic to cats now.")
        .judge("allergic", "likes cats", "state_change", ("The user", "The user"), merged)
        .model();
    let report = night.next().dream(&scripted(&model)).await;
    assert_eq!((report.rem.vetoed, report.rem.merged), (1, 0));
    assert_eq!(report.kept[0].veto.as_deref(), Some("one of them is pinned"));
    assert_eq!(night.memories().await.len(), 2);
}
