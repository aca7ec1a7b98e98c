//! Fourier transforms of several signals at a time, each in lanes of its own: Stockham's algorithm in steps of 4, 5, 3
//! and 2, and Bluestein's for lengths with other factors, whose transform is a convolution. Twiddles are computed in
//! float64; the relative error grows with the logarithm of the length.

use crate::cpu::simd::{Kernel, Portable, Simd};
use crate::ops::extension::dft;

/// The `at`-th of `count` steps around the unit circle, clockwise.
fn turn(at: u64, count: u64) -> [f32; 2] {
    let (sin, cos) = dft::turn(at, count);
    [cos as f32, -sin as f32]
}

/// A step that replaces transforms by `radix` times as many shorter ones.
struct Stage {
    radix: usize,
    /// Length of the shorter transforms.
    shorter: usize,
    /// `radix - 1` complex factors for each element of these.
    twiddles: Vec<[f32; 2]>,
}

/// Transforms of a length without other prime factors than 2, 3 and 5.
struct Smooth {
    length: usize,
    stages: Vec<Stage>,
}

impl Smooth {
    /// The transforms of this length; `None` if it has other factors.
    fn new(length: usize) -> Option<Smooth> {
        let (mut stages, mut rest) = (Vec::new(), length);
        for radix in [4, 5, 3, 2] {
            while rest.is_multiple_of(radix) {
                let shorter = rest / radix;
                let factors = |at: usize| (1..radix).map(move |j| turn((j * at) as u64, rest as u64));
                stages.push(Stage { radix, shorter, twiddles: (0..shorter).flat_map(factors).collect() });
                rest = shorter;
            }
        }
        (rest == 1).then_some(Smooth { length, stages })
    }

    /// Transforms `[length, lanes]` in `a`, and returns whether the result is in `b`.
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, lanes: usize, a: &mut Signal, b: &mut Signal) -> bool {
        let (mut a, mut b) = (a.again(), b.again());
        let (mut stride, mut is_in_b) = (lanes, false);
        for stage in &self.stages {
            let (from, to) = if is_in_b { (&b, &mut a) } else { (&a, &mut b) };
            match stage.radix {
                2 => run_stage::<S, 2>(simd, stage, stride, from, to),
                3 => run_stage::<S, 3>(simd, stage, stride, from, to),
                4 => run_stage::<S, 4>(simd, stage, stride, from, to),
                _ => run_stage::<S, 5>(simd, stage, stride, from, to),
            }
            stride *= stage.radix;
            is_in_b = !is_in_b;
        }
        is_in_b
    }
}

/// Bluestein's convolution.
struct Chirp {
    /// Its transforms.
    smooth: Smooth,
    /// A complex factor for each element.
    factors: Vec<[f32; 2]>,
    /// What the transform of the elements is multiplied by: that of the inverse factors, over the length.
    spectrum: Vec<[f32; 2]>,
}

impl Chirp {
    fn new(length: usize) -> Chirp {
        let padded = (2 * length - 1).next_power_of_two();
        let smooth = Smooth::new(padded).expect("a power of two");
        // Half a step around the circle for each square.
        let square = |at: usize| (at as u128 * at as u128 % (2 * length as u128)) as u64;
        let factors: Vec<_> = (0..length).map(|at| turn(square(at), 2 * length as u64)).collect();
        let [mut re, mut im, mut other_re, mut other_im] = [0; 4].map(|_| vec![0.0; padded]);
        for (at, &[cos, sin]) in factors.iter().enumerate() {
            for at in [at, (padded - at) % padded] {
                (re[at], im[at]) = (cos / padded as f32, -sin / padded as f32);
            }
        }
        let mut a = Signal { re: &mut re, im: &mut im };
        let mut b = Signal { re: &mut other_re, im: &mut other_im };
        let spectrum = match smooth.run(Portable, 1, &mut a, &mut b) {
            true => b,
            false => a,
        };
        let spectrum = spectrum.re.iter().zip(&*spectrum.im).map(|(&re, &im)| [re, im]).collect();
        Chirp { smooth, factors, spectrum }
    }
}

/// Complex numbers, with the real and the imaginary parts apart.
pub struct Signal<'a> {
    /// Real parts.
    pub re: &'a mut [f32],
    /// Imaginary parts.
    pub im: &'a mut [f32],
}

