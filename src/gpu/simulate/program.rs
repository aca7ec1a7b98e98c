//! A parsed kernel, and the layout of its expressions' values at run time.

use super::arithmetic::Scalar;
use super::fault::{Checked, Kind, fault};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use wgpu::naga::proc::Layouter;
use wgpu::naga::valid::{Capabilities, FunctionInfo, ModuleInfo, ShaderStages, SubgroupOperationSet};
use wgpu::naga::valid::{ValidationFlags, Validator};
use wgpu::naga::{
    self, AddressSpace, Arena, ArraySize, Expression, Handle, Literal, Module, StorageAccess, Type, TypeInner,
};

/// A scalar of a type, with its byte offset.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub offset: usize,
    pub scalar: Scalar,
}

/// Where an expression's value is in a frame.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Offset in scalars of one invocation.
    pub offset: usize,
    /// Number of scalars. A pointer has one: a byte offset.
    pub width: usize,
    /// The type of the expression.
    pub inner: TypeInner,
    /// The scalars of the value, or of a pointer's target if its length is not only known at run time.
    pub fields: Rc<[Field]>,
}

impl Slot {
    /// The type of the scalars, if they are all the same.
    pub fn scalar(&self) -> Scalar {
        self.fields[0].scalar
    }

    pub fn is_pointer(&self) -> bool {
        matches!(self.inner, TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. })
    }
}

/// A variable of a function.
pub struct Local {
    pub name: String,
    pub size: usize,
    pub fields: Rc<[Field]>,
    /// The initial scalars.
    pub start: Vec<u64>,
}

/// A function.
pub struct Function {
    handle: Option<Handle<naga::Function>>,
    /// The place of each expression.
    pub slots: Vec<Slot>,
    /// Number of scalars of all expressions, per invocation.
    pub width: usize,
    pub locals: Vec<Local>,
    /// Expressions with the same value in every run of the function.
    pub constants: Vec<(Handle<Expression>, Vec<u64>)>,
    /// Expressions that are arguments, with the arguments' indices.
    pub arguments: Vec<(Handle<Expression>, usize)>,
    /// Number of scalars of the result.
    pub result: usize,
}

/// A variable outside of functions.
pub struct Global {
    pub name: String,
    pub space: AddressSpace,
    pub binding: Option<usize>,
    pub ty: Handle<Type>,
    /// Size in bytes; for a length that is only known at run time, the size of the first element.
    pub size: usize,
    pub fields: Rc<[Field]>,
    pub start: Vec<u64>,
    /// Size of the smallest scalar in bytes.
    pub grain: usize,
    /// Whether kernels only read it.
    pub is_constant: bool,
}

/// A kernel.
pub struct Program {
    pub module: Module,
    /// The functions of the module, then the entry point.
    pub functions: Vec<Function>,
    pub globals: Vec<Global>,
    /// Size of a workgroup along x, y and z.
    pub workgroup: [u32; 3],
    /// The worst conflict between banks so far, by variable of workgroup memory.
    pub conflicts: RefCell<BTreeMap<String, usize>>,
}

impl Program {
    /// Parses and validates a kernel.
    ///
    /// # Panics
    /// If the source is not valid WGSL.
    pub fn new(name: &str, source: &str) -> Checked<Program> {
        let module = naga::front::wgsl::parse_str(source)
            .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
        validator.subgroup_stages(ShaderStages::all()).subgroup_operations(SubgroupOperationSet::all());
        let info =
            validator.validate(&module).unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
        let mut layouter = Layouter::default();
        layouter.update(module.to_ctx()).expect("validated");
        let mut compiler = Compiler { module: &module, layouter, fields: HashMap::new() };
        let (functions, globals) = compiler.compile(&info)?;
        let workgroup = module.entry_points[0].workgroup_size;
        Ok(Program { functions, globals, workgroup, module, conflicts: RefCell::default() })
    }

    /// naga's representation of a function.
    pub fn function(&self, index: usize) -> &naga::Function {
        match self.functions[index].handle {
            Some(handle) => &self.module.functions[handle],
            None => &self.module.entry_points[0].function,
        }
    }

    /// Invocations per workgroup.
    pub fn lanes(&self) -> usize {
        self.workgroup.iter().product::<u32>() as usize
    }
}

struct Compiler<'m> {
    module: &'m Module,
    layouter: Layouter,
    fields: HashMap<Handle<Type>, Rc<[Field]>>,
}

