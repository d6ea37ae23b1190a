// Motion of the points from one layout of the map to the next. Points are matched by the ids of their images.

const MOTION_MS = 600;

/** Return the time in milliseconds. Tests set `window.crlcMapClock` to control it. */
function readClock() {
  return window.crlcMapClock?.() ?? performance.now();
}

/**
 * Find the points of a layout on the layout before it; both lists of ids are ascending.
 *
 * Returns the earlier coordinates of every point, NOWHERE for a new one; the number of points found; and whether the
 * layout has all earlier points and more.
 */
function matchPoints(ids, earlier) {
  const from = new Float32Array(2 * ids.length).fill(NOWHERE);
  let found = 0;
  for (let row = 0, other = 0; row < ids.length; row++) {
    while (other < earlier.ids.length && earlier.ids[other] < ids[row]) other++;
    if (earlier.ids[other] !== ids[row]) continue;
    from[2 * row] = earlier.coordinates[2 * other];
    from[2 * row + 1] = earlier.coordinates[2 * other + 1];
    found++;
  }
  return { from, found, isGrown: found === earlier.ids.length && found < ids.length };
}

class Motion {
  /** `from` comes from `matchPoints`. `view` is the view before, which turns into the new one; null to keep the view. */
  constructor(from, to, view) {
    this.from = from;
    this.to = to;
    this.view = view;
    this.start = null;
    this.progress = 0;
  }

  static isWanted() {
    return !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  /** Update the progress, and return whether the motion goes on. The first drawn frame starts it, not a slow download. */
  advance() {
    const now = readClock();
    this.start ??= now;
    const part = Math.max(0, Math.min(1, (now - this.start) / MOTION_MS));
    this.progress = part < 0.5 ? 4 * part ** 3 : 1 - 4 * (1 - part) ** 3;
    return part < 1;
  }

  /** Return where a point is drawn now. The vertex shader computes the same. */
  locate(row) {
    const [x, y] = [this.to[2 * row], this.to[2 * row + 1]];
    if (this.from[2 * row] === NOWHERE) return [x, y];
    return [mix(this.from[2 * row], x, this.progress), mix(this.from[2 * row + 1], y, this.progress)];
  }

  /** Return where all points are drawn now: the start of the next motion if the layout changes again. */
  computeCoordinates() {
    const coordinates = new Float32Array(this.to.length);
    for (let row = 0; 2 * row < coordinates.length; row++) coordinates.set(this.locate(row), 2 * row);
    return coordinates;
  }

  /** Return the view to draw on the way to `target`. The width of the view changes evenly: it zooms around one point. */
  computeView(target) {
    if (!this.view) return target;
    return {
      x: mix(this.view.x, target.x, this.progress),
      y: mix(this.view.y, target.y, this.progress),
      scale: 1 / mix(1 / this.view.scale, 1 / target.scale, this.progress),
    };
  }
}

function mix(from, to, progress) {
  return from * (1 - progress) + to * progress;
}

/** The layout of the map, and its change. Gestures that end while points move are ignored; hovering, too. */
class MovingMap extends Gestures {
  /** Replace the layout; points that were on the map before move. Return whether the view stays: the map only grows. */
  setLayout(coordinates, ids) {
    const { dataset, layout } = this.data;
    const earlier = this.layout?.dataset === dataset ? this.layout : null; // ids of other datasets mean other images
    if (earlier && this.motion) earlier.coordinates = this.motion.computeCoordinates();
    const matched = earlier && matchPoints(ids, earlier);
    const keepsView = Boolean(matched?.isGrown) && earlier.name === layout;
    const view = keepsView ? null : this.computeDrawnView();
    this.layout = { dataset, name: layout, ids, coordinates };
    this.ids = ids;
    this.coordinates = coordinates;
    this.finder = new NearestPoint(coordinates);
    const isMoving = matched?.found && this.canvas.clientWidth && Motion.isWanted();
    this.motion = isMoving ? new Motion(matched.from, coordinates, view) : null;
    this.frame.dataset.moving = String(Boolean(this.motion));
    this.points.setCoordinates(coordinates, this.motion?.from);
    this.hover(-1);
    return keepsView;
  }

  /** Move the points on to the current time. When they have arrived, the mouse can hover over them again. */
  advanceMotion() {
    if (!this.motion) return;
    this.needsRedraw = true;
    if (this.motion.advance()) return;
    this.motion = null;
    this.points.setBefore(null);
    this.frame.dataset.moving = "false";
    if (this.mouse && !this.pointers.size) this.hover(this.rowAt(this.mouse));
  }

  /** Return the view that is drawn now: `view`, or one on the way to it. */
  computeDrawnView() {
    return this.motion?.computeView(this.view) ?? { ...this.view };
  }
}
