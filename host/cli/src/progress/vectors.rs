//! Lines about vectors from files.

use pbg_core::event::Event;

use crate::format::plural;

/// Formats the events of vectors from files.
pub(super) fn of_vectors(event: &Event) -> Option<String> {
    match event {
        Event::VectorsRead {
            entity_type,
            file,
            vectors,
            taken,
            rows,
            by_name,
            frozen,
        } => {
            let mut text = format!(
                "`{entity_type}`: {taken} of {rows} embeddings start from the {vectors} vectors of {file}, matched {}",
                match by_name {
                    true => "by name",
                    false => "in the order of ids, since the vectors have no names",
                }
            );
            if taken < vectors {
                let skipped = plural(vectors - taken, "vector");
                text.push_str(&format!("; {skipped} without an entity of that name"));
            }
            if taken < rows {
                let others = plural(rows - taken, "embedding");
                text.push_str(&format!("; {others} at random"));
            }
            if *frozen {
                text.push_str("; they are frozen");
            }
            Some(text)
        }
        Event::VectorsIgnored { entity_type, file } => Some(format!(
            "`{entity_type}`: {file} is not read, since the checkpoint has the embeddings already; to start from it, set \
             another `checkpoint_path`"
        )),
        _ => None,
    }
}
