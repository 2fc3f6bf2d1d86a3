//! The streamed pass against a loop by hand.

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use dreamer::store::Neighbour;
use proptest::prelude::*;

use super::*;

/// A row of the oracle: id, agent, scope, vector.
type Point = (String, Option<&'static str>, Option<&'static str>, Option<Vec<f32>>);

async fn points_table(points: &[Point], dim: i32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), dim);
    for (.., vector) in points {
        match vector {
            Some(vector) => vectors.values().append_slice(vector),
            None => vectors.values().append_slice(&vec![0.5; usize::try_from(dim).unwrap()]),
        }
        vectors.append(vector.is_some());
    }
    let n = points.len();
    let texts = StringArray::from_iter_values(points.iter().map(|point| &point.0));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(texts.clone()) as ArrayRef, true),
        ("text", Arc::new(texts), true),
        ("vector", Arc::new(vectors.finish()), true),
        ("importance", Arc::new(Float64Array::from(vec![0.7; n])), true),
        ("category", Arc::new(StringArray::from(vec!["fact"; n])), true),
        ("createdAt", Arc::new(Float64Array::from(vec![1.0; n])), true),
        ("agentId", Arc::new(points.iter().map(|point| point.1).collect::<StringArray>()), true),
        ("scope", Arc::new(points.iter().map(|point| point.2).collect::<StringArray>()), true),
    ])
    .unwrap();
    let connection = lancedb::connect(folder.path().to_str().unwrap()).execute().await.unwrap();
    connection.create_table("memories", batch).execute().await.unwrap();
    folder
}

/// One query against every point, in 64 bits.
fn by_hand(points: &[Point], query: &Query, floor: f32, limit: usize) -> Vec<(String, f64)> {
    let length = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let mut found: Vec<(String, f64)> = points
        .iter()
        .filter(|point| point.0 != "__schema__" && query.exclude.as_ref() != Some(&point.0))
        .filter(|point| point.1 == Some(query.partition.agent.as_str()))
        .filter(|point| point.2 == query.partition.scope.as_deref())
        .filter_map(|point| {
            let vector = point.3.as_ref()?;
            let dot: f64 = vector.iter().zip(&query.vector).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let similarity = dot / length(vector) / length(&query.vector);
            (similarity >= f64::from(floor)).then(|| (point.0.clone(), similarity))
        })
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.truncate(limit);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn neighbours_are_those_of_a_loop_by_hand(seed in any::<u64>(), dim in 1_usize..40, count in 0_usize..400) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(compare_with_oracle(seed, dim, count));
    }
}

async fn compare_with_oracle(seed: u64, dim: usize, count: usize) {
    use rand::{Rng, SeedableRng};
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut vector = || (0..dim).map(|_| random.random_range(-3.0_f32..3.0)).collect::<Vec<f32>>();
    let agents = [Some("main"), Some("main"), Some("other"), None];
    let scopes = [None, Some("work")];
    let mut points: Vec<Point> = (0..count)
        .map(|n| {
            let vector = match n % 17 {
                13 => None,
                14 => Some(vec![0.0; dim]),
                15 => Some([vec![f32::NAN], vec![1.0; dim - 1]].concat()),
                16 => Some([vec![f32::INFINITY], vec![1.0; dim - 1]].concat()),
                _ => Some(vector()),
            };
            (format!("{n:04}"), agents[n % 4], scopes[n % 3 % 2], vector)
        })
        .collect();
    points.push(("__schema__".to_string(), Some("main"), None, Some(vec![1.0; dim])));
    let folder = points_table(&points, i32::try_from(dim).unwrap()).await;
    let store = open(&folder).await;
    let mut queries: Vec<Query> = (0..5)
        .map(|n| Query {
            vector: vector(),
            partition: Partition {
                agent: ["main", "other", "nobody"][n % 3].to_string(),
                scope: scopes[n % 2].map(str::to_string),
            },
            exclude: (n % 2 == 0).then(|| "0001".to_string()),
        })
        .collect();
    queries.push(Query { vector: vec![0.0; dim], ..queries[0].clone() });
    for (floor, limit) in [(-2.0, 1000), (0.3, 5), (0.0, 0)] {
        let found = store.neighbours(&queries, Similarity(floor), limit, AGENT).await.unwrap();
        assert_eq!(found.len(), queries.len());
        for (found, query) in found.iter().zip(&queries) {
            agree(found, &by_hand(&points, query, floor, limit), floor, limit);
        }
    }
}

/// The same neighbours in the same order, but for differences too small for 32 bits.
fn agree(found: &[Neighbour], expected: &[(String, f64)], floor: f32, limit: usize) {
    const SMALL: f64 = 1e-5;
    for pair in found.windows(2) {
        let order = pair[1].similarity.0.total_cmp(&pair[0].similarity.0);
        assert!(order.then_with(|| pair[0].id.cmp(&pair[1].id)).is_lt(), "{pair:?}");
    }
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(found.similarity.0) - expected.1).abs() < SMALL, "{found:?} {expected:?}");
    }
    // Only a row that lies on the floor, or ties at the limit, may be on one side alone.
    let last = expected.last().map_or(f64::from(floor), |last| last.1);
    for (id, similarity) in expected {
        let edge =
            similarity - f64::from(floor) < SMALL || (expected.len() == limit && similarity - last < SMALL);
        assert!(edge || found.iter().any(|found| found.id == *id), "{id} is missing");
    }
    assert!(found.len() <= expected.len() || found[expected.len()].similarity.0 - floor < 1e-5);
}

#[tokio::test(flavor = "multi_thread")]
async fn equally_near_rows_come_in_the_order_of_their_ids_and_unusable_ones_not_at_all() {
    let point = |id: &str, vector: Option<Vec<f32>>| (id.to_string(), Some("main"), None, vector);
    let points = [
        point("c", Some(vec![2.0, 0.0])),
        point("a", Some(vec![1.0, 0.0])),
        point("zero", Some(vec![0.0, 0.0])),
        point("b", Some(vec![0.5, 0.0])),
        point("null", None),
        point("nan", Some(vec![f32::NAN, 1.0])),
        point("far", Some(vec![0.0, 1.0])),
    ];
    let folder = points_table(&points, 2).await;
    let store = open(&folder).await;
    let query = |exclude: &str| Query {
        vector: vec![3.0, 0.0],
        partition: Partition::of_agent(AGENT),
        exclude: Some(exclude.to_string()),
    };
    let found = store.neighbours(&[query("x"), query("a")], Similarity(0.5), 2, AGENT).await.unwrap();
    let ids = |found: &[Neighbour]| found.iter().map(|found| found.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&found[0]), ["a", "b"]);
    assert_eq!(ids(&found[1]), ["b", "c"]);
    assert_eq!(found[0][0].similarity, Similarity(1.0));
    assert_eq!(store.unusable_vectors().await.unwrap(), ["nan", "null", "zero"]);

    // The archive is searched the same way; a row without a vector is archived without one.
    let rows = store.rows(AGENT).await.unwrap().memories;
    store.archive(&rows.iter().map(|row| leaving(row, "r")).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(
        store.archive_neighbours(&[query("x"), query("a")], Similarity(0.5), 2, AGENT).await.unwrap(),
        found
    );
    assert_eq!(store.archived_vectors(&["null".to_string()]).await.unwrap(), HashMap::new());
}
