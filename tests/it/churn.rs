//! Ninety nights of realistic churn against a calculation of our own: what fades, on which night and in which order. In CI a
//! small home; `TEST_LONG=1` starts from 2,000 rows with 30 captured, 5 edited, 5 deleted and 10 recalled a night.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use dreamer::memory::{Memory, Trace};

use crate::days::{FIRST, Gateway, MOST_BYTES_A_MEMORY, Size, long, night, write_curve};
use crate::home::{Home, at, day, digests, memory, strange_sentences};

/// How much happens.
struct Scale {
    nights: u64,
    rows: usize,
    captured: usize,
    edited: usize,
    deleted: usize,
    recalled: usize,
}

const SHORT: Scale = Scale { nights: 40, rows: 300, captured: 8, edited: 2, deleted: 2, recalled: 4 };
const LONG: Scale = Scale { nights: 90, rows: 2_000, captured: 30, edited: 5, deleted: 5, recalled: 10 };
/// Days before the first night on which the clocks of the first rows started.
const SPREAD: u64 = 20;

/// The user is silent on one day of the week.
fn is_active(n: u64) -> bool {
    n % 7 != 3
}

/// A memory as the calculation knows it.
#[derive(Debug, Clone)]
struct Model {
    text: String,
    importance: f64,
    created_at: i64,
    base: f64,
    clock: u64,
    stability: f64,
    recalled: BTreeSet<u64>,
    pinned: bool,
}

impl Model {
    fn captured(row: &Memory, today: u64) -> Self {
        Self {
            text: row.text.clone(),
            importance: row.importance,
            created_at: row.created_at,
            base: row.importance,
            clock: today,
            stability: 1.0,
            recalled: BTreeSet::new(),
            pinned: false,
        }
    }

    /// Active days after the clock started, today included.
    fn active_days(&self, today: u64) -> u64 {
        (self.clock + 1..=today).filter(|n| is_active(*n)).count() as u64
    }

    /// Section 6 (5): base · (1 − rate) ^ (active days since reinforcement / stability).
    fn importance_on(&self, today: u64) -> f64 {
        self.base * (1.0_f64 - 0.05).powf(self.active_days(today) as f64 / self.stability)
    }

    /// The text is another one: what was known of the old one does not hold.
    fn edit(&mut self, text: String, today: u64) {
        (self.text, self.base, self.clock, self.stability) = (text, self.importance, today, 1.0);
    }

    fn recall(&mut self, today: u64) {
        if self.recalled.insert(today) {
            let now = self.importance_on(today);
            (self.base, self.clock) = (now + 0.1 * (1.0 - now), today);
            self.stability = (self.stability + 0.5).min(10.0);
        }
    }
}

/// What the calculation says of all of them.
struct Book {
    live: BTreeMap<String, Model>,
    /// When how many faded.
    faded: Vec<(i64, usize)>,
}

impl Book {
    /// The ids that fade in a night, lowest importance first, and how many wait for the loss budget.
    fn sleep(&mut self, today: u64, hour: u32) -> (BTreeSet<String>, usize) {
        let now = at(today, hour).timestamp_millis();
        let rows = self.live.len();
        let this_month: usize =
            self.faded.iter().filter(|(when, _)| now - when <= 30 * 86_400_000).map(|(_, count)| count).sum();
        let a_night = (rows * 2 / 100).max(1);
        let a_month = (rows * 10 / 100).max(1);
        let budget = a_night.min(a_month - this_month.min(a_month));

        let mut low: Vec<(f64, i64, String)> = Vec::new();
        for (id, model) in &mut self.live {
            model.importance = model.importance_on(today);
            if model.importance < 0.15 && !model.pinned && model.active_days(today) > 0 {
                low.push((model.importance, model.created_at, id.clone()));
            }
        }
        low.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let wait = low.len().saturating_sub(budget);
        let leave: BTreeSet<String> = low.into_iter().take(budget).map(|(.., id)| id).collect();
        self.live.retain(|id, _| !leave.contains(id));
        self.faded.push((now, leave.len()));
        (leave, wait)
    }

