
// Weights are the bits of floats.
fn linear(i: u32) -> f32 {
  let found = locate(i);
  let rows = between(0u, found.coordinates[0]);
  let columns = between(1u, found.coordinates[1]);
  let weight = bitcast<f32>(rows.z);
  return along_x(found.at + rows.x, columns) * (1.0 - weight) + along_x(found.at + rows.y, columns) * weight;
}

fn along_x(at: u32, columns: vec3<u32>) -> f32 {
  let weight = bitcast<f32>(columns.z);
  return f32(x(at + columns.x)) * (1.0 - weight) + f32(x(at + columns.y)) * weight;
}
