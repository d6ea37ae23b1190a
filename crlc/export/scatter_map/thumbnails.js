// Thumbnails instead of points where the user has zoomed in: one per cell of a grid that is fixed on the map, so that
// panning does not change the choice.

const MIN_CELL_PIXELS = 56;
const MAX_CELLS = 160; // in the window; about two thirds of them have a thumbnail
const MAX_REQUEST_IMAGES = 120; // as in app/urls.py
const SIDE_FRACTION = 0.82; // of a cell
// On average in the cells that hold a point: images would hide what more points still show. Per area of the screen, not
// per cell: the sides of cells are between one and two times the minimum, so images would come and go while zooming in.
const MAX_POINTS_PER_PIXEL = 30 / 80 ** 2;
const MIN_ZOOM = 2; // relative to the whole map: an overview has points
const MAX_CACHED_IMAGES = 600; // 24 MB at 100 × 100 pixels
const REQUEST_DELAY_MS = 60; // views on the way of a fast gesture request nothing
const FADE_MS = 150;

/** Return the side of a cell in map units: a power of two, so that cells are nested, at least so many pixels wide. */
export function chooseCellSide(scale, width, height) {
  const pixels = Math.max(MIN_CELL_PIXELS, Math.sqrt((width * height) / MAX_CELLS));
  return 2 ** Math.ceil(Math.log2(pixels / scale));
}

/**
 * Return the rows to show as thumbnails: of each cell the visible point nearest to its middle, selected points first.
 * Of two that would overlap, the one nearer to the middle of its cell stays; the other remains a point. Returns none if
 * the cells that hold a point have more than `maxPoints` on average.
 *
 * `window` is [left, bottom, right, top] in map coordinates; `side` is the side of a cell.
 */
export function chooseThumbnails(finder, flags, window, side, maxPoints) {
  const [left, bottom, right, top] = window;
  const first = [Math.floor(left / side) - 1, Math.floor(bottom / side) - 1];
  const last = [Math.floor(right / side) + 1, Math.floor(top / side) + 1];
  const columns = last[0] - first[0] + 1;
  const best = new Map();
  const { coordinates } = finder;
  let points = 0;
  finder.visit(first[0] * side, first[1] * side, (last[0] + 1) * side, (last[1] + 1) * side, (row) => {
    if (!(flags[row] & 1)) return;
    const [x, y] = [coordinates[2 * row] / side, coordinates[2 * row + 1] / side];
    const [column, line] = [Math.floor(x), Math.floor(y)];
    if (column < first[0] || column > last[0] || line < first[1] || line > last[1]) return;
    const cell = column - first[0] + columns * (line - first[1]);
    points++;
    const cost = (flags[row] & 2 ? 0 : 1) + Math.hypot(x - column - 0.5, y - line - 0.5);
    const known = best.get(cell);
    if (!known || cost < known.cost || (cost === known.cost && row < known.row)) best.set(cell, { row, cost, x, y });
  });
  const rows = [];
  if (points > maxPoints * best.size) return rows;
  for (const [cell, one] of best) {
    const [x, y] = [one.x * side, one.y * side];
    if (x < left || x > right || y < bottom || y > top) continue; // the margin only decides about overlaps
    let stays = true;
    for (const dy of [-1, 0, 1]) {
      for (const dx of [-1, 0, 1]) {
        const other = (dx || dy) && best.get(cell + dx + columns * dy);
        if (!other || Math.max(Math.abs(other.x - one.x), Math.abs(other.y - one.y)) >= SIDE_FRACTION) continue;
        if (other.cost < one.cost || (other.cost === one.cost && other.row < one.row)) stays = false;
      }
    }
    if (stays) rows.push(one.row);
  }
  return rows.sort((one, two) => one - two);
}

