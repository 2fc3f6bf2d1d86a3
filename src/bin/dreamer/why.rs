//! `dreamer why`: the story of a memory as a person reads it. What it is made of is the library's.

use std::fmt::Write as _;

use chrono::{DateTime, FixedOffset, NaiveDate, Utc};
use dreamer::config::Config;
use dreamer::state::audit::{Event, Kind};
use dreamer::why::{self, Carrier, Kept, Left, Outlook, Part, Place, Standing, Why, WordedBy, Wording};
use serde_json::json;

use crate::failure::{Failure, print};
use crate::memories::{print_lines, printable, short_id, tier};
use crate::output::{self, shorten};

/// Who worded or judged where no model did.
const RULES: &str = "rules";

/// Tells the story of one memory.
pub(crate) async fn tell(config: &Config, id: &str, json: bool) -> Result<u8, Failure> {
    let today = Utc::now().with_timezone(&config.timezone).date_naive();
    let why = why::why(config, id, today).await?;
    if json {
        return print_lines(std::iter::once(json!(why)));
    }
    print(&Story { config, text: String::new() }.of(&why))?;
    Ok(0)
}

struct Story<'a> {
    config: &'a Config,
    text: String,
}

impl Story<'_> {
    fn of(mut self, why: &Why) -> String {
        self.opening(why);
        self.origin(why);
        self.parts(&why.parts);
        self.carriers(why);
        self.fortune(why);
        self.history(why);
        self.ways_back(why);
        self.text
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "{}", printable(text.as_ref()));
    }

    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "\n{text}");
    }

    fn opening(&mut self, why: &Why) {
        let lost = "(its text is no longer kept)";
        self.line(why.text.as_deref().unwrap_or(lost));
        self.line(&why.id);
        let mut facts = vec![match (why.standing, why.importance) {
            (Standing::Live, Some(importance)) => format!("live, {}", tier(importance)),
            (Standing::Live, None) => "live".to_owned(),
            (Standing::Archived, _) => "archived".to_owned(),
            (Standing::Gone, _) => "gone".to_owned(),
        }];
        facts.extend(why.importance.map(|importance| format!("importance {importance:.2}")));
        facts.extend(why.category.clone());
        facts.extend(why.agent.as_ref().map(|agent| format!("agent {agent}")));
        facts.extend(why.about.map(|day| format!("about {day}")));
        facts.extend(why.pinned.then(|| "pinned".to_owned()));
        self.line(facts.join(" · "));
        if let Some(left) = &why.left {
            self.left(left);
        }
    }

    fn left(&mut self, left: &Left) {
        let run = left.run.as_ref().map(|run| format!(", run {run}")).unwrap_or_default();
        let when = left.at.map(|at| format!(" on {}", minute(at))).unwrap_or_default();
        let faded = left.importance.map(|i| format!(" at importance {i:.2}")).unwrap_or_default();
        let how = match left.reason.as_str() {
            "faded" => format!("it faded{when}{faded}{run}"),
            "superseded" | "merged" | "consolidated" => format!("it went into another memory{when}{run}"),
            "duplicate" => format!("it left as a duplicate{when}{run}"),
            "recaptured" => {
                format!("it left because the gateway had captured superseded words again{when}{run}")
            }
            "rolled_back" | "unmerged" | "undone" => format!("it was taken back{when}{run}"),
            "forgotten" => format!("it was forgotten on purpose{when}"),
            "vanished" => "it is gone without Dreamer's doing: the gateway or somebody deleted it".to_owned(),
            other => format!("it left ({other}){when}{run}"),
        };
        self.line(format!("why it left: {how}"));
        let mut judged: Vec<String> = Vec::new();
        judged.extend(left.relation.as_ref().map(|relation| relation.replace('_', " ")));
        judged.extend(left.similarity.map(|similarity| format!("similarity {similarity:.2}")));
        judged.extend(left.judge.as_ref().map(|judge| format!("judged by {judge}")));
        // Rules that merged give no reason but their name, which stands there already.
        let by_rules = left.judge.as_deref() == Some(RULES);
        let told = left.judged.as_ref().filter(|reason| !(by_rules && reason.starts_with("by rules")));
        judged.extend(told.map(|reason| format!("“{reason}”")));
        if !judged.is_empty() {
            self.line(format!("             {}", judged.join(" · ")));
        }
    }

    fn origin(&mut self, why: &Why) {
        self.heading("Where it comes from");
        self.line(format!("  {}", worded(&why.wording, why.written_at)));
        for place in &why.sources {
            self.place(place, 2);
            match (&place.excerpt, place.kept) {
                (Some(excerpt), _) => self.line(format!("    > {}", fitted(excerpt, 6))),
                (None, _) => self.line("    the words are no longer kept: the file is gone or changed"),
            }
        }
        if why.sources.is_empty() {
            let unknown = match why.wording.by {
                WordedBy::Gateway => "  no episode is known for it: the gateway keeps none",
                _ => "  no episode is known for it",
            };
            self.line(unknown);
        }
    }

    /// `episode:lines  speaker, when  (where the file is)`.
    fn place(&mut self, place: &Place, indent: usize) {
        let mut line = format!("{:indent$}{}", "", output::place(&place.episode, place.lines));
        let who = place.speaker.iter().cloned().chain(place.said_at.map(minute));
        let who: Vec<String> = who.collect();
        if !who.is_empty() {
            let _ = write!(line, "  {}", who.join(", "));
        }
        match (&place.file, place.kept) {
            (Some(file), _) => {
                let _ =
                    write!(line, "  in {}", file.strip_prefix(&self.config.home).unwrap_or(file).display());
            }
            (None, Kept::Raw) => line.push_str("  as kept raw; the file is gone or changed"),
            (None, _) => {}
        }
        self.line(line);
    }

    fn parts(&mut self, parts: &[Part]) {
        if !parts.is_empty() {
            self.heading("What went into it");
            self.tree(parts, 2);
        }
    }

    fn tree(&mut self, parts: &[Part], indent: usize) {
        for part in parts {
            let said = part.said_on.map(|day| format!("{day}  ")).unwrap_or_default();
            let text = part.text.as_deref().unwrap_or("(its text is no longer kept)");
            let text = fitted(text, indent + 24);
            self.line(format!("{:indent$}{}  {said}{text}", "", short_id(&part.id)));
            let run = part.run.as_ref().map(|run| format!(" in run {run}")).unwrap_or_default();
            let now = match part.standing {
                Standing::Live => ", live again",
                Standing::Archived => "",
                Standing::Gone => ", gone by now",
            };
            let how = match part.how.as_str() {
                "recaptured" => "left: the gateway had captured superseded words again",
                "duplicate" => "left as a duplicate",
                "original" => "an original",
                other => other,
            };
            self.line(format!("{:indent$}          {how}{run}{now}", ""));
            // What has parts of its own was said where they were.
            for place in part.sources.iter().filter(|_| part.parts.is_empty()) {
                let said = place.speaker.as_ref().map(|who| format!(" ({who})")).unwrap_or_default();
                let place = output::place(&place.episode, place.lines);
                self.line(format!("{:indent$}          from {place}{said}", ""));
            }
            self.tree(&part.parts, indent + 2);
        }
    }

    fn carriers(&mut self, why: &Why) {
        if why.carriers.is_empty() {
            return;
        }
        self.heading("What carries its content now");
        for Carrier { id, text, standing, run } in &why.carriers {
            let text = fitted(text.as_deref().unwrap_or("(its text is no longer kept)"), 12);
            self.line(format!("  {}  {text}", short_id(id)));
            let run = run.as_ref().map(|run| format!("since run {run}, ")).unwrap_or_default();
            let now = match standing {
                Standing::Live => "live",
                Standing::Archived => "archived by now",
                Standing::Gone => "gone by now",
            };
            self.line(format!("            {run}{now}"));
        }
    }

    fn fortune(&mut self, why: &Why) {
        if why.recalled.is_empty() && why.said_on.is_empty() && why.outlook.is_none() {
            return;
        }
        self.heading("How it fares");
        for (what, days) in [("recalled", &why.recalled), ("said by the user", &why.said_on)] {
            match days.is_empty() {
                false => self.line(format!("  {what} on {}", counted(days))),
                true if what == "recalled" => self.line("  never recalled, as far as Dreamer could see"),
                true => {}
            }
        }
        if let Some(outlook) = &why.outlook {
            self.outlook(outlook);
        }
    }

    fn outlook(&mut self, outlook: &Outlook) {
        self.line(format!(
            "  importance {:.2} today: {:.2} on {}, {} active {} since, stability {}",
            outlook.importance,
            outlook.base,
            outlook.clock,
            outlook.active_days,
            if outlook.active_days == 1 { "day" } else { "days" },
            outlook.stability
        ));
        let line = match (&outlook.stays, outlook.days_left, outlook.earliest) {
            (Some(stays), ..) => format!("does not fade: {stays}"),
            (None, Some(0), Some(_)) => {
                "falls below the threshold by now: it fades on one of the next nights".to_owned()
            }
            (None, Some(left), Some(day)) => format!(
                "would fade after {left} more active {} without a recall, on {day} at the earliest",
                if left == 1 { "day" } else { "days" }
            ),
            _ => "does not fade".to_owned(),
        };
        self.line(format!("  {line}"));
    }

    fn history(&mut self, why: &Why) {
        if why.history.is_empty() {
            return;
        }
        self.heading("What happened");
        for event in &why.history {
            let at = event.at.with_timezone(&self.config.timezone);
            let what = happened(event, &why.id);
            self.line(format!("  {}  {what}  (run {})", at.format("%Y-%m-%d %H:%M"), event.run));
        }
    }

    fn ways_back(&mut self, why: &Why) {
        if !why.ways_back.is_empty() {
            self.heading("The way back");
            let rows: Vec<Vec<String>> = why
                .ways_back
                .iter()
                .map(|way| vec![format!("  {}", way.command), way.does.clone()])
                .collect();
            self.text.push_str(&output::table(&rows));
        }
        if let Some(copy) = &why.copy {
            self.heading("Readable copy");
            self.line(format!("  {}", copy.display()));
        }
    }
}

