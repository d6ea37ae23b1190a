// Density of the points of a map: the densest places of each value, and contour lines. Pure functions.
// Coordinates are from -1 to 1; a point counts if the lowest bit of its flag is set.

const PEAK_GRID_SIDE = 64;
const MAX_PEAKS = 8; // per value
const MIN_PEAK_FRACTION = 0.2; // of the density of the densest place: single outliers are no place for a name
const KERNEL = [1, 4, 6, 4, 1]; // binomial: close to a Gaussian with a deviation of one cell
const CONTOUR_GRID_SIDE = 128;
const CONTOUR_MARGIN = 0.1; // around the points, so that all lines are closed
const BANDWIDTH = 0.25; // of a single point, in map units; as in Scott's rule, it falls with the sixth root of their number

/** Return the visible rows of each value, as a Map. */
function groupRows(values, flags) {
  const groups = new Map();
  for (let row = 0; row < values.length; row++) {
    if (!(flags[row] & 1)) continue;
    const rows = groups.get(values[row]);
    if (rows) rows.push(row);
    else groups.set(values[row], [row]);
  }
  return groups;
}

/**
 * Find the densest places of each value. Returns a Map from a value to {count, peaks}: its number of visible points,
 * and local maxima of their density as [x, y], densest first.
 */
export function findPeaks(coordinates, values, flags) {
  const side = PEAK_GRID_SIDE;
  const counts = new Float32Array(side * side);
  const density = new Float32Array(side * side);
  const sums = new Float64Array(2 * side * side);
  const toCell = (value) => Math.max(0, Math.min(side - 1, Math.floor(((value + 1) / 2) * side)));
  const found = new Map();
  for (const [value, rows] of groupRows(values, flags)) {
    const cells = new Set();
    for (const row of rows) {
      const [x, y] = [coordinates[2 * row], coordinates[2 * row + 1]];
      const cell = toCell(x) + side * toCell(y);
      cells.add(cell);
      counts[cell]++;
      sums[2 * cell] += x;
      sums[2 * cell + 1] += y;
    }
    for (const cell of cells) density[cell] = sumAround(cell, 2, side, (other, weight) => weight * counts[other]);
    const isPeak = (cell) => {
      let highest = true;
      sumAround(cell, 2, side, (other) => {
        const tie = density[other] === density[cell] && other < cell;
        if (density[other] > density[cell] || tie) highest = false;
        return 0;
      });
      return highest;
    };
    const places = [...cells].filter(isPeak).sort((one, two) => density[two] - density[one] || one - two);
    const isDense = (cell) => density[cell] >= MIN_PEAK_FRACTION * density[places[0]];
    const peaks = places.filter(isDense).slice(0, MAX_PEAKS).map((cell) => {
      const count = sumAround(cell, 1, side, (other) => counts[other]);
      return [0, 1].map((axis) => sumAround(cell, 1, side, (other) => sums[2 * other + axis]) / count);
    });
    found.set(value, { count: rows.length, peaks });
    for (const cell of cells) counts[cell] = density[cell] = sums[2 * cell] = sums[2 * cell + 1] = 0;
  }
  return found;
}

/** Sum `part(cell, weight)` over the cells at most `reach` columns and rows away; weights are those of the kernel. */
function sumAround(cell, reach, side, part) {
  const [column, row] = [cell % side, Math.floor(cell / side)];
  let sum = 0;
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const [x, y] = [column + dx, row + dy];
      if (x >= 0 && y >= 0 && x < side && y < side) sum += part(x + side * y, KERNEL[dx + 2] * KERNEL[dy + 2]);
    }
  }
  return sum;
}

/**
 * Return contour lines of the density of the visible points: for each fraction, the segments (x1, y1, x2, y2, ...) of
 * the line that encloses the densest places with this fraction of the points.
 */
export function computeContours(coordinates, flags, fractions) {
  const side = CONTOUR_GRID_SIDE;
  const span = 2 + 2 * CONTOUR_MARGIN;
  const toCell = (value) => Math.max(0, Math.min(side - 1, Math.floor(((value + span / 2) / span) * side)));
  let density = new Float32Array(side * side);
  const cells = [];
  for (let row = 0; row < flags.length; row++) {
    if (!(flags[row] & 1)) continue;
    const cell = toCell(coordinates[2 * row]) + side * toCell(coordinates[2 * row + 1]);
    cells.push(cell);
    density[cell]++;
  }
  if (!cells.length) return fractions.map(() => new Float32Array(0));
  const passes = Math.ceil(((BANDWIDTH * cells.length ** (-1 / 6)) / (span / side)) ** 2); // each adds a variance of 1 cell
  for (let pass = 0; pass < passes; pass++) density = smooth(smooth(density, side, 1), side, side);
  const sorted = Float32Array.from(cells, (cell) => density[cell]).sort();
  const toMap = (position) => ((position + 0.5) / side) * span - span / 2; // densities are those of the cells' centres
  return fractions.map((fraction) => {
    const level = sorted[Math.floor((1 - fraction) * (sorted.length - 1))] * (1 - 1e-6); // the point itself is inside
    return Float32Array.from(traceLevel(density, side, level), toMap);
  });
}

/** Smooth a grid along one axis; `step` is the distance of neighbouring cells: 1 for columns, `side` for rows. */
function smooth(grid, side, step) {
  const result = new Float32Array(grid.length);
  for (let cell = 0; cell < grid.length; cell++) {
    const at = step === 1 ? cell % side : Math.floor(cell / side);
    for (let offset = -2; offset <= 2; offset++) {
      if (at + offset >= 0 && at + offset < side) result[cell] += (KERNEL[offset + 2] / 16) * grid[cell + offset * step];
    }
  }
  return result;
}

/** Return the segments where a grid crosses a level, in cells, by marching squares. */
export function traceLevel(grid, side, level) {
  const segments = [];
  for (let row = 0; row + 1 < side; row++) {
    for (let column = 0; column + 1 < side; column++) {
      const cell = column + side * row;
      const corners = [grid[cell], grid[cell + 1], grid[cell + side + 1], grid[cell + side]];
      const above = corners.map((value) => value >= level);
      if (above.every(Boolean) || !above.some(Boolean)) continue;
      const part = (from, to) => (level - corners[from]) / (corners[to] - corners[from]);
      // Where the edges cross the level: upper, right, lower, left; null for an edge that does not.
      const edges = [
        above[0] !== above[1] && [column + part(0, 1), row],
        above[1] !== above[2] && [column + 1, row + part(1, 2)],
        above[3] !== above[2] && [column + part(3, 2), row + 1],
        above[0] !== above[3] && [column, row + part(0, 3)],
      ];
      const crossed = edges.filter(Boolean);
      if (crossed.length === 2) {
        segments.push(...crossed[0], ...crossed[1]);
        continue;
      }
      // A saddle: the lines keep the corners together that are as high as the middle.
      const isMiddleAbove = corners.reduce((sum, value) => sum + value, 0) / 4 >= level;
      const order = isMiddleAbove === above[0] ? [0, 1, 2, 3] : [3, 0, 1, 2];
      for (const index of [0, 2]) segments.push(...edges[order[index]], ...edges[order[index + 1]]);
    }
  }
  return segments;
}
