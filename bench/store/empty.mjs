// An empty process, for comparison.