/// Who worded it, and when.
fn worded(wording: &Wording, written_at: Option<DateTime<FixedOffset>>) -> String {
    let model = wording.model.as_deref().unwrap_or("a model");
    let run = match (&wording.run, wording.at) {
        (Some(run), Some(at)) => format!(" (run {run}, {})", minute(at)),
        _ => String::new(),
    };
    match wording.by {
        WordedBy::Model => format!("worded by {model}{run}"),
        WordedBy::Verbatim => {
            format!("the source's own words, because those of {model} failed the check{run}")
        }
        WordedBy::Extractive => format!("the source's own words, chosen by rules, no model{run}"),
        WordedBy::Merge => {
            let who = if model == RULES { "rules, no model" } else { model };
            let mut text = format!("merged by {who}{run}");
            let relation = wording.relation.as_ref().map(|relation| relation.replace('_', " "));
            let similarity = wording.similarity.map(|similarity| format!("similarity {similarity:.2}"));
            let reason = wording.reason.as_ref().filter(|_| model != RULES);
            let reason = reason.map(|reason| format!("“{reason}”"));
            for more in [relation, similarity, reason].into_iter().flatten() {
                let _ = write!(text, " · {more}");
            }
            text
        }
        WordedBy::Gateway => {
            let written = written_at.map(|at| format!(" on {}", minute(at))).unwrap_or_default();
            let seen = match (&wording.run, wording.at) {
                (Some(run), Some(_)) => format!("; Dreamer saw it first in run {run}"),
                _ => String::new(),
            };
            format!("captured by the gateway{written}{seen}")
        }
        WordedBy::Unknown => "worded by Dreamer, before it kept an audit".to_owned(),
    }
}

