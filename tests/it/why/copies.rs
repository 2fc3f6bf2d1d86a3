//! `memory-archive/`: a readable copy of everything that leaves.

use dreamer::memory::Departure;
use dreamer::memory_archive::{path, read_all};
use dreamer::providers::Reasoner;
use dreamer::state::audit::Audit;
use lancedb::table::NewColumnTransform;

use super::{CATS_ID, HERON_ID, LAMP_2, life};
use crate::home::{DRY, Home, at, eventful, memory};

#[tokio::test(flavor = "multi_thread")]
async fn every_memory_that_left_has_a_copy_of_its_row() {
    let life = life().await;
    let copies = read_all(&life.home.config.memory_archive_dir()).unwrap();
    let mut count = 0;
    for night in &life.nights {
        let left = night.after.archived.iter().filter(|(id, _)| !night.before.archived.contains_key(*id));
        for (id, archived) in left {
            let copy = copies.iter().find(|copy| copy.id() == id && copy.run == night.report.run).unwrap();
            match night.before.rows.get(id) {
                Some(row) => assert_eq!(copy.row, *row),
                // A draft that went straight into a merge never was a row.
                None => assert_eq!(copy.row["createdAt"], archived.memory.created_at),
            }
            assert_eq!((copy.reason, &copy.successor), (archived.reason, &archived.successor));
            assert_eq!(copy.archived_at.timestamp_millis(), archived.archived_at);
            // The heron was said again after it had left, and only then.
            let sources = life.home.trace(id).await.sources;
            assert_eq!(copy.sources, if id == HERON_ID { vec![] } else { sources });
            assert!(!copy.row.contains_key("vector"));
            count += 1;
        }
    }
    assert_eq!((copies.len(), count), (6, 6), "{copies:#?}");
    for (id, reason) in
        [(CATS_ID, Departure::Superseded), (HERON_ID, Departure::Faded), (LAMP_2, Departure::Duplicate)]
    {
        assert_eq!(copies.iter().find(|copy| copy.id() == id).unwrap().reason, reason);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_nobody_here_knows_are_in_the_copy() {
    let home = Home::new(&[]).await;
    home.add(&[memory("one", "The user likes tea.", 0.7), memory("two", "The user likes tea.", 0.5)]).await;
    let mood = NewColumnTransform::SqlExpressions(vec![("mood".into(), "'calm'".into())]);
    home.gateway().await.add_columns().transform(mood).execute().await.unwrap();
    let report = home.night(at(0, 20)).await;
    let file = path(&home.config.memory_archive_dir(), &report.run);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("\"mood\": \"calm\"") && text.lines().count() > 10, "{text}");
    assert_eq!(read_all(&home.config.memory_archive_dir()).unwrap()[0].row["mood"], "calm");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_after_all_has_neither_copy_nor_event() {
    let home = eventful(&[]).await;
    let run = home.try_night(DRY, Reasoner::Extractive, at(2, 20)).await.unwrap().run;
    let gateway = home.gateway().await;
    // One that was to fade is edited, one of two duplicates is deleted.
    let edit = gateway.update().only_if("id = 'heron'").column("text", "'The heron is back.'");
    edit.execute().await.unwrap();
    gateway.delete("id = 'lamp-2'").await.unwrap();
    home.apply(&run, at(2, 20)).await.unwrap();
    let copies = read_all(&home.config.memory_archive_dir()).unwrap();
    let ids: Vec<&str> = copies.iter().map(|copy| copy.id()).collect();
    assert!(!ids.is_empty() && !ids.contains(&"heron") && !ids.contains(&"lamp-2"), "{ids:?}");
    let archived = home.archived().await;
    assert!(ids.iter().all(|id| archived.contains(&(*id).to_owned())), "{ids:?} {archived:?}");
    let events = Audit::read(&home.config.home).unwrap();
    let left = |id: &str| {
        events.iter().any(|event| event.run == run && event.before.iter().any(|subject| subject.id == id))
    };
    assert!(!left("heron") && !left("lamp-2") && left(ids[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_copy_does_not_leave() {
    let home = eventful(&[]).await;
    let run = home.try_night(DRY, Reasoner::Extractive, at(2, 20)).await.unwrap().run;
    let before = home.texts().await;
    let folder = home.config.memory_archive_dir();
    let aside = home.outside("copies");
    std::fs::rename(&folder, &aside).or_else(|_| std::fs::create_dir(&aside)).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    let told = dreamer::error::chain(&home.apply(&run, at(2, 20)).await.unwrap_err());
    assert!(told.contains("memory-archive"), "{told}");
    assert_eq!(home.texts().await, before);
    std::fs::remove_file(&folder).unwrap();
    home.night(at(2, 22)).await;
    assert_ne!(home.texts().await, before, "the next night goes on with it");
    assert!(!read_all(&folder).unwrap().is_empty());
}
