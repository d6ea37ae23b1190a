// The map: connects points, view, input and legend. All texts are set as text content.
// `send` receives the gestures of the user: `region` (a polygon), `value` (of a legend entry), `clicked`, `hidden`
// and `cleared`.

const ZOOM_STEP = 1.3;
const HOVER_PIXELS = 9; // maximum distance of the mouse from a hovered point
const LASSO_SPACING_PIXELS = 4; // distance of the corners of a lasso
const MIN_POINT_PIXELS = 3.2;
const MAX_POINT_PIXELS = 14;
const DRAG_PIXELS = 4; // a press that moves less is a click
const TOOLS = { pan: "Move", lasso: "Lasso", box: "Box" };
const HELP = {
  pan: "Drag to move, scroll or pinch to zoom (key P)",
  lasso: "Draw around images to select them (key L, or Shift + drag; hold Ctrl to add to the selection)",
  box: "Drag a box around images to select them (key B, or Alt + drag; hold Ctrl to add to the selection)",
};

class PointMap extends MovingMap {
  constructor(root) {
    super();
    this.root = root;
    this.view = { x: 0, y: 0, scale: 100 };
    this.showsAll = true;
    this.tool = "pan";
    this.pointers = new Map();
    this.hovered = -1;
    this.build();
    this.points = makePoints(this.canvas);
    this.frame.dataset.kind = this.points.kind;
    this.watcher = new ResizeObserver(() => this.fit());
    this.watcher.observe(this.stage);
  }

  build() {
    this.frame = element("div", "map");
    this.frame.tabIndex = 0;
    this.frame.dataset.moving = "false";
    this.frame.setAttribute("role", "application");
    this.frame.setAttribute("aria-label", "Map of the images");
    this.canvas = element("canvas");
    this.drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.outline = document.createElementNS("http://www.w3.org/2000/svg", "path");
    this.drawing.append(this.outline);
    this.ring = element("div", "ring");
    this.focusRing = element("div", "ring place");
    this.marker = element("div", "marker");
    this.markerText = element("span");
    this.marker.append(this.markerText);
    this.card = element("div", "card");
    this.image = element("img");
    this.image.alt = "";
    this.caption = element("div");
    this.card.append(this.image, this.caption);
    this.status = element("div", "status");
    this.status.setAttribute("role", "status");
    this.tools = element("div", "tools");
    this.buttons = {};
    for (const [name, title] of Object.entries(TOOLS)) {
      this.buttons[name] = this.button(title, HELP[name], () => this.useTool(name));
    }
    this.layers = new Layers(this, (ids, receive, signal) => this.loadImages(ids, receive, signal));
    this.button("+", "Zoom in (key +)", () => this.zoom(ZOOM_STEP));
    this.button("−", "Zoom out (key −)", () => this.zoom(1 / ZOOM_STEP));
    this.button("Fit", "Show the whole map (key 0)", () => this.showAll());
    this.legend = new Legend(
      (hidden) => this.hide(hidden),
      (value) => this.highlight(value),
      (value, more) => this.send("value", { value, more }),
    );
    for (const hidden of [this.ring, this.focusRing, this.marker, this.card]) hidden.hidden = true;
    this.stage = element("div", "stage");
    const { canvas: overlay, labels, menu } = this.layers;
    this.stage.append(this.canvas, overlay, labels.box, this.drawing, this.focusRing, this.marker, this.ring, this.card);
    this.tools.append(menu, this.status);
    this.frame.append(this.tools, this.stage, this.legend.box);
    this.root.append(this.frame);
    this.listen();
    this.useTool("pan");
  }

  button(text, title, action) {
    const made = element("button", "", text);
    made.type = "button";
    made.title = title;
    if (!/\w/.test(text)) made.setAttribute("aria-label", title); // a word is its own name
    made.onclick = action;
    this.tools.append(made);
    return made;
  }

  useTool(name) {
    if (name !== "pan" && !this.canSelect) return;
    this.tool = name;
    this.frame.dataset.tool = name;
    for (const [other, button] of Object.entries(this.buttons)) button.setAttribute("aria-pressed", other === name);
  }

  // ---- data

  /** Set the options, masks and colours that the next points are shown with. */
  configure(data, send) {
    const images = [data.dataset, data.images, data.imageQuery].join(" ");
    if (this.imageSource !== images) this.layers.thumbnails.images.clear(); // the same ids mean other images
    this.imageSource = images;
    this.send = send;
    this.data = data;
    this.frame.style.height = data.height ? `${data.height}px` : "100%";
    this.frame.classList.toggle("compact", Boolean(data.compact));
    this.legend.box.hidden = Boolean(data.compact);
    this.canSelect = !data.compact && data.selecting !== false;
    for (const button of Object.values(this.buttons)) button.hidden = !this.canSelect; // one tool needs no button
  }

