//! Arrow to nouns and back: columns of whatever type a gateway chose become values, and values become columns of the
//! live table's types. Knows which columns are ours to interpret; all others are carried as they are.

use std::sync::Arc;

use ::lance::deps::datafusion::arrow::compute::{cast, concat};
use ::lance::deps::datafusion::arrow::json::writer::{LineDelimited, WriterBuilder};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use serde_json::{Map, Value};

use crate::memory::{Category, Memory, Partition};

/// The row LanceDB clients of the gateway write to fix a table's schema. Never a memory.
pub(super) const SENTINEL: &str = "__schema__";

/// The columns we interpret; the values of all others are carried through every write unread.
pub(super) const KNOWN: [&str; 8] =
    ["id", "text", "vector", "importance", "category", "createdAt", "agentId", "scope"];

/// What the gateway gives to the memories it captures by itself; read where a row has none.
const CAPTURED_IMPORTANCE: f64 = 0.7;

/// A column as text; none if the table has no such column.
pub(super) fn strings(batch: &RecordBatch, column: &str) -> Result<Option<StringArray>, ArrowError> {
    let Some(array) = batch.column_by_name(column) else { return Ok(None) };
    let array = cast(array, &DataType::Utf8)?;
    Ok(array.as_any().downcast_ref::<StringArray>().cloned())
}

/// A column as numbers (times as epoch milliseconds); none if the table has no such column.
pub(super) fn numbers(batch: &RecordBatch, column: &str) -> Result<Option<Float64Array>, ArrowError> {
    let Some(array) = batch.column_by_name(column) else { return Ok(None) };
    let array = match array.data_type() {
        DataType::Timestamp(_, zone) => {
            let millis = cast(array, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
            cast(&millis, &DataType::Int64)?
        }
        _ => array.clone(),
    };
    let array = cast(&array, &DataType::Float64)?;
    Ok(array.as_any().downcast_ref::<Float64Array>().cloned())
}

/// The value of a text column at a row, if both are there.
pub(super) fn text_at(column: Option<&StringArray>, row: usize) -> Option<String> {
    column.filter(|array| array.is_valid(row)).map(|array| array.value(row).to_string())
}

/// The value of a number column at a row, if both are there.
pub(super) fn number_at(column: Option<&Float64Array>, row: usize) -> Option<f64> {
    column.filter(|array| array.is_valid(row)).map(|array| array.value(row))
}

/// Epoch milliseconds of a stored number.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn millis(stored: f64) -> i64 {
    stored as i64
}

/// What one row turned out to be.
#[derive(Debug)]
pub(super) enum Reading {
    Memory(Memory),
    /// A memory without an agent in a table that has the column: nobody's, so nobody may touch it.
    Ownerless,
    /// No id or no text.
    Unreadable,
    Sentinel,
}

/// The interpreted columns of a batch.
pub(super) struct Columns {
    id: Option<StringArray>,
    text: Option<StringArray>,
    importance: Option<Float64Array>,
    category: Option<StringArray>,
    created_at: Option<Float64Array>,
    agent: Option<StringArray>,
    scope: Option<StringArray>,
    ownerless: Ownerless,
}

/// What a row with NULL in `agentId` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownerless {
    /// Nobody's: the gateway never recalls it, so nobody may touch it.
    Nobodys,
    /// The default agent's: an archived row of a table that had no agents.
    Defaults,
}

