
// Entries of the tables are places.
fn nearest(i: u32) -> x_value {
  let found = locate(i);
  let y = found.coordinates[0];
  let x_of = found.coordinates[1];
  return x(found.at + parameter(parameter(9u) + y.x) * y.z + parameter(parameter(12u) + x_of.x) * x_of.z);
}
