//! Conversion of Parquet columns to names and weights.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Float32Array, LargeBinaryArray, StringArray,
    downcast_integer_array,
};
use arrow_schema::DataType;

/// Converts a column to names: text, integers in decimal notation, or dictionaries of either. Nulls stay nulls.
///
/// # Errors
/// For columns of another type, and for bytes that are not UTF-8.
pub(super) fn names(column: &ArrayRef) -> Result<StringArray, String> {
    downcast_integer_array!(
        column => Ok(column.iter().map(|number| number.map(|n| n.to_string())).collect()),
        DataType::Utf8 => Ok(column.as_string::<i32>().clone()),
        DataType::LargeUtf8 => Ok(column.as_string::<i64>().iter().collect()),
        DataType::Utf8View => Ok(column.as_string_view().iter().collect()),
        DataType::Binary => text(column.as_any().downcast_ref::<BinaryArray>().into_iter().flatten()),
        DataType::LargeBinary => text(column.as_any().downcast_ref::<LargeBinaryArray>().into_iter().flatten()),
        DataType::BinaryView => text(column.as_binary_view().iter()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            dictionary_values(dictionary.keys(), &names(dictionary.values())?)
        }
        other => Err(format!("names must be text or integers, but this column has the type {other}")),
    )
}

/// Converts bytes that must be UTF-8 text.
fn text<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<StringArray, String> {
    let checked = values.map(|bytes| bytes.map(std::str::from_utf8).transpose());
    let result: Result<StringArray, _> = checked.collect();
    result.map_err(|_| "its bytes are not UTF-8 text".to_owned())
}

/// Looks up the values of dictionary `keys`.
fn dictionary_values(keys: &dyn Array, values: &StringArray) -> Result<StringArray, String> {
    let value = |key: usize| values.is_valid(key).then(|| values.value(key));
    downcast_integer_array!(
        keys => Ok(keys.iter().map(|key| key.and_then(|key| value(key as usize))).collect()),
        other => Err(format!("dictionary keys cannot have the type {other}")),
    )
}

/// Converts a column to numbers in single precision. Nulls stay nulls.
///
/// # Errors
/// For columns of another type.
pub(super) fn weights(column: &ArrayRef) -> Result<Float32Array, String> {
    downcast_integer_array!(
        column => Ok(column.iter().map(|number| number.map(|n| n as f32)).collect()),
        DataType::Float32 => Ok(column.as_primitive::<Float32Type>().clone()),
        DataType::Float64 => {
            let numbers = column.as_primitive::<Float64Type>();
            Ok(numbers.iter().map(|number| number.map(|n| n as f32)).collect())
        }
        other => Err(format!("weights must be numbers, but this column has the type {other}")),
    )
}
