// Density of the points of a map: the densest places of each value, and contour lines. Pure functions.
// Coordinates are from -1 to 1; a point counts if the lowest bit of its flag is set.

const PEAK_GRID_SIDE = 64;
const MAX_PEAKS = 8; // per value
const MIN_PEAK_FRACTION = 0.5; // of the density of the densest place: a name stands where its value is frequent
const REACH_FRACTION = 0.6; // of the points of a value are at most its reach away from one of its peaks
const MAX_REACH_POINTS = 2000; // per value; a sample has the same reach
const WINDOW_CELLS = 8; // in the width or height of a window, for the densest place in it
const CELL_LINE = 2 ** 24; // distance of the numbers of cells above each other
const MAX_WINDOW_POINTS = 4096; // more would take longer than a frame may; a sample finds the same place
const MIN_WINDOW_FRACTION = 0.05; // of the points in a window: stray points of other values get no name
const KERNEL = [1 / 16, 4 / 16, 6 / 16]; // half a binomial one: close to a Gaussian with a deviation of one cell
const CONTOUR_GRID_SIDE = 128;
const CONTOUR_MARGIN = 0.1; // around the points, so that all lines are closed
const POINT_BANDWIDTH = 0.25; // of a single point, in map units

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

/** Return the bandwidth of a density in map units; as in Scott's rule, it falls with the sixth root of the points. */
function computeBandwidth(count) {
  return POINT_BANDWIDTH * count ** (-1 / 6);
}

/**
 * Find the densest places of each value, with the bandwidth of the contour lines: a name stands where the lines of its
 * value are narrowest, not in a small clump. Returns a Map from a value to {count, peaks, reach}: its number of visible
 * points, local maxima of their density as [x, y], densest first, and how far most points are from the nearest of these,
 * to each side and up or down.
 */
export function findPeaks(coordinates, values, flags) {
  const groups = groupRows(values, flags);
  let count = 0;
  for (const rows of groups.values()) count += rows.length;
  const deviation = computeBandwidth(Math.max(1, count)) / (2 / PEAK_GRID_SIDE); // in cells
  const found = new Map();
  for (const [value, rows] of groups) {
    const peaks = findDensestPlaces(coordinates, rows, deviation);
    found.set(value, { count: rows.length, peaks, reach: computeReach(coordinates, rows, peaks) });
  }
  return found;
}

/** Return the distances [x, y] from the nearest peak within which most points are. */
function computeReach(coordinates, rows, peaks) {
  const step = Math.ceil(rows.length / MAX_REACH_POINTS);
  const distances = [[], []];
  for (let at = 0; at < rows.length; at += step) {
    const [x, y] = [coordinates[2 * rows[at]], coordinates[2 * rows[at] + 1]];
    let [least, away] = [Infinity, null];
    for (const peak of peaks) {
      const [dx, dy] = [Math.abs(x - peak[0]), Math.abs(y - peak[1])];
      if (Math.hypot(dx, dy) < least) [least, away] = [Math.hypot(dx, dy), [dx, dy]];
    }
    away.forEach((distance, axis) => distances[axis].push(distance));
  }
  return distances.map((found) => found.sort((a, b) => a - b)[Math.floor(REACH_FRACTION * (found.length - 1))]);
}

/** Return the local maxima of the density of some points, densest first; `deviation` is that of the kernel, in cells. */
function findDensestPlaces(coordinates, rows, deviation) {
  const reach = Math.ceil(deviation);
  const toCell = (at) => Math.max(0, Math.min(PEAK_GRID_SIDE - 1, Math.floor(((at + 1) / 2) * PEAK_GRID_SIDE)));
  const columns = rows.map((row) => toCell(coordinates[2 * row]));
  const lines = rows.map((row) => toCell(coordinates[2 * row + 1]));
  // Only the part of the grid around the points: there may be a thousand values.
  const [left, bottom] = [columns, lines].map((cells) => cells.reduce((a, b) => Math.min(a, b)) - reach);
  const [right, top] = [columns, lines].map((cells) => cells.reduce((a, b) => Math.max(a, b)) + reach);
  const [width, height] = [right - left + 1, top - bottom + 1];
  const counts = new Float32Array(width * height);
  const sums = new Float64Array(2 * width * height);
  rows.forEach((row, index) => {
    const cell = columns[index] - left + width * (lines[index] - bottom);
    counts[cell]++;
    sums[2 * cell] += coordinates[2 * row];
    sums[2 * cell + 1] += coordinates[2 * row + 1];
  });
  const density = smoothGrid(counts, width, deviation);
  /** Call `action` with the occupied cells at most `distance` columns and rows away. */
  const visitAround = (cell, distance, action) => {
    const [column, line] = [cell % width, Math.floor(cell / width)];
    for (let y = Math.max(0, line - distance); y <= Math.min(height - 1, line + distance); y++) {
      for (let x = Math.max(0, column - distance); x <= Math.min(width - 1, column + distance); x++) {
        if (counts[x + width * y]) action(x + width * y);
      }
    }
  };
  const isPeak = (cell) => {
    let isHighest = true;
    visitAround(cell, reach, (other) => {
      const isTie = density[other] === density[cell] && other < cell;
      if (density[other] > density[cell] || isTie) isHighest = false;
    });
    return isHighest;
  };
  const occupied = [...counts.keys()].filter((cell) => counts[cell]).sort((a, b) => density[b] - density[a] || a - b);
  const isDense = (cell) => density[cell] >= MIN_PEAK_FRACTION * density[occupied[0]];
  return occupied.filter((cell) => isDense(cell) && isPeak(cell)).slice(0, MAX_PEAKS).map((cell) => {
    let [count, x, y] = [0, 0, 0];
    visitAround(cell, 1, (other) => {
      count += counts[other];
      x += sums[2 * other];
      y += sums[2 * other + 1];
    });
    return [x / count, y / count];
  });
}

