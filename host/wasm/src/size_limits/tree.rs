//! Counts of nested modules and components, each counted once per instantiation.
//!
//! A component of a few bytes can make two instances of one that makes two instances of another, and so on: what
//! matters is the total. Only components that are defined where they are instantiated, or in an enclosing component,
//! can be counted; no build tool makes others.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, ElementItems, ElementSectionReader, Encoding, Instance, Payload,
};

use super::cap;
use crate::fault::invalid_component;

/// Counts of one instance, including the instances within it.
#[derive(Clone, Copy, Default)]
struct InstanceCounts {
    instances: u64,
    items: u64,
    functions: u64,
    globals: u64,
    elements: u64,
    data: u64,
}

impl InstanceCounts {
    fn add(&mut self, other: Self) -> Result<(), String> {
        let Self {
            instances,
            items,
            functions,
            globals,
            elements,
            data,
        } = self;
        for (sum, more, cap) in [
            (instances, other.instances, cap::INSTANCES),
            (items, other.items, cap::ITEMS),
            (functions, other.functions, cap::FUNCTIONS),
            (globals, other.globals, cap::GLOBALS),
            (elements, other.elements, cap::ELEMENTS),
            (data, other.data, cap::DATA),
        ] {
            *sum = sum.saturating_add(more);
            cap.check(*sum)?;
        }
        Ok(())
    }
}

/// A module or component that is being read.
struct Frame {
    encoding: Encoding,
    weight: InstanceCounts,
    /// Weights by module index; `None` for a module that is imported or passed in.
    modules: Vec<Option<InstanceCounts>>,
    /// Weights by component index; `None` for a component that is imported or passed in.
    components: Vec<Option<InstanceCounts>>,
}

/// The modules and components that are being read, from the outermost to the innermost, and the counts of all
/// definitions.
#[derive(Default)]
pub(super) struct InstanceCounter {
    open: Vec<Frame>,
    written: InstanceCounts,
}

impl InstanceCounter {
    pub(super) fn add(&mut self, payload: &Payload<'_>) -> Result<(), String> {
        match payload {
            Payload::Version { encoding, .. } => self.open.push(Frame {
                encoding: *encoding,
                weight: InstanceCounts::default(),
                modules: Vec::new(),
                components: Vec::new(),
            }),
            Payload::End(_) => self.close(),
            Payload::CodeSectionEntry(_) | Payload::CustomSection(_) => {}
            _ if self.in_module() => self.count(of_module(payload)?)?,
            _ => self.add_to_component(payload)?,
        }
        Ok(())
    }

    fn in_module(&self) -> bool {
        let innermost = self.open.last();
        innermost.is_some_and(|frame| frame.encoding == Encoding::Module)
    }

    /// Ends the innermost module or component, and registers its weight with the enclosing one.
    fn close(&mut self) {
        let Some(closed) = self.open.pop() else {
            return;
        };
        if let Some(around) = self.open.last_mut() {
            match closed.encoding {
                Encoding::Module => around.modules.push(Some(closed.weight)),
                Encoding::Component => around.components.push(Some(closed.weight)),
            }
        }
    }

    /// Adds to the counts of the innermost module or component.
    fn count(&mut self, more: InstanceCounts) -> Result<(), String> {
        self.written.add(more)?;
        match self.open.last_mut() {
            Some(frame) => frame.weight.add(more),
            None => Ok(()),
        }
    }

    fn items(&mut self, items: u64) -> Result<(), String> {
        self.count(InstanceCounts {
            items,
            ..InstanceCounts::default()
        })
    }

