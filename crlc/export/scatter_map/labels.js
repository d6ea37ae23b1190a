// Names on the map, at the densest place of each value. They never overlap: larger values come first, and a name that
// has no room is left out until the user zooms in.

const LABEL_GAP_PIXELS = 3;
const LABEL_AREA_PIXELS = 9000; // of the map, per name: more names would hide the points
const MIN_LABELS = 6;
const OFFSETS = [[0, 0], [0, -1], [0, 1]]; // from an anchor, in widths and heights of the label
const OFFSETS_BESIDE_POINTS = [[0, -1], [0, 1]]; // of a label that would hide most points of its value
const MAX_COVERED = 0.6; // of the points of a value, below its label
const POINT_PIXELS = 5; // radius of a point, which a label beside the points leaves free
const OFFSETS_AMONG_IMAGES = [0, -0.5, 0.5].flatMap((x) => [0, -1, 1, -2, 2].map((y) => [x, y]));
const OFFSET_COST = 0.02; // each further offset counts as much as this fraction of the label over others
const IMAGE_MIDDLE = 0.7; // of the side of an image, which names leave free if possible

/**
 * Place labels without overlap. Returns one [left, top] per label, in pixels; null for a label that is left out.
 *
 * `labels` are in the order of importance: {width, height, anchors, reach}. A label is centred on the first of its
 * anchors ([x, y] in pixels, inside the window) where it is free, or else one height above or below, and moved by as much
 * as it would stick out. If it would hide most points of its value, which are within `reach` ([x, y] in pixels) of an
 * anchor, it is above or below them. Of these points and of `images` ({x, y, side}), it covers as little as possible.
 */
export function placeLabels(labels, width, height, images = []) {
  const limit = Math.max(MIN_LABELS, Math.floor((width * height) / LABEL_AREA_PIXELS));
  const middles = images.map(({ x, y, side }) => {
    const reach = (IMAGE_MIDDLE * side) / 2;
    return [x - reach, y - reach, x + reach, y + reach];
  });
  const smallGroups = middles.length ? [] : labels.filter((label) => computeCovered(label) > MAX_COVERED);
  const hasSmallGroup = new Set(smallGroups);
  const groups = smallGroups.flatMap(({ anchors, reach }) => {
    const [right, down] = reach.map((distance) => distance + POINT_PIXELS);
    return anchors.map(([x, y]) => [x - right, y - down, x + right, y + down]);
  });
  const boxes = [];
  const isFree = (box) => boxes.every((other) => !computeOverlap(box, other));
  return labels.map((label) => {
    if (boxes.length >= limit || label.width > width) return null;
    const hidesPoints = hasSmallGroup.has(label);
    const [wide, high] = [label.width, label.height + LABEL_GAP_PIXELS];
    const away = hidesPoints ? label.reach[1] + POINT_PIXELS + LABEL_GAP_PIXELS + label.height / 2 : high;
    const place = ([x, y], [right, down]) => {
      const left = Math.max(0, Math.min(width - wide, x + (right - 0.5) * wide));
      const top = Math.max(0, Math.min(height - label.height, y + down * away - label.height / 2));
      return [left, top, left + wide + LABEL_GAP_PIXELS, top + high];
    };
    let box = null;
    if (middles.length) box = findLeastCovering(label.anchors, OFFSETS_AMONG_IMAGES, place, isFree, middles);
    else if (hidesPoints) box = findLeastCovering(label.anchors, OFFSETS_BESIDE_POINTS, place, isFree, groups);
    if (!middles.length) box ??= OFFSETS.flatMap((offset) => label.anchors.map((anchor) => place(anchor, offset))).find(isFree);
    if (!box) return null;
    boxes.push(box);
    return box.slice(0, 2);
  });
}

/** Return about which fraction of the points of its value a label hides if it is centred on them; 0 if unknown. */
function computeCovered({ width, height, reach }) {
  return reach ? Math.min(1, width / (2 * reach[0])) * Math.min(1, height / (2 * reach[1])) : 0;
}

/** Return the free box around the first possible anchor that covers the least of what is below the labels. */
function findLeastCovering(anchors, offsets, place, isFree, below) {
  for (const anchor of anchors) {
    let [best, least] = [null, Infinity];
    offsets.forEach((offset, index) => {
      const box = place(anchor, offset);
      if (!isFree(box)) return;
      const covered = below.reduce((sum, other) => sum + computeOverlap(box, other), 0);
      const cost = covered / ((box[2] - box[0]) * (box[3] - box[1])) + OFFSET_COST * index;
      if (cost < least) [best, least] = [box, cost];
    });
    if (best) return best;
  }
  return null;
}

/** Return the area that two boxes (left, top, right, bottom) have in common. */
function computeOverlap(one, other) {
  const wide = Math.min(one[2], other[2]) - Math.max(one[0], other[0]);
  const high = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  return Math.max(0, wide) * Math.max(0, high);
}

class MapLabels {
  constructor() {
    this.box = element("div", "labels");
    this.box.setAttribute("aria-hidden", "true"); // the legend has the same names
    this.labels = [];
  }

  /** Set the names, {value, text, colour} each, and the places from `findPeaks`. */
  show(entries, places) {
    this.labels = [];
    for (const entry of entries) {
      const place = places.get(entry.value);
      if (!place || entry.value === NO_VALUE || !entry.text) continue;
      const node = element("div", "label");
      const dot = element("span", "dot");
      dot.style.background = entry.colour;
      node.append(dot, element("span", "text", entry.text));
      this.labels.push({ node, value: entry.value, count: place.count, place });
    }
    this.labels.sort((one, two) => two.count - one.count);
    this.box.replaceChildren(...this.labels.map((label) => label.node));
    this.isMeasured = false;
  }

  /**
   * Move the names; `toWindow` returns the position of map coordinates in pixels, and `findPlaces` the densest places in
   * the window, which names get whose own places are outside. `images` are those that lie over the map.
   */
  place(toWindow, width, height, images, findPlaces) {
    if (!this.isMeasured) {
      for (const label of this.labels) [label.width, label.height] = [label.node.offsetWidth, label.node.offsetHeight];
      this.isMeasured = true;
    }
    const isInside = ([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height;
    const scale = toWindow(1, 0)[0] - toWindow(0, 0)[0];
    for (const label of this.labels) {
      label.reach = label.place.reach.map((distance) => distance * scale);
      label.anchors = label.place.peaks.map(([x, y]) => toWindow(x, y)).filter(isInside);
    }
    const inside = this.labels.filter((label) => label.anchors.length);
    const others = inside.length < this.labels.length ? this.moveInside(toWindow, findPlaces()) : [];
    const ordered = [...inside, ...others];
    const placed = placeLabels(ordered, width, height, images);
    const positions = new Map(ordered.map((label, index) => [label, placed[index]]));
    for (const label of this.labels) {
      const position = positions.get(label);
      label.node.style.visibility = position ? "visible" : "hidden"; // with its size, unlike `hidden`
      if (position) label.node.style.transform = `translate(${position[0].toFixed(1)}px, ${position[1].toFixed(1)}px)`;
    }
  }

  /** Give labels without an anchor the densest visible place of their value; return these, the most frequent first. */
  moveInside(toWindow, places) {
    const others = this.labels.filter((label) => !label.anchors.length && places.has(label.value));
    for (const label of others) {
      label.anchors = [toWindow(...places.get(label.value).place)];
      label.reach = null; // the window shows a part of its points
    }
    return others.sort((one, two) => places.get(two.value).count - places.get(one.value).count);
  }
}
