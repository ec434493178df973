//! Suggestions for misspelled names.

/// Returns the known name of which `name` is most likely a misspelling.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer texts are not misspellings, and computing their distance takes quadratic time.
    const LONGEST: usize = 64;
    if name.chars().count() > LONGEST {
        return None;
    }
    let snake = snake_case(name);
    let length = snake.chars().count();
    let close = |(distance, k): &(usize, &str)| {
        let other = k.chars().count();
        let part = length.min(other) >= 3 && (k.contains(&snake) || snake.contains(k));
        part || *distance * 3 <= length.max(other)
    };
    known
        .map(|k| (strsim::damerau_levenshtein(&snake, &k.to_lowercase()), k))
        .filter(close)
        .min()
        .map(|(_, k)| k)
}

/// Returns `name` in snake case, as keys are written. PBG also accepts camel case, and enumeration names in capitals.
#[must_use]
pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for c in name.trim().chars() {
        if c.is_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = c.is_lowercase();
        match c {
            '-' | ' ' => snake.push('_'),
            c => snake.extend(c.to_lowercase()),
        }
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_recognised() {
        let keys = ["num_epochs", "num_edge_chunks", "lr", "batch_size"];
        let near = |name| nearest(name, keys.into_iter());
        assert_eq!(near("num_epoch"), Some("num_epochs"));
        assert_eq!(near("numEpochs"), Some("num_epochs"));
        assert_eq!(near("batchsize"), Some("batch_size"));
        assert_eq!(near("batch-size"), Some("batch_size"));
        assert_eq!(near("epochs"), Some("num_epochs"));
        assert_eq!(nearest("cosine", ["dot", "cos"].into_iter()), Some("cos"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(&"x".repeat(100_000)), None);
    }
}
