
// One workgroup computes all time steps of one sequence in one direction; its invocations share the units.
//
// Parameters: time steps, batches, features of the input, hidden size, gates, whether the only direction is backward,
// rows. Dispatch: one workgroup per direction and batch (a row), in a grid. `states` holds, for each row, the hidden
// state, the next one, the hidden state after the reset gate and the cell state; the hidden states of all steps come
// next. `inputs` holds what the input adds to the gates, see recurrent_input.wgsl. Sums carry their rounding errors,
// which would otherwise grow from step to step.
var<private> direction: u32;
var<private> own_inputs: u32;
var<private> hidden_at: u32;
var<private> reset_at: u32;
var<private> cell_at: u32;

fn of_input(gate: u32, unit: u32) -> f32 { return inputs(own_inputs + gate * parameter(3u) + unit); }

fn of_state(gate: u32, unit: u32, state: u32) -> f32 {
  let hidden = parameter(3u);
  let row = (direction * parameter(4u) + gate) * hidden + unit;
  var sum = vec2<f32>(recurrent_bias(row), 0.0);
  for (var k = 0u; k < hidden; k = k + 1u) { sum = add_precise(sum, two_product(states[state + k], r(row * hidden + k))); }
  return sum.x + sum.y;
}

fn of_hidden(gate: u32, unit: u32) -> f32 { return of_state(gate, unit, hidden_at); }
fn of_reset(gate: u32, unit: u32) -> f32 { return of_state(gate, unit, reset_at); }
fn peep(index: u32, unit: u32) -> f32 { return peephole((direction * 3u + index) * parameter(3u) + unit); }

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= parameter(6u)) { return; }
  let steps = parameter(0u);
  let hidden = parameter(3u);
  direction = row / parameter(1u);
  hidden_at = row * 4u * hidden;
  let next_at = hidden_at + hidden;
  reset_at = next_at + hidden;
  cell_at = reset_at + hidden;
  let all_at = parameter(6u) * 4u * hidden;
  let backward = direction == 1u || parameter(5u) == 1u;
  for (var step = 0u; step < steps; step = step + 1u) {
    let at = select(step, steps - 1u - step, backward) * parameter(6u) + row;
    own_inputs = at * parameter(4u) * hidden;
    storageBarrier();
    if (PREPARES) {
      for (var unit = local; unit < hidden; unit = unit + 256u) { prepare(unit); }
      storageBarrier();
    }
    for (var unit = local; unit < hidden; unit = unit + 256u) { states[next_at + unit] = advance(unit); }
    storageBarrier();
    for (var unit = local; unit < hidden; unit = unit + 256u) {
      let state = states[next_at + unit];
      states[hidden_at + unit] = state;
      states[all_at + at * hidden + unit] = state;
    }
  }
}
