
// output[stack, r, c] = result(sum over terms k of a[r, k] b[k, c]) in float16, accumulated in float32, by matrix units
//
// A workgroup of $SUBGROUPS subgroups computes a tile of $HEIGHT rows and columns, each subgroup $ROW_SQUARES times
// $COLUMN_SQUARES squares of $SIDE_OF_SQUARE rows and columns. The operands pass through workgroup memory, 32 terms at
// a time, in their memory layout: terms of a position side by side, or positions of a term. While one step is
// multiplied, the next is read into registers. Zeros pad the edges of the matrices because the units need whole
// squares.
//
// `a_load` and `b_load` return the operands; `load_a`, `load_b`, `multiply_add` and `store_square` are the operations
// of the units; `finish_four` stores the sums. Dispatch: as matmul_tiled.wgsl. All subgroups have $SUBGROUP_SIZE
// invocations.
//
// Lines of workgroup memory are padded by 8 halves, which puts neighboring lines in different banks.
var<workgroup> a_stage: array<vec4<f16>, $A_STAGE>;
var<workgroup> b_stage: array<vec4<f16>, $B_STAGE>;
var<workgroup> squares: array<f32, $SQUARES>;

$if EMULATED
// Emulates the units in workgroup memory: an operand is the place of its square, and each invocation holds some
// elements of the sums.
struct Operand { at: u32 }
struct Square { elements: array<f32, $ELEMENTS> }

fn load_a(at: u32) -> Operand { return Operand(at); }
fn load_b(at: u32) -> Operand { return Operand(at); }

fn multiply_add(a: Operand, b: Operand, sums: Square, lane: u32) -> Square {
  var out = sums;
  for (var e = 0u; e < $ELEMENTSu; e = e + 1u) {
    let row = (e * $SUBGROUP_SIZEu + lane) / $SIDE_OF_SQUAREu;
    let column = (e * $SUBGROUP_SIZEu + lane) % $SIDE_OF_SQUAREu;
    for (var k = 0u; k < $SIDE_OF_SQUAREu; k = k + 1u) {
$if A_TERMS
      let x = f32(a_stage[a.at + row * $A_PITCHu + (k >> 2u)][k & 3u]);
$else
      let x = f32(a_stage[a.at + k * $A_PITCHu + (row >> 2u)][row & 3u]);
$end
$if B_TERMS
      let y = f32(b_stage[b.at + column * $B_PITCHu + (k >> 2u)][k & 3u]);
$else
      let y = f32(b_stage[b.at + k * $B_PITCHu + (column >> 2u)][column & 3u]);
$end
      out.elements[e] = fma(x, y, out.elements[e]);
    }
  }
  return out;
}

fn store_square(sums: Square, at: u32, lane: u32) {
  for (var e = 0u; e < $ELEMENTSu; e = e + 1u) { squares[at + e * $SUBGROUP_SIZEu + lane] = sums.elements[e]; }
}
$else
alias SquareOfA = coop_mat$SIDE_OF_SQUAREx$SIDE_OF_SQUARE<f16, A>;
alias SquareOfB = coop_mat$SIDE_OF_SQUAREx$SIDE_OF_SQUARE<f16, B>;
alias Square = coop_mat$SIDE_OF_SQUAREx$SIDE_OF_SQUARE<f32, C>;

// coopLoadT reads rows that are contiguous in memory; strides are in vectors.
$if A_TERMS
fn load_a(at: u32) -> SquareOfA { return coopLoadT<SquareOfA>(&a_stage[at], $A_PITCHu); }
$else
fn load_a(at: u32) -> SquareOfA { return coopLoad<SquareOfA>(&a_stage[at], $A_PITCHu); }
$end
$if B_TERMS
fn load_b(at: u32) -> SquareOfB { return coopLoad<SquareOfB>(&b_stage[at], $B_PITCHu); }
$else
fn load_b(at: u32) -> SquareOfB { return coopLoadT<SquareOfB>(&b_stage[at], $B_PITCHu); }
$end
fn multiply_add(a: SquareOfA, b: SquareOfB, sums: Square, lane: u32) -> Square { return coopMultiplyAdd(a, b, sums); }
fn store_square(sums: Square, at: u32, lane: u32) { coopStoreT(sums, &squares[at], $SIDE_OF_SQUAREu); }
$end

@compute @workgroup_size($INVOCATIONS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
$if EMULATED
$else
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_invocation_id) lane: u32,
$end
) {
// WORK
$if EMULATED
  let subgroup = local / $SUBGROUP_SIZEu;
  let lane = local % $SUBGROUP_SIZEu;
$end
  let own_row = subgroup / $SUBGROUP_COLUMNSu * $SUBGROUP_HEIGHTu;
  let own_column = subgroup % $SUBGROUP_COLUMNSu * $SUBGROUP_WIDTHu;
$for i 0 $ROW_SQUARES
$for h 0 $COLUMN_SQUARES
  var sum_$i_$h: Square;
$end
$end

$for j 0 $LOADS
  var next_a_$j = a_fetch(first_row, first_term, local + $ju * $INVOCATIONSu);
  var next_b_$j = b_fetch(first_column, first_term, local + $ju * $INVOCATIONSu);
$end
  for (var term = first_term; term < last_term; term = term + 32u) {
$for j 0 $LOADS
    a_keep(local + $ju * $INVOCATIONSu, next_a_$j);
    b_keep(local + $ju * $INVOCATIONSu, next_b_$j);
$end
    workgroupBarrier();
$for j 0 $LOADS
    next_a_$j = a_fetch(first_row, term + 32u, local + $ju * $INVOCATIONSu);
    next_b_$j = b_fetch(first_column, term + 32u, local + $ju * $INVOCATIONSu);
$end
$for k 0 $STEPS
    {
$for i 0 $ROW_SQUARES
      let a_$i = load_a(a_square(own_row + $iu * $SIDE_OF_SQUAREu, $ku * $SIDE_OF_SQUAREu));
$end
$for h 0 $COLUMN_SQUARES
      let b_$h = load_b(b_square(own_column + $hu * $SIDE_OF_SQUAREu, $ku * $SIDE_OF_SQUAREu));
$end
$for i 0 $ROW_SQUARES
$for h 0 $COLUMN_SQUARES
      sum_$i_$h = multiply_add(a_$i, b_$h, sum_$i_$h, lane);
$end
$end
    }
$end
    workgroupBarrier();
  }

  let own_square = subgroup * $SIDE_OF_SQUAREu * $SIDE_OF_SQUAREu;
$for i 0 $ROW_SQUARES
$for h 0 $COLUMN_SQUARES
  store_square(sum_$i_$h, own_square, lane);
  workgroupBarrier();
  for (var four = lane * 4u; four < $SIDE_OF_SQUAREu * $SIDE_OF_SQUAREu; four = four + $SUBGROUP_SIZEu * 4u) {
    let at = own_square + four;
    finish_four(
      vec4<f32>(squares[at], squares[at + 1u], squares[at + 2u], squares[at + 3u]),
      first_row + own_row + $iu * $SIDE_OF_SQUAREu + four / $SIDE_OF_SQUAREu,
      first_column + own_column + $hu * $SIDE_OF_SQUAREu + four % $SIDE_OF_SQUAREu,
    );
  }
  workgroupBarrier();
$end
$end
}
