//! Columns and types no gateway has today, indexes, and what cannot be written.

use arrow_array::builder::{BinaryBuilder, FixedSizeListBuilder, Float32Builder};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, LargeStringArray,
    RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};

use super::*;

/// Columns and types no gateway has today, and other agents' rows, an ownerless row, the sentinel, unreadable rows.
fn odd_batch(required: bool) -> RecordBatch {
    let mut bytes = BinaryBuilder::new();
    for n in 0..7_u8 {
        bytes.append_value([n, 255, 0]);
    }
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for n in 0..7_u8 {
        vectors.values().append_value(f32::from(n));
        vectors.values().append_value(1.0);
        vectors.append(true);
    }
    let vectors: FixedSizeListArray = vectors.finish();
    let ids = [Some("a"), Some("b"), Some("c"), Some("d"), Some("__schema__"), None, Some("g")];
    let texts = [Some("ta"), Some("tb"), Some("tc"), Some("td"), Some("x"), Some("x"), None];
    let agents = [Some("main"), Some("other"), Some("main"), None, Some("main"), Some("main"), Some("main")];
    let columns: Vec<(Field, ArrayRef)> = vec![
        (Field::new("origin", DataType::Binary, !required), Arc::new(bytes.finish())),
        (Field::new("createdAt", DataType::Int64, true), Arc::new(Int64Array::from_iter_values(1..8))),
        (
            Field::new("importance", DataType::Float32, true),
            Arc::new(Float32Array::from(vec![0.7, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0])),
        ),
        (Field::new("agentId", DataType::Utf8, true), Arc::new(StringArray::from(agents.to_vec()))),
        (Field::new("id", DataType::Utf8, true), Arc::new(StringArray::from(ids.to_vec()))),
        (Field::new("text", DataType::LargeUtf8, true), Arc::new(LargeStringArray::from(texts.to_vec()))),
        (
            Field::new("category", DataType::Utf8, true),
            Arc::new(StringArray::from(vec!["goal", "fact", "other", "fact", "other", "other", "other"])),
        ),
        (Field::new("vector", Array::data_type(&vectors).clone(), true), Arc::new(vectors)),
        (
            Field::new("confidence", DataType::Float64, true),
            Arc::new(Float64Array::from(vec![Some(0.25), None, Some(0.5), None, None, None, None])),
        ),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

async fn odd_table(required: bool, format: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let connection = lancedb::connect(folder.path().to_str().unwrap()).execute().await.unwrap();
    connection
        .create_table("memories", odd_batch(required))
        .storage_option("new_table_data_storage_version", format)
        .execute()
        .await
        .unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_nobody_knows_survive_every_write_and_the_archive() {
    for format in ["2.0", "2.2"] {
        let folder = odd_table(false, format).await;
        let store = open(&folder).await;
        let rows = store.rows(AGENT).await.unwrap();
        assert_eq!((rows.memories.len(), rows.ownerless, rows.unreadable), (3, 1, 2));
        let before = store.row_json(None, true).await.unwrap();
        let row = &rows.memories[0];
        assert_eq!((row.id.as_str(), row.category, row.created_at), ("a", Category::Other, 1));

        store.archive(&[leaving(row, "r")]).await.unwrap();
        store.delete(&[(row.id.clone(), row.text.clone())]).await.unwrap();
        assert_eq!(store.row_json(None, true).await.unwrap()[..], before[1..], "{format}");

        let archived = store.archived(&["a".to_string()], AGENT).await.unwrap().remove(0);
        let back = NewRow {
            memory: archived.memory,
            vector: store.archived_vectors(&["a".to_string()]).await.unwrap()["a"].clone(),
            inherit: Inherit::Archived("a".to_string()),
            only_if: Vec::new(),
        };
        let successor = new_row(memory("s", "successor"), 2, Inherit::Row("c".to_string()));
        let fresh = new_row(memory("f", "from an episode"), 2, Inherit::Nothing);
        store.insert(&[back, successor, fresh]).await.unwrap();
        let after = store.row_json(None, true).await.unwrap();
        let find = |id: &str| after.iter().find(|row| row["id"] == id).unwrap();
        assert_eq!(*find("a"), before[0], "{format}: the row is the row that left");
        assert_eq!(find("s")["confidence"], 0.5);
        assert_eq!(find("s")["origin"], before[2]["origin"]);
        assert_eq!((&find("f")["confidence"], &find("f")["origin"]), (&Value::Null, &Value::Null));
        assert_eq!(find("f")["category"], "decision");
        assert_eq!(after[..before.len() - 1], before[1..], "{format}: all others as they were");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_importance_is_set_alone_in_every_file_format() {
    for format in ["legacy", "2.0", "2.1", "2.2"] {
        let folder = odd_table(false, format).await;
        let store = open(&folder).await;
        let mut expected = store.row_json(None, true).await.unwrap();
        let change = [("c".to_string(), 0.3, "tc".to_string())];
        assert_eq!(store.set_importance(&change).await.unwrap(), written(&["c"]), "{format}");
        assert_eq!(store.set_importance(&change).await.unwrap(), already(&["c"]), "{format}");
        for row in expected.iter_mut().filter(|row| row["id"] == "c") {
            row.insert("importance".into(), 0.3.into());
        }
        // In the same order, too: no row was moved to be rewritten as a whole.
        let patched = store.row_json(None, true).await.unwrap();
        assert_eq!(patched, expected, "{format}: nothing but the importance");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_indexes_is_written_like_any_other() {
    let folder = fixture("rust-0.41-2.0");
    let gateway = gateway(&folder).await;
    for column in ["id", "text"] {
        let index = lancedb::index::Index::BTree(Default::default());
        gateway.create_index(&[column], index).execute().await.unwrap();
    }
    let store = open(&folder).await;
    let mut expected = dump(&store).await;
    let rows = store.rows(AGENT).await.unwrap().memories;
    store.insert(&[new_row(memory("n", "new"), store.dim(), Inherit::Nothing)]).await.unwrap();
    let changes =
        [("n".to_string(), 0.2, "new".to_string()), (rows[0].id.clone(), 0.2, rows[0].text.clone())];
    assert_eq!(store.set_importance(&changes).await.unwrap(), written(&["n", &rows[0].id]));
    let going = [("n".to_string(), "new".to_string()), (rows[1].id.clone(), rows[1].text.clone())];
    assert_eq!(store.delete(&going).await.unwrap(), written(&["n", &rows[1].id]));
    expected.remove(&rows[1].id);
    expected.get_mut(&rows[0].id).unwrap().insert("importance".into(), 0.2.into());
    assert_eq!(dump(&store).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_column_without_a_value_is_named_before_anything_is_written() {
    let folder = odd_table(true, "2.0").await;
    let store = open(&folder).await;
    let version = store.version().await.unwrap();
    let error = store.insert(&[new_row(memory("n", "new"), 2, Inherit::Nothing)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Required { column } if column == "origin"), "{error}");
    assert_eq!(store.version().await.unwrap(), version);
    let inherits = new_row(memory("n", "new"), 2, Inherit::Row("a".to_string()));
    assert_eq!(store.insert(&[inherits]).await.unwrap(), written(&["n"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_of_another_length_is_refused_before_anything_is_written() {
    let folder = fixture("js-0.23.0-new");
    let store = open(&folder).await;
    let version = store.version().await.unwrap();
    let rows =
        [new_row(memory("n", "new"), 8, Inherit::Nothing), new_row(memory("m", "new"), 7, Inherit::Nothing)];
    let error = store.insert(&rows).await.unwrap_err();
    assert!(matches!(&error, StoreError::Dimension { expected: 8, got: 7, id, .. } if id == "m"), "{error}");
    let query = Query { vector: unit(7, 1), partition: Partition::of_agent(AGENT), exclude: None };
    let error = store.neighbours(&[query], Similarity(0.0), 3, AGENT).await.unwrap_err();
    assert!(matches!(error, StoreError::Dimension { .. }), "{error}");
    assert_eq!(store.version().await.unwrap(), version);
}
