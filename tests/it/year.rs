//! A year of nights beside a busy gateway: the folders do not grow without bound. In CI a short one; `TEST_LONG=1` makes it
//! 365 nights over 2,000 rows, and leaves the curve in the target folder's `tmp/year.tsv`.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use dreamer::memory::Memory;
use dreamer::state::versions::last_version;

use crate::days::{FIRST, Gateway, MOST_BYTES_A_MEMORY, Size, long, night, write_curve};
use crate::home::{Home, at, day, memory, session, strange_sentences};

/// How much there is of everything.
struct Scale {
    nights: u64,
    rows: usize,
    captured: usize,
    edited: usize,
    deleted: usize,
    told: usize,
}

const SHORT: Scale = Scale { nights: 25, rows: 300, captured: 6, edited: 2, deleted: 1, told: 2 };
const YEAR: Scale = Scale { nights: 365, rows: 2_000, captured: 20, edited: 3, deleted: 2, told: 4 };
const SHOWN: [u64; 12] = [0, 1, 4, 8, 16, 25, 30, 60, 90, 180, 270, 365];

/// Folders of runs of the last seven days, tonight's, and one that is exactly as old.
const RUNS: usize = 9;

fn row(n: usize, text: &str, today: u64) -> Memory {
    let importance = 0.3 + (n % 70) as f64 / 100.0;
    Memory {
        created_at: at(today, 12).timestamp_millis(),
        ..memory(&format!("row-{n:05}"), text, importance)
    }
}

/// The user's words of a day: greetings, and things worth remembering.
fn conversation(n: u64, words: &[String]) -> String {
    let told: Vec<String> = words.iter().map(|words| format!("I decided that {words}")).collect();
    let mut messages = vec![("user", "Good morning!"), ("assistant", "Good morning!")];
    for text in &told {
        messages.extend([("user", text.as_str()), ("assistant", "Noted.")]);
    }
    session(day(n), &messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_of_nights_does_not_grow_the_folders_without_bound() {
    let scale = if long() { YEAR } else { SHORT };
    let home = Home::new(&[("MAX_EPISODES_PER_RUN", "1000")]).await;
    let a_day = scale.captured + scale.told;
    let words = strange_sentences(scale.rows + a_day * scale.nights as usize);
    let (old, mut new) = words.split_at(scale.rows);
    let rows: Vec<Memory> = (0..).zip(old).map(|(n, text)| row(n, text, FIRST)).collect();
    home.add(&rows).await;
    let gateway = Gateway::of(&home).await;
    night(&home, FIRST, 23).await;

    let mut sizes = vec![Size::of(&home).await];
    let mut curve = vec![sizes[0].line(0)];
    let mut readers = VecDeque::from([(home.gateway().await, rows.len())]);
    let mut next = rows.len();
    for n in 1..=scale.nights {
        let today = FIRST + n;
        let (captured, rest) = new.split_at(scale.captured);
        let (told, rest) = rest.split_at(scale.told);
        new = rest;
        home.episode(&format!("{}.md", day(today)), &conversation(today, told));
        let captured: Vec<Memory> =
            captured.iter().enumerate().map(|(i, t)| row(next + i, t, today)).collect();
        next += captured.len();
        gateway.capture(&captured).await;
        let live = home.store().await.rows("main").await.unwrap().memories;
        // Some of the newest are put right or taken back.
        let mut own = live.iter().filter(|row| row.id.starts_with("row-")).collect::<Vec<_>>();
        own.sort_by(|a, b| b.id.cmp(&a.id));
        for row in &own[..scale.edited] {
            gateway.edit(row).await;
        }
        for row in &own[scale.edited..scale.edited + scale.deleted] {
            gateway.delete(&row.id).await;
        }
        night(&home, today, 23).await;

        let size = Size::of(&home).await;
        curve.extend(SHOWN.contains(&n).then(|| size.line(n)));
        write_curve(if long() { "year.tsv" } else { "year-short.tsv" }, &curve);
        check(&size, &scale, n);
        sizes.push(size);
        // A handle that has not been refreshed for a week still reads what it opened.
        let reader = home.gateway().await;
        let count = reader.count_rows(None).await.unwrap();
        readers.push_back((reader, count));
        if readers.len() > 7 {
            let (reader, count) = readers.pop_front().unwrap();
            assert_eq!(reader.count_rows(Some("text IS NOT NULL".into())).await.unwrap(), count, "night {n}");
        }
    }
    let live = home.store().await;
    assert_eq!(last_version(&home.config.state_dir()).unwrap().0, live.version().await.unwrap());
    // What a memory takes has settled: the second half of the year adds nothing to it.
    let (half, end) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    let settled = half.per_memory() + half.per_memory() / 4;
    assert!(end.per_memory() <= settled, "{} bytes a memory, then {}", half.per_memory(), end.per_memory());
}

fn check(size: &Size, scale: &Scale, n: u64) {
    // The gateway's commits, and a handful of ours; nine days, because the last of the eight is kept whole.
    let a_day = scale.captured + scale.edited + scale.deleted + 6;
    let told = || format!("night {n}: {size:?}");
    assert!(size.versions.0 <= 10 * a_day, "{}", told());
    assert!(size.versions.1 <= 10 * (a_day + 3 * 4), "{}", told());
    assert!(size.fragments.0 <= 60 + a_day, "{}", told());
    assert!(size.fragments.1 <= 3 * 40 + 60 + a_day, "{}", told());
    assert!(size.runs.0 <= RUNS, "{}", told());
    assert!(size.per_memory() <= MOST_BYTES_A_MEMORY, "{} bytes a memory, {}", size.per_memory(), told());
}
