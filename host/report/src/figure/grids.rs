//! Figure of the grids of buckets, coloured by their positions in the plan.

use serde_json::{Map, Value, json};

use super::{Figure, suffix, text};
use pbg_lab::comparison::ComparisonCase;

/// Maximum number of buckets of a grid in a figure; in larger grids, cells would be smaller than a pixel.
pub(crate) const MOST_BUCKETS: usize = 64 * 64;
/// Number of small plots in a row.
pub(super) const COLUMNS: usize = 4;

/// Returns a figure with one small grid per order; `None` for grids that are too large.
#[must_use]
pub fn grids(case: &ComparisonCase) -> Option<Figure> {
    if case.pass.buckets() > MOST_BUCKETS || case.orders.is_empty() {
        return None;
    }
    let rows = case.orders.len().div_ceil(COLUMNS);
    let mut data = Vec::new();
    let mut layout = Map::new();
    let mut titles = Vec::new();
    for (index, entry) in case.orders.iter().enumerate() {
        let suffix = suffix(index);
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let x = domain(column, COLUMNS, 0.03);
        let y = domain(rows - 1 - row, rows, 0.25 / rows as f64);
        data.push(json!({
            "type": "heatmap", "z": positions(case, index), "zmin": 0, "zmax": case.pass.buckets() - 1,
            "xaxis": format!("x{suffix}"), "yaxis": format!("y{suffix}"), "colorscale": "Viridis",
            "showscale": index == 0, "colorbar": { "title": { "text": "position", "side": "right" }, "thickness": 12,
                          "lenmode": "pixels", "len": 220, "y": 1, "yanchor": "top" },
            "hovertemplate": "left %{y}, right %{x}: position %{z}<extra></extra>",
        }));
        let axis = |domain: [f64; 2], anchor: &str| {
            json!({ "domain": domain, "anchor": format!("{anchor}{suffix}"), "showgrid": false,
                    "zeroline": false, "ticks": "", "showticklabels": false, "constrain": "domain" })
        };
        layout.insert(format!("xaxis{suffix}"), axis(x, "y"));
        let mut left = axis(y, "x");
        left["autorange"] = json!("reversed");
        left["scaleanchor"] = json!(format!("x{suffix}"));
        layout.insert(format!("yaxis{suffix}"), left);
        titles.push(json!({
            "text": text(&entry.order), "xref": "paper", "yref": "paper", "showarrow": false,
            "x": (x[0] + x[1]) / 2.0, "y": y[1], "yanchor": "bottom", "xanchor": "center",
        }));
    }
    layout.insert("annotations".to_owned(), Value::Array(titles));
    layout.insert(
        "margin".to_owned(),
        json!({ "l": 20, "r": 20, "t": 30, "b": 20 }),
    );
    // The script of the page makes the grids square.
    layout.insert("meta".to_owned(), json!({ "rows": rows }));
    Some(Figure {
        id: "grids".to_owned(),
        title: format!("When each bucket is trained: {}", case.title()),
        caption:
            "One row per left partition, one column per right partition, with the first seed. \
                  Dark buckets are trained first, yellow ones last."
                .to_owned(),
        height: 40 + 270 * rows as u32,
        data,
        layout: Value::Object(layout),
    })
}

/// Returns the part of an axis for plot `index` of `count`.
pub(super) fn domain(index: usize, count: usize, gap: f64) -> [f64; 2] {
    let width = 1.0 / count as f64;
    let start = index as f64 * width;
    [start, start + width * (1.0 - gap).max(0.5) - gap * width]
}

fn positions(case: &ComparisonCase, order: usize) -> Vec<Vec<usize>> {
    let columns = case.rhs_partitions as usize;
    let mut grid = vec![vec![0; columns]; case.lhs_partitions as usize];
    for (position, bucket) in case.orders[order].plan.iter().enumerate() {
        grid[bucket.lhs as usize][bucket.rhs as usize] = position;
    }
    grid
}
