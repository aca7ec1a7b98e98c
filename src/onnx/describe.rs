//! Information about a model that does not require an import.

use super::absent::{ABSENT, Absent};
use super::doubles::{AsFloat32, as_float32};
use super::error::{Result, Unsupported};
use super::graph::Node;
use super::import::{Imported, PROBES, Request, check, import};
use super::model::{Dimension, Metadata, Model, ValueInfo};
use super::registry::entries;
use super::sizes::check_names;
use super::tensor::TensorRecord;
use crate::dimension::{Dim, Tape, numbers};
use crate::ir::Builder;
use crate::shape::MAX_VALUE_BYTES;
use serde::Serialize;
use std::collections::BTreeMap;

/// Inputs, outputs and metadata of a model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface<'a> {
    /// The inputs that a caller provides.
    pub inputs: Vec<&'a ValueInfo>,
    /// The inputs that a caller may provide.
    pub optional_inputs: Vec<&'a ValueInfo>,
    /// The outputs.
    pub outputs: &'a [ValueInfo],
    /// The metadata.
    pub metadata: &'a Metadata,
    /// What is computed in float32 although the file says double.
    pub computed_as_float32: AsFloat32,
}

/// Everything known about a model without building it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection<'a> {
    /// Inputs, outputs and metadata.
    #[serde(flatten)]
    pub interface: Interface<'a>,
    /// Number of nodes per operator, including nested graphs. Names are prefixed with the domain.
    pub operators: BTreeMap<String, usize>,
    /// Number of elements of all weights: initializers and values of `Constant` nodes.
    pub parameters: u64,
    /// Size of the weights in the file in bytes.
    pub parameter_bytes: u64,
    /// Unsupported nodes: those that an import refuses whatever sizes the unknown free dimensions have.
    pub unsupported: Vec<Unsupported>,
    /// The nodes where a session cuts the model because data decide sizes, branches or rounds, or because rounds are
    /// many or depend on free sizes. Further cuts after these show only when the model runs.
    pub cuts: Vec<Unsupported>,
}

/// A supported operator.
#[derive(Debug, Serialize)]
pub struct SupportedOperator {
    /// Empty for `ai.onnx`.
    pub domain: &'static str,
    /// `op_type`.
    pub operator: &'static str,
    /// Its restrictions.
    pub notes: &'static str,
}

/// Every supported operator, in alphabetical order of domain and name.
pub fn supported_operators() -> Vec<SupportedOperator> {
    let mut all: Vec<_> = entries()
        .map(|entry| SupportedOperator { domain: entry.domain, operator: entry.name, notes: entry.notes })
        .collect();
    all.sort_by_key(|entry| (entry.domain, entry.operator));
    all
}

/// An operator that is known and has no translation.
#[derive(Debug, Serialize)]
pub struct AbsentOperator {
    /// Empty for `ai.onnx`.
    pub domain: &'static str,
    /// `op_type`.
    pub operator: &'static str,
    /// For people.
    pub reason: &'static str,
}

/// Every operator that is known and has no translation, in alphabetical order of domain and name.
pub fn absent_operators() -> Vec<AbsentOperator> {
    let each = |absent: &'static Absent| {
        let Absent { domain, operators, reason } = absent;
        operators.iter().map(|operator| AbsentOperator { domain, operator, reason })
    };
    let mut all: Vec<_> = ABSENT.iter().flat_map(each).collect();
    all.sort_by_key(|entry| (entry.domain, entry.operator));
    all
}

/// Inputs, outputs and metadata of `model`.
pub fn interface(model: &Model) -> Interface<'_> {
    let computed_as_float32 = as_float32(model);
    let optional_inputs = model.optional_inputs().collect();
    let inputs = model.free_inputs().collect();
    let (outputs, metadata) = (&model.graph().outputs, &model.metadata);
    Interface { inputs, optional_inputs, outputs, metadata, computed_as_float32 }
}

/// Derives the shapes of the outputs from those of the inputs, in the order of the request; `None` if that is
/// impossible. `builder` holds the operands of the request, and remains unchanged.
pub fn output_shapes(model: &Model, builder: &mut Builder, request: &Request) -> Option<Vec<Vec<Dimension>>> {
    let sizes = OpenSizes::of(model, request);
    let unknown = || Dimension::Free(String::new());
    let mut inferred = |numbers: Vec<i64>| -> Option<Vec<Vec<Dimension>>> {
        let (imported, tape) = sizes.import(model, builder, request, &numbers);
        let dimension = |&dim: &Dim| match tape.free(dim) {
            Some(at) => sizes.names[at].1.clone(),
            None if dim.is_number() => Dimension::Fixed(dim.get()),
            None => unknown(),
        };
        let imported = imported.ok().filter(|imported| imported.rest.is_none())?;
        Some(imported.outputs.iter().map(|output| output.descriptor.shape.iter().map(dimension).collect()).collect())
    };
    let count = sizes.names.len();
    let mut shapes = inferred(vec![16; count])?;
    let others = inferred(vec![24; count])?;
    // If two sizes broadcast, the result may have either.
    let different = inferred((0..count).map(|at| 30 + 7 * at as i64).collect());
    let different: Vec<Dimension> = different.into_iter().flatten().flatten().collect();
    for (at, (dimension, other)) in shapes.iter_mut().flatten().zip(others.iter().flatten()).enumerate() {
        let is_sure = match dimension {
            // A number that holds for one size only does not count.
            Dimension::Fixed(_) => dimension == other,
            Dimension::Free(_) => different.get(at).is_some_and(|different| dimension == different),
        };
        if !is_sure {
            *dimension = unknown();
        }
    }
    Some(shapes)
}

