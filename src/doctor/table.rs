//! The table: whether it can be opened, its columns, rows of nobody, and how its vectors are.

use super::{Line, share};
use crate::config::Config;
use crate::error::chain;
use crate::language::counted;
use crate::memory::Memory;
use crate::preview::{Vectors, vectors};
use crate::store::{Store, StoreError};

const CHECK: &str = "table";
/// The columns that every gateway has.
const COLUMNS: [&str; 6] = ["id", "text", "vector", "importance", "category", "createdAt"];

/// A table that could be read.
pub(super) struct Open {
    pub(super) store: Store,
    pub(super) memories: Vec<Memory>,
    found: Found,
}

/// What the check needs of it.
#[derive(Debug, Clone, Default)]
struct Found {
    columns: Vec<String>,
    rows: usize,
    ownerless: usize,
    unreadable: usize,
    vectors: Vectors,
}

/// The table, or why there is none to look at.
pub(super) type Table = Result<Open, Trouble>;

/// Why it could not be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is none.
    None(String),
    /// It cannot be used.
    Other(String),
}

pub(super) async fn look(config: &Config) -> Table {
    let other = |error: &dyn std::error::Error| Trouble::Other(format!("could not {}", chain(error)));
    let store = Store::open(&config.lancedb_uri).await.map_err(|error| match error {
        StoreError::Missing { path } | StoreError::NoTable { path } => Trouble::None(path),
        error => other(&error),
    })?;
    let rows = store.rows(&config.agent).await.map_err(|error| other(&error))?;
    let all: Vec<&Memory> = rows.memories.iter().collect();
    let vectors = vectors(config, &store, &all).await.map_err(|error| other(&error))?;
    let found = Found {
        columns: store.columns(),
        rows: rows.memories.len(),
        ownerless: rows.ownerless,
        unreadable: rows.unreadable,
        vectors,
    };
    Ok(Open { store, memories: rows.memories, found })
}

pub(super) fn lines(table: &Table, config: &Config) -> Vec<Line> {
    match table {
        Ok(open) => of_found(&open.found, config.has_gateway()),
        Err(Trouble::None(path)) => {
            let remedy = match config.has_gateway() {
                true => "talk to the agent, the gateway makes it; or correct DREAMER_LANCEDB_URI",
                false => "run `dreamer setup`, or correct DREAMER_LANCEDB_URI",
            };
            vec![Line::fail(CHECK, format!("there is no table `memories` in {path}"), remedy)]
        }
        Err(Trouble::Other(why)) => {
            vec![Line::fail(CHECK, why.clone(), "see what it says; put back a backup if it is damaged")]
        }
    }
}

fn of_found(found: &Found, has_gateway: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let lacks: Vec<&str> =
        COLUMNS.into_iter().filter(|name| !found.columns.iter().any(|column| column == name)).collect();
    let has_agent = found.columns.iter().any(|column| column == "agentId");
    if !lacks.is_empty() {
        lines.push(Line::fail(
            CHECK,
            format!("it lacks {}", lacks.join(", ")),
            "set DREAMER_LANCEDB_URI to the gateway's database",
        ));
    } else if !has_agent && has_gateway {
        lines.push(Line::warn(
            CHECK,
            format!(
                "{}, no column agentId: current gateways recall nothing from it",
                counted(found.rows, "memory")
            ),
            "if the gateway is newer than 2026.4, run `openclaw doctor --fix`; an older one needs nothing",
        ));
    } else {
        lines.push(Line::ok(
            CHECK,
            format!("{} in {} columns", counted(found.rows, "memory"), found.columns.len()),
        ));
    }
    if found.ownerless > 0 {
        lines.push(Line::warn(
            CHECK,
            format!(
                "{} without agentId: the gateway never recalls them, Dreamer merges none of them",
                counted(found.ownerless, "row")
            ),
            "`openclaw doctor --fix` gives those of an older release to the default agent",
        ));
    }
    if found.unreadable > 0 {
        lines.push(Line::warn(
            CHECK,
            format!("{} without id or text", counted(found.unreadable, "row")),
            "delete them with the gateway's tools; Dreamer leaves them alone",
        ));
    }
    lines.extend(of_vectors(&found.vectors, found.rows));
    lines
}

