// One large image with zoom and pan. Sends `stepped` (1 or -1) and `revealed` to Python. All texts are text content.
// `view` is {x, y, scale}: position of the upper left corner in the stage, and CSS pixels per pixel of the original.

const ZOOM_STEP = 1.4;
const MAX_SCALE = 16; // CSS pixels per pixel of the original; tiny images fill the stage beyond it

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

class Lightbox {
  constructor(root) {
    this.root = root;
    this.pointers = new Map();
    this.build();
    this.watcher = new ResizeObserver(() => (this.isFitted ? this.fit() : this.view && this.draw()));
    this.watcher.observe(this.stage);
    // The keys work everywhere in the dialog, except in its text fields.
    this.onKey = (event) => this.key(event);
    this.scope = (root.host ?? root).closest("[role=dialog]") ?? root;
    this.scope.addEventListener("keydown", this.onKey);
    this.onLostKey = (event) => this.recoverKey(event);
    document.addEventListener("keydown", this.onLostKey);
  }

  build() {
    this.box = element("div", "lightbox");
    this.box.tabIndex = 0;
    this.title = element("h2", "title");
    this.position = element("span", "position");
    this.copy = this.button("Copy path", "Copies the path of the file.", () => this.copyPath());
    this.reveal = this.button("Show in folder", "Opens the folder of the file.", () => this.send("revealed", true));
    const bar = element("div", "bar");
    bar.append(this.title, this.position, this.copy, this.reveal);
    this.stage = element("div", "stage");
    this.image = element("img");
    this.image.alt = "";
    this.image.draggable = false;
    this.image.onload = () => this.loaded();
    this.image.onerror = () => (this.message.textContent = "This image cannot be shown.");
    this.message = element("div", "message");
    this.previous = this.button("‹", "Previous image (←)", () => this.step(-1));
    this.next = this.button("›", "Next image (→)", () => this.step(1));
    this.previous.className = "step previous";
    this.next.className = "step next";
    this.scale = element("span", "scale");
    this.scale.setAttribute("role", "status");
    const zoom = element("div", "zoom");
    zoom.append(
      this.button("−", "Zoom out (−)", () => this.zoom(1 / ZOOM_STEP)),
      this.scale,
      this.button("+", "Zoom in (+)", () => this.zoom(ZOOM_STEP)),
      this.button("1:1", "Show the pixels of the original (1)", () => this.zoomTo(1)),
      this.button("Fit", "Show the whole image (0)", () => this.fit()),
    );
    this.stage.append(this.image, this.message, this.previous, this.next, zoom);
    this.box.append(bar, this.stage);
    this.root.append(this.box);
    this.listen();
  }

  button(text, title, action) {
    const made = element("button", "", text);
    made.type = "button";
    made.title = title;
    if (text.length === 1) made.setAttribute("aria-label", title); // a symbol is no name
    made.onclick = action;
    made.onpointerdown = (event) => event.stopPropagation(); // the stage would drag
    made.ondblclick = (event) => event.stopPropagation();
    return made;
  }

