//! Vector instruction sets: detected once, proved by witnesses, used through [`Simd`] and [`Kernel`].
//!
//! A value of a witness type ([`Portable`], `Avx2`, `Avx512`, `Neon`) exists only on a CPU that has the instructions.
//! [`Isa`] carries the witness: code that holds an `Isa` may run vector code with it.
//!
//! [`Isa::run`] enters a function compiled for the level and calls [`Kernel::run`] there. All `#[inline(always)]`
//! functions below it are compiled for the level too, which also vectorizes plain scalar loops over slices with the
//! level's registers. A function that is *not* inlined is compiled for the base architecture: correct, but slow.

/// Defines `enter`, which runs a kernel in a function compiled for the CPU features that values of the type prove.
macro_rules! enter {
    ($Level:ty, $Kernel:path, $features:literal) => {
        impl $Level {
            /// Runs `kernel` compiled for this level.
            #[inline]
            pub(in crate::cpu) fn enter<K: $Kernel>(self, kernel: K) -> K::Output {
                #[target_feature(enable = $features)]
                fn call<K: $Kernel>(level: $Level, kernel: K) -> K::Output {
                    kernel.run(level)
                }
                // SAFETY: `self` proves that the CPU has the features.
                unsafe { call(self, kernel) }
            }
        }
    };
}
#[cfg(target_arch = "aarch64")]
pub(in crate::cpu) use enter;

/// Methods of a witness that are one expression: each compiles to a few instructions, which compute, or prefetch.
/// Unsafe ones may also access the memory that the trait says.
macro_rules! operations {
    () => {};
    (
        fn $name:ident $(<const $N:ident: $Number:ty>)? ($($arg:tt: $Type:ty),*) $(-> $Out:ty)? = $body:expr;
        $($rest:tt)*
    ) => {
        #[inline(always)]
        fn $name $(<const $N: $Number>)? (self, $($arg: $Type),*) $(-> $Out)? {
            // SAFETY: `self` proves the CPU's features.
            unsafe { $body }
        }
        operations! { $($rest)* }
    };
    (
        unsafe fn $name:ident $(<$(const $N:ident: $Number:ty),*>)? ($($arg:tt: $Type:ty),*) $(-> $Out:ty)? =
            $body:expr;
        $($rest:tt)*
    ) => {
        #[inline(always)]
        unsafe fn $name $(<$(const $N: $Number),*>)? (self, $($arg: $Type),*) $(-> $Out)? {
            // SAFETY: `self` proves the CPU's features; the caller guarantees the memory that the trait says.
            unsafe { $body }
        }
        operations! { $($rest)* }
    };
}

/// `number` of the eight numbers of 4 bits in each of `words`, shifted to the lowest bits: those in the lower halves of
/// bytes, then the others.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! each_nibble {
    ($words:ident, $shift:ident, $number:ident) => {
        [
            $number($words),
            $number($shift::<8>($words)),
            $number($shift::<16>($words)),
            $number($shift::<24>($words)),
            $number($shift::<4>($words)),
            $number($shift::<12>($words)),
            $number($shift::<20>($words)),
            $number($shift::<28>($words)),
        ]
    };
}

pub mod angles;
pub mod dot;
pub mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::error::{Error, ErrorKind, Result};
use half::f16;
use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// The environment variable that forces a level: one of the names returned by [`Isa::name`].
pub const ISA_VARIABLE: &str = "WEBNN_ISA";

