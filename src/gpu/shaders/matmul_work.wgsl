  // Uniform within a workgroup: the part of the terms, the matrix of the stack, the rows and the columns.
  let row_tiles = (parameter(0u) + $HEIGHTu - 1u) / $HEIGHTu;
  let column_tiles = (parameter(1u) + $WIDTHu - 1u) / $WIDTHu;
  let index = group.y * groups.x + group.x;
  let matrix = index / (row_tiles * column_tiles);
  let part = matrix / immediates.elements;
  if (part >= parameter(3u)) { return; }
  let first_row = (index / column_tiles) % row_tiles * $HEIGHTu;
  let first_column = index % column_tiles * $WIDTHu;
  let first_term = part * parameter(4u);
  let last_term = min(first_term + parameter(4u), parameter(2u));
  prepare(part, matrix % immediates.elements);
