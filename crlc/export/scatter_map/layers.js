// What lies over the points: names, thumbnails and contour lines, and the menu that turns them on and off.

const CONTOUR_FRACTIONS = [0.9, 0.7, 0.5, 0.3, 0.1];
const STORAGE_KEY = "crlc-map-layers";
const LAYERS = {
  names: ["Names", "Shows names at the densest place of each cluster. Zoom in to see more of them.", true],
  images: ["Images", "Shows images instead of points when you zoom in.", true],
  contours: ["Contour lines", "Shows lines around the densest places with 10, 30, 50, 70 and 90% of the points.", false],
};

class Layers {
  /** `map` is the PointMap; `load` is that of `Thumbnails`. */
  constructor(map, load) {
    this.map = map;
    this.canvas = element("canvas", "overlay");
    this.context = this.canvas.getContext("2d");
    this.labels = new MapLabels();
    this.thumbnails = new Thumbnails(load, () => this.redraw());
    this.isOn = this.readChoice();
    this.menu = this.buildMenu();
  }

  /** The choice of the user stays; storage may be forbidden. */
  readChoice() {
    const usual = Object.fromEntries(Object.entries(LAYERS).map(([name, [, , isOn]]) => [name, isOn]));
    try {
      return { ...usual, ...JSON.parse(localStorage.getItem(STORAGE_KEY)) };
    } catch {
      return usual;
    }
  }

  buildMenu() {
    const menu = element("details", "layers");
    const title = element("summary", "", "Show");
    title.title = "Choose what lies over the points";
    const list = element("div");
    for (const [name, [text, help]] of Object.entries(LAYERS)) {
      const line = element("label", "", text);
      line.title = help;
      const box = element("input");
      box.type = "checkbox";
      box.name = name;
      box.checked = this.isOn[name];
      box.onchange = () => this.turn(name, box.checked);
      line.prepend(box);
      list.append(line);
    }
    menu.append(title, list);
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.stopPropagation();
      menu.open = false;
      title.focus();
    });
    // A press on a text would move the focus to the map around it, which closes the menu before the click.
    list.addEventListener("mousedown", (event) => {
      if (event.target.tagName !== "INPUT") event.preventDefault();
    });
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(event.relatedTarget)) menu.open = false;
    });
    return menu;
  }

  turn(name, isOn) {
    this.isOn[name] = isOn;
    try {
      localStorage.setItem(STORAGE_KEY, JSON.stringify(this.isOn));
    } catch {
      // the choice holds until the page is closed
    }
    this.map.draw();
  }

  /** Forget what depends on the points, after these or their flags changed. */
  reset() {
    this.places = this.contours = null;
  }

  /** Draw again in the next frame, without the points. */
  redraw() {
    this.isDirty = true;
    this.map.drawRings();
  }

  /** Draw everything for the view; nothing while points move. */
  draw(view) {
    this.isDirty = false;
    const { map, context, canvas } = this;
    const { clientWidth: width, clientHeight: height } = map.canvas;
    const isStill = !map.motion && !map.data.compact;
    const ratio = map.canvas.width / width;
    if (canvas.width !== map.canvas.width || canvas.height !== map.canvas.height) {
      [canvas.width, canvas.height] = [map.canvas.width, map.canvas.height];
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (this.isDrawn) context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const hasContours = isStill && this.isOn.contours;
    if (hasContours) this.drawContours(view, width, height, ratio);
    const hasImages = isStill && this.isOn.images;
    if (hasImages) this.thumbnails.choose(map, view, width, height, map.computeFittingScale());
    else this.thumbnails.shown = [];
    if (this.thumbnails.draw(context, (row) => this.styleThumbnail(row))) this.redraw();
    this.isDrawn = hasContours || this.thumbnails.shown.length > 0;
    map.frame.dataset.thumbnails = `${this.thumbnails.loadedCount}/${this.thumbnails.shown.length}`;
    this.labels.box.hidden = !(isStill && this.isOn.names && map.names);
    if (!this.labels.box.hidden) this.placeLabels(view, width, height);
  }

  styleThumbnail(row) {
    const { map } = this;
    const { highlighted, anyChosen } = map.points;
    const isChosen = map.flags[row] >= 2;
    const isOther = highlighted >= 0 && map.values[row] !== highlighted;
    const opacity = isOther ? 0.15 : anyChosen && !isChosen ? 0.4 : 1;
    return { colour: map.points.getColour(map.values[row]), opacity, isMarked: isChosen || row === map.hovered };
  }

  placeLabels(view, width, height) {
    const { map } = this;
    const [right, up] = [width / 2 / view.scale, height / 2 / view.scale];
    const area = [view.x - right, view.y - up, view.x + right, view.y + up];
    if (!this.places) {
      this.places = findPeaks(map.coordinates, map.names.values, map.flags);
      this.labels.show(map.names.entries, this.places);
    }
    const findPlaces = () => findVisiblePlaces(map.finder, map.names.values, map.flags, area);
    this.labels.place((x, y) => map.toWindow(x, y), width, height, this.thumbnails.shown, findPlaces);
  }

  drawContours(view, width, height, ratio) {
    const { map, context } = this;
    this.contours ??= computeContours(map.coordinates, map.flags, CONTOUR_FRACTIONS).map((segments) => {
      const path = new Path2D();
      for (let at = 0; at < segments.length; at += 4) {
        path.moveTo(segments[at], segments[at + 1]);
        path.lineTo(segments[at + 2], segments[at + 3]);
      }
      return path;
    });
    context.save();
    context.translate(width / 2, height / 2);
    context.scale(view.scale, -view.scale);
    context.translate(-view.x, -view.y);
    context.strokeStyle = getComputedStyle(map.frame).color;
    context.lineWidth = 1.2 / view.scale;
    context.lineCap = "round";
    this.contours.forEach((path, index) => {
      context.globalAlpha = 0.3 + (0.5 * index) / CONTOUR_FRACTIONS.length; // the densest places have the darkest lines
      context.stroke(path);
    });
    context.restore();
    map.frame.dataset.contours = String(this.contours.length);
  }

  destroy() {
    this.thumbnails.destroy();
  }
}