class Thumbnails {
  /** `load(ids, receive, signal)` loads images, and calls `receive(id, source)` for each; null if it has none. */
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
    this.images = new Map(); // by id, the least recently shown first: {source, time}
    this.shown = [];
  }

  /** Choose the thumbnails of the view, or none if it has too many points. */
  choose({ finder, flags, ids, visibleCount }, view, width, height, fittingScale) {
    this.shown = [];
    if (view.scale < MIN_ZOOM * fittingScale) return;
    const side = chooseCellSide(view.scale, width, height);
    const maxPoints = MAX_POINTS_PER_PIXEL * (side * view.scale) ** 2;
    const reach = [width / 2 / view.scale, height / 2 / view.scale];
    const area = [view.x - reach[0], view.y - reach[1], view.x + reach[0], view.y + reach[1]];
    // Most points need no visit: the view is dense if it has more points than all of its cells may have.
    const cells = (2 * reach[0] / side + 4) * (2 * reach[1] / side + 4);
    const rows = finder.countRows(area[0] - side, area[1] - side, area[2] + side, area[3] + side);
    if (rows * (visibleCount / Math.max(1, ids.length)) > maxPoints * cells) return;
    const pixels = side * view.scale * SIDE_FRACTION;
    for (const row of chooseThumbnails(finder, flags, area, side, maxPoints)) {
      const x = width / 2 + (finder.coordinates[2 * row] - view.x) * view.scale;
      const y = height / 2 - (finder.coordinates[2 * row + 1] - view.y) * view.scale;
      this.shown.push({ row, id: ids[row], x, y, side: pixels });
    }
    if (this.shown.some(({ id }) => !this.images.has(id))) this.timer ??= setTimeout(() => this.request(), REQUEST_DELAY_MS);
  }

  /** Request all images of the view that are missing: one request at a time, and none for a view that has passed. */
  async request() {
    this.timer = null;
    const ids = this.shown.map(({ id }) => id);
    const missing = ids.filter((id) => !this.images.has(id)).slice(0, MAX_REQUEST_IMAGES);
    const isStillNeeded = this.requested?.some((id) => missing.includes(id));
    if (!missing.length || isStillNeeded) return;
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    this.requested = missing;
    const receive = (id, source) => {
      if (controller.signal.aborted) return;
      this.images.set(id, { source, time: performance.now() });
      this.changed();
    };
    await this.load(missing, receive, controller.signal);
    if (controller.signal.aborted) return;
    this.requested = null;
    for (const id of missing) if (!this.images.has(id)) this.images.set(id, { source: null, time: 0 });
    this.forget();
    this.changed(); // the view may have moved on
  }

  forget() {
    const current = new Set(this.shown.map(({ id }) => id));
    for (const id of this.images.keys()) {
      if (this.images.size <= MAX_CACHED_IMAGES) return;
      if (!current.has(id)) this.images.delete(id);
    }
  }

  /** Draw the loaded thumbnails; `style(row)` returns {colour, opacity, isMarked}. Return whether one is fading in. */
  draw(context, style) {
    const now = performance.now();
    let isFading = false;
    this.loadedCount = 0;
    for (const one of this.shown) {
      const image = this.images.get(one.id);
      one.isDrawn = Boolean(image?.source);
      if (image) this.loadedCount++;
      if (!one.isDrawn) continue;
      this.images.delete(one.id); // shown last: forgotten last
      this.images.set(one.id, image);
      const { source } = image;
      const [wide, high] = [source.naturalWidth ?? source.width, source.naturalHeight ?? source.height];
      const factor = one.side / Math.max(wide, high);
      [one.wide, one.high] = [wide * factor, high * factor];
      const [left, top] = [one.x - one.wide / 2, one.y - one.high / 2];
      const age = Math.min(1, (now - image.time) / FADE_MS);
      isFading ||= age < 1;
      const { colour, opacity, isMarked } = style(one.row);
      context.globalAlpha = opacity * age;
      context.drawImage(source, left, top, one.wide, one.high);
      context.strokeStyle = colour;
      context.lineWidth = isMarked ? 5 : 3;
      context.strokeRect(left, top, one.wide, one.high);
    }
    context.globalAlpha = 1;
    return isFading;
  }

  /** Return the row of the thumbnail at a position in pixels; -1 for none. */
  rowAt([x, y]) {
    const found = this.shown.find(
      (one) => one.isDrawn && Math.abs(x - one.x) <= one.wide / 2 && Math.abs(y - one.y) <= one.high / 2,
    );
    return found?.row ?? -1;
  }

  isShown(row) {
    return this.shown.some((one) => one.isDrawn && one.row === row);
  }

  destroy() {
    clearTimeout(this.timer);
    this.controller?.abort();
  }
}
