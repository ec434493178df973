//! Arrow schemas of the files of a dataset.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Returns a column without nulls.
fn column(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

/// Returns the schema of an edge file.
pub(super) fn edge_schema(has_weight: bool) -> SchemaRef {
    let ids = ["lhs", "rel", "rhs"].map(|name| column(name, DataType::UInt32));
    let mut fields: Vec<_> = ids.into();
    if has_weight {
        fields.push(column("weight", DataType::Float32));
    }
    Arc::new(Schema::new(fields))
}

/// Returns the schema of a dictionary.
pub(super) fn dictionary_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        column("name", DataType::Utf8),
        column("partition", DataType::UInt32),
        column("offset", DataType::UInt32),
    ]))
}

/// Returns the schema of a list of names.
pub(super) fn names_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![column("name", DataType::Utf8)]))
}

/// Returns the schema of the list of relations.
pub(super) fn relations_schema() -> SchemaRef {
    let texts = ["name", "lhs", "rhs"].map(|name| column(name, DataType::Utf8));
    Arc::new(Schema::new(texts.to_vec()))
}

/// Returns the schema of lists of features.
pub(super) fn features_schema() -> SchemaRef {
    let list = DataType::List(Arc::new(item()));
    Arc::new(Schema::new(vec![column("features", list)]))
}

/// Returns the field of a feature in a list.
pub(super) fn item() -> Field {
    column("item", DataType::UInt32)
}
