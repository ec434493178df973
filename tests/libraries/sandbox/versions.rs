//! Plugins that were built for another version of the interfaces: a compatible one, and one that has more.

use crate::sandbox::support::{encode, load, pass, sandbox, wit};
use pbg_core::strategy::BucketOrder as _;
use pbg_wasm::{PluginSlot, PluginSource, Sandbox, standard_plugins};
use serde_json::Value;

/// Replaces the version of the interfaces in a component by 0.1.7.
fn of_0_1_7(component: &[u8]) -> Vec<u8> {
    let (old, new) = (b"@0.1.0", b"@0.1.7");
    let mut bytes = component.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|part| part == old) {
        at += found;
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

/// Opens a plugin and calls its `configure`, without parameters.
fn configure(sandbox: &Sandbox, label: &str, bytes: Vec<u8>) -> (String, Result<(), String>) {
    let label = label.to_owned();
    let plugin = sandbox.open(PluginSource::Bytes { label, bytes });
    let plugin = plugin.expect("a compatible version");
    let (wit, kind) = (plugin.inspection().wit.clone(), plugin.inspection().kind);
    let none = &Value::Null;
    let configured = match kind {
        PluginSlot::BucketOrder => plugin.into_order(none).map(drop),
        PluginSlot::RelationSampler => plugin.into_sampler(none).map(drop),
        PluginSlot::TracedLoss | PluginSlot::ComputedLoss => plugin.into_loss(none).map(drop),
        PluginSlot::TracedOperator => plugin.into_operator(none).map(drop),
        PluginSlot::Comparator => plugin.into_comparator(none).map(drop),
        PluginSlot::NegativeSampler => plugin.into_negatives(none).map(drop),
        PluginSlot::NegativeSelector => plugin.into_selector(none).map(drop),
        PluginSlot::RateSchedule => plugin.into_schedule(none).map(drop),
        other => panic!("{other} is a new kind"),
    };
    (wit, configured.map_err(|error| error.to_string()))
}

#[test]
fn every_kind_of_plugin_for_a_newer_compatible_version_loads() {
    let sandbox = sandbox();
    for plugin in standard_plugins() {
        let (wit, expected) = configure(&sandbox, plugin.name, plugin.bytes.to_vec());
        assert_eq!(wit, "pbg:plugin@0.1.0", "{}", plugin.name);
        let newer = of_0_1_7(plugin.bytes);
        assert_ne!(newer, plugin.bytes, "{}", plugin.name);
        let (wit, found) = configure(&sandbox, plugin.name, newer);
        assert_eq!(wit, "pbg:plugin@0.1.7", "{}", plugin.name);
        assert_eq!(found, expected, "{}", plugin.name);
    }
}

#[test]
fn an_order_for_a_newer_compatible_version_makes_the_same_plan() {
    let sandbox = sandbox();
    let inside_out = standard_plugins()
        .iter()
        .find(|plugin| plugin.name == "inside_out")
        .expect("a standard plugin");
    let plans = [inside_out.bytes.to_vec(), of_0_1_7(inside_out.bytes)]
        .map(|bytes| load(&sandbox, bytes).unwrap().plan(&pass(4, 4)).unwrap());
    assert_eq!(plans[0], plans[1]);
}

/// Loads an order for 0.1.7 that imports an interface with a function of 0.1.7.
fn refusal(interface: &str) -> String {
    let interfaces = wit(&format!(
        "package pbg:plugin@0.1.7;
        interface {interface} {{ now: func() -> u64; }}
        interface bucket-order {{ configure: func(parameters: string) -> result<_, string>; }}
        world order {{ import {interface}; export bucket-order; }}"
    ));
    let module = format!(
        r#"(module (import "pbg:plugin/{interface}@0.1.7" "now" (func (result i64)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
        (func (export "pbg:plugin/bucket-order@0.1.7#configure") (param i32 i32) (result i32) (unreachable)))"#
    );
    let component = encode(&module, &interfaces, "order");
    let refused = load(&sandbox(), component).err().expect("a refusal");
    refused.to_string()
}

#[test]
fn what_only_the_newer_version_has_is_named() {
    let interface = refusal("statistics");
    assert!(
        interface.contains("imports pbg:plugin/statistics@0.1.7")
            && interface.contains("built for a newer version of the interfaces"),
        "{interface}"
    );
    let function = refusal("log");
    assert!(
        function.contains("does not fit pbg:plugin@0.1.0")
            && function.contains("`now`")
            && function.contains("it was built for pbg:plugin@0.1.7"),
        "{function}"
    );
}