impl Columns {
    /// All interpreted columns but the vector, for [`super::table::View::scan`].
    pub(super) const NAMES: [&'static str; 7] =
        ["id", "text", "importance", "category", "createdAt", "agentId", "scope"];

    pub(super) fn of(batch: &RecordBatch, ownerless: Ownerless) -> Result<Self, ArrowError> {
        Ok(Self {
            ownerless,
            id: strings(batch, "id")?,
            text: strings(batch, "text")?,
            importance: numbers(batch, "importance")?,
            category: strings(batch, "category")?,
            created_at: numbers(batch, "createdAt")?,
            agent: strings(batch, "agentId")?,
            scope: strings(batch, "scope")?,
        })
    }

    /// Reads a row of `memories`. A table without `agentId` belongs to `default_agent`.
    pub(super) fn read(&self, row: usize, default_agent: &str) -> Reading {
        let id = text_at(self.id.as_ref(), row);
        if id.as_deref() == Some(SENTINEL) {
            return Reading::Sentinel;
        }
        let (Some(id), Some(text)) = (id, text_at(self.text.as_ref(), row)) else {
            return Reading::Unreadable;
        };
        let Some(partition) = self.partition(row, default_agent) else { return Reading::Ownerless };
        Reading::Memory(Memory {
            id,
            text,
            importance: number_at(self.importance.as_ref(), row).unwrap_or(CAPTURED_IMPORTANCE),
            category: self.category(row),
            created_at: number_at(self.created_at.as_ref(), row).map_or(0, millis),
            partition,
        })
    }

    fn category(&self, row: usize) -> Category {
        text_at(self.category.as_ref(), row).map_or(Category::Other, |word| Category::from_word(&word))
    }

    fn partition(&self, row: usize, default_agent: &str) -> Option<Partition> {
        let agent = match &self.agent {
            None => default_agent.to_string(),
            Some(_) => match text_at(self.agent.as_ref(), row).filter(|agent| !agent.is_empty()) {
                Some(agent) => agent,
                None if self.ownerless == Ownerless::Defaults => default_agent.to_string(),
                None => return None,
            },
        };
        Some(Partition { agent, scope: text_at(self.scope.as_ref(), row) })
    }
}

/// The vectors of a batch, as 32-bit floats.
pub(super) struct Vectors {
    list: FixedSizeListArray,
    values: Float32Array,
    dim: usize,
}

impl Vectors {
    /// None if the batch has no column of that name.
    pub(super) fn of(batch: &RecordBatch) -> Result<Option<Self>, ArrowError> {
        let Some(array) = batch.column_by_name("vector") else { return Ok(None) };
        let DataType::FixedSizeList(item, size) = array.data_type() else {
            return Err(ArrowError::SchemaError("the column vector is not a list of a fixed size".into()));
        };
        let target = DataType::FixedSizeList(
            Arc::new(Field::new(item.name(), DataType::Float32, item.is_nullable())),
            *size,
        );
        let array = cast(array, &target)?;
        let wrong = || ArrowError::CastError("vectors are not numbers".into());
        let list = array.as_any().downcast_ref::<FixedSizeListArray>().ok_or_else(wrong)?.clone();
        let values = list.values().as_any().downcast_ref::<Float32Array>().ok_or_else(wrong)?.clone();
        Ok(Some(Self { dim: usize::try_from(*size).unwrap_or(0), list, values }))
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    /// All numbers, row after row; what stands in the place of a null vector is arbitrary.
    pub(super) fn flat(&self) -> &[f32] {
        let start = if self.list.is_empty() { 0 } else { offset(&self.list, 0) };
        &self.values.values()[start..start + self.list.len() * self.dim]
    }

    /// The vector of a row; none if it is null or has a null in it.
    pub(super) fn at(&self, row: usize) -> Option<&[f32]> {
        let start = offset(&self.list, row);
        let holes =
            self.values.null_count() > 0 && (start..start + self.dim).any(|place| self.values.is_null(place));
        (self.list.is_valid(row) && !holes).then(|| &self.values.values()[start..start + self.dim])
    }
}

fn offset(list: &FixedSizeListArray, row: usize) -> usize {
    usize::try_from(list.value_offset(row)).expect("an offset is not negative")
}

/// Euclidean length; none for a vector no similarity can be computed with: zero, infinite or not a number.
pub(super) fn norm(vector: &[f32]) -> Option<f32> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    (norm.is_finite() && norm > 0.0).then_some(norm)
}

/// A column of vectors of the type of `field`.
pub(super) fn vector_column<'v>(
    field: &Field,
    vectors: impl Iterator<Item = Option<&'v [f32]>>,
) -> Result<ArrayRef, ArrowError> {
    let DataType::FixedSizeList(item, size) = field.data_type() else {
        return Err(ArrowError::SchemaError("the column vector is not a list of a fixed size".into()));
    };
    let dim = usize::try_from(*size).unwrap_or(0);
    let (mut values, mut valid) = (Vec::new(), Vec::new());
    for vector in vectors {
        valid.push(vector.is_some());
        match vector {
            Some(vector) => values.extend_from_slice(vector),
            None => values.resize(values.len() + dim, 0.0),
        }
    }
    let values: ArrayRef = Arc::new(Float32Array::from(values));
    let values = cast(&values, item.data_type())?;
    let nulls = valid.contains(&false).then(|| valid.into());
    Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *size, values, nulls)?))
}

