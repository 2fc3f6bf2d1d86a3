//! Taking runs back: seven nights on a table with columns nobody knows, beside a gateway that writes, and every way an
//! undo can be interrupted.
#![allow(clippy::unwrap_used)]

mod commands;
mod killed;
mod merges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use chrono::{DateTime, Utc};
use dreamer::memory::Departure;
use dreamer::plan::RunId;
use dreamer::report::{DreamReport, Joined, Undone};
use dreamer::store::Leaving;
use dreamer::undo;
use futures::TryStreamExt;
use lancedb::query::ExecutableQuery;

use crate::home::{Home, at, day, session, strange_sentences, vectors};

/// Every cell of a row by column, bit for bit.
pub(crate) type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// What the table of the gateway holds, to the last bit.
async fn rows(home: &Home) -> Rows {
    table(home, "memories").await
}

/// Rows of any table of the database by id.
pub(crate) async fn table(home: &Home, name: &str) -> Rows {
    let connection = lancedb::connect(&home.config.lancedb_uri).execute().await.unwrap();
    let table = connection.open_table(name).execute().await.unwrap();
    let batches: Vec<RecordBatch> = table.query().execute().await.unwrap().try_collect().await.unwrap();
    let mut rows = Rows::new();
    for batch in batches {
        let id = batch.column_by_name("id").unwrap().as_any().downcast_ref::<StringArray>().unwrap().clone();
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let cells = schema.fields().iter().zip(batch.columns());
            let cells = cells.map(|(field, column)| (field.name().clone(), bits(column, row))).collect();
            assert!(rows.insert(id.value(row).to_owned(), cells).is_none(), "{} twice", id.value(row));
        }
    }
    rows
}

fn bits(column: &ArrayRef, row: usize) -> String {
    let any = column.as_any();
    if column.is_null(row) {
        return "NULL".into();
    }
    match column.data_type() {
        DataType::Utf8 => any.downcast_ref::<StringArray>().unwrap().value(row).to_owned(),
        DataType::Binary => format!("{:?}", any.downcast_ref::<BinaryArray>().unwrap().value(row)),
        DataType::Float64 => {
            format!("{:016x}", any.downcast_ref::<Float64Array>().unwrap().value(row).to_bits())
        }
        DataType::FixedSizeList(..) => {
            let values = any.downcast_ref::<FixedSizeListArray>().unwrap().value(row);
            let values = values.as_any().downcast_ref::<Float32Array>().unwrap().clone();
            values.iter().map(|value| format!("{:08x}", value.unwrap().to_bits())).collect()
        }
        DataType::Int32 => format!("{:?}", column.slice(row, 1)),
        other => panic!("{other}"),
    }
}

/// Panics with the rows and columns that differ, and with nothing else.
fn assert_same(one: &Rows, other: &Rows, when: &str) {
    let ids: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for id in ids {
        let (a, b) = (one.get(id), other.get(id));
        if a == b {
            continue;
        }
        let text = a.or(b).and_then(|row| row.get("text"));
        let (Some(a), Some(b)) = (a, b) else {
            panic!("{when}: {id} is in one only: {text:?}, {}", a.is_some())
        };
        let columns: Vec<_> = a.iter().filter(|(name, cell)| b.get(*name) != Some(*cell)).collect();
        let others: Vec<_> = columns.iter().map(|(name, _)| b.get(*name)).collect();
        panic!("{when}: {id} ({text:?}) differs: {columns:.200?} and {others:.200?}");
    }
}

/// A row as the gateway of this test writes it: id, text, importance, scope.
type Written<'a> = (&'a str, &'a str, f64, Option<&'a str>);

