// What the runners of test suites share.

/** Calls `work` for every item, at most `limit` at a time; results in the order of the items. */
export async function mapConcurrently(items, limit, work) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