  listen() {
    const stage = this.stage;
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), this.at(event));
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.moved(event));
    for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, (event) => this.up(event));
    stage.addEventListener("dblclick", (event) => (this.isZoomed() ? this.fit() : this.zoomTo(this.closeScale(), this.at(event))));
  }

  // ---- data from Python

  update(data, send) {
    this.send = send;
    const isOther = this.data?.url !== data.url;
    this.data = data;
    this.title.textContent = data.name;
    this.title.title = data.path;
    this.position.textContent = data.position;
    this.reveal.hidden = !data.can_reveal;
    this.previous.disabled = !data.has_previous;
    this.next.disabled = !data.has_next;
    this.waits = false;
    this.preloaded = data.preload.map((url) => Object.assign(new Image(), { src: url }));
    if (!isOther) return;
    this.copy.textContent = "Copy path";
    this.message.textContent = "";
    this.hasOriginal = false;
    this.image.hidden = true;
    this.image.src = data.url;
    if (!this.wasFocused) this.box.focus({ preventScroll: true });
    this.wasFocused = true;
  }

  loaded() {
    this.image.hidden = false;
    this.box.dataset.shown = String(this.data.id);
    if (!this.hasOriginal) this.fit();
    else this.draw();
  }

  /** Size of the original in pixels, upright. */
  size() {
    const { naturalWidth: width, naturalHeight: height } = this.image;
    const longer = Math.max(this.data.width ?? 0, this.data.height ?? 0);
    const factor = longer && width ? Math.max(1, longer / Math.max(width, height)) : 1;
    return [width * factor, height * factor];
  }

  // ---- view

  fittingScale() {
    const [width, height] = this.size();
    return width ? Math.min(this.stage.clientWidth / width, this.stage.clientHeight / height) : 1;
  }

  isZoomed() {
    return Boolean(this.view) && this.view.scale > this.fittingScale() * 1.001;
  }

  /** Scale of a double click: the pixels of the original, or twice the size if the image is small. */
  closeScale() {
    return Math.max(1, 2 * this.fittingScale());
  }

  /** Show the whole image, also when the window changes, until the user zooms. */
  fit() {
    if (!this.image.naturalWidth || !this.stage.clientWidth) return;
    this.isFitted = true;
    this.view = { x: 0, y: 0, scale: this.fittingScale() };
    this.draw();
  }

  zoomTo(scale, at) {
    if (this.view) this.zoom(scale / this.view.scale, at);
  }

  zoom(by, at = [this.stage.clientWidth / 2, this.stage.clientHeight / 2]) {
    if (!this.view) return;
    const fitting = this.fittingScale();
    const scale = Math.max(Math.min(1, fitting), Math.min(this.view.scale * by, Math.max(MAX_SCALE, fitting)));
    const factor = scale / this.view.scale;
    this.isFitted = scale === fitting;
    this.view = { x: at[0] - (at[0] - this.view.x) * factor, y: at[1] - (at[1] - this.view.y) * factor, scale };
    this.draw();
  }

  /** Keep the image in the stage: no gap beside an image that is larger than the stage. */
  limit() {
    const [width, height] = this.size().map((side) => side * this.view.scale);
    const place = (at, side, room) => (side <= room ? (room - side) / 2 : Math.min(0, Math.max(room - side, at)));
    this.view.x = place(this.view.x, width, this.stage.clientWidth);
    this.view.y = place(this.view.y, height, this.stage.clientHeight);
  }

  draw() {
    this.limit();
    const { x, y, scale } = this.view;
    const factor = (scale * this.size()[0]) / this.image.naturalWidth;
    this.image.style.transform = `translate(${x}px, ${y}px) scale(${factor})`;
    this.stage.classList.toggle("zoomed", this.isZoomed());
    this.scale.textContent = `${Math.round(100 * scale)}%`;
    this.box.dataset.view = [x, y, scale].join(" ");
    this.loadOriginal(factor);
  }

  /** Load the original once its pixels are visible: when a pixel of the smaller image covers more than one. */
  loadOriginal(factor) {
    const isSmaller = this.size()[0] > this.image.naturalWidth + 1;
    if (this.hasOriginal || !isSmaller || factor * (window.devicePixelRatio || 1) <= 1.05) return;
    this.hasOriginal = true;
    const { original_url: url } = this.data;
    const image = new Image();
    image.src = url;
    image.decode().then(() => this.data.original_url === url && (this.image.src = url), () => {});
  }

  // ---- input

  at(event) {
    const box = this.stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button) return;
    this.stage.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.stage.classList.toggle("dragging", this.isZoomed());
  }

  moved(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before || !this.view) return;
    const at = this.at(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, at);
    if (others.length) {
      const distance = (place) => Math.hypot(place[0] - others[0][0], place[1] - others[0][1]);
      this.zoom(distance(at) / Math.max(1, distance(before)), others[0]);
    } else {
      this.view.x += at[0] - before[0];
      this.view.y += at[1] - before[1];
      this.draw();
    }
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    this.stage.classList.remove("dragging");
  }

  key(event) {
    const target = event.composedPath()[0];
    const isTyping = target.closest?.("input, textarea, select, [role=listbox], [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      "+": () => this.zoom(ZOOM_STEP), "=": () => this.zoom(ZOOM_STEP), "-": () => this.zoom(1 / ZOOM_STEP),
      "0": () => this.fit(), "1": () => this.zoomTo(1),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }

  /** Handle a key that the page received because the focused button has disappeared, such as that of Undo. */
  recoverKey(event) {
    if (event.target !== document.body || event.defaultPrevented) return;
    this.box.focus({ preventScroll: true });
    if (event.key !== "Escape") this.key(event);
    else this.box.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", code: "Escape", keyCode: 27, bubbles: true, composed: true, cancelable: true }));
  }

  /** Ask Python for the next or previous image; further steps are ignored until it is there. */
  step(by) {
    if (this.waits || !(by > 0 ? this.data.has_next : this.data.has_previous)) return;
    this.waits = true;
    this.send("stepped", by);
  }

  async copyPath() {
    try {
      await navigator.clipboard.writeText(this.data.path);
      this.copy.textContent = "Copied";
    } catch {
      this.copy.textContent = "Copying is not allowed";
    }
  }

  destroy() {
    this.watcher.disconnect();
    this.scope.removeEventListener("keydown", this.onKey);
    document.removeEventListener("keydown", this.onLostKey);
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const lightbox = (parentElement.lightbox ||= new Lightbox(parentElement));
  lightbox.update(data, setTriggerValue);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.lightbox !== lightbox) return;
      lightbox.destroy();
      parentElement.lightbox = null;
    });
}