/// Eight columns and two that nobody knows, with values in every one.
async fn batch(rows: &[Written<'_>]) -> RecordBatch {
    let texts: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let mut list = FixedSizeListBuilder::new(Float32Builder::new(), 1024);
    for vector in vectors(&texts).await {
        vector.into_iter().for_each(|value| list.values().append_value(value));
        list.append(true);
    }
    let list = list.finish();
    let count = rows.len();
    let third = f64::from_bits(0x3fd5_5555_5555_5555);
    // With a fraction, as no gateway writes it today; each a second after the one before.
    let written = (0..count).map(|n| Some(1_767_200_000_000.25 + 1000.0 * n as f64));
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; count])) };
    let origin: Vec<Vec<u8>> = rows.iter().map(|row| [row.0.as_bytes(), &[0, 255]].concat()).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("origin", Arc::new(BinaryArray::from_iter_values(origin))),
        ("id", Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>())),
        ("text", Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringArray>())),
        ("vector", Arc::new(list)),
        ("importance", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>())),
        ("category", text("goal")),
        ("createdAt", Arc::new(written.collect::<Float64Array>())),
        ("agentId", text("main")),
        ("scope", Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>())),
        ("confidence", Arc::new(Float64Array::from(vec![third; count]))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

async fn gateway_adds(home: &Home, rows: &[Written<'_>]) {
    home.gateway().await.add(batch(rows).await).execute().await.unwrap();
}

async fn gateway_sets(home: &Home, filter: &str, column: &str, value: &str) {
    let updated =
        home.gateway().await.update().only_if(filter).column(column, value).execute().await.unwrap();
    assert_eq!(updated.rows_updated, 1, "{filter}");
}

const JAZZ: &str = "I love listening to jazz on vinyl records.";
const CLUBS: [&str; 7] = ["chess", "rowing", "poetry", "baking", "juggling", "fencing", "astronomy"];

/// A home whose table has columns nobody knows, as it is before the first of seven nights: 45 rows that matter, three
/// about to fade, and what was learnt from an episode on the eve, of which the jazz is about to fade, too.
async fn before_seven_nights() -> Home {
    let home = Home::new(&[]).await;
    std::fs::remove_dir_all(std::path::Path::new(&home.config.lancedb_uri).join("memories.lance")).unwrap();
    let texts = strange_sentences(45);
    let ids: Vec<String> = (0..45).map(|n| format!("filler-{n:02}")).collect();
    let mut first: Vec<Written<'_>> = (0..45)
        .map(|n| (ids[n].as_str(), texts[n].as_str(), 0.9, (n % 5 == 0).then_some("private")))
        .collect();
    first.push(("heron", "The user once saw a heron by the pond.", 0.1575, Some("private")));
    first.push(("bicycle", "The user had a red bicycle in Utrecht.", 0.165, None));
    first.push(("gloves", "The user lost grey gloves on a tram.", 0.18, None));
    let connection = lancedb::connect(&home.config.lancedb_uri).execute().await.unwrap();
    let table = connection.create_table("memories", batch(&first).await);
    table.storage_option("new_table_data_storage_version", "2.0").execute().await.unwrap();
    home.episode(
        &format!("{}.md", day(0)),
        &session(day(0), &[("user", JAZZ), ("assistant", "Jazz it is.")]),
    );
    home.night(at(0, 20)).await;
    gateway_sets(&home, "text like '%jazz%'", "importance", "0.152").await;
    home
}

/// The day before one of the seven nights: a club's hour is known from the gateway and moves in the day's episode, another
/// moves in two rows of the gateway, and a row is captured twice; on the fifth day jazz is said again. Returns the new
/// rows.
async fn gateway_writes(home: &Home, n: u64) -> Rows {
    let club = CLUBS[usize::try_from(n).unwrap() - 1];
    let known = format!("The {club} club meets at 9:00 every Friday.");
    let (choir, moved) = (
        format!("The {club} choir meets at 18:00 every Monday."),
        format!("The {club} choir moved to 19:00 every Monday."),
    );
    let twice = format!("The user keeps {club} trophies in the cellar.");
    let ids: Vec<String> =
        ["club", "choir", "moved", "one", "two"].map(|what| format!("{club}-{what}")).into();
    gateway_adds(
        home,
        &[
            (&ids[0], &known, 0.7, None),
            (&ids[1], &choir, 0.7, Some("private")),
            (&ids[2], &moved, 0.71, Some("private")),
            (&ids[3], &twice, 0.72, Some("private")),
            (&ids[4], &twice, 0.73, Some("private")),
        ],
    )
    .await;
    let said = format!("The {club} club moved to 10:00 every Friday.");
    let fresh = format!("My {club} teacher is called Doctor {club}son.");
    let mut messages = vec![("user", said.as_str()), ("assistant", "Noted."), ("user", fresh.as_str())];
    if n == 5 {
        messages.extend([("assistant", "Oh."), ("user", JAZZ)]);
    }
    home.episode(&format!("{}.md", day(n)), &session(day(n), &messages));
    rows(home).await.into_iter().filter(|(id, _)| ids.contains(id)).collect()
}

async fn rollback(home: &Home, run: &str, now: DateTime<Utc>) -> Vec<DreamReport> {
    undo::rollback(&home.config, run, None, now, Instant::now()).await.unwrap()
}

async fn refused(home: &Home, run: &str, now: DateTime<Utc>) -> String {
    undo::rollback(&home.config, run, None, now, Instant::now()).await.unwrap_err().to_string()
}

fn undone(report: &DreamReport) -> &Undone {
    report.undone.as_ref().unwrap()
}

fn run_id(run: &str) -> RunId {
    RunId::parse(run).unwrap()
}

/// How often the plans of the nights do each thing that must be taken back.
fn events(home: &Home, runs: &[String]) -> BTreeMap<&'static str, usize> {
    let mut events: BTreeMap<&'static str, usize> = BTreeMap::new();
    for run in runs {
        let plan = home.plan(run);
        for leaving in &plan.leaving {
            *events.entry(leaving.reason.as_str()).or_default() += 1;
        }
        for (what, count) in [
            ("merged drafts", plan.merged_drafts.len()),
            ("revived", plan.unarchive.len()),
            ("new", plan.inserts.iter().filter(|row| row.only_if.is_empty()).count()),
            ("successors", plan.inserts.iter().filter(|row| !row.only_if.is_empty()).count()),
            ("of two rows", plan.inserts.iter().filter(|row| row.only_if.len() == 2).count()),
            ("decayed", plan.importance.len()),
        ] {
            *events.entry(what).or_default() += count;
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn seven_nights_are_taken_back_bit_for_bit_and_put_in_force_again() {
    let home = before_seven_nights().await;
    let mut expected = rows(&home).await;
    let (traces, archive) = (table(&home, "memory_traces").await, home.archived().await);
    let (mut runs, mut then) = (Vec::new(), Vec::new());
    let of = |joined: &Joined| joined.before.iter().map(|shown| shown.text.clone()).collect::<BTreeSet<_>>();
    for n in 1..=7 {
        expected.extend(gateway_writes(&home, n).await);
        let report = home.night(at(n, 20)).await;
        then.extend(report.joined.iter().map(of));
        runs.push(report.run);
    }
    let events = events(&home, &runs);
    for what in
        ["superseded", "duplicate", "faded", "merged drafts", "revived", "new", "successors", "decayed"]
    {
        assert!(events.get(what).is_some_and(|count| *count > 0), "{what}: {events:?}");
    }
    assert!(events["superseded"] >= 5 && events["duplicate"] >= 7 && events["faded"] >= 3, "{events:?}");
    let (end, end_traces) = (rows(&home).await, table(&home, "memory_traces").await);
    let end_archive = table(&home, "memories_archive").await;

    let reports = rollback(&home, &runs[0], at(8, 9)).await;
    assert_eq!(reports.len(), 7);
    let order: Vec<&str> = reports.iter().map(|report| report.mode.as_str()).collect();
    let newest_first: Vec<String> = runs.iter().rev().map(|run| format!("rollback of {run}")).collect();
    assert_eq!(order, newest_first);
    for report in &reports {
        assert!(undone(report).left.is_empty() && report.warnings.is_empty(), "{report:#?}");
    }
    assert_same(&rows(&home).await, &expected, "taken back");
    // What is in the archive besides was new in these nights, and nobody else's.
    let back = home.archived().await;
    assert!(archive.iter().all(|id| back.contains(id)));
    let of_gateway: Vec<&String> = back.iter().filter(|id| expected.contains_key(*id)).collect();
    assert!(of_gateway.is_empty(), "{of_gateway:?}");
    let kept = table(&home, "memory_traces").await;
    for id in expected.keys() {
        assert_eq!(kept.get(id), traces.get(id), "the trace of {id}");
    }

    // The first of the rollbacks, and with it all that came after.
    let again = rollback(&home, &reports[0].run, at(8, 10)).await;
    assert_eq!(again.len(), 7);
    assert_same(&rows(&home).await, &end, "in force again");
    assert_same(&table(&home, "memory_traces").await, &end_traces, "traces in force again");
    assert_same(&table(&home, "memories_archive").await, &end_archive, "archive in force again");

    let third = rollback(&home, &runs[0], at(8, 11)).await;
    assert_eq!(third.len(), 7, "nights, and no rollbacks of them");
    assert_same(&rows(&home).await, &expected, "taken back once more");

    // The next night makes nothing one that was taken apart.
    home.hello(8);
    let report = home.night(at(8, 20)).await;
    // What a night had held back is learned now, and may be joined for the first time.
    let again: Vec<&Joined> = report.joined.iter().filter(|joined| then.contains(&of(joined))).collect();
    assert!(again.is_empty() && report.joined.len() < 2, "{:#?}", report.joined);
    let first = |text: &String| report.joined.iter().any(|joined| of(joined).contains(text));
    let plan = home.plan(&report.run);
    let fades = |leaving: &Leaving| leaving.reason == Departure::Faded || first(&leaving.text);
    assert!(plan.leaving.iter().all(fades), "{:#?}", plan.leaving);
    let texts = home.texts().await;
    for club in CLUBS.into_iter().filter(|club| !report.joined.iter().any(|j| j.after[0].text.contains(club)))
    {
        let kept = texts.iter().filter(|text| text.contains(club)).count();
        assert_eq!(kept, 5, "{club}: {texts:#?}");
    }
}