/// A level of vector instructions that this CPU has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// The baseline of the architecture. Multiply and add round separately.
    Portable,
    /// AVX2, FMA, F16C and BMI2: 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F, VL, BW and DQ on top of [`Avx2`](Isa::Avx2): 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// NEON: 4 lanes with fused multiply-add.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Isa {
    /// The level for this process, determined by the first call: the best one of the CPU, or the one named by the
    /// environment variable `WEBNN_ISA`.
    ///
    /// # Errors
    /// `NotSupported` if the variable holds anything but the name of an available level.
    pub fn detect() -> Result<Isa> {
        static DETECTED: OnceLock<Result<Isa>> = OnceLock::new();
        DETECTED
            .get_or_init(|| match std::env::var_os(ISA_VARIABLE).filter(|name| !name.is_empty()) {
                Some(name) => Isa::from_name(&name.to_string_lossy()),
                None => Ok(Isa::best()),
            })
            .clone()
    }

    /// The best level of this CPU.
    pub fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable)
    }

    /// Every level of this CPU, the best one last. Tests run on all of them.
    pub fn available() -> Vec<Isa> {
        let levels = [
            Some(Isa::Portable),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Isa::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Isa::Avx512),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(Isa::Neon),
        ];
        levels.into_iter().flatten().collect()
    }

    /// The available level with this name.
    ///
    /// # Errors
    /// `NotSupported`, with the names of the available levels.
    pub fn from_name(name: &str) -> Result<Isa> {
        let available = Isa::available();
        available.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| {
            let names = available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
            Error::new(
                ErrorKind::NotSupported,
                format!("{ISA_VARIABLE} is {name:?}, expected an instruction set of this CPU: {names}"),
            )
        })
    }

    /// The name used in `WEBNN_ISA` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "neon",
        }
    }

    /// Number of `f32` in one vector of this level: [`Simd::LANES`].
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Kernel for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> usize {
                S::LANES
            }
        }
        self.run(Lanes)
    }

    /// Runs `kernel` in a function compiled for this level.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Isa::Portable => kernel.run(Portable),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => simd.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => simd.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(simd) => simd.enter(kernel),
        }
    }
}

/// The listed features that the CPU has, by name.
macro_rules! detected {
    ($detect:ident: $($feature:tt)*) => {
        [$(($feature, std::arch::$detect!($feature)),)*].into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    };
}

/// The features of this CPU that matter for neural networks, by their Rust names. [`Isa`] determines which of them are
/// used.
#[cfg(target_arch = "x86_64")]
pub fn features() -> Vec<&'static str> {
    detected!(is_x86_feature_detected:
        "sse4.2" "avx" "avx2" "fma" "f16c" "bmi2" "avxvnni" "avx512f" "avx512vl" "avx512bw" "avx512dq" "avx512vnni"
        "avx512bf16" "avx512fp16")
}

/// The features of this CPU that matter for neural networks, by their Rust names. [`Isa`] determines which of them are
/// used.
#[cfg(target_arch = "aarch64")]
pub fn features() -> Vec<&'static str> {
    detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2")
}

/// The features of this CPU that matter for neural networks: none are known for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn features() -> Vec<&'static str> {
    Vec::new()
}

/// The most floats that a vector of any level has.
pub const MAX_LANES: usize = 16;

/// The bytes of a bfloat16: the upper half of a float32.
pub type Bfloat16 = [u8; 2];

/// The number as float32.
#[inline(always)]
pub fn widen_bfloat16([low, high]: Bfloat16) -> f32 {
    f32::from_le_bytes([0, 0, low, high])
}

/// Whether sequential reads from large pages need software prefetch.
///
/// Zen 4 prefetches by itself, and prefetch instructions cost time: the products of one token of a model with 8-bit
/// weights take 5.4 ms without them and 8.3 ms with them (28 vs. 18 GB/s, one thread); with 4-bit weights and 8-bit
/// rows, 3.1 vs. 3.4 ms. Zen 5 took 7.3 ms without and 4.3 ms with them, for 4-bit weights in small pages. Zen 4 is the
/// only CPU with bfloat16 and GFNI but without AVX-VNNI.
#[cfg(target_arch = "x86_64")]
pub fn needs_prefetch() -> bool {
    !(is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("gfni")
        && !is_x86_feature_detected!("avxvnni"))
}

