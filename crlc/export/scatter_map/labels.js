// Names on the map, at the densest place of each value. They never overlap: larger values come first, and a name that
// has no room is left out until the user zooms in.

const LABEL_GAP_PIXELS = 3;
const LABEL_AREA_PIXELS = 9000; // of the map, per name: more names would hide the points
const MIN_LABELS = 6;

/**
 * Place labels without overlap. Returns one [left, top] per label, in pixels; null for a label that is left out.
 *
 * `labels` are in the order of importance: {width, height, anchors}. A label is centred on the first of its anchors
 * ([x, y] in pixels) that is inside the window, and moved by as much as it would stick out.
 */
export function placeLabels(labels, width, height) {
  const limit = Math.max(MIN_LABELS, Math.floor((width * height) / LABEL_AREA_PIXELS));
  const boxes = [];
  return labels.map((label) => {
    const anchor = label.anchors.find(([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height);
    if (!anchor || boxes.length >= limit || label.width > width) return null;
    const left = Math.max(0, Math.min(width - label.width, anchor[0] - label.width / 2));
    const top = Math.max(0, Math.min(height - label.height, anchor[1] - label.height / 2));
    const box = [left, top, left + label.width + LABEL_GAP_PIXELS, top + label.height + LABEL_GAP_PIXELS];
    const isFree = boxes.every(
      (other) => box[0] >= other[2] || other[0] >= box[2] || box[1] >= other[3] || other[1] >= box[3],
    );
    if (!isFree) return null;
    boxes.push(box);
    return [left, top];
  });
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
      this.labels.push({ node, count: place.count, peaks: place.peaks });
    }
    this.labels.sort((one, two) => two.count - one.count);
    this.box.replaceChildren(...this.labels.map((label) => label.node));
    this.isMeasured = false;
  }

  /** Move the names; `toWindow` returns the position of map coordinates in pixels. */
  place(toWindow, width, height) {
    if (!this.isMeasured) {
      for (const label of this.labels) [label.width, label.height] = [label.node.offsetWidth, label.node.offsetHeight];
      this.isMeasured = true;
    }
    for (const label of this.labels) label.anchors = label.peaks.map(([x, y]) => toWindow(x, y));
    const placed = placeLabels(this.labels, width, height);
    this.labels.forEach(({ node }, index) => {
      const position = placed[index];
      node.style.visibility = position ? "visible" : "hidden"; // with its size, unlike `hidden`
      if (position) node.style.transform = `translate(${position[0].toFixed(1)}px, ${position[1].toFixed(1)}px)`;
    });
  }
}
