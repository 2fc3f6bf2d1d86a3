//! Exact neighbours: every query against every vector of its partition, in one streamed pass with one matrix product
//! a batch. Never one query a memory, never an index that can miss.

use std::cmp::Ordering;

use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use futures::TryStreamExt;
use ndarray::{Array2, ArrayView2};

use super::lance::Store;
use super::rows::{self, Ownerless, SENTINEL, Vectors, norm, text_at};
use super::table::{Step, View, failed, unreadable};
use super::{MEMORIES, StoreError};
use crate::memory::{Partition, Similarity};

/// Numbers in the vectors of one batch: 4 MB, so that a batch and its product stay in the cache of a small machine.
const BATCH_NUMBERS: usize = 1 << 20;

/// A vector whose neighbours are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// As long as the table's vectors; need not be of unit length.
    pub vector: Vec<f32>,
    /// Only rows of this agent and scope are compared.
    pub partition: Partition,
    /// A row that is not its own neighbour.
    pub exclude: Option<String>,
}

/// A row near a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    /// Its id.
    pub id: String,
    /// Its cosine similarity to the query.
    pub similarity: Similarity,
}

impl Store {
    /// For each query the memories of its partition whose cosine similarity is at least `floor`, the most similar
    /// first, equals in the order of their ids, at most `limit`. Rows whose vector is null, zero or not a number have
    /// no neighbours and are nobody's.
    ///
    /// # Errors
    /// When a query is not as long as the table's vectors, or the table cannot be read.
    pub async fn neighbours(
        &self,
        queries: &[Query],
        floor: Similarity,
        limit: usize,
        default_agent: &str,
    ) -> Result<Vec<Vec<Neighbour>>, StoreError> {
        let view = View::new(MEMORIES, self.latest_memories().await?);
        let search = Search::new(queries, floor, limit, default_agent, Ownerless::Nobodys);
        search.run(&view).await
    }

    /// The same over the archive; [`Store::archived`] knows why the neighbours left.
    ///
    /// # Errors
    /// As for [`Store::neighbours`].
    pub async fn archive_neighbours(
        &self,
        queries: &[Query],
        floor: Similarity,
        limit: usize,
        default_agent: &str,
    ) -> Result<Vec<Vec<Neighbour>>, StoreError> {
        let Some(view) = self.archive_view().await? else { return Ok(vec![Vec::new(); queries.len()]) };
        let search = Search::new(queries, floor, limit, default_agent, Ownerless::Defaults);
        search.run(&view).await
    }

    /// Ids of memories whose vector no similarity can be computed with (null, zero or not a number): the gateway
    /// recalls them never, and neither does Dreamer compare them. Reads all vectors.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn unusable_vectors(&self) -> Result<Vec<String>, StoreError> {
        let view = View::new(MEMORIES, self.latest_memories().await?);
        let mut unusable = Vec::new();
        stream(&view, |batch| {
            let (id, vectors) = (rows::strings(batch, "id")?, Vectors::of(batch)?);
            for row in 0..batch.num_rows() {
                let usable = vectors.as_ref().and_then(|vectors| vectors.at(row)).and_then(norm).is_some();
                unusable.extend(text_at(id.as_ref(), row).filter(|id| !usable && id != SENTINEL));
            }
            Ok(())
        })
        .await?;
        unusable.sort();
        Ok(unusable)
    }
}

/// Hands every batch of the columns a comparison needs to `visit`, in no particular order.
async fn stream(
    view: &View,
    mut visit: impl FnMut(&RecordBatch) -> Result<(), ArrowError>,
) -> Result<(), StoreError> {
    let read = |source| failed(view.name, Step::Read, lancedb::Error::Lance { source });
    let schema = view.schema();
    let columns: Vec<&str> = ["id", "agentId", "scope", "vector"]
        .into_iter()
        .filter(|name| schema.column_with_name(name).is_some())
        .collect();
    let mut scanner = view.dataset.scan();
    scanner.project(&columns).map_err(read)?;
    scanner.batch_size((BATCH_NUMBERS / view.dim().max(1)).clamp(64, 8192)).scan_in_order(false);
    let mut batches = scanner.try_into_stream().await.map_err(read)?;
    while let Some(batch) = batches.try_next().await.map_err(read)? {
        visit(&batch).map_err(unreadable(view.name))?;
    }
    Ok(())
}

struct Search<'q> {
    queries: &'q [Query],
    groups: Vec<Group<'q>>,
    floor: f32,
    limit: usize,
    default_agent: &'q str,
    ownerless: Ownerless,
    /// Candidates of each query so far; cut back to the best now and then.
    found: Vec<Vec<Neighbour>>,
}