/// A column of texts of the type of `field`.
pub(super) fn text_column<T: Into<Option<String>>>(
    field: &Field,
    values: impl Iterator<Item = T>,
) -> Result<ArrayRef, ArrowError> {
    let array: ArrayRef = Arc::new(values.map(Into::into).collect::<StringArray>());
    cast(&array, field.data_type())
}

/// A column of numbers, or of times given as epoch milliseconds, of the type of `field`.
pub(super) fn number_column(
    field: &Field,
    values: impl Iterator<Item = Option<f64>>,
) -> Result<ArrayRef, ArrowError> {
    let array: ArrayRef = Arc::new(values.collect::<Float64Array>());
    match field.data_type() {
        DataType::Timestamp(_, zone) => {
            let whole = cast(&array, &DataType::Int64)?;
            let millis = cast(&whole, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
            cast(&millis, field.data_type())
        }
        other => cast(&array, other),
    }
}

/// The numbers that come back when `values` are written to a column of the type of `field`.
pub(super) fn as_stored(
    field: &Field,
    values: impl Iterator<Item = f64>,
) -> Result<Option<Float64Array>, ArrowError> {
    let column = number_column(field, values.map(Some))?;
    numbers(&RecordBatch::try_from_iter([(field.name(), column)])?, field.name())
}

/// A column of the type of `field` put together from one cell a row: a one-value array, or nothing for NULL. A cell
/// of a type that cannot become the field's is NULL.
pub(super) fn carried_column(field: &Field, cells: &[Option<ArrayRef>]) -> Result<ArrayRef, ArrowError> {
    let null = new_null_array(field.data_type(), 1);
    let cells: Vec<ArrayRef> = cells
        .iter()
        .map(|cell| match cell {
            Some(cell) if cell.data_type() == field.data_type() => cell.clone(),
            Some(cell) => cast(cell, field.data_type()).unwrap_or_else(|_| null.clone()),
            None => null.clone(),
        })
        .collect();
    if cells.is_empty() {
        return Ok(new_null_array(field.data_type(), 0));
    }
    concat(&cells.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// Rows as JSON objects, all columns, NULL as null; whole numbers without a fraction.
pub(super) fn json(batch: &RecordBatch) -> Result<Vec<Map<String, Value>>, ArrowError> {
    let mut lines = Vec::new();
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut lines);
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    let rows = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    rows.map(|line| {
        let mut row: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| ArrowError::JsonError(error.to_string()))?;
        if let Some(created) = row.get_mut("createdAt") {
            whole_number(created);
        }
        Ok(row)
    })
    .collect()
}

/// `1796023289525.0` as the gateway itself prints it.
fn whole_number(value: &mut Value) {
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0) {
        *value = Value::from(millis(number));
    }
}

/// A column of whole numbers.
pub(super) fn integers(batch: &RecordBatch, column: &str) -> Result<Option<Int64Array>, ArrowError> {
    let Some(array) = batch.column_by_name(column) else { return Ok(None) };
    let array = cast(array, &DataType::Int64)?;
    Ok(array.as_any().downcast_ref::<Int64Array>().cloned())
}
