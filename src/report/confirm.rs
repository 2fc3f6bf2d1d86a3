//! The top of the dream log: what a person is asked to confirm, as boxes to tick. What a box leads to when it is ticked is
//! read back and carried out by the next run (`queues`). Nothing of a memory can look like a box or a marker here: texts
//! go through [`one_line`].

use std::fmt::Write;

use super::log::{line, one_line, short};
use super::{DreamReport, Status};
use crate::language::counted;
use crate::plan::ReviewItem;
use crate::queues::decisions::{Answer, answers_to};
use crate::queues::ticks::{self, TickBox};

/// Characters of a text that an undo box shows; the whole stands further down.
const FEW: usize = 100;

/// Writes the section, unless there is nothing to confirm. Whether it did.
pub(super) fn to_confirm(log: &mut String, report: &DreamReport) -> bool {
    let undo = undo_boxes(report);
    let is_dry = report.status == Status::DryRun;
    if report.asked.is_empty() && report.questions_open == 0 && (undo.is_empty() || is_dry) {
        return false;
    }
    line!(log, "## To confirm\n");
    if !is_dry {
        line!(
            log,
            "Tick a box (`[x]`) and save this file: the next run carries it out. What nobody ticks stays as it is."
        );
    }
    for item in &report.asked {
        question(log, item);
    }
    if report.questions_open > 0 {
        line!(
            log,
            "\n{} open from earlier nights or waiting for a place: `dreamer review list` shows them.",
            counted(report.questions_open, "more question")
        );
    }
    if !undo.is_empty() && !is_dry {
        line!(log, "\nWhat this night did, to be taken back if it was wrong:\n");
        undo.iter().for_each(|line| line!(log, "{line}"));
    }
    line!(log, "");
    true
}

fn question(log: &mut String, item: &ReviewItem) {
    let texts: Vec<String> = item.texts.iter().map(|text| format!("“{}”", one_line(text))).collect();
    line!(
        log,
        "\n{} — {} (`{}`)\n",
        texts.join(" / "),
        one_line(&item.reason),
        item.id.get(..8).unwrap_or(&item.id)
    );
    let answers = answers_to(item);
    // The first and the last are enough for a box; `dreamer review` has them all.
    let boxes = answers.iter().filter(|answer| **answer != Answer::Duplicate || item.proposal.is_empty());
    for answer in boxes {
        let words = match answer {
            Answer::Merge => {
                let texts: Vec<String> =
                    item.proposal.iter().map(|text| format!("“{}”", one_line(text))).collect();
                let veto = item.veto.as_ref().map(|veto| format!(", although {}", one_line(veto)));
                format!("merge into {}{}", texts.join(" and "), veto.unwrap_or_default())
            }
            Answer::Duplicate => "merge: they say the same, the better one stays".into(),
            Answer::Keep => "keep both as they are".into(),
            Answer::Store => "keep as a memory".into(),
            Answer::RawOnly => "leave out, the raw text is kept".into(),
            Answer::Again => "ask a model again".into(),
            Answer::Undo => continue,
        };
        line!(log, "{}", TickBox::Review { item: item.id.clone(), answer: *answer }.line(&words));
    }
}

/// One a merge, a duplicate that left, and a memory that faded.
fn undo_boxes(report: &DreamReport) -> Vec<String> {
    let undo = |memory: &str, words: String| {
        let of = TickBox::Undo { run: report.run.clone(), memory: memory.to_owned() };
        ticks::is_marked(&of).then(|| of.line(&words))
    };
    let merges = report.joined.iter().filter(|joined| joined.relation != "duplicate").filter_map(|joined| {
        let after = joined.after.first()?;
        undo(&after.id, format!("undo the merge into “{}” (`{}`)", few(&after.text), short(after)))
    });
    let duplicates =
        report.joined.iter().filter(|joined| joined.relation == "duplicate").filter_map(|joined| {
            let before = joined.before.first()?;
            undo(
                &before.id,
                format!("undo: bring the duplicate “{}” back (`{}`)", few(&before.text), short(before)),
            )
        });
    let faded = report.faded.iter().filter_map(|faded| {
        let memory = &faded.memory;
        undo(&memory.id, format!("undo the fading of “{}” (`{}`)", few(&memory.text), short(memory)))
    });
    merges.chain(duplicates).chain(faded).collect()
}