/**
 * Find the densest visible place of each value in a window, for a view that shows a part of the map. Returns a Map from
 * a value to {count, place}; rare values are left out.
 *
 * `window` is [left, bottom, right, top] in map coordinates. Of many points, every second, fourth, ... row counts.
 */
export function findVisiblePlaces(finder, values, flags, window) {
  const [left, bottom, right, top] = window;
  const side = 2 ** Math.floor(Math.log2(Math.max(right - left, top - bottom) / WINDOW_CELLS)); // fixed while panning
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(finder.countRows(left, bottom, right, top) / MAX_WINDOW_POINTS)));
  const found = new Map();
  let count = 0;
  finder.visit(left, bottom, right, top, (row) => {
    if (row % step || !(flags[row] & 1)) return;
    const [x, y] = [finder.coordinates[2 * row], finder.coordinates[2 * row + 1]];
    if (x < left || x > right || y < bottom || y > top) return;
    const cell = Math.floor(x / side) + CELL_LINE * Math.floor(y / side);
    let own = found.get(values[row]);
    if (!own) found.set(values[row], (own = { count: 0, cells: new Map() }));
    let sums = own.cells.get(cell);
    if (!sums) own.cells.set(cell, (sums = [0, 0, 0]));
    own.count++;
    sums[0]++;
    sums[1] += x;
    sums[2] += y;
    count++;
  });
  for (const [value, { count: own, cells }] of found) {
    if (own < MIN_WINDOW_FRACTION * count) {
      found.delete(value);
      continue;
    }
    const [number, x, y] = [...cells.values()].reduce((best, one) => (one[0] > best[0] ? one : best));
    found.set(value, { count: own, place: [x / number, y / number] });
  }
  return found;
}

/**
 * Return contour lines of the density of the visible points: for each fraction, the segments (x1, y1, x2, y2, ...) of
 * the line that encloses the densest places with this fraction of the points.
 */
export function computeContours(coordinates, flags, fractions) {
  const side = CONTOUR_GRID_SIDE;
  const span = 2 + 2 * CONTOUR_MARGIN;
  const toCell = (value) => Math.max(0, Math.min(side - 1, Math.floor(((value + span / 2) / span) * side)));
  const counts = new Float32Array(side * side);
  const cells = [];
  for (let row = 0; row < flags.length; row++) {
    if (!(flags[row] & 1)) continue;
    const cell = toCell(coordinates[2 * row]) + side * toCell(coordinates[2 * row + 1]);
    cells.push(cell);
    counts[cell]++;
  }
  if (!cells.length) return fractions.map(() => new Float32Array(0));
  const density = smoothGrid(counts, side, computeBandwidth(cells.length) / (span / side));
  const sorted = Float32Array.from(cells, (cell) => density[cell]).sort();
  const toMap = (position) => ((position + 0.5) / side) * span - span / 2; // densities are those of the cells' centres
  return fractions.map((fraction) => {
    const level = sorted[Math.floor((1 - fraction) * (sorted.length - 1))] * (1 - 1e-6); // the point itself is inside
    return Float32Array.from(traceLevel(density, side, level), toMap);
  });
}

/** Smooth a grid of so many columns with a kernel of at least the given deviation, in cells. */
function smoothGrid(grid, columns, deviation) {
  const passes = Math.max(1, Math.ceil(deviation ** 2)); // each adds a variance of 1 cell
  let [from, to] = [Float32Array.from(grid), new Float32Array(grid.length)];
  for (let pass = 0; pass < 2 * passes; pass++) {
    if (pass % 2) smoothAxis(from, to, columns, grid.length / columns, columns);
    else smoothAxis(from, to, 1, columns, columns);
    [from, to] = [to, from];
  }
  return from;
}

/** Smooth a grid along one axis: `step` is the distance of neighbouring cells, `length` their number in a line. */
function smoothAxis(from, to, step, length, columns) {
  const [far, near, middle] = KERNEL;
  for (let cell = 0; cell < from.length; cell++) {
    const at = step === 1 ? cell % columns : Math.floor(cell / columns);
    let sum = middle * from[cell];
    if (at > 0) sum += near * from[cell - step];
    if (at > 1) sum += far * from[cell - 2 * step];
    if (at + 1 < length) sum += near * from[cell + step];
    if (at + 2 < length) sum += far * from[cell + 2 * step];
    to[cell] = sum;
  }
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