/// Whether sequential reads from large pages need software prefetch. Not measured on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn needs_prefetch() -> bool {
    true
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Code that is compiled once per level. Mark `run` and all performance-critical functions below it `#[inline(always)]`.
pub trait Kernel {
    /// The kernel's return type.
    type Output;
    /// Does the work, with the witness of the level it is compiled for.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The vector operations of one level. Values of the implementing types are witnesses: they prove that the CPU has the
/// instructions. The methods compile to single instructions only inside [`Isa::run`].
///
/// # Safety
/// A vector has exactly [`LANES`](Simd::LANES) floats, at most [`MAX_LANES`], and no method accesses memory beyond what it
/// documents: kernels check the ends of their slices by these numbers.
pub unsafe trait Simd: Copy + Send + Sync + 'static {
    /// Number of `f32` per vector.
    const LANES: usize;
    /// Number of vector registers, for kernels that choose a tile size.
    const REGISTERS: usize;
    /// Whether multiplying by a lane costs no more than multiplying by a vector, for kernels that otherwise load each
    /// factor to all lanes.
    const MULTIPLIES_BY_LANE: bool = false;
    /// Whether there is a fused multiply-add.
    const FUSES: bool = true;
    /// A vector of [`LANES`](Simd::LANES) floats.
    type F32: Copy;

    /// A vector with `x` in all lanes.
    fn splat(self, x: f32) -> Self::F32;

    /// Loads the `LANES` floats at `from`, at any alignment.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` floats.
    unsafe fn load_ptr(self, from: *const f32) -> Self::F32;

    /// Writes the `LANES` floats of `v` to `to`, at any alignment.
    ///
    /// # Safety
    /// `to` must be valid for writes of `LANES` floats.
    unsafe fn store_ptr(self, v: Self::F32, to: *mut f32);

    /// Loads the first `min(len, LANES)` floats of `from`; the other lanes are 0. Reads nothing beyond them.
    fn load_partial(self, from: &[f32]) -> Self::F32;

    /// Writes the first `min(len, LANES)` lanes to `to`, and nothing beyond.
    fn store_partial(self, v: Self::F32, to: &mut [f32]);

    /// Loads the first `count` floats at `from`, at most `LANES`; the other lanes are 0. Reads nothing beyond them.
    ///
    /// # Safety
    /// `from` must be valid for reads of `count` floats.
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::F32 {
        match count {
            // SAFETY: by the contract.
            _ if count == Self::LANES => unsafe { self.load_ptr(from) },
            // SAFETY: by the contract.
            _ => self.load_partial(unsafe { std::slice::from_raw_parts(from, count) }),
        }
    }

    /// Writes the first `count` lanes, at most `LANES`, to `to`, and nothing beyond.
    ///
    /// # Safety
    /// `to` must be valid for writes of `count` floats.
    #[inline(always)]
    unsafe fn store_first(self, v: Self::F32, to: *mut f32, count: usize) {
        match count {
            // SAFETY: by the contract.
            _ if count == Self::LANES => unsafe { self.store_ptr(v, to) },
            // SAFETY: by the contract.
            _ => self.store_partial(v, unsafe { std::slice::from_raw_parts_mut(to, count) }),
        }
    }

    /// Prefetches the cache line at `address`, which may be any address, to the second-level cache. Reads nothing.
    #[inline(always)]
    fn prefetch_l2(self, _address: *const f32) {}

    /// `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// `a * b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// `a * b + c`, rounded once if the level has fused multiply-add.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;

    /// `a * b + c`, like [`mul_add`](Self::mul_add), with lane `LANE` of `a`, 0 to 3, in place of each of its lanes.
    #[inline(always)]
    fn mul_add_lane<const LANE: i32>(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        let mut lanes = [0.0; MAX_LANES];
        self.store(a, &mut lanes);
        self.mul_add(self.splat(lanes[LANE as usize]), b, c)
    }

    /// The larger lane of each pair; if either is NaN, the lane of `b`.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// The smaller lane of each pair; if either is NaN, the lane of `b`.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// Prefetches the cache line at `address`, which may be any address, to the first-level cache. Reads nothing.
    #[inline(always)]
    fn prefetch(self, _address: *const f32) {}