impl Signal<'_> {
    fn again(&mut self) -> Signal<'_> {
        Signal { re: &mut *self.re, im: &mut *self.im }
    }

    /// The same numbers with real and imaginary parts exchanged, whose transform is that of the inverse.
    fn exchanged(&mut self) -> Signal<'_> {
        Signal { re: &mut *self.im, im: &mut *self.re }
    }

    /// Multiplies the rows of `lanes` numbers by complex factors.
    #[inline(always)]
    fn multiply(&mut self, factors: &[[f32; 2]], lanes: usize) {
        let rows = self.re.chunks_exact_mut(lanes).zip(self.im.chunks_exact_mut(lanes));
        for ((re, im), &[c, s]) in rows.zip(factors) {
            for (re, im) in re.iter_mut().zip(im) {
                (*re, *im) = (*re * c - *im * s, *re * s + *im * c);
            }
        }
    }
}

/// A vector of complex numbers.
#[derive(Clone, Copy)]
struct Complex<S: Simd> {
    re: S::F32,
    im: S::F32,
}

impl<S: Simd> Complex<S> {
    #[inline(always)]
    fn add(self, simd: S, other: Complex<S>) -> Complex<S> {
        Complex { re: simd.add(self.re, other.re), im: simd.add(self.im, other.im) }
    }

    #[inline(always)]
    fn sub(self, simd: S, other: Complex<S>) -> Complex<S> {
        Complex { re: simd.sub(self.re, other.re), im: simd.sub(self.im, other.im) }
    }

    /// `self + factor * other`.
    #[inline(always)]
    fn add_scaled(self, simd: S, factor: f64, other: Complex<S>) -> Complex<S> {
        let factor = simd.splat(factor as f32);
        Complex { re: simd.mul_add(factor, other.re, self.re), im: simd.mul_add(factor, other.im, self.im) }
    }

    #[inline(always)]
    fn scaled(self, simd: S, factor: f64) -> Complex<S> {
        let factor = simd.splat(factor as f32);
        Complex { re: simd.mul(factor, self.re), im: simd.mul(factor, self.im) }
    }

    /// `self - i * other` and `self + i * other`.
    #[inline(always)]
    fn turned(self, simd: S, other: Complex<S>) -> [Complex<S>; 2] {
        [
            Complex { re: simd.add(self.re, other.im), im: simd.sub(self.im, other.re) },
            Complex { re: simd.sub(self.re, other.im), im: simd.add(self.im, other.re) },
        ]
    }

    #[inline(always)]
    fn multiplied(self, simd: S, [c, s]: [f32; 2]) -> Complex<S> {
        let (c, s) = (simd.splat(c), simd.splat(s));
        Complex {
            re: simd.sub(simd.mul(self.re, c), simd.mul(self.im, s)),
            im: simd.mul_add(self.re, s, simd.mul(self.im, c)),
        }
    }
}

/// The transform of `R` numbers.
#[inline(always)]
fn transform<S: Simd, const R: usize>(simd: S, a: [Complex<S>; R]) -> [Complex<S>; R] {
    let mut out = a;
    match R {
        2 => (out[0], out[1]) = (a[0].add(simd, a[1]), a[0].sub(simd, a[1])),
        3 => {
            const SIN: f64 = 0.866_025_403_784_438_6;
            let (sum, difference) = (a[1].add(simd, a[2]), a[1].sub(simd, a[2]));
            out[0] = a[0].add(simd, sum);
            let middle = a[0].add_scaled(simd, -0.5, sum);
            [out[1], out[2]] = middle.turned(simd, difference.scaled(simd, SIN));
        }
        4 => {
            let (even, odd) = (a[0].add(simd, a[2]), a[1].add(simd, a[3]));
            (out[0], out[2]) = (even.add(simd, odd), even.sub(simd, odd));
            [out[1], out[3]] = a[0].sub(simd, a[2]).turned(simd, a[1].sub(simd, a[3]));
        }
        _ => {
            const COS: [f64; 2] = [0.309_016_994_374_947_45, -0.809_016_994_374_947_5];
            const SIN: [f64; 2] = [0.951_056_516_295_153_5, 0.587_785_252_292_473_1];
            let sums = [a[1].add(simd, a[4]), a[2].add(simd, a[3])];
            let differences = [a[1].sub(simd, a[4]), a[2].sub(simd, a[3])];
            out[0] = a[0].add(simd, sums[0]).add(simd, sums[1]);
            let first = a[0].add_scaled(simd, COS[0], sums[0]).add_scaled(simd, COS[1], sums[1]);
            let second = a[0].add_scaled(simd, COS[1], sums[0]).add_scaled(simd, COS[0], sums[1]);
            let across = differences[0].scaled(simd, SIN[0]).add_scaled(simd, SIN[1], differences[1]);
            [out[1], out[4]] = first.turned(simd, across);
            let across = differences[0].scaled(simd, SIN[1]).add_scaled(simd, -SIN[0], differences[1]);
            [out[2], out[3]] = second.turned(simd, across);
        }
    }
    out
}

