//! Convolutions of typical sizes, followed by a bias and a relu. A method that needs fewer multiplications than the
//! definition (Winograd) can exceed the limit.

use crate::graph::best_run;
use crate::naive;
use crate::report::{Beside, Report, Work};
use webnn_node::cpu::steps::Env;

/// A square convolution, padded so that only the stride shrinks the size.
struct Convolution {
    /// Channels of the input and of the output.
    channels: [usize; 2],
    size: usize,
    filter: usize,
    stride: usize,
    groups: usize,
}

const fn conv(channels: [usize; 2], size: usize, filter: usize, stride: usize, groups: usize) -> Convolution {
    Convolution { channels, size, filter, stride, groups }
}

const CONVOLUTIONS: [Convolution; 17] = [
    // First layers.
    conv([3, 64], 224, 7, 2, 1),
    conv([3, 32], 224, 3, 2, 1),
    // Pointwise.
    conv([64, 256], 56, 1, 1, 1),
    conv([256, 64], 56, 1, 1, 1),
    conv([512, 256], 28, 1, 2, 1),
    conv([96, 24], 56, 1, 1, 1),
    conv([960, 320], 7, 1, 1, 1),
    // Three by three.
    conv([64, 64], 56, 3, 1, 1),
    conv([128, 128], 28, 3, 1, 1),
    conv([256, 256], 14, 3, 1, 1),
    conv([512, 512], 7, 3, 1, 1),
    conv([128, 128], 56, 3, 2, 1),
    conv([320, 320], 32, 3, 1, 1),
    // Depthwise.
    conv([32, 32], 112, 3, 1, 32),
    conv([96, 96], 112, 3, 2, 96),
    conv([576, 576], 14, 3, 1, 576),
    conv([960, 960], 7, 3, 1, 960),
];

impl Convolution {
    fn name(&self, layout: &str) -> String {
        let Convolution { channels: [input, output], size, filter, stride, groups } = self;
        let kind = if groups == output { "depthwise" } else { "convolution" };
        format!("{kind} {input}>{output} {size}x{size} filter {filter} stride {stride} {layout}")
    }

    fn text(&self, layout: &str) -> String {
        let Convolution { channels: [input, output], size, filter, stride, groups } = self;
        let shape = match layout {
            "nchw" => format!("[1, {input}, {size}, {size}]"),
            _ => format!("[1, {size}, {size}, {input}]"),
        };
        let each = input / groups;
        // An even size loses the last column of the padding to the stride.
        let (before, after) = (filter / 2, (filter - 1) / 2);
        format!(
            "%0 = input x float32 {shape}
             %1 = constant float32 [{output}, {each}, {filter}, {filter}]
             %2 = constant float32 [{output}]
             %3 = conv2d %0 %1 %2 padding=[{before}, {after}, {before}, {after}] strides=[{stride}, {stride}] groups={groups} inputLayout={layout}
             %4 = relu %3
             output y = %4"
        )
    }

    fn multiply_adds(&self) -> usize {
        let out = self.size.div_ceil(self.stride);
        self.channels[0] / self.groups * self.channels[1] * self.filter * self.filter * out * out
    }
}

/// Prints the convolutions.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("convolutions");
    for convolution in CONVOLUTIONS {
        let wanted = ["nchw", "nhwc"].map(|layout| (layout, convolution.name(layout)));
        if !wanted.iter().any(|(_, name)| report.wants(name)) {
            continue;
        }
        let Convolution { channels, size, filter, stride, groups } = convolution;
        let naive = naive::convolution(channels, size, filter, stride, groups);
        for (layout, name) in wanted {
            if report.wants(&name) {
                let (seconds, _) = best_run(&convolution.text(layout), env);
                let work = Work::MultiplyAdds(convolution.multiply_adds());
                report.line(&name, seconds, work, Beside { naive, ..Beside::default() });
            }
        }
    }
    transposed(report, env);
}

/// 64 to 32 channels, 28 by 28 to 56 by 56.
fn transposed(report: &mut Report, env: &Env) {
    let name = "transposed convolution 64>32 28x28 filter 4 stride 2 nchw";
    if report.wants(name) {
        let text = "%0 = input x float32 [1, 64, 28, 28]
             %1 = constant float32 [64, 32, 4, 4]
             %2 = convTranspose2d %0 %1 padding=[1, 1, 1, 1] strides=[2, 2]
             output y = %2";
        let (seconds, _) = best_run(text, env);
        report.line(name, seconds, Work::MultiplyAdds(64 * 32 * 16 * 28 * 28), Beside::default());
    }
}