fn of_vectors(vectors: &Vectors, rows: usize) -> Vec<Line> {
    const CHECK: &str = "vectors";
    let mut lines = Vec::new();
    match vectors.model_length {
        Some(length) if length != vectors.length => lines.push(Line::fail(
            CHECK,
            format!(
                "the table's have {} numbers, the configured model's {length}: a night stops",
                vectors.length
            ),
            "set the provider and model that wrote the table, and DREAMER_EMBEDDING_DIM",
        )),
        _ => lines.push(Line::ok(CHECK, format!("{} numbers each", vectors.length))),
    }
    if vectors.missing > 0 {
        lines.push(Line::warn(
            CHECK,
            format!("{} have none: the gateway cannot find them", counted(vectors.missing, "memory")),
            "have the agent store them again, then delete them",
        ));
    }
    if vectors.not_unit > 0 {
        let with = rows.saturating_sub(vectors.missing);
        let what = format!(
            "{} of {with} ({}) are not of length 1: the gateway scores them wrongly",
            vectors.not_unit,
            share(vectors.not_unit, with)
        );
        lines.push(Line::warn(
            CHECK,
            what,
            "the embedding model gives them so; use one with unit vectors, or have the rows stored again",
        ));
    }
    if vectors.unusable > 0 {
        lines.push(Line::warn(
            CHECK,
            format!("{} of these point nowhere", vectors.unusable),
            "delete those rows with the gateway's tools",
        ));
    }
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn found() -> Found {
        let columns = COLUMNS.into_iter().chain(["agentId"]).map(str::to_owned).collect();
        let vectors = Vectors { length: 64, model_length: Some(64), ..Vectors::default() };
        Found { columns, rows: 3, vectors, ..Found::default() }
    }

    fn told(found: &Found) -> Vec<(Level, String)> {
        of_found(found, true).into_iter().map(|line| (line.level, line.what)).collect()
    }

    #[test]
    fn a_sound_table_is_two_lines() {
        assert_eq!(
            told(&found()),
            [(Level::Ok, "3 memories in 7 columns".into()), (Level::Ok, "64 numbers each".into())]
        );
    }

    #[test]
    fn what_is_wrong_with_rows_and_columns_is_counted() {
        let ownerless = told(&Found { ownerless: 2, unreadable: 1, ..found() });
        assert_eq!(ownerless[1].0, Level::Warn);
        assert!(ownerless[1].1.starts_with("2 rows without agentId"), "{ownerless:?}");
        assert!(ownerless[2].1.starts_with("1 row without id"), "{ownerless:?}");
        let mut old = found();
        old.columns.pop();
        assert_eq!(told(&old)[0].0, Level::Warn);
        assert_eq!(of_found(&old, false)[0].level, Level::Ok, "a home of its own needs no agentId");
        old.columns.pop();
        assert_eq!(told(&old)[0], (Level::Fail, "it lacks createdAt".into()));
    }

    #[test]
    fn vectors_of_another_length_fail_and_odd_ones_are_counted() {
        let with = |vectors: Vectors| told(&Found { vectors, ..found() });
        let base = found().vectors;
        let other = with(Vectors { model_length: Some(1536), ..base });
        assert_eq!(other[1].0, Level::Fail);
        assert!(other[1].1.contains("64 numbers, the configured model's 1536"), "{other:?}");
        assert_eq!(with(Vectors { model_length: None, ..base })[1].0, Level::Ok);
        let odd = with(Vectors { missing: 1, not_unit: 1, unusable: 1, ..base });
        assert!(odd[2].1.starts_with("1 memory have none") || odd[2].1.contains("none"), "{odd:?}");
        assert!(odd[3].1.starts_with("1 of 2 (50 %)"), "{odd:?}");
        assert!(odd[4].1.contains("point nowhere"), "{odd:?}");
    }
}