/// `to[R * p + j, q] = twiddle(p, j) * transform(from[p + shorter * k, q] over k)[j]`, in rows of `stride`.
#[inline(always)]
fn run_stage<S: Simd, const R: usize>(simd: S, stage: &Stage, stride: usize, from: &Signal, to: &mut Signal) {
    for p in 0..stage.shorter {
        let twiddles = &stage.twiddles[p * (R - 1)..][..R - 1];
        for q in (0..stride).step_by(S::LANES) {
            let count = (stride - q).min(S::LANES);
            let mut a = [Complex::<S> { re: simd.splat(0.0), im: simd.splat(0.0) }; R];
            for (k, a) in a.iter_mut().enumerate() {
                let start = (p + stage.shorter * k) * stride + q;
                let (re, im) = (&from.re[start..][..count], &from.im[start..][..count]);
                *a = match count == S::LANES {
                    true => Complex { re: simd.load(re), im: simd.load(im) },
                    false => Complex { re: simd.load_partial(re), im: simd.load_partial(im) },
                };
            }
            let out = transform(simd, a);
            for (j, out) in out.into_iter().enumerate() {
                let out = if j == 0 { out } else { out.multiplied(simd, twiddles[j - 1]) };
                let start = (R * p + j) * stride + q;
                let (re, im) = (&mut to.re[start..][..count], &mut to.im[start..][..count]);
                if count == S::LANES {
                    simd.store(out.re, re);
                    simd.store(out.im, im);
                } else {
                    simd.store_partial(out.re, re);
                    simd.store_partial(out.im, im);
                }
            }
        }
    }
}

/// Transforms of one length.
pub struct Fourier {
    length: usize,
    way: Way,
}

enum Way {
    Direct(Smooth),
    Convolved(Box<Chirp>),
}

impl Fourier {
    /// The transforms of this length, at least 1.
    pub fn new(length: usize) -> Fourier {
        let way = match Smooth::new(length) {
            Some(smooth) => Way::Direct(smooth),
            None => Way::Convolved(Box::new(Chirp::new(length))),
        };
        Fourier { length, way }
    }

    /// An upper bound of the bytes of factors for this length.
    pub fn bytes(length: usize) -> usize {
        24 * length * size_of::<[f32; 2]>()
    }

    /// Number of elements that the signals of [`Transform`] have room for, per lane: those that it reads come first.
    pub fn room(&self) -> usize {
        match &self.way {
            Way::Direct(smooth) => smooth.length,
            Way::Convolved(chirp) => chirp.smooth.length,
        }
    }
}

/// Transforms the signals in the lanes of `a`, `[length, lanes]` in room for more. Returns whether the result is in `b`.
pub struct Transform<'a, 'b> {
    /// The transforms.
    pub fourier: &'a Fourier,
    /// Number of signals.
    pub lanes: usize,
    /// The signals.
    pub a: &'a mut Signal<'b>,
    /// As much room.
    pub b: &'a mut Signal<'b>,
}

impl Kernel for Transform<'_, '_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let Transform { fourier, lanes, a, b } = self;
        let chirp = match &fourier.way {
            Way::Direct(smooth) => return smooth.run(simd, lanes, a, b),
            Way::Convolved(chirp) => chirp,
        };
        a.multiply(&chirp.factors, lanes);
        let used = fourier.length * lanes;
        a.re[used..].fill(0.0);
        a.im[used..].fill(0.0);
        let is_in_b = chirp.smooth.run(simd, lanes, a, b);
        let (from, to) = if is_in_b { (b, a) } else { (a, b) };
        from.multiply(&chirp.spectrum, lanes);
        let is_in_to = chirp.smooth.run(simd, lanes, &mut from.exchanged(), &mut to.exchanged());
        let result = if is_in_to { to } else { from };
        result.multiply(&chirp.factors, lanes);
        is_in_to != is_in_b
    }
}