impl<'q> Search<'q> {
    fn new(
        queries: &'q [Query],
        floor: Similarity,
        limit: usize,
        default_agent: &'q str,
        ownerless: Ownerless,
    ) -> Self {
        let found = vec![Vec::new(); queries.len()];
        Self { queries, groups: groups(queries), floor: floor.0, limit, default_agent, ownerless, found }
    }

    async fn run(mut self, view: &View) -> Result<Vec<Vec<Neighbour>>, StoreError> {
        for query in self.queries {
            let id = query.exclude.as_deref().unwrap_or("a query");
            view.check_dimension(id, query.vector.len())?;
        }
        if self.queries.is_empty() || self.limit == 0 {
            return Ok(self.found);
        }
        let unit = self.unit_queries(view.dim());
        stream(view, |batch| self.compare(&unit, batch)).await?;
        for found in &mut self.found {
            best(found, self.limit);
        }
        Ok(self.found)
    }

    /// One query a row, divided by its norm; one that has none is not a number, so that it finds nothing.
    fn unit_queries(&self, dim: usize) -> Array2<f32> {
        let mut unit = Array2::from_elem((self.queries.len(), dim), f32::NAN);
        for (query, mut row) in self.queries.iter().zip(unit.rows_mut()) {
            if let Some(norm) = norm(&query.vector) {
                row.iter_mut().zip(&query.vector).for_each(|(to, from)| *to = from / norm);
            }
        }
        unit
    }

    fn compare(&mut self, unit: &Array2<f32>, batch: &RecordBatch) -> Result<(), ArrowError> {
        let Some(vectors) = Vectors::of(batch)? else { return Ok(()) };
        let shape = (batch.num_rows(), vectors.dim());
        let rows_of_batch = ArrayView2::from_shape(shape, vectors.flat())
            .map_err(|error| ArrowError::ComputeError(error.to_string()))?;
        let products = rows_of_batch.dot(&unit.t());
        let owners = Owners::of(batch, self.default_agent, self.ownerless)?;
        for row in 0..batch.num_rows() {
            let Some((id, agent, scope)) = owners.at(row) else { continue };
            let asks =
                |group: &&Group| group.partition.agent == agent && group.partition.scope.as_deref() == scope;
            let Some(group) = self.groups.iter().find(asks) else { continue };
            let Some(length) = vectors.at(row).and_then(norm) else { continue };
            for &query in &group.queries {
                let similarity = products[(row, query)] / length;
                if similarity >= self.floor && self.queries[query].exclude.as_deref() != Some(id) {
                    let similarity = Similarity(similarity.clamp(-1.0, 1.0));
                    let found = &mut self.found[query];
                    found.push(Neighbour { id: id.to_string(), similarity });
                    if found.len() >= self.limit.saturating_mul(4).max(1024) {
                        best(found, self.limit);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The queries of one partition, by their place.
struct Group<'q> {
    partition: &'q Partition,
    queries: Vec<usize>,
}

fn groups(queries: &[Query]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (place, query) in queries.iter().enumerate() {
        match groups.iter_mut().find(|group| *group.partition == query.partition) {
            Some(group) => group.queries.push(place),
            None => groups.push(Group { partition: &query.partition, queries: vec![place] }),
        }
    }
    groups
}

/// Who the rows of a batch belong to.
struct Owners<'a> {
    id: StringArray,
    agent: Option<StringArray>,
    scope: Option<StringArray>,
    default_agent: &'a str,
    ownerless: Ownerless,
}

impl<'a> Owners<'a> {
    fn of(batch: &RecordBatch, default_agent: &'a str, ownerless: Ownerless) -> Result<Self, ArrowError> {
        let id = rows::strings(batch, "id")?
            .ok_or_else(|| ArrowError::SchemaError("the table has no column id".into()))?;
        let (agent, scope) = (rows::strings(batch, "agentId")?, rows::strings(batch, "scope")?);
        Ok(Self { id, agent, scope, default_agent, ownerless })
    }

    /// Id, agent and scope of a row that is a memory of somebody's.
    fn at(&self, row: usize) -> Option<(&str, &str, Option<&str>)> {
        let id = valid(&self.id, row).filter(|id| *id != SENTINEL)?;
        let agent = match &self.agent {
            None => self.default_agent,
            Some(column) => match valid(column, row).filter(|agent| !agent.is_empty()) {
                Some(agent) => agent,
                None if self.ownerless == Ownerless::Defaults => self.default_agent,
                None => return None,
            },
        };
        let scope = self.scope.as_ref().and_then(|column| valid(column, row));
        Some((id, agent, scope))
    }
}

fn valid(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

/// Keeps the `limit` most similar, in order.
fn best(found: &mut Vec<Neighbour>, limit: usize) {
    found.sort_by(|a, b| match b.similarity.0.total_cmp(&a.similarity.0) {
        Ordering::Equal => a.id.cmp(&b.id),
        order => order,
    });
    found.truncate(limit);
}