  /** Load images for `Thumbnails`; a subclass knows where they are. */
  async loadImages() {}

  /**
   * Show points. `names` has the values and legend entries that are drawn as names; by default those of the colours,
   * unless these are a ramp.
   */
  show(coordinates, ids, values, names = null) {
    const isNew = coordinates !== this.coordinates;
    const keepsView = isNew && this.setLayout(coordinates, ids);
    if (isNew) this.layers.reset();
    const scaleText = JSON.stringify(this.data.scale);
    const isRecoloured = values !== this.values || this.scaleText !== scaleText;
    const { kind, entries } = this.data.scale;
    this.names = names ?? (kind === "categories" ? { values, entries } : null);
    const namesText = JSON.stringify(this.names?.entries);
    if (this.namesText !== namesText || this.nameValues !== this.names?.values) {
      this.namesText = namesText;
      this.nameValues = this.names?.values;
      this.layers.reset();
      this.layers.redraw();
    }
    if (isRecoloured) {
      this.values = values;
      this.scaleText = scaleText;
      this.points.setValues(values, this.data.scale);
      this.legend.show(this.data.scale);
    }
    // Opening an image only moves a ring: the points need no update.
    const markText = JSON.stringify([this.data.shown, this.data.chosen, this.data.hidden]);
    if (isNew || isRecoloured || this.markText !== markText) {
      this.markText = markText;
      this.hidden = new Set(this.data.hidden);
      this.legend.mark(this.hidden);
      this.setFlags();
      this.draw();
    }
    if (isNew) this.fit(!keepsView);
    const { focus, marker } = this.data;
    if (focus && focus.turn !== this.focusTurn) {
      this.focusTurn = focus.turn;
      if (focus.move) this.moveTo(coordinates[2 * focus.row], coordinates[2 * focus.row + 1]);
    }
    const markerText = JSON.stringify(marker ?? null);
    if (this.shownMarker !== markerText) {
      this.shownMarker = markerText;
      this.markerText.textContent = marker?.text ?? "";
      if (marker) this.moveTo(marker.x, marker.y);
    }
    this.outline.setAttribute("d", "");
    this.drawRings();
    this.frame.dataset.chosen = String(this.chosenCount);
  }

  restorePoints() {
    this.points = makePoints(this.canvas);
    if (!this.coordinates) return;
    this.points.setCoordinates(this.coordinates, this.motion?.from);
    this.points.setValues(this.values, this.data.scale);
    this.points.setFlags(this.flags);
    this.draw();
  }

  setFlags() {
    const count = this.ids.length;
    const shown = bits(this.data.shown, count);
    const chosen = bits(this.data.chosen, count);
    const flags = new Uint8Array(count);
    const counts = new Uint32Array(NO_VALUE + 1);
    let total = 0;
    let isChanged = this.flags?.length !== count;
    for (let row = 0; row < count; row++) {
      const matches = !shown || shown(row);
      if (matches) counts[this.values[row]]++;
      const visible = matches && !this.hidden.has(this.values[row]);
      const marked = chosen && chosen(row);
      flags[row] = (visible ? 1 : 0) | (marked ? 2 : 0);
      if (visible && marked) total++;
      isChanged ||= (this.flags[row] & 1) !== (flags[row] & 1);
    }
    this.legend.count((value) => counts[value]);
    this.chosenCount = total;
    this.flags = flags;
    this.points.setFlags(flags);
    if (isChanged) this.layers.reset(); // a selection changes neither names nor contour lines
    const visible = (this.visibleCount = flags.reduce((sum, flag) => sum + (flag & 1), 0));
    const images = `${visible.toLocaleString("en")} images`;
    const text = total ? `${total.toLocaleString("en")} of ${images} selected` : images;
    this.status.textContent = this.data.compact ? "" : text;
  }

  hide(hidden) {
    this.hidden = hidden;
    this.setFlags();
    this.draw();
    this.send("hidden", [...hidden]);
  }

  /** Highlight one value while the mouse is on it in the legend. */
  highlight(value) {
    this.points.highlighted = value ?? -1;
    this.draw();
  }

  // ---- drawing

  draw() {
    this.needsRedraw = true;
    this.drawRings();
  }

