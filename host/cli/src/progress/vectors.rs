//! Lines about vectors from files.

use pbg_core::event::Event;

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
                text.push_str(&format!(
                    "; {} vectors belong to no entity",
                    vectors - taken
                ));
            }
            if taken < rows {
                text.push_str(&format!("; {} embeddings start at random", rows - taken));
            }
            if *frozen {
                text.push_str("; none of them is trained");
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