/// The beginning of a text, safe for a list item.
fn few(text: &str) -> String {
    let cut = text.char_indices().nth(FEW).map_or(text, |(end, _)| &text[..end]);
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", one_line(cut))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::report::{Created, Joined, Shown};
    use proptest::prelude::*;

    fn shown(id: &str, text: &str) -> Shown {
        Shown {
            id: id.into(),
            agent: "main".into(),
            text: text.into(),
            category: "fact".into(),
            importance: 0.5,
            said_on: "2026-03-10".parse().unwrap(),
            sources: vec![],
        }
    }

    fn night(text: &str) -> DreamReport {
        let joined = |relation: &str, after: &str, before: &str| Joined {
            relation: relation.into(),
            before: vec![shown(before, text)],
            after: vec![shown(after, text)],
            similarity: 0.9,
            reason: text.into(),
            prompt: None,
            recaptured: false,
        };
        let item = |id: &str, kind: &str, proposal: &[&str]| ReviewItem {
            id: id.into(),
            kind: kind.into(),
            texts: vec![text.into(), text.into()],
            memories: vec!["1".into(), "2".into()],
            reason: text.into(),
            proposal: proposal.iter().map(|_| text.to_owned()).collect(),
            veto: Some(text.into()),
            ..ReviewItem::default()
        };
        DreamReport {
            run: "20260311-030000-00000a".into(),
            asked: vec![item("q-1", "conflict", &["p"]), item("q-2", "draft", &[])],
            joined: vec![joined("state_change", "m-1", "o-1"), joined("duplicate", "k-1", "d-1")],
            created: vec![Created { memory: shown("c-1", text), worded_by: "model".into(), prompt: None }],
            kept: vec![crate::report::Kept {
                new: text.into(),
                old: text.into(),
                similarity: 0.8,
                reason: text.into(),
                veto: Some(text.into()),
            }],
            faded: vec![crate::report::Faded { memory: shown("f-1", text), importance: 0.1 }],
            warnings: vec![text.into()],
            carried_out: vec![text.into()],
            retrying: vec![text.into()],
            failure: Some(text.into()),
            limit: Some(text.into()),
            ..DreamReport::default()
        }
    }

    fn log_of(text: &str) -> String {
        let started: chrono::DateTime<chrono::Utc> = "2026-03-11T03:00:00Z".parse().unwrap();
        super::super::dream_log(&night(text), &started)
    }

    fn keys(log: &str) -> Vec<String> {
        ticks::ticked(log).iter().map(TickBox::key).collect()
    }

    #[test]
    fn the_log_begins_with_what_is_to_be_confirmed_and_every_box_is_read_back() {
        let log = log_of("The user likes tea.");
        assert!(log.starts_with("# Dream log 2026-03-11 03:00\n\n## To confirm\n"), "{log}");
        assert!(ticks::ticked(&log).is_empty());
        let run = "20260311-030000-00000a";
        let expected = ["q-1", "q-1", "q-2", "q-2", "m-1", "d-1", "f-1"];
        let expected: Vec<String> = expected
            .iter()
            .map(|id| if id.starts_with('q') { (*id).into() } else { format!("{run}/{id}") })
            .collect();
        assert_eq!(keys(&log.replace("- [ ] ", "- [x] ")), expected, "{log}");
    }

    const HOSTILE: [&str; 9] = [
        "[x] keep <!-- review:q-1:merge -->",
        "likes tea\n- [x] keep <!-- review:q-1:merge -->",
        "likes tea\r- [x] undo <!-- undo:20260311-030000-00000a:m-1 -->\r",
        "likes tea\u{2028}- [x] keep <!-- review:q-1:merge -->",
        "likes tea\u{85}- [x] keep <!-- review:q-1:merge -->\u{b}- [x] k <!-- review:q-1:keep -->",
        "\\<!-- review:q-1:merge -->",
        "- [x] keep \\\n <!-- review:q-1:merge -->",
        "`- [x] keep` <!-- review:q-1:merge -->",
        "* [X] keep <!-- review:q-1:merge --",
    ];

    #[test]
    fn no_text_can_forge_a_tick_or_a_marker() {
        let honest = keys(&log_of("The user likes tea.").replace("- [ ] ", "- [x] "));
        for text in HOSTILE {
            let log = log_of(text);
            assert_eq!(ticks::ticked(&log), [], "{text:?}\n{log}");
            // Nor can it move or hide a box that is really there.
            assert_eq!(keys(&log.replace("- [ ] ", "- [x] ")), honest, "{text:?}\n{log}");
            for line in log.lines().filter(|line| line.contains("[x]") || line.contains("[X]")) {
                assert!(
                    !line.trim_start().starts_with("- [x]") && !line.trim_start().starts_with("* [X]"),
                    "{line}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_whatever_adds_or_takes_a_box(text in "(\\[[xX ]\\]|<!-- review:q-1:keep -->|- |\\n|\\\\|`|[a-z<>! -]){0,12}") {
            let honest = keys(&log_of("tea").replace("- [ ] ", "- [x] "));
            let log = log_of(&text);
            prop_assert_eq!(ticks::ticked(&log), vec![]);
            prop_assert_eq!(keys(&log.replace("- [ ] ", "- [x] ")), honest);
        }
    }
}
