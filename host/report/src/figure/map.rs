//! Entities in two dimensions, coloured by group.

use serde_json::{Value, json};

use super::{Figure, marker, text, with};
use crate::map::Spot;

/// Decimals of a place.
const PLACES: f64 = 1e3;

/// A point for each entity, whose name is shown below the pointer; names that have room are written beside their
/// points by the page's script, in the order of `labels` in the layout's `meta`: those that come first in each group,
/// first.
#[must_use]
pub fn map(spots: &[Spot]) -> Figure {
    let mut groups: Vec<(&str, Vec<&Spot>)> = Vec::new();
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
    Figure {
        id: "map".to_owned(),
        title: format!("{} entities in two dimensions", spots.len()),
        caption: "What has similar embeddings is near (t-SNE); directions and distances across the map mean nothing. \
                  Point at an entity for its name, draw a rectangle to look closer: then there is room for more names. \
                  Double click to come back; click on a group to hide it."
            .to_owned(),
        height: 700,
        data: groups.iter().enumerate().map(trace).collect(),
        layout: json!({
            "xaxis": hidden, "yaxis": hidden, "margin": { "l": 4, "r": 4, "t": 32, "b": 20 },
            "legend": { "orientation": "h", "x": 0, "y": 0, "yanchor": "top", "itemsizing": "constant" },
            "meta": { "labels": labels.collect::<Vec<Value>>() },
        }),
    }
}

fn trace((index, (group, members)): (usize, &(&str, Vec<&Spot>))) -> Value {
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
