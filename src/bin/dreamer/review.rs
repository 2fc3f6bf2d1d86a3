//! `dreamer review`: what only a person can tell, listed, shown and answered. The answer is recorded here and carried out
//! by the next run.

use std::fmt::Write as _;

use chrono::Utc;
use dreamer::config::Config;
use dreamer::error::Error;
use dreamer::plan::ReviewItem;
use dreamer::queues::Queues;
use dreamer::queues::decisions::{Answer, answers_to};
use dreamer::queues::review::{self, Say as Said};
use serde_json::{Value, json};

use crate::args::Say;
use crate::failure::{Failure, print};
use crate::output;

/// Lists, shows or answers.
pub(crate) async fn review(config: &Config, say: &Say) -> Result<u8, Failure> {
    match say {
        Say::List { json } => print(&listed(&queues(config)?, *json))?,
        Say::Show { id } => {
            let queues = queues(config)?;
            let item = review::find(&queues, id).map_err(Error::from)?;
            print(&shown(item, &queues))?;
        }
        Say::Approve { id, answer } => decide(config, id, Said::Approve(*answer))?,
        Say::Reject { id } => decide(config, id, Said::Reject)?,
    }
    Ok(0)
}

fn queues(config: &Config) -> Result<Queues, Failure> {
    Ok(Queues::read(config, Utc::now().with_timezone(&config.timezone).date_naive())?)
}

fn decide(config: &Config, id: &str, said: Said) -> Result<(), Failure> {
    let (item, answer) = review::decide(config, id, said, Utc::now())?;
    print(&format!(
        "decided   {}  {}: {}\n          the next run carries it out; until then another answer takes its place\n",
        short_id(&item.id),
        answer.as_str(),
        consequence(&item, answer)
    ))
}

/// What follows from an answer.
fn consequence(item: &ReviewItem, answer: Answer) -> String {
    match answer {
        Answer::Merge => format!("one memory takes the place of both: {}", item.proposal.join(" | ")),
        Answer::Duplicate => "the better one stays, the other moves to the archive".into(),
        Answer::Keep => "both stay, and no model is asked about them again".into(),
        Answer::Store => "it becomes a memory, unless one says it already".into(),
        Answer::RawOnly => "its raw text is kept, and no model is asked about it again".into(),
        Answer::Again => "a model is asked anew".into(),
        Answer::Undo => String::new(),
    }
}

/// Where a question stands.
fn standing(item: &ReviewItem, queues: &Queues) -> String {
    let ordered = queues.orders.iter().find(|order| order.key == item.id);
    match (ordered, review::is_asked(item), review::expires(item)) {
        (Some(order), ..) => format!("decided: {}", order.answer.as_str()),
        (None, true, Some(day)) => format!("until {day}"),
        (None, true, None) => "open".into(),
        (None, false, _) => "waits for a place".into(),
    }
}

fn open(queues: &Queues) -> Vec<&ReviewItem> {
    let mut items: Vec<&ReviewItem> =
        queues.items.values().filter(|item| !queues.decisions.is_closed(&item.id)).collect();
    items.sort_by(|a, b| {
        review::is_asked(b)
            .cmp(&review::is_asked(a))
            .then_with(|| b.weight.total_cmp(&a.weight))
            .then_with(|| a.id.cmp(&b.id))
    });
    items
}

fn listed(queues: &Queues, json: bool) -> String {
    let items = open(queues);
    if json {
        let lines = items.iter().map(|item| format!("{}\n", as_json(item, queues)));
        return lines.collect();
    }
    if items.is_empty() {
        return "no questions\n".into();
    }
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            let (kind, standing) = (item.kind.clone(), standing(item, queues));
            let agent = output::shorten(&item.agent, 16);
            let used = 8 + output::width(&kind) + output::width(&standing) + output::width(&agent) + 8;
            let room = output::columns().saturating_sub(used).max(30);
            vec![
                short_id(&item.id).to_owned(),
                kind,
                standing,
                agent,
                output::shorten(&item.texts.join(" / "), room),
            ]
        })
        .collect();
    output::table(&rows)
}

fn as_json(item: &ReviewItem, queues: &Queues) -> Value {
    let mut value = serde_json::to_value(item).expect("an item is plain data");
    let answers: Vec<&str> = answers_to(item).into_iter().map(Answer::as_str).collect();
    value["answers"] = json!(answers);
    value["asked"] = json!(review::is_asked(item));
    value["expires"] = json!(review::expires(item));
    value["decided"] =
        json!(queues.orders.iter().find(|order| order.key == item.id).map(|order| order.answer.as_str()));
    value
}

fn shown(item: &ReviewItem, queues: &Queues) -> String {
    let clean = |text: &str| output::shorten(text, 1_000_000);
    let mut text = format!("id        {}\nkind      {} of {}\n", item.id, item.kind, clean(&item.agent));
    let mut line = |name: &str, told: &str| {
        let _ = writeln!(text, "{name:<10}{}", clean(told));
    };
    for (place, words) in item.texts.iter().enumerate() {
        let id = item.memories.get(place).map(|id| format!("  ({id})")).unwrap_or_default();
        line("text", &format!("{words}{id}"));
    }
    line("why", &item.reason);
    for proposal in &item.proposal {
        line("proposal", proposal);
    }
    if let Some(veto) = &item.veto {
        line("veto", &format!("{veto}; your word counts all the same"));
    }
    for source in &item.sources {
        let (first, last) = source.lines;
        line("from", &format!("{}:{first}-{last} ({})", source.episode, source.speaker));
    }
    line("asked by", &item.run);
    line("standing", &standing(item, queues));
    let (mut answers, reject) = (answers_to(item), Answer::Keep);
    let reject = answers.pop().unwrap_or(reject);
    for answer in answers {
        let command = format!("dreamer review approve {} --as {}", short_id(&item.id), answer.as_str());
        line("answer", &format!("{command}: {}", consequence(item, answer)));
    }
    line("answer", &format!("dreamer review reject {}: {}", short_id(&item.id), consequence(item, reject)));
    text
}

/// The first eight characters of an id.
fn short_id(id: &str) -> &str {
    id.char_indices().nth(8).map_or(id, |(end, _)| &id[..end])
}
