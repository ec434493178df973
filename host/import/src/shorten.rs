//! Names in messages.

/// Shortens and escapes a name for a message.
pub(super) fn shorten(name: &str) -> String {
    let shown: String = name.chars().take(80).collect();
    let dots = if shown.len() < name.len() { "..." } else { "" };
    format!("{}{dots}", shown.escape_debug())
}
