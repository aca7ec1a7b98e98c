//! The folds of float64.

use super::reduce::{Fold, Max, Min, Product, Sum, SumAbs, SumExp, SumSquares, WideSum, larger, smaller};
use crate::cpu::simd::Simd;

macro_rules! double_folds {
    ($($Name:ident: $none:expr, |$sum:ident, $x:ident, $shift:ident| $add:expr, |$a:ident, $b:ident| $join:expr;)*) => {$(
        impl Fold<f64> for $Name {
            type Part = f64;
            type Sum = f64;
            const NONE: f64 = $none;
            #[inline(always)]
            fn add<S: Simd>(_: S, $sum: f64, $x: f64, $shift: f64) -> f64 {
                $add
            }
            #[inline(always)]
            fn meet($a: f64, $b: f64) -> f64 {
                $join
            }
            #[inline(always)]
            fn sum(part: f64) -> f64 {
                part
            }
            #[inline(always)]
            fn join($a: f64, $b: f64) -> f64 {
                $join
            }
        }
    )*};
}

double_folds! {
    Sum: 0.0, |sum, x, _shift| sum + x, |a, b| a + b;
    WideSum: 0.0, |sum, x, _shift| sum + x, |a, b| a + b;
    SumAbs: 0.0, |sum, x, _shift| sum + x.abs(), |a, b| a + b;
    SumSquares: 0.0, |sum, x, _shift| sum + x * x, |a, b| a + b;
    Product: 1.0, |product, x, _shift| product * x, |a, b| a * b;
    Max: f64::NEG_INFINITY, |max, x, _shift| larger(max, x), |a, b| larger(a, b);
    Min: f64::INFINITY, |min, x, _shift| smaller(min, x), |a, b| smaller(a, b);
    SumExp: 0.0, |sum, x, shift| sum + (x - shift).exp(), |a, b| a + b;
}