/// The sizes of inputs that a request leaves open.
struct OpenSizes<'m> {
    /// The inputs without a binding.
    inputs: Vec<&'m ValueInfo>,
    /// The names of the free dimensions, and how the file declares them.
    names: Vec<(&'m String, &'m Dimension)>,
}

impl<'m> OpenSizes<'m> {
    fn of(model: &'m Model, request: &Request) -> OpenSizes<'m> {
        let is_open = |input: &&ValueInfo| !request.bindings.contains_key(&input.name);
        let inputs: Vec<_> = model.free_inputs().filter(is_open).collect();
        let mut names: Vec<(&String, &Dimension)> = Vec::new();
        for input in &inputs {
            let declared = input.declared_shape.iter().flatten();
            for (dimension, declared) in input.shape.iter().flatten().zip(declared) {
                if let Dimension::Free(name) = dimension
                    && !request.free_dimensions.contains_key(name)
                    && !names.iter().any(|(known, _)| *known == name)
                {
                    names.push((name, declared));
                }
            }
        }
        OpenSizes { inputs, names }
    }

    /// Imports `model` for free sizes with these values, one for each name. `builder` remains unchanged.
    fn import(
        &self,
        model: &Model,
        builder: &mut Builder,
        request: &Request,
        sizes: &[i64],
    ) -> (Result<Imported>, Tape) {
        let before = builder.checkpoint();
        let recorded = Tape::record(sizes, |free| {
            let dim = |dimension: &Dimension| match dimension {
                Dimension::Fixed(size) => Dim::from(*size),
                Dimension::Free(name) => match self.names.iter().position(|(known, _)| *known == name) {
                    Some(at) => free[at],
                    None => Dim::from(request.free_dimensions[name]),
                },
            };
            let shape =
                |input: &&ValueInfo| Some((input.name.clone(), input.shape.as_ref()?.iter().map(dim).collect()));
            let dims: BTreeMap<String, Vec<Dim>> = self.inputs.iter().filter_map(shape).collect();
            let shapes = dims.iter().map(|(name, dims)| (name.clone(), numbers(dims))).collect();
            import(model, builder, &Request { shapes, dims, ..request.clone() })
        });
        builder.roll_back(before);
        recorded
    }
}

/// Inspects `model` for these sizes of free dimensions.
///
/// # Errors
/// If it is damaged. Missing sizes are not an error: only nodes that no size makes possible are then unsupported.
pub fn inspect(model: &Model, free_dimensions: BTreeMap<String, u32>) -> Result<Inspection<'_>> {
    model.files.check()?;
    check_names(&model.graph().inputs, &free_dimensions)?;
    let counts = Counts::of(model)?;
    let request = Request { free_dimensions, may_cut: true, ..Request::default() };
    let mut builder = Builder::with_limit(MAX_VALUE_BYTES);
    let outcome = match import(model, &mut builder, &request) {
        Err(error) if error.unsupported.is_empty() => {
            // As sessions do: a loop with a round for each row is left where the number of rows is free.
            let sizes = OpenSizes::of(model, &request);
            let values = vec![i64::from(PROBES[0]); sizes.names.len()];
            match sizes.import(model, &mut builder, &request, &values).0 {
                Ok(imported) => Ok(imported.rest),
                // Numbers may be possible.
                Err(_) => check(model, &mut builder, &request),
            }
        }
        outcome => outcome.map(|imported| imported.rest),
    };
    let (cuts, unsupported) = match outcome {
        Ok(rest) => (rest.map_or(Vec::new(), |rest| rest.cuts()), Vec::new()),
        Err(error) => (Vec::new(), error.unsupported),
    };
    let Counts { operators, parameters, parameter_bytes } = counts;
    Ok(Inspection { interface: interface(model), operators, parameters, parameter_bytes, unsupported, cuts })
}

#[derive(Default)]
struct Counts {
    operators: BTreeMap<String, usize>,
    parameters: u64,
    parameter_bytes: u64,
}

impl Counts {
    fn of(model: &Model) -> Result<Counts> {
        let mut counts = Counts::default();
        for tensor in model.arena.initializers() {
            counts.weights(tensor.elements(), tensor.byte_length());
        }
        for node in model.arena.nodes() {
            counts.node(node)?;
        }
        Ok(counts)
    }

    fn weights(&mut self, elements: usize, bytes: usize) {
        self.parameters += elements as u64;
        self.parameter_bytes += bytes as u64;
    }

    fn node(&mut self, node: Node) -> Result<()> {
        let operator = node.operator();
        let separator = if operator.domain.is_empty() { "" } else { "." };
        *self.operators.entry(format!("{}{separator}{}", operator.domain, operator.name)).or_default() += 1;
        match operator.is("Constant") {
            true => self.constant(node),
            false => Ok(()),
        }
    }

    /// Counts the value of a `Constant` node.
    fn constant(&mut self, node: Node) -> Result<()> {
        for attribute in node.attributes() {
            let (elements, size) = match attribute.name.as_str() {
                "value" => {
                    let tensor = attribute.t.as_ref().map(TensorRecord::decode).transpose()?;
                    tensor.iter().for_each(|tensor| self.weights(tensor.elements(), tensor.byte_length()));
                    continue;
                }
                "value_float" => (1, size_of::<f32>()),
                "value_floats" => (attribute.floats.len(), size_of::<f32>()),
                "value_int" => (1, size_of::<i64>()),
                "value_ints" => (attribute.ints.len(), size_of::<i64>()),
                _ => continue,
            };
            self.weights(elements, elements * size);
        }
        Ok(())
    }
}
