
// The image of a convolution as one side of a product ("implicit GEMM"). A position is a pixel of the output, a term is
// a channel and a tap of the filter.
//
// Parameters from $FIRST on: groups; strides of batches, channel groups, channels, rows and columns; height and width
// of the image; width of the output; then, each for height and width, strides, leading paddings and dilations of the
// filter; 15 channels per group; height and width of the filter.
var<private> $SIDE_at: u32;

fn $SIDE_prepare(stack: u32) {
  let groups = parameter($FIRSTu);
  $SIDE_at = stack / groups * parameter($FIRSTu + 1u) + stack % groups * parameter($FIRSTu + 2u);
}

fn $SIDE_place(position: u32, term: u32) -> u32 {
  let filter_width = parameter($FIRSTu + 17u);
$if CHANNELS_LAST
  let tap = term / parameter($FIRSTu + 15u);
  let channel = term % parameter($FIRSTu + 15u);
$else
  let taps = parameter($FIRSTu + 16u) * filter_width;
  let tap = term % taps;
  let channel = term / taps;
$end
  let output_width = parameter($FIRSTu + 8u);
  // Places in the leading padding wrap around to huge numbers.
  let y = position / output_width * parameter($FIRSTu + 9u) + tap / filter_width * parameter($FIRSTu + 13u) - parameter($FIRSTu + 11u);
  let x = position % output_width * parameter($FIRSTu + 10u) + tap % filter_width * parameter($FIRSTu + 14u) - parameter($FIRSTu + 12u);
  if (y >= parameter($FIRSTu + 6u) || x >= parameter($FIRSTu + 7u)) { return NOWHERE; }
  return $SIDE_at + channel * parameter($FIRSTu + 3u) + y * parameter($FIRSTu + 4u) + x * parameter($FIRSTu + 5u);
}
