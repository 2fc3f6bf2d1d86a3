//! Rows that are gone without our doing: a few were forgotten on purpose, many are an accident.
#![allow(clippy::unwrap_used)]

use dreamer::dream::Options;
use dreamer::providers::Reasoner;

use crate::home::{FULL, Home, at, memory};

async fn home_of(count: usize) -> (Home, Vec<(String, String)>) {
    let home = Home::new(&[]).await;
    let rows: Vec<_> = (0..count)
        .map(|n| memory(&format!("row-{n:03}"), &format!("Box {n} holds part {}.", n * 7), 0.7))
        .collect();
    home.add(&rows).await;
    home.night(at(0, 3)).await;
    (home, rows.into_iter().map(|row| (row.id, row.text)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_vanished_rows_stop_every_night_until_the_operator_says_it_was_meant() {
    let (home, rows) = home_of(20).await;
    home.store().await.delete(&rows[..6]).await.unwrap();
    let version = home.store().await.version().await.unwrap();
    for night in 1..3 {
        let error = home.try_night(FULL, Reasoner::Extractive, at(night, 3)).await.unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains("6 of 20 memories of the agent main vanished"), "{error}");
        assert!(error.to_string().contains("--accept-vanished"), "{error}");
    }
    assert_eq!(home.store().await.version().await.unwrap(), version);
    let preview = Options { dry_run: true, accept_vanished: true, ..FULL };
    assert!(
        home.try_night(preview, Reasoner::Extractive, at(3, 3))
            .await
            .unwrap()
            .warnings
            .iter()
            .any(|w| w.contains("6 of 20"))
    );
    assert!(
        home.try_night(FULL, Reasoner::Extractive, at(3, 4)).await.is_err(),
        "a dry run accepts nothing for good"
    );
    let meant = Options { accept_vanished: true, ..FULL };
    assert!(
        home.try_night(meant, Reasoner::Extractive, at(4, 3))
            .await
            .unwrap()
            .warnings
            .iter()
            .any(|w| w.contains("6 of 20"))
    );
    home.night(at(5, 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_vanished_rows_are_no_accident() {
    for (rows, gone) in [(20, 5), (70, 7)] {
        let (home, all) = home_of(rows).await;
        home.store().await.delete(&all[..gone]).await.unwrap();
        home.night(at(1, 3)).await;
    }
}