    /// The lanes of `a` and then `b` with even numbers, and those with odd ones.
    #[inline(always)]
    fn evens_and_odds(self, a: Self::F32, b: Self::F32) -> [Self::F32; 2] {
        let (mut lanes, mut halves) = ([0.0; 2 * MAX_LANES], [[0.0; MAX_LANES]; 2]);
        self.store(a, &mut lanes);
        self.store(b, &mut lanes[Self::LANES..]);
        for i in 0..Self::LANES {
            halves[0][i] = lanes[2 * i];
            halves[1][i] = lanes[2 * i + 1];
        }
        halves.map(|half| self.load(&half))
    }

    /// The first `count` lanes of `v`, and the others of `other`.
    #[inline(always)]
    fn lanes_before(self, count: usize, v: Self::F32, other: Self::F32) -> Self::F32 {
        let (mut lanes, mut others) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
        self.store(v, &mut lanes);
        self.store(other, &mut others);
        for i in 0..Self::LANES {
            others[i] = if i < count { lanes[i] } else { others[i] };
        }
        self.load(&others)
    }

    /// `LANES` lanes of `a` and then `b` from number `from` on, 0 to `LANES`.
    #[inline(always)]
    fn lanes_from(self, from: usize, a: Self::F32, b: Self::F32) -> Self::F32 {
        let mut lanes = [0.0; 2 * MAX_LANES];
        self.store(a, &mut lanes);
        self.store(b, &mut lanes[Self::LANES..]);
        self.load(&lanes[from.min(Self::LANES)..])
    }

    /// `a * b + c`, rounded once if the level has fused multiply-add. Scalar loops that use it vectorize, and never
    /// call into the C library.
    fn mul_add_scalar(self, a: f32, b: f32, c: f32) -> f32;

