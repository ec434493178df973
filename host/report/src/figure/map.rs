//! Figure of entities in two dimensions, coloured by group.

use serde_json::{Value, json};

use super::{Figure, marker, text, with};
use crate::map::MapPoint;

/// Resolution of coordinates: three decimals.
const PLACES: f64 = 1e3;

/// Returns a figure with a point for each entity, whose name is shown under the pointer. The page's script writes names
/// next to their points where there is room, in the order of `labels` in the layout's `meta`: the first entity of each
/// group, then the second of each group, and so on.
#[must_use]
pub fn map(spots: &[MapPoint]) -> Figure {
    let mut groups: Vec<(&str, Vec<&MapPoint>)> = Vec::new();
    for spot in spots {
        match groups.iter_mut().find(|(name, _)| *name == spot.group) {
            Some((_, members)) => members.push(spot),
            None => groups.push((&spot.group, vec![spot])),
        }
    }
    let longest = groups.iter().map(|(_, m)| m.len()).max().unwrap_or(0);
    let by_rank = (0..longest).flat_map(|rank| {
        let ranked = groups.iter().enumerate();
        ranked.filter_map(move |(group, (_, members))| Some((group, *members.get(rank)?)))
    });
    let labels = by_rank.map(|(group, spot)| {
        json!({ "x": rounded(spot.x), "y": rounded(spot.y), "text": text(&spot.name), "group": group })
    });
    let hidden = json!({ "visible": false });
    let traces = groups.iter().enumerate();
    let traces = traces.map(|(index, (group, members))| trace(index, group, members));
    Figure {
        id: "map".to_owned(),
        title: format!("{} entities in two dimensions", spots.len()),
        caption: "Entities with similar embeddings are near each other (t-SNE); directions and large distances have no \
                  meaning. Point at an entity for its name; draw a rectangle to zoom in, which makes room for more names. \
                  Double-click to zoom out; click on a group to hide it."
            .to_owned(),
        height: 700,
        data: traces.collect(),
        layout: json!({
            "xaxis": hidden, "yaxis": hidden, "margin": { "l": 4, "r": 4, "t": 32, "b": 20 },
            "legend": { "orientation": "h", "x": 0, "y": 0, "yanchor": "top", "itemsizing": "constant" },
            "meta": { "labels": labels.collect::<Vec<Value>>() },
        }),
    }
}

fn trace(index: usize, group: &str, members: &[&MapPoint]) -> Value {
    let names: Vec<String> = members.iter().map(|spot| text(&spot.name)).collect();
    let x: Vec<f64> = members.iter().map(|spot| rounded(spot.x)).collect();
    let y: Vec<f64> = members.iter().map(|spot| rounded(spot.y)).collect();
    json!({
        "type": "scatter", "mode": "markers", "name": text(group), "x": x, "y": y, "text": names,
        "marker": with(marker(index), json!({ "opacity": 0.85 })),
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
    })
}

fn rounded(place: f64) -> f64 {
    (place * PLACES).round() / PLACES
}