    async fn assert_as_stored(&self, home: &Home, when: &str) {
        let rows = home.store().await.rows("main").await.unwrap().memories;
        let ids: BTreeSet<&String> = rows.iter().map(|row| &row.id).collect();
        assert_eq!(ids, self.live.keys().collect(), "{when}");
        for row in &rows {
            let model = &self.live[&row.id];
            let close = (row.importance - model.importance).abs() < 1e-9;
            assert!(close && row.text == model.text, "{when}: {row:?} is not {model:?}");
        }
    }
}

/// Numbers that are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn some<'a>(&mut self, of: &[&'a String], count: usize) -> Vec<&'a String> {
        let mut left = of.to_vec();
        (0..count.min(of.len())).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

fn is_weekly(id: &str) -> bool {
    id.ends_with("7")
}

fn is_pinned(id: &str) -> bool {
    id.ends_with("00") || id.ends_with("50")
}

fn row(n: usize, text: &str, today: u64, chance: &mut Chance) -> Memory {
    let importance = 0.2 + chance.below(80) as f64 / 100.0;
    let created_at = at(today, 12).timestamp_millis() - chance.below(3_600_000) as i64;
    Memory { created_at, ..memory(&format!("row-{n:05}"), text, importance) }
}

/// What is known of one of the first rows: clock, base, stability and pin are spread, so that few of them fall due on the
/// same night, the first within days and the last after the test.
fn model_of_old(row: &Memory, chance: &mut Chance) -> Model {
    let days = if is_weekly(&row.id) { 5 } else { SPREAD as usize };
    let mut model = Model::captured(row, FIRST - chance.below(days) as u64);
    model.base = 0.5 + chance.below(50) as f64 / 100.0;
    model.stability = 1.0 + chance.below(9) as f64 / 2.0;
    model.pinned = is_pinned(&row.id);
    model.importance = model.importance_on(FIRST);
    model
}

/// A home after its first night with such rows, and the calculation's idea of it.
async fn spread(scale: &Scale, words: &[String], chance: &mut Chance) -> (Home, Book) {
    let home = Home::new(&[("MAX_EPISODES_PER_RUN", "1000")]).await;
    (FIRST - SPREAD..=FIRST).filter(|n| is_active(*n)).for_each(|n| home.hello(n));
    let mut live = BTreeMap::new();
    let mut rows = Vec::new();
    for (n, text) in words.iter().take(scale.rows).enumerate() {
        let row = row(n, text, FIRST - SPREAD, chance);
        let model = model_of_old(&row, chance);
        rows.push(Memory { importance: model.importance, ..row.clone() });
        live.insert(row.id, model);
    }
    home.add(&rows).await;
    night(&home, FIRST, 22).await;
    // The night starts every clock; ours have been running for some time.
    let known = home.store().await.traces().await.unwrap().traces.into_values();
    let running = |trace: Trace| {
        let Model { base, clock, stability, pinned, .. } = live[&trace.id];
        Trace { base, clock: day(clock), stability, pinned, ..trace }
    };
    home.store().await.put_traces(&known.map(running).collect::<Vec<_>>()).await.unwrap();
    (home, Book { live, faded: vec![] })
}

