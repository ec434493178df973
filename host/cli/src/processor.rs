//! The processor of the machine, for results that depend on it.

use std::fs;

/// Returns the model and the number of usable cores, such as `AMD EPYC 7B13, 8 cores`.
pub(crate) fn description() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = crate::format::plural(pbg_model::settings::cores() as u64, "core");
    format!("{}, {cores}", model(&text).unwrap_or("unknown processor"))
}

/// Returns the model of the first processor in the text of `/proc/cpuinfo`.
fn model(text: &str) -> Option<&str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, name) = fields.find(|(key, _)| matches!(key.trim(), "model name" | "Model"))?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_the_first_processor_is_read() {
        let text = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: fpu\n";
        assert_eq!(model(text), Some("Some CPU @ 2.00GHz"));
        assert_eq!(model("processor : 0\n"), None);
        assert!(description().contains("core"));
    }
}
