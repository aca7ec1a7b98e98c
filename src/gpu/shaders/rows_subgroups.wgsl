
// One total per subgroup; a subgroup has at least 4 invocations.
var<workgroup> NAME_totals: array<VALUE, WORKGROUP / 4>;
fn NAME_across(own: VALUE) -> VALUE {
  var total = own;
  for (var distance = 1u; distance < subgroup_lanes; distance = distance * 2u) {
    let a = total;
    let b = subgroupShuffleXor(total, distance);
    total = COMBINE;
  }
  if (subgroup_lane == 0u) { NAME_totals[subgroup] = total; }
  workgroupBarrier();
  total = NAME_totals[0];
  for (var other = 1u; other < subgroups; other = other + 1u) {
    let a = total;
    let b = NAME_totals[other];
    total = COMBINE;
  }
  // The memory is about to be reused.
  workgroupBarrier();
  return total;
}