    /// Loads the first `LANES` floats of `from`.
    ///
    /// # Panics
    /// If `from` is shorter.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::F32 {
        let from = &from[..Self::LANES];
        // SAFETY: the slice holds exactly `LANES` floats.
        unsafe { self.load_ptr(from.as_ptr()) }
    }

    /// Writes all lanes to the start of `to`.
    ///
    /// # Panics
    /// If `to` is shorter than `LANES`.
    #[inline(always)]
    fn store(self, v: Self::F32, to: &mut [f32]) {
        let to = &mut to[..Self::LANES];
        // SAFETY: the slice holds exactly `LANES` floats.
        unsafe { self.store_ptr(v, to.as_mut_ptr()) }
    }

    /// Loads the first `LANES` half floats of `from`, widened.
    ///
    /// # Panics
    /// If `from` is shorter.
    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> Self::F32 {
        let mut lanes = [0.0; MAX_LANES];
        for (lane, &x) in lanes.iter_mut().zip(&from[..Self::LANES]) {
            *lane = widen(x);
        }
        self.load(&lanes)
    }

    /// Loads the `LANES` numbers at `from`, widened.
    ///
    /// # Safety
    /// `from` must be valid for reads of `LANES` numbers.
    #[inline(always)]
    unsafe fn load_bfloat16(self, from: *const Bfloat16) -> Self::F32 {
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: by the contract.
        let numbers = unsafe { std::slice::from_raw_parts(from, Self::LANES) };
        lanes.iter_mut().zip(numbers).for_each(|(lane, number)| *lane = widen_bfloat16(*number));
        self.load(&lanes)
    }

    /// Writes all lanes, rounded to the nearest half float, to the start of `to`.
    ///
    /// # Panics
    /// If `to` is shorter than `LANES`.
    #[inline(always)]
    fn store_f16(self, v: Self::F32, to: &mut [f16]) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        for (x, &lane) in to[..Self::LANES].iter_mut().zip(&lanes) {
            *x = f16::from_f32(lane);
        }
    }

    /// The 8 unsigned 4-bit numbers in each of `LANES` 32-bit words at `from`, minus `zero`, a whole number up to 255.
    /// The numbers in the low halves of the bytes come first. `SAME` means that all lanes of `zero` are equal.
    ///
    /// # Safety
    /// `from` must be valid for reads of `4 * LANES` bytes.
    #[inline(always)]
    unsafe fn nibbles<const SAME: bool>(self, from: *const u8, zero: Self::F32) -> [Self::F32; 8] {
        let mut numbers = [[0.0; MAX_LANES]; 8];
        for lane in 0..Self::LANES {
            // SAFETY: by the contract.
            let word = unsafe { from.add(4 * lane).cast::<[u8; 4]>().read() };
            let (low, high) = numbers.split_at_mut(4);
            word.iter().zip(low).for_each(|(byte, numbers)| numbers[lane] = (byte & 15) as f32);
            word.iter().zip(high).for_each(|(byte, numbers)| numbers[lane] = (byte >> 4) as f32);
        }
        let less = self.mul(zero, self.splat(-1.0));
        let mut vectors = [self.splat(0.0); 8];
        for index in 0..8 {
            vectors[index] = self.add(self.load(&numbers[index]), less);
        }
        vectors
    }

    /// The numbers of `table` whose places are the 8 unsigned 4-bit numbers in each of `LANES` 32-bit words at `from`,
    /// in the order of [`nibbles`](Self::nibbles).
    ///
    /// # Safety
    /// `from` must be valid for reads of `4 * LANES` bytes.
    #[inline(always)]
    unsafe fn looked_up(self, from: *const u8, table: &[f32; 16]) -> [Self::F32; 8] {
        let mut numbers = [[0.0; MAX_LANES]; 8];
        for lane in 0..Self::LANES {
            // SAFETY: by the contract.
            let word = unsafe { from.add(4 * lane).cast::<[u8; 4]>().read() };
            let (low, high) = numbers.split_at_mut(4);
            word.iter().zip(low).for_each(|(byte, numbers)| numbers[lane] = table[(byte & 15) as usize]);
            word.iter().zip(high).for_each(|(byte, numbers)| numbers[lane] = table[(byte >> 4) as usize]);
        }
        let mut vectors = [self.splat(0.0); 8];
        for (vector, numbers) in vectors.iter_mut().zip(&numbers) {
            *vector = self.load(numbers);
        }
        vectors
    }

    /// The 4 unsigned bytes in each of `LANES` 32-bit words at `from`, minus `zero`, a whole number up to 255.
    ///
    /// # Safety
    /// `from` must be valid for reads of `4 * LANES` bytes.
    #[inline(always)]
    unsafe fn bytes(self, from: *const u8, zero: Self::F32) -> [Self::F32; 4] {
        let mut numbers = [[0.0; MAX_LANES]; 4];
        for lane in 0..Self::LANES {
            // SAFETY: by the contract.
            let word = unsafe { from.add(4 * lane).cast::<[u8; 4]>().read() };
            word.iter().zip(&mut numbers).for_each(|(&byte, numbers)| numbers[lane] = byte as f32);
        }
        let less = self.mul(zero, self.splat(-1.0));
        let mut vectors = [self.splat(0.0); 4];
        for index in 0..4 {
            vectors[index] = self.add(self.load(&numbers[index]), less);
        }
        vectors
    }

    /// `2^(n - 127)` of each lane, whose low 9 bits are `n`, 0 to 254; returns 0 for `n = 0`.
    #[inline(always)]
    fn power_of_two(self, v: Self::F32) -> Self::F32 {
        let mut lanes = [0.0f32; MAX_LANES];
        self.store(v, &mut lanes);
        lanes.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits() << 23));
        self.load(&lanes)
    }

    /// Transposes the first `LANES` vectors; the others become undefined.
    fn transpose(self, rows: &mut [Self::F32; MAX_LANES]);

    /// The sums of `LANES` rows of `LANES` floats, one per lane.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    fn sum_rows(self, rows: &[f32]) -> Self::F32 {
        let mut vectors = [self.splat(0.0); MAX_LANES];
        for (vector, row) in vectors.iter_mut().zip(rows.chunks_exact(Self::LANES)) {
            *vector = self.load(row);
        }
        self.transpose(&mut vectors);
        let mut sums = [vectors[0], vectors[1]];
        for pair in vectors[2..Self::LANES].chunks_exact(2) {
            sums = [self.add(sums[0], pair[0]), self.add(sums[1], pair[1])];
        }
        self.add(sums[0], sums[1])
    }

    /// The sum of all lanes, added pairwise in lane order from the halves of the vector.
    #[inline(always)]
    fn sum(self, v: Self::F32) -> f32 {
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        let mut width = Self::LANES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
        }
        lanes[0]
    }
}

