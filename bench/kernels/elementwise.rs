//! Element-wise operators, alone and in chains, and conversions.

use crate::graph::best_run;
use crate::naive;
use crate::report::{Beside, Report, Work};
use webnn_node::cpu::steps::Env;

/// Name, nodes from `%0` to `%8`, naive loop for one element.
type Case = (&'static str, &'static str, Option<fn(f32) -> f32>);

const SHAPE: [usize; 2] = [512, 768];

const CASES: [Case; 18] = [
    ("neg", "%8 = neg %0", Some(|x| -x)),
    ("add, same shape", "%1 = input z float32 [512, 768]\n%8 = add %0 %1", None),
    ("add a row", "%1 = constant float32 [768]\n%8 = add %0 %1", Some(|x| x + 0.5)),
    ("multiply by a column", "%1 = constant float32 [512, 1]\n%8 = mul %0 %1", Some(|x| x * 0.5)),
    ("exp", "%8 = exp %0", Some(f32::exp)),
    ("log", "%1 = abs %0\n%8 = log %1", Some(|x| x.abs().ln())),
    ("erf", "%8 = erf %0", None),
    ("tanh", "%8 = tanh %0", Some(f32::tanh)),
    ("sigmoid", "%8 = sigmoid %0", Some(sigmoid)),
    ("gelu", "%8 = gelu %0", None),
    ("sin", "%8 = sin %0", Some(f32::sin)),
    ("softplus", "%8 = softplus %0", Some(|x| x.exp().ln_1p())),
    ("hardSwish", "%8 = hardSwish %0", Some(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0)),
    ("chain of silu", "%1 = sigmoid %0\n%8 = mul %0 %1", Some(|x| x * sigmoid(x))),
    (
        "chain of gelu by tanh",
        "%1 = constant float32 [] 0.044715\n%2 = constant float32 [] 0.7978846\n%3 = mul %0 %0\n%4 = mul %3 %0\n%5 = mul %4 %1\n\
         %6 = add %0 %5\n%7 = mul %6 %2\n%9 = tanh %7\n%10 = linear %9 alpha=0.5 beta=0.5\n%8 = mul %0 %10",
        Some(|x| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh())),
    ),
    (
        "chain of scale, shift and clamp",
        "%1 = constant float32 [768]\n%2 = constant float32 [768]\n%3 = mul %0 %1\n%4 = add %3 %2\n%8 = clamp %4 minValue=0 maxValue=6",
        Some(|x| (x * 1.5 + 0.5).clamp(0.0, 6.0)),
    ),
    ("cast to float16", "%8 = cast %0 dataType=float16", None),
    (
        "quantizeLinear to int8",
        "%1 = constant float32 [1, 1] 0.02\n%2 = constant int8 [1, 1] 3\n%8 = quantizeLinear %0 %1 %2",
        None,
    ),
];

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Prints the operators, on a matrix of 1.5 MiB.
pub fn measure(report: &mut Report, env: &Env) {
    let [rows, columns] = SHAPE;
    report.family(&format!("element-wise [{rows}, {columns}]"));
    for (name, nodes, naive) in CASES {
        if report.wants(name) {
            let text = format!("%0 = input x float32 [{rows}, {columns}]\n{nodes}\noutput y = %8");
            let (seconds, bytes) = best_run(&text, env);
            let loop_of = |work: fn(f32) -> f32| {
                naive::rows(SHAPE, move |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = work(x)))
            };
            report.line(name, seconds, Work::Bytes(bytes), Beside { naive: naive.map(loop_of), ..Beside::default() });
        }
    }
}