/// What happens on a day: captures, edits, deletions and recalls, in the table and in the book.
async fn live_through(
    (home, gateway, book): (&Home, &Gateway, &mut Book),
    scale: &Scale,
    (n, words): (u64, &[String]),
    chance: &mut Chance,
) {
    let today = FIRST + n;
    if is_active(today) {
        home.hello(today);
    }
    let before = scale.rows + scale.captured * (n as usize - 1);
    let captured: Vec<Memory> =
        (0..scale.captured).map(|i| row(before + i, &words[before + i], today, chance)).collect();
    home.add(&captured).await;
    gateway.refresh().await;
    book.live.extend(captured.iter().map(|row| (row.id.clone(), Model::captured(row, today))));

    let own = book.live.clone();
    let plain: Vec<&String> = own.keys().filter(|id| !is_weekly(id) && !is_pinned(id)).collect();
    let touched = chance.some(&plain, scale.edited + scale.deleted);
    let (edited, deleted) = touched.split_at(scale.edited);
    for id in edited {
        let row = memory(id, &own[*id].text, 0.0);
        let text = gateway.edit(&row).await;
        book.live.get_mut(*id).unwrap().edit(text, today);
    }
    for id in deleted {
        gateway.delete(id).await;
        book.live.remove(*id);
    }
    let there: Vec<&String> = own.keys().filter(|id| book.live.contains_key(*id)).collect();
    let mut recalled = chance.some(&there, scale.recalled);
    recalled.extend(there.iter().filter(|id| is_weekly(id) && today % 7 == 5));
    let at = format!("{}T12:00:00Z", day(today));
    let lines: Vec<String> = recalled.iter().map(|id| format!(r#"{{"id":"{id}","at":"{at}"}}"#)).collect();
    home.recall(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    recalled.iter().for_each(|id| book.live.get_mut(*id).unwrap().recall(today));
}

/// Everything a second run must leave alone: all files but the run's own folder and log.
fn lasting(home: &Home) -> BTreeMap<std::path::PathBuf, String> {
    let mut files = digests(&home.config.home);
    // Every run is told in the audit.
    let told = ["runs", "dream-log", "audit.jsonl"];
    files.retain(|path, _| !told.iter().any(|what| path.starts_with(what)));
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn in_ninety_nights_of_churn_every_memory_fades_on_the_night_the_formula_gives() {
    let scale = if long() { LONG } else { SHORT };
    let chance = &mut Chance(3);
    let words = strange_sentences(scale.rows + scale.captured * scale.nights as usize);
    let (home, mut book) = spread(&scale, &words, chance).await;
    let gateway = Gateway::of(&home).await;
    let (mut left, mut waited, mut second_runs) = (BTreeSet::new(), 0, 0);
    let mut curve = vec![Size::of(&home).await.line(0)];
    for n in 1..=scale.nights {
        let today = FIRST + n;
        live_through((&home, &gateway, &mut book), &scale, (n, &words), chance).await;
        let report = night(&home, today, 22).await;
        let (leave, wait) = book.sleep(today, 22);
        let told = format!("night {n}");
        assert_eq!((report.rem.faded, report.waiting.fading), (leave.len(), wait), "{told}");
        left.extend(leave);
        waited += usize::from(wait > 0);
        book.assert_as_stored(&home, &told).await;
        assert_eq!(home.archived().await, left.iter().cloned().collect::<Vec<_>>(), "{told}");

        if report.waiting == Default::default() && n % 3 == 0 {
            let (before, version) = (lasting(&home), home.store().await.version().await.unwrap());
            let again = night(&home, today, 23).await;
            assert_eq!(again.status.as_str(), "nothing_new", "{told}");
            assert_eq!(home.store().await.version().await.unwrap(), version, "{told}");
            assert_eq!(lasting(&home), before, "{told}");
            second_runs += 1;
        }
        if n % 10 == 0 {
            let size = Size::of(&home).await;
            curve.push(size.line(n));
            write_curve(if long() { "churn.tsv" } else { "churn-short.tsv" }, &curve);
            assert!(size.per_memory() <= MOST_BYTES_A_MEMORY, "{told}: {size:?}");
        }
    }
    let first = (0..scale.rows).map(|n| format!("row-{n:05}"));
    for id in first.filter(|id| is_weekly(id) || is_pinned(id)) {
        assert!(book.live.contains_key(&id), "{id}");
    }
    // A loss budget that never bit and a night that always held something back would have shown nothing.
    assert!(left.len() > 20 && waited > 0 && second_runs > 0, "{} {waited} {second_runs}", left.len());
}