  /** Draw in the next frame; the points only if they changed. */
  drawRings() {
    if (this.frameRequest) return;
    this.frameRequest = requestAnimationFrame(() => {
      this.frameRequest = 0;
      this.drawFrame();
    });
  }

  drawFrame() {
    if (!this.coordinates || !this.canvas.clientWidth) return;
    this.advanceMotion();
    const isMoved = this.needsRedraw;
    if (isMoved) this.drawPoints();
    if (isMoved || this.layers.isDirty) this.layers.draw(this.computeDrawnView());
    this.moveRing(this.ring, this.hovered);
    this.moveRing(this.focusRing, this.data.focus ? this.data.focus.row : -1);
    this.moveMarker();
    this.frame.dataset.view = [this.view.x, this.view.y, this.view.scale].join(" ");
    this.frame.dataset.drawn = String(this.ids.length);
    if (this.motion) this.drawRings();
  }

  drawPoints() {
    this.needsRedraw = false;
    const background = getComputedStyle(this.frame).getPropertyValue("--st-background-color");
    const view = this.computeDrawnView();
    const size = this.computePointSize(view) * (this.data.compact ? 0.6 : 1);
    this.points.draw(view, size, this.colour(background), this.motion?.progress ?? 1);
    this.frame.dataset.pointSize = size.toFixed(2);
  }

  /** Return the diameter of a point in CSS pixels: it grows with the distance of neighbouring points on the screen. */
  computePointSize(view) {
    return Math.max(MIN_POINT_PIXELS, Math.min(MAX_POINT_PIXELS, 1.7 * this.finder.spacing * view.scale));
  }

  colour(text) {
    if (text !== this.backgroundText) {
      this.backgroundText = text;
      const context = element("canvas").getContext("2d");
      context.fillStyle = text.trim() || "#fff";
      context.fillRect(0, 0, 1, 1);
      this.background = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }
    return this.background;
  }

  moveRing(ring, row) {
    const isThumbnail = ring === this.ring && this.layers.thumbnails.isShown(row); // it has a border already
    ring.hidden = row < 0 || row >= this.ids.length || isThumbnail;
    if (ring.hidden) return;
    const [x, y] = this.toScreen(row);
    ring.style.left = `${x}px`;
    ring.style.top = `${y}px`;
  }

  moveMarker() {
    const marker = this.data.marker;
    this.marker.hidden = !marker;
    if (!marker) return;
    const [x, y] = this.toWindow(marker.x, marker.y);
    this.marker.style.transform = `translate(${x}px, ${y}px)`;
  }

  // ---- hovering and clicking

  /** Return the point at a position on the screen; -1 for none, and while the points move. */
  rowAt(at) {
    if (!this.finder || this.motion) return -1;
    const thumbnail = this.layers.thumbnails.rowAt(at);
    if (thumbnail >= 0) return thumbnail;
    const [x, y] = this.toMap(at);
    return this.finder.find(x, y, HOVER_PIXELS / this.view.scale, this.flags);
  }

  hover(row) {
    if (this.motion) row = -1;
    if (row === this.hovered) return;
    this.hovered = row;
    if (this.layers.thumbnails.shown.length) this.layers.redraw();
    this.card.hidden = row < 0;
    this.legend.frame(row < 0 ? null : this.values[row]);
    if (row >= 0) {
      this.fillCard(row);
      const [x, y] = this.toScreen(row);
      const { clientWidth: width, clientHeight: height } = this.canvas;
      this.card.style.left = x > width / 2 ? "" : `${x + 16}px`;
      this.card.style.right = x > width / 2 ? `${width - x + 16}px` : "";
      this.card.style.top = y > height / 2 ? "" : `${Math.max(0, y - 10)}px`;
      this.card.style.bottom = y > height / 2 ? `${Math.max(0, height - y - 10)}px` : "";
    }
    this.drawRings();
  }

  /** Show an image and what the colour of its point means. */
  fillCard(row) {
    this.image.src = `${this.data.images}${this.ids[row]}${this.data.imageQuery}`;
    this.caption.textContent = this.describeValue(this.values[row]);
  }

  describeValue(value) {
    const scale = this.data.scale;
    if (scale.kind === "categories") return scale.entries.find((entry) => entry.value === value)?.text ?? "";
    return value === 65535 ? "" : `${scale.title} ${((100 * value) / 65534).toFixed(1)}%`;
  }

  destroy() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frameRequest);
    this.layers.destroy();
    this.points.destroy();
  }
}
