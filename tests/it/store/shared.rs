//! Writing beside a gateway: what it edited, deleted or added meanwhile stays as it wants it.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_do_commits_nothing() {
    let folder = fixture("js-0.31.0-new");
    let store = open(&folder).await;
    let version = store.version().await.unwrap();
    let row = store.rows(AGENT).await.unwrap().memories.remove(0);
    store.insert(&[]).await.unwrap();
    store.insert(&[new_row(row.clone(), 8, Inherit::Nothing)]).await.unwrap();
    store.set_importance(&[]).await.unwrap();
    store.set_importance(&[(row.id.clone(), row.importance, row.text.clone())]).await.unwrap();
    store.delete(&[]).await.unwrap();
    store
        .delete(&[("nobody".into(), "nothing".into()), (row.id.clone(), "another text".into())])
        .await
        .unwrap();
    store.archive(&[]).await.unwrap();
    assert_eq!(store.unarchive(std::slice::from_ref(&row.id)).await.unwrap(), gone(&[&row.id]));
    assert_eq!(store.version().await.unwrap(), version);
    assert!(!folder.path().join("memories_archive.lance").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_of_many_rows_is_one_commit_a_step() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path().to_str().unwrap(), 4).await.unwrap();
    let store = open(&folder).await;
    let texts: Vec<String> = (0..300).map(|n| format!("text {n} isn't \"short\"; -- 😀 \\ %_ {n}")).collect();
    let rows: Vec<NewRow> =
        (0..300).map(|n| new_row(memory(&format!("id'{n}"), &texts[n]), 4, Inherit::Nothing)).collect();
    let version = store.version().await.unwrap();
    store.insert(&rows).await.unwrap();
    assert_eq!(store.version().await.unwrap(), version + 1);
    let changes: Vec<_> = (0..300).map(|n| (format!("id'{n}"), 0.2, texts[n].clone())).collect();
    store.set_importance(&changes).await.unwrap();
    assert_eq!(store.version().await.unwrap(), version + 2);
    let going: Vec<_> = (0..299).map(|n| (format!("id'{n}"), texts[n].clone())).collect();
    assert_eq!(store.delete(&going).await.unwrap().written.len(), 299);
    assert_eq!(store.version().await.unwrap(), version + 3);
    let left = store.rows(AGENT).await.unwrap().memories;
    assert_eq!((left.len(), left[0].id.as_str(), left[0].importance), (1, "id'299", 0.2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_the_gateway_edited_meanwhile_is_left_alone() {
    let folder = fixture("js-0.30.0-scope");
    let store = open(&folder).await;
    let rows = store.rows(AGENT).await.unwrap().memories;
    let [edited, removed, kept] = &rows[..] else { panic!() };
    let gateway = gateway(&folder).await;
    edit(&gateway, &edited.id, "the gateway's 'own' words").await;
    gateway.delete(format!("id = '{}'", removed.id).as_str()).await.unwrap();
    let before = dump(&store).await;

    let all = || rows.iter();
    let split = |outcome: Outcome| {
        assert_eq!(outcome.changed, std::slice::from_ref(&edited.id));
        assert_eq!(outcome.gone, std::slice::from_ref(&removed.id));
        assert_eq!(outcome.written, std::slice::from_ref(&kept.id));
    };
    split(store.archive(&all().map(|row| leaving(row, "r")).collect::<Vec<_>>()).await.unwrap());
    let changes: Vec<_> = all().map(|row| (row.id.clone(), 0.01, row.text.clone())).collect();
    split(store.set_importance(&changes).await.unwrap());

    // What rests on an edited, or on a removed, row is not written.
    let successor = |id: &str, sources: &[&Memory]| NewRow {
        only_if: sources.iter().map(|row| (row.id.clone(), row.text.clone())).collect(),
        ..new_row(memory(id, id), 8, Inherit::Row(kept.id.clone()))
    };
    let successors =
        [successor("s1", &[kept, edited]), successor("s2", &[removed]), successor("s3", &[kept])];
    let outcome = store.insert(&successors).await.unwrap();
    assert_eq!((outcome.changed, outcome.written), (vec!["s1".into(), "s2".into()], vec!["s3".to_string()]));

    split(
        store.delete(&all().map(|row| (row.id.clone(), row.text.clone())).collect::<Vec<_>>()).await.unwrap(),
    );
    let after = dump(&store).await;
    assert_eq!(after.keys().collect::<Vec<_>>().len(), 2);
    assert_eq!(after[&edited.id], before[&edited.id]);
    assert_eq!(after["s3"]["scope"], before[&kept.id]["scope"]);
    let archived = store.archived_all(AGENT).await.unwrap();
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].memory.id, kept.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_beside_a_busy_gateway_loses_and_resurrects_nothing() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path().to_str().unwrap(), 4).await.unwrap();
    let store = open(&folder).await;
    let id = |n: usize| format!("{n:03}");
    let rows: Vec<NewRow> =
        (0..60).map(|n| new_row(memory(&id(n), &format!("text {n}")), 4, Inherit::Nothing)).collect();
    store.insert(&rows).await.unwrap();
    let gateway = gateway(&folder).await;
    let busy = tokio::spawn(async move {
        for n in 0..20 {
            gateway.delete(format!("id = '{n:03}'").as_str()).await.unwrap();
            edit(&gateway, &format!("{:03}", 20 + n), &format!("edited {n}")).await;
        }
    });
    let mut importance = 0.0;
    while !busy.is_finished() {
        importance += 0.001;
        // Always with what was read at the beginning: as stale as can be.
        let changes: Vec<_> = (0..60).map(|n| (id(n), importance, format!("text {n}"))).collect();
        store.set_importance(&changes).await.unwrap();
        let going: Vec<_> = (20..40).map(|n| (id(n), format!("edited {}", n + 1))).collect();
        store.delete(&going).await.unwrap();
    }
    busy.await.unwrap();
    let left = store.rows(AGENT).await.unwrap().memories;
    let by_id: HashMap<&str, &Memory> = left.iter().map(|row| (row.id.as_str(), row)).collect();
    assert_eq!(left.len(), 40, "nothing deleted came back, nothing else went");
    for n in 0..20 {
        assert_eq!(by_id[id(20 + n).as_str()].text, format!("edited {n}"));
        assert!((by_id[id(40 + n).as_str()].importance - importance).abs() < 0.002);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_gateway_is_seen_at_once() {
    let folder = fixture("js-0.31.0-scope");
    let store = open(&folder).await;
    let row = store.rows(AGENT).await.unwrap().memories.remove(0);
    edit(&gateway(&folder).await, &row.id, "news").await;
    let seen = store.rows(AGENT).await.unwrap().memories;
    assert!(seen.iter().any(|seen| seen.id == row.id && seen.text == "news"));
    assert_eq!(store.delete(&[(row.id.clone(), row.text)]).await.unwrap(), changed(&[&row.id]));
}
