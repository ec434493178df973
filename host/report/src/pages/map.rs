//! HTML page and CSV file of a map of entities in two dimensions.

use super::comparison::PageError;
use crate::figure;
use crate::map::MapPoint;
use crate::page::Page;
use crate::table;

/// Returns the HTML page of a map of the model `model`.
///
/// # Errors
/// When the data cannot be written.
pub fn page(spots: &[MapPoint], model: &str) -> Result<String, PageError> {
    let mut page = Page::new(&format!("Map of {model}"));
    page.figure(figure::map(spots));
    page.download("map.csv", &csv(spots)?);
    Ok(page.render()?)
}

/// Returns CSV with a row for each entity.
///
/// # Errors
/// When a row cannot be written.
pub fn csv(spots: &[MapPoint]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    spots.iter().try_for_each(|spot| writer.serialize(spot))?;
    table::text(writer)
}