    fn add_to_component(&mut self, payload: &Payload<'_>) -> Result<(), String> {
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    self.instantiate(&instance.map_err(invalid_component)?)?;
                }
                Ok(())
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    self.instantiate_component(&instance.map_err(invalid_component)?)?;
                }
                Ok(())
            }
            Payload::ComponentAliasSection(section) => {
                self.items(section.count().into())?;
                for alias in section.clone() {
                    self.alias(&alias.map_err(invalid_component)?);
                }
                Ok(())
            }
            Payload::ComponentImportSection(section) => {
                self.items(section.count().into())?;
                for import in section.clone() {
                    match import.map_err(invalid_component)?.ty {
                        ComponentTypeRef::Module(_) => self.name_module(None),
                        ComponentTypeRef::Component(_) => self.name_component(None),
                        _ => {}
                    }
                }
                Ok(())
            }
            Payload::ComponentExportSection(section) => {
                self.items(section.count().into())?;
                for export in section.clone() {
                    // An export gives what it exports one more index.
                    let export = export.map_err(invalid_component)?;
                    self.name_again(export.kind, 0, export.index);
                }
                Ok(())
            }
            Payload::CoreTypeSection(section) => self.items(section.count().into()),
            Payload::ComponentTypeSection(section) => self.items(section.count().into()),
            Payload::ComponentCanonicalSection(section) => self.items(section.count().into()),
            _ => Ok(()),
        }
    }

    fn instantiate(&mut self, instance: &Instance<'_>) -> Result<(), String> {
        match instance {
            Instance::FromExports(exports) => self.items(1 + exports.len() as u64),
            Instance::Instantiate { module_index, args } => {
                self.items(1 + args.len() as u64)?;
                let modules = self.open.last().map(|frame| &frame.modules);
                let module = modules.and_then(|known| known.get(*module_index as usize));
                self.instance_of(module.copied())
            }
        }
    }

    fn instantiate_component(&mut self, instance: &ComponentInstance<'_>) -> Result<(), String> {
        match instance {
            ComponentInstance::FromExports(exports) => self.items(1 + exports.len() as u64),
            ComponentInstance::Instantiate {
                component_index,
                args,
            } => {
                self.items(1 + args.len() as u64)?;
                let components = self.open.last().map(|frame| &frame.components);
                let component = components.and_then(|known| known.get(*component_index as usize));
                self.instance_of(component.copied())
            }
        }
    }

    /// Adds the weight of an instance to the innermost component.
    fn instance_of(&mut self, known: Option<Option<InstanceCounts>>) -> Result<(), String> {
        let Some(weight) = known else {
            return Ok(()); // no such index: the compiler reports it
        };
        let Some(mut weight) = weight else {
            return Err(
                "instantiates a module or component that it receives from outside, which cannot be \
                 counted in advance: build it as one component that contains what it instantiates"
                    .to_owned(),
            );
        };
        weight.instances = weight.instances.saturating_add(1);
        match self.open.last_mut() {
            Some(frame) => frame.weight.add(weight),
            None => Ok(()),
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        match *alias {
            ComponentAlias::InstanceExport { kind, .. } => match kind {
                ComponentExternalKind::Module => self.name_module(None),
                ComponentExternalKind::Component => self.name_component(None),
                _ => {}
            },
            ComponentAlias::CoreInstanceExport { .. } => {}
            ComponentAlias::Outer { kind, count, index } => match kind {
                ComponentOuterAliasKind::CoreModule => {
                    self.name_again(ComponentExternalKind::Module, count, index);
                }
                ComponentOuterAliasKind::Component => {
                    self.name_again(ComponentExternalKind::Component, count, index);
                }
                _ => {}
            },
        }
    }

    /// Gives what the component `outwards` levels further out has at `index` one more index in the innermost one.
    fn name_again(&mut self, kind: ComponentExternalKind, outwards: u32, index: u32) {
        let Some(at) = self.open.len().checked_sub(1 + outwards as usize) else {
            return; // no such level: the compiler reports it
        };
        let find = |known: &[Option<InstanceCounts>]| known.get(index as usize).copied().flatten();
        match kind {
            ComponentExternalKind::Module => self.name_module(find(&self.open[at].modules)),
            ComponentExternalKind::Component => {
                self.name_component(find(&self.open[at].components));
            }
            _ => {}
        }
    }

    fn name_module(&mut self, weight: Option<InstanceCounts>) {
        if let Some(frame) = self.open.last_mut() {
            frame.modules.push(weight);
        }
    }

    fn name_component(&mut self, weight: Option<InstanceCounts>) {
        if let Some(frame) = self.open.last_mut() {
            frame.components.push(weight);
        }
    }
}

/// Returns what a section of a module adds to the weight of each of its instances.
fn of_module(payload: &Payload<'_>) -> Result<InstanceCounts, String> {
    let mut weight = InstanceCounts::default();
    match payload {
        Payload::ImportSection(section) => weight.items = section.count().into(),
        Payload::ExportSection(section) => weight.items = section.count().into(),
        Payload::TypeSection(section) => weight.items = section.count().into(),
        Payload::TagSection(section) => weight.items = section.count().into(),
        Payload::TableSection(section) => weight.items = section.count().into(),
        Payload::MemorySection(section) => weight.items = section.count().into(),
        Payload::FunctionSection(section) => weight.functions = section.count().into(),
        Payload::GlobalSection(section) => weight.globals = section.count().into(),
        Payload::ElementSection(section) => {
            weight.items = section.count().into();
            weight.elements = entries(section)?;
        }
        Payload::DataSection(section) => {
            weight.items = section.count().into();
            weight.data = section.range().len() as u64;
        }
        _ => {}
    }
    Ok(weight)
}

fn entries(section: &ElementSectionReader<'_>) -> Result<u64, String> {
    let mut entries = 0;
    for segment in section.clone() {
        entries += u64::from(match segment.map_err(invalid_component)?.items {
            ElementItems::Functions(items) => items.count(),
            ElementItems::Expressions(_, items) => items.count(),
        });
    }
    Ok(entries)
}
