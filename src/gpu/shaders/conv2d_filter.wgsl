
// The filter of a convolution as one side of a product. A position is an output channel of a group, a term is an input
// channel and a tap, in the order of conv2d_patches.wgsl.
//
// Parameters from $FIRST on: groups; strides of groups, output channels, input channels, rows and columns; input
// channels per group; height and width.
var<private> $SIDE_at: u32;

fn $SIDE_prepare(stack: u32) { $SIDE_at = stack % parameter($FIRSTu) * parameter($FIRSTu + 1u); }

fn $SIDE_place(position: u32, term: u32) -> u32 {
  let filter_width = parameter($FIRSTu + 8u);
$if CHANNELS_LAST
  let tap = term / parameter($FIRSTu + 6u);
  let channel = term % parameter($FIRSTu + 6u);
$else
  let taps = parameter($FIRSTu + 7u) * filter_width;
  let tap = term % taps;
  let channel = term / taps;
$end
  return $SIDE_at + position * parameter($FIRSTu + 2u) + channel * parameter($FIRSTu + 3u)
    + tap / filter_width * parameter($FIRSTu + 4u) + tap % filter_width * parameter($FIRSTu + 5u);
}