impl Compiler<'_> {
    fn compile(&mut self, info: &ModuleInfo) -> Checked<(Vec<Function>, Vec<Global>)> {
        let module = self.module;
        let mut functions = Vec::new();
        for (handle, function) in module.functions.iter() {
            functions.push(self.function(Some(handle), function, &info[handle])?);
        }
        let [entry] = module.entry_points.as_slice() else {
            return fault(Kind::Unknown, "a kernel has one entry point");
        };
        functions.push(self.function(None, &entry.function, info.get_entry_point(0))?);
        let mut globals = Vec::new();
        for (_, global) in module.global_variables.iter() {
            globals.push(self.global(global)?);
        }
        Ok((functions, globals))
    }

    fn global(&mut self, global: &naga::GlobalVariable) -> Checked<Global> {
        let fields = self.fields_of(global.ty)?;
        let element = match self.module.types[global.ty].inner {
            TypeInner::Array { base, size: ArraySize::Dynamic, .. } => self.fields_of(base)?,
            _ => fields.clone(),
        };
        let start = match global.init {
            Some(init) => self.start(&self.module.global_expressions, init)?,
            None => vec![0; fields.len()],
        };
        Ok(Global {
            name: global.name.clone().unwrap_or_default(),
            space: global.space,
            binding: global.binding.map(|binding| binding.binding as usize),
            ty: global.ty,
            size: self.layouter[global.ty].size as usize,
            start,
            grain: element.iter().map(|field| field.scalar.bytes()).min().unwrap_or(1),
            fields,
            is_constant: match global.space {
                AddressSpace::Storage { access } => !access.contains(StorageAccess::STORE),
                space => matches!(space, AddressSpace::Uniform | AddressSpace::Immediate),
            },
        })
    }

    fn function(
        &mut self,
        handle: Option<Handle<naga::Function>>,
        function: &naga::Function,
        info: &FunctionInfo,
    ) -> Checked<Function> {
        let (mut slots, mut constants, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        let mut offset = 0;
        for (expression, what) in function.expressions.iter() {
            let inner = info[expression].ty.inner_with(&self.module.types).clone();
            let (fields, width) = match &inner {
                TypeInner::Pointer { base, .. } => (self.fields_of(*base)?, 1),
                TypeInner::ValuePointer { size, scalar, .. } => {
                    (fields_of_vector(*scalar, size.map_or(1, |size| size as usize))?, 1)
                }
                inner => {
                    let fields = self.fields_of_inner(inner)?;
                    let width = fields.len();
                    (fields, width)
                }
            };
            slots.push(Slot { offset, width, inner, fields });
            offset += width;
            if let Expression::FunctionArgument(index) = *what {
                arguments.push((expression, index as usize));
            }
            if let Some(value) = self.constant(&function.expressions, expression) {
                constants.push((expression, value));
            }
        }
        let mut locals = Vec::new();
        for (_, local) in function.local_variables.iter() {
            let fields = self.fields_of(local.ty)?;
            let start = match local.init {
                Some(init) => self.start(&function.expressions, init)?,
                None => vec![0; fields.len()],
            };
            let name = local.name.clone().unwrap_or_default();
            locals.push(Local { name, size: self.layouter[local.ty].size as usize, fields, start });
        }
        let result = match &function.result {
            Some(result) => self.fields_of(result.ty)?.len(),
            None => 0,
        };
        Ok(Function { handle, slots, width: offset, locals, constants, arguments, result })
    }

    /// The initial scalars of a variable.
    fn start(&mut self, arena: &Arena<Expression>, init: Handle<Expression>) -> Checked<Vec<u64>> {
        match self.constant(arena, init) {
            Some(value) => Ok(value),
            None => fault(Kind::Unknown, format!("{:?} as the start of a variable", arena[init])),
        }
    }

    /// The scalars of a constant expression.
    fn constant(&mut self, arena: &Arena<Expression>, expression: Handle<Expression>) -> Option<Vec<u64>> {
        let module = self.module;
        Some(match &arena[expression] {
            Expression::Literal(literal) => vec![bits_of(literal)?],
            Expression::Constant(constant) => {
                self.constant(&module.global_expressions, module.constants[*constant].init)?
            }
            Expression::ZeroValue(ty) => vec![0; self.fields_of(*ty).ok()?.len()],
            Expression::Compose { components, .. } => {
                let parts: Option<Vec<_>> = components.iter().map(|&part| self.constant(arena, part)).collect();
                parts?.concat()
            }
            Expression::Splat { size, value } => vec![self.constant(arena, *value)?[0]; *size as usize],
            _ => return None,
        })
    }

    /// The scalars of a type; none if their number is only known at run time.
    fn fields_of(&mut self, ty: Handle<Type>) -> Checked<Rc<[Field]>> {
        if let Some(fields) = self.fields.get(&ty) {
            return Ok(fields.clone());
        }
        let fields = self.fields_of_inner(&self.module.types[ty].inner)?;
        self.fields.insert(ty, fields.clone());
        Ok(fields)
    }

    fn fields_of_inner(&mut self, inner: &TypeInner) -> Checked<Rc<[Field]>> {
        let moved = |fields: &[Field], by: usize| -> Vec<Field> {
            fields.iter().map(|field| Field { offset: field.offset + by, ..*field }).collect()
        };
        Ok(match inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => fields_of_vector(*scalar, 1)?,
            TypeInner::Vector { size, scalar } => fields_of_vector(*scalar, *size as usize)?,
            TypeInner::Array { size: ArraySize::Dynamic, .. } => Rc::from([]),
            TypeInner::Array { base, size: ArraySize::Constant(count), stride } => {
                let element = self.fields_of(*base)?;
                (0..count.get() as usize).flat_map(|i| moved(&element, i * *stride as usize)).collect()
            }
            TypeInner::Struct { members, .. } => {
                let mut fields = Vec::new();
                for member in members {
                    fields.extend(moved(&self.fields_of(member.ty)?, member.offset as usize));
                }
                fields.into()
            }
            other => return fault(Kind::Unknown, format!("the type {other:?}")),
        })
    }
}

fn fields_of_vector(scalar: naga::Scalar, size: usize) -> Checked<Rc<[Field]>> {
    match Scalar::of(scalar) {
        Some(known) => Ok((0..size).map(|i| Field { offset: i * scalar.width as usize, scalar: known }).collect()),
        None => fault(Kind::Unknown, format!("the type {scalar:?}")),
    }
}

fn bits_of(literal: &Literal) -> Option<u64> {
    Some(match *literal {
        Literal::F32(x) => x.to_bits().into(),
        Literal::F16(x) => x.to_bits().into(),
        Literal::U32(x) => x.into(),
        Literal::I32(x) => x as u32 as u64,
        Literal::U64(x) => x,
        Literal::I64(x) => x as u64,
        Literal::Bool(x) => x as u64,
        _ => return None,
    })
}