/// The value of a half float, branch-free and exact: the compiler vectorizes it if there is no hardware instruction.
#[inline(always)]
pub fn widen(x: f16) -> f32 {
    let bits = (x.to_bits() & 0x7fff) as u32;
    // The factor 2^112 moves the exponent into place, for denormals too.
    let scaled = f32::from_bits(bits << 13) * f32::from_bits(0x7780_0000);
    let special = if bits >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | ((x.to_bits() & 0x8000) as u32) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Check;

    impl Kernel for Check {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let n = S::LANES;
            let a: Vec<f32> = (0..n).map(|i| i as f32 - 2.5).collect();
            let b: Vec<f32> = (0..n).map(|i| 3.0 - i as f32 * 0.5).collect();
            let (va, vb) = (simd.load(&a), simd.load(&b));
            let lanes = |v: S::F32| {
                let mut out = vec![f32::NAN; n];
                simd.store(v, &mut out);
                out
            };
            let each = |f: &dyn Fn(f32, f32) -> f32| a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>();
            assert_eq!(lanes(simd.splat(7.0)), vec![7.0; n]);
            assert_eq!(lanes(simd.add(va, vb)), each(&|a, b| a + b));
            assert_eq!(lanes(simd.mul(va, vb)), each(&|a, b| a * b));
            assert_eq!(lanes(simd.max(va, vb)), each(&f32::max));
            assert_eq!(lanes(simd.min(va, vb)), each(&f32::min));
            assert_eq!(lanes(simd.sub(va, vb)), each(&|a, b| a - b));
            assert_eq!(lanes(simd.div(va, vb)), each(&|a, b| a / b));
            assert_eq!(lanes(simd.mul_add(va, vb, va)), each(&|a, b| a * b + a));
            assert_eq!(lanes(simd.mul_add_lane::<0>(va, vb, va)), each(&|x, b| a[0] * b + x));
            assert_eq!(lanes(simd.mul_add_lane::<3>(va, vb, va)), each(&|x, b| a[3] * b + x));
            for i in 0..4000 {
                // Sums that cancel show how products are rounded.
                let (x, y) = (1.0 + i as f32 * 1.3e-3, 1157.0 - i as f32 * 0.37);
                let z = if i % 2 == 0 { -x * y } else { x / y };
                let vector = lanes(simd.mul_add(simd.splat(x), simd.splat(y), simd.splat(z)))[0];
                assert_eq!(simd.mul_add_scalar(x, y, z), vector, "{x:e} * {y:e} + {z:e}");
            }
            assert_eq!(simd.sum(va), a.iter().sum::<f32>());
            let powers: Vec<f32> = (0..n as u32).map(|i| f32::from_bits(0x4b40_0000 + i * 16)).collect();
            let wanted: Vec<f32> = (0..n as i32).map(|i| if i == 0 { 0.0 } else { 2f32.powi(i * 16 - 127) }).collect();
            assert_eq!(lanes(simd.power_of_two(simd.load(&powers))), wanted);
            let words: Vec<u8> = (0..4 * n).map(|i| (i * 37 + 11) as u8).collect();
            let less: Vec<f32> = (0..n).map(|i| i as f32 * 9.0).collect();
            let (each, same) = (simd.load(&less), simd.splat(8.0));
            // SAFETY: there are `4 * n` bytes.
            let (nibbles, lifted, bytes) = unsafe {
                let words = words.as_ptr();
                (simd.nibbles::<false>(words, each), simd.nibbles::<true>(words, same), simd.bytes(words, each))
            };
            for byte in 0..4 {
                let number = |lane: usize, high: bool| {
                    let byte = words[4 * lane + byte];
                    (if high { byte >> 4 } else { byte & 15 }) as f32
                };
                for high in [false, true] {
                    let index = byte + 4 * high as usize;
                    let each = |lane: usize| number(lane, high) - less[lane];
                    assert_eq!(lanes(nibbles[index]), (0..n).map(each).collect::<Vec<f32>>());
                    let same = |lane: usize| number(lane, high) - 8.0;
                    assert_eq!(lanes(lifted[index]), (0..n).map(same).collect::<Vec<f32>>());
                }
                let each = |lane: usize| words[4 * lane + byte] as f32 - less[lane];
                assert_eq!(lanes(bytes[byte]), (0..n).map(each).collect::<Vec<f32>>());
            }
            let rows: Vec<f32> = (0..n * n).map(|i| (i * 7 % 11) as f32).collect();
            assert_eq!(lanes(simd.sum_rows(&rows)), rows.chunks(n).map(|row| row.iter().sum()).collect::<Vec<f32>>());
            let mut square = [va; MAX_LANES];
            for (row, at) in square[..n].iter_mut().zip(0..) {
                *row = simd.load(&(0..n).map(|i| (at * n + i) as f32).collect::<Vec<f32>>());
            }
            simd.transpose(&mut square);
            for (col, row) in square[..n].iter().enumerate() {
                assert_eq!(lanes(*row), (0..n).map(|i| (i * n + col) as f32).collect::<Vec<f32>>());
            }
            let pairs = [&a[..], &b].concat();
            let each = |odd: usize| pairs.iter().skip(odd).step_by(2).copied().collect::<Vec<f32>>();
            assert_eq!(simd.evens_and_odds(va, vb).map(lanes), [each(0), each(1)]);
            for count in 0..n + 2 {
                let each = |i: usize| if i < count { a[i] } else { b[i] };
                assert_eq!(lanes(simd.lanes_before(count, va, vb)), (0..n).map(each).collect::<Vec<f32>>());
            }
            for from in 0..=n {
                assert_eq!(lanes(simd.lanes_from(from, va, vb)), pairs[from..from + n]);
            }
            let nan = simd.splat(f32::NAN);
            assert_eq!(lanes(simd.max(nan, va)), a);
            assert!(lanes(simd.max(va, nan)).iter().all(|v| v.is_nan()));
            let halves: Vec<f16> = a.iter().map(|&x| f16::from_f32(x * 1e-6)).collect();
            let mut back = vec![f16::NAN; n];
            simd.store_f16(simd.load_f16(&halves), &mut back);
            assert_eq!(back, halves);
            for part in 0..=n + 1 {
                let source = vec![1.0; part];
                let mut wanted = vec![0.0; n];
                wanted[..part.min(n)].fill(1.0);
                assert_eq!(lanes(simd.load_partial(&source)), wanted);
                let mut out = vec![9.0; n + 2];
                simd.store_partial(va, &mut out[..part]);
                assert_eq!(out[..part.min(n)], a[..part.min(n)]);
                assert!(out[part.min(n)..].iter().all(|&v| v == 9.0));
            }
        }
    }

    #[test]
    fn every_level_agrees_with_scalar_arithmetic() {
        for isa in Isa::available() {
            isa.run(Check);
        }
    }

    #[test]
    fn every_half_float_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            let y = widen(x);
            assert!(y.to_bits() == x.to_f32().to_bits() || (x.is_nan() && y.is_nan()), "{bits:#x} gives {y}");
        }
    }

    #[test]
    fn levels_are_found_by_name() {
        for isa in Isa::available() {
            assert_eq!(Isa::from_name(isa.name()), Ok(isa));
        }
        let error = Isa::from_name("sse9").unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotSupported);
        assert!(error.message.contains("\"sse9\"") && error.message.contains("portable"), "{error}");
    }
}
