//! Search for parameters of a plugin that change nothing.

use pbg_contract::drawn_factors;
use pbg_formula::comparator::ComparatorFormula;
use pbg_formula::loss::LossGraph;
use pbg_formula::operator::OperatorFormula;
use pbg_wasm::{LoadedLoss, LoadedPlugin, PluginParameterKind, PluginSlot};
use serde_json::{Map, Value};

/// Formula of a plugin, or the factors of a schedule.
#[derive(PartialEq)]
enum Formula {
    Loss(LossGraph),
    Operator(OperatorFormula),
    Comparator(ComparatorFormula),
    Factors(Vec<f64>),
}

/// Returns a sentence for every parameter with which the plugin's formula, or its factors, stay the same for all values tried, where the
/// others are those of `parameters`. Empty for plugins whose answers are not a formula.
pub(super) fn without_influence(plugin: &LoadedPlugin, parameters: &Value) -> Vec<String> {
    let Some(formula) = formula(plugin, parameters) else {
        return Vec::new();
    };
    if matches!(&formula, Formula::Loss(graph) if graph.update_every().is_some()) {
        // A parameter may decide how others change during training.
        return Vec::new();
    }
    let what = match &formula {
        Formula::Factors(_) => "factors of 40 epochs without a warm-up are",
        _ => "formula is",
    };
    let given = parameters.as_object().cloned().unwrap_or_default();
    let declared = &plugin.inspection().metadata.parameters;
    let idle = declared.iter().filter_map(|parameter| {
        let tried = alternatives(&parameter.kind);
        let same = |value: &Value| {
            let mut changed: Map<String, Value> = given.clone();
            changed.insert(parameter.name.clone(), value.clone());
            self::formula(plugin, &Value::Object(changed))
        };
        let answers: Vec<_> = tried.iter().filter_map(same).collect();
        let is_idle = answers.len() > 1 && answers.iter().all(|answer| *answer == formula);
        is_idle.then(|| {
            let values: Vec<String> = tried.iter().map(Value::to_string).collect();
            let (name, values) = (&parameter.name, values.join(", "));
            format!("the {what} the same for every {name} tried: {values}")
        })
    });
    idle.collect()
}

fn formula(plugin: &LoadedPlugin, parameters: &Value) -> Option<Formula> {
    let plugin = plugin.clone();
    match plugin.inspection().kind {
        PluginSlot::TracedLoss => match plugin.into_loss(parameters).ok()? {
            LoadedLoss::Traced(traced) => Some(Formula::Loss(traced.graph)),
            LoadedLoss::Computed(_) => None,
        },
        PluginSlot::TracedOperator => {
            let operator = plugin.into_operator(parameters).ok()?;
            Some(Formula::Operator(operator.formula))
        }
        PluginSlot::Comparator => {
            let comparator = plugin.into_comparator(parameters).ok()?;
            Some(Formula::Comparator(comparator.formula))
        }
        PluginSlot::RateSchedule => {
            let mut schedule = plugin.into_schedule(parameters).ok()?;
            drawn_factors(&mut schedule).ok().map(Formula::Factors)
        }
        _ => None,
    }
}

/// Returns values of a parameter that differ as much as its range allows; none for a text, whose meaning is not known.
fn alternatives(kind: &PluginParameterKind) -> Vec<Value> {
    match kind {
        PluginParameterKind::Boolean { .. } => vec![false.into(), true.into()],
        PluginParameterKind::Choice { options, .. } => options
            .iter()
            .map(|option| option.as_str().into())
            .collect(),
        PluginParameterKind::Integer {
            default,
            minimum,
            maximum,
        } => {
            let near = [
                default.saturating_sub(1),
                *default,
                default.saturating_add(1),
            ];
            let least = minimum.unwrap_or(i64::MIN).max(default.saturating_sub(10));
            let most = maximum.unwrap_or(i64::MAX).min(default.saturating_add(10));
            let mut values = vec![least, most];
            values.extend(near.into_iter().filter(|n| (least..=most).contains(n)));
            values.sort_unstable();
            values.dedup();
            values.into_iter().map(Value::from).collect()
        }
        PluginParameterKind::Number {
            default,
            minimum,
            maximum,
        } => {
            let least = minimum.unwrap_or(f64::MIN).max(default / 2.0 - 1.0);
            let most = maximum.unwrap_or(f64::MAX).min(default * 2.0 + 1.0);
            let mut values = vec![least, f64::midpoint(least, most), *default, most];
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            values.into_iter().map(Value::from).collect()
        }
        PluginParameterKind::Text { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_range_and_differ() {
        let number = PluginParameterKind::Number {
            default: 0.1,
            minimum: Some(0.0),
            maximum: None,
        };
        let found = alternatives(&number);
        assert_eq!(found.first(), Some(&Value::from(0.0)));
        assert_eq!(found.last(), Some(&Value::from(1.2)));
        let integer = PluginParameterKind::Integer {
            default: 2,
            minimum: Some(1),
            maximum: Some(3),
        };
        assert_eq!(alternatives(&integer), [1, 2, 3].map(Value::from));
        let fixed = PluginParameterKind::Integer {
            default: 2,
            minimum: Some(2),
            maximum: Some(2),
        };
        assert_eq!(alternatives(&fixed).len(), 1);
    }
}
