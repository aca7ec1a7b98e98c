
var<workgroup> NAME_totals: array<VALUE, WORKGROUP>;
fn NAME_across(own: VALUE) -> VALUE {
  NAME_totals[AT_LANE] = own;
  for (var half = LANES / 2u; half > 0u; half = half / 2u) {
    workgroupBarrier();
    if (lane < half) {
      let a = NAME_totals[AT_LANE];
      let b = NAME_totals[AT_PARTNER];
      NAME_totals[AT_LANE] = COMBINE;
    }
  }
  workgroupBarrier();
  let total = NAME_totals[AT_FIRST];
  // The memory is about to be reused.
  workgroupBarrier();
  return total;
}