/// What an event did with the memory.
fn happened(event: &Event, id: &str) -> String {
    let was = event.before.iter().any(|subject| subject.id == id);
    let other = |list: &[dreamer::state::audit::Subject]| {
        list.iter().filter(|s| s.id != id).map(|s| short_id(&s.id)).collect::<Vec<_>>().join(", ")
    };
    let from = match event.sources.as_slice() {
        [] => String::new(),
        places => format!(" from {}", places.join(", ")),
    };
    let close = event.similarity.map(|s| format!(", similarity {s:.2}")).unwrap_or_default();
    match &event.kind {
        Kind::Created => format!("became a memory{from}"),
        Kind::Drafted => format!("was drafted{from}, and went straight into a merge"),
        Kind::Merged | Kind::Consolidated if was => format!("went into {}{close}", other(&event.after)),
        Kind::Merged => format!("made of {}: the state changed{close}", other(&event.before)),
        Kind::Consolidated => format!("made of {}: aspects of one thing{close}", other(&event.before)),
        Kind::Duplicate if was => format!("left as a duplicate of {}{close}", other(&event.after)),
        Kind::Duplicate => format!("its duplicate {} left{close}", other(&event.before)),
        Kind::Recaptured if was => format!("left: {} knows better since", other(&event.after)),
        Kind::Recaptured => format!("{} left, captured again from old words", other(&event.before)),
        Kind::Faded => "faded".to_owned(),
        Kind::Revived => format!("was said again and came back{from}{close}"),
        Kind::Reinforced => format!("was said again{from}{close}"),
        Kind::Recalled => "was recalled".to_owned(),
        Kind::FirstSeen => "was seen for the first time".to_owned(),
        Kind::Restored => "was brought back by a person".to_owned(),
        Kind::RolledBack | Kind::Unmerged | Kind::Undone => {
            let how = if was { "left" } else { "came back" };
            let of = event.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
            format!("{how} ({}{of})", event.kind.word().replace('_', " "))
        }
        other => other.word().replace('_', " "),
    }
}

fn minute(at: DateTime<FixedOffset>) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

/// The days themselves; of many their number and the last ones.
fn counted(days: &[NaiveDate]) -> String {
    const FEW: usize = 5;
    let last = &days[days.len().saturating_sub(FEW)..];
    let last = last.iter().map(NaiveDate::to_string).collect::<Vec<_>>().join(", ");
    if days.len() > FEW { format!("{} days, last on {last}", days.len()) } else { last }
}

/// The text on one line that fits beside so many columns.
fn fitted(text: &str, used: usize) -> String {
    shorten(text, output::columns().saturating_sub(used).max(40))
}
