// Groups of duplicates, one at a time. A decision is shown at once, and sent until Python confirms that it is on disk.
// Paths are safe text: they are only ever set as text content.

const TYPED_IN = "input, textarea, select, [contenteditable=''], [contenteditable='true']";
const OWN_KEYS = "button, a, summary, [role=radio], [role=tab], [role=option]";
const IMAGE_SIDE = 640; // pixels
const PRELOADED_GROUPS = 2;
const MAX_LARGE_IMAGES = 4;
const [ID, PATH, WIDTH, HEIGHT, BYTES, SHARPNESS, HASH] = [0, 1, 2, 3, 4, 5, 6];

function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function formatCount(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function buildButton(className, text, key, act) {
  const made = element("button", className, text);
  made.type = "button";
  if (key) made.append(element("kbd", "", key));
  made.onclick = act;
  return made;
}

class Desk {
  constructor() {
    this.marks = new Map(); // images to keep by group, while they are not saved
    this.root = element("div", "desk");
    this.head = element("div", "head");
    this.place = element("strong", "place");
    this.kind = element("span", "kind");
    this.progress = element("span", "progress");
    this.progress.setAttribute("role", "status");
    this.head.append(this.place, this.kind, this.progress);
    this.problem = element("div", "problem");
    this.problem.setAttribute("role", "alert");
    this.images = element("div", "images");
    this.actions = element("div", "actions");
    this.confirm = buildButton("main", "", "Space", () => this.decide([...this.getMarks()]));
    this.confirmText = document.createTextNode("");
    this.confirm.prepend(this.confirmText);
    this.all = buildButton("", "Keep all", "A", () => this.decide(this.getIds()));
    this.back = buildButton("", "Undo", "Z", () => this.undo());
    this.previous = buildButton("", "Previous", "←", () => this.step(-1));
    this.next = buildButton("", "Next", "→", () => this.step(1));
    this.actions.append(this.confirm, this.all, this.back, this.previous, this.next);
    this.root.append(this.head, this.problem, this.images, this.actions);
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
  }

  /** Apply the data from Python; the current group stays. */
  update(data) {
    const isNew = !this.data || this.data.groups.map((group) => group.key).join() !== data.groups.map((group) => group.key).join();
    this.data = data;
    this.edits.confirm(data);
    this.excluded = new Set(data.excluded);
    this.undecided = new Set(data.undecided);
    if (isNew) {
      this.marks.clear();
      this.at = Math.max(0, data.groups.findIndex((group) => this.undecided.has(group.key)));
    }
    if (data.undone && data.answered !== this.lastUndone) {
      this.lastUndone = data.answered;
      const index = data.groups.findIndex((group) => group.key === data.undone);
      if (index >= 0) this.at = index;
    }
    this.draw();
  }

  get group() {
    return this.data.groups[this.at];
  }

  getIds(group = this.group) {
    return group.images.map((image) => image[ID]);
  }

  getDecision(group) {
    return this.edits.find((edit) => edit.group === group.key);
  }

  isDecided(group) {
    return this.getDecision(group) !== undefined || !this.undecided.has(group.key);
  }

  /** Return the images to keep: as marked, as decided, or the proposed one. */
  getMarks(group = this.group) {
    if (this.marks.has(group.key)) return this.marks.get(group.key);
    const decision = this.getDecision(group);
    if (decision) return new Set(decision.keep);
    const remaining = this.getIds(group).filter((id) => !this.excluded.has(id));
    return new Set(this.isDecided(group) ? remaining : remaining.slice(0, 1));
  }

  decide(keep) {
    if (!keep.length) return;
    const { key } = this.group;
    this.marks.delete(key);
    this.edits.add({ group: key, keep }, (one) => one.group === key);
    this.at = this.findNext();
    this.draw();
  }

  undo() {
    this.edits.add({ undo: true, group: "" }, () => false);
    this.draw();
  }

  /** Return the next undecided group, also before this one; the last group if there is none. */
  findNext() {
    const { groups } = this.data;
    for (let step = 1; step <= groups.length; step++) {
      const index = (this.at + step) % groups.length;
      if (!this.isDecided(groups[index])) return index;
    }
    return Math.min(this.at + 1, groups.length - 1);
  }

  step(by) {
    this.at = Math.min(this.data.groups.length - 1, Math.max(0, this.at + by));
    this.draw();
  }

  toggle(id) {
    const marks = new Set(this.getMarks());
    if (!marks.delete(id)) marks.add(id);
    this.marks.set(this.group.key, marks);
    this.draw();
  }

  // ---- drawing

  draw() {
    const { groups, saved, message } = this.data;
    const group = this.group;
    const decided = groups.filter((one) => this.isDecided(one)).length;
    this.place.textContent = `Group ${(this.at + 1).toLocaleString("en")} of ${groups.length.toLocaleString("en")}`;
    this.kind.textContent = group.exact ? "identical files" : `near duplicates, ${Math.floor(100 * group.score)} % of the hash equal`;
    const state = this.edits.pending.length ? "Saving …" : saved ? `Saved ${saved}` : "";
    const left = groups.length - decided;
    this.progress.textContent = [left ? `${decided.toLocaleString("en")} decided` : "All groups are decided", state].filter(Boolean).join(" · ");
    this.root.dataset.pending = this.edits.pending.length;
    this.root.dataset.decided = decided;
    this.problem.textContent = message ?? "";
    this.problem.hidden = !message;
    if (this.shown !== group.key) this.drawImages(group);
    const marks = this.getMarks();
    for (const [id, tile] of this.tiles) {
      const isKept = marks.has(id);
      tile.root.classList.toggle("kept", isKept);
      tile.root.setAttribute("aria-pressed", isKept);
      tile.state.textContent = isKept ? "Keep" : "Exclude";
    }
    const out = group.images.length - marks.size;
    this.confirmText.textContent = out ? `Keep ${marks.size}, exclude ${out}` : `Keep ${formatCount(marks.size, "image")}`;
    this.confirm.disabled = !marks.size;
    this.previous.disabled = this.at === 0;
    this.next.disabled = this.at === groups.length - 1;
  }

  drawImages(group) {
    this.shown = group.key;
    const most = [WIDTH, BYTES, SHARPNESS].map((field) =>
      Math.max(...group.images.map((image) => (field === WIDTH ? image[WIDTH] * image[HEIGHT] : image[field]))));
    this.tiles = new Map();
    this.images.classList.toggle("many", group.images.length > MAX_LARGE_IMAGES);
    this.images.style.setProperty("--columns", Math.min(group.images.length, MAX_LARGE_IMAGES));
    const tiles = group.images.map((image, order) => {
      const root = element("button", "tile");
      root.type = "button";
      const picture = element("img");
      picture.alt = "";
      if (order >= MAX_LARGE_IMAGES) picture.loading = "lazy";
      picture.onerror = () => root.classList.add("broken");
      picture.src = this.buildUrl(image);
      const frame = element("span", "frame");
      frame.append(picture);
      const state = element("span", "state");
      const top = element("span", "top");
      if (order < 9) top.append(element("kbd", "", order + 1));
      top.append(state);
      const path = element("span", "path", image[PATH]);
      const facts = element("span", "facts");
      const values = [
        [`${image[WIDTH]} × ${image[HEIGHT]}`, image[WIDTH] * image[HEIGHT] === most[0]],
        [formatBytes(image[BYTES]), image[BYTES] === most[1]],
        [`sharpness ${image[SHARPNESS].toFixed(2)}`, image[SHARPNESS] === most[2]],
      ];
      facts.append(...values.map(([text, isBest]) => element("span", isBest && !group.exact ? "best" : "", text)));
      root.append(top, frame, path, facts);
      root.title = image[PATH];
      root.onclick = () => this.toggle(image[ID]);
      this.tiles.set(image[ID], { root, state });
      return root;
    });
    this.images.replaceChildren(...tiles);
    this.images.scrollTop = 0;
    this.preload();
  }

  buildUrl(image) {
    return `/images/${encodeURIComponent(this.data.dataset)}/${image[ID]}?side=${IMAGE_SIDE}&v=${image[HASH]}`;
  }

  preload() {
    const following = this.data.groups.slice(this.at + 1, this.at + 1 + PRELOADED_GROUPS);
    this.preloaded = following.flatMap((group) =>
      group.images.slice(0, MAX_LARGE_IMAGES).map((image) => Object.assign(new Image(), { src: this.buildUrl(image) })));
  }

  // ---- keys

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.defaultPrevented || event.isComposing) return;
    const path = event.composedPath();
    const target = path[0] instanceof Element ? path[0] : document.body;
    if (target.closest(TYPED_IN) || document.querySelector('[role="dialog"]')) return;
    // A button or a radio group elsewhere on the page keeps its own keys, and so does a focused image.
    const isElsewhere = !path.includes(this.root) && target.closest(OWN_KEYS);
    if (event.key === " " && (isElsewhere || target.closest("button"))) return;
    if (isElsewhere && event.key.startsWith("Arrow")) return;
    const acts = {
      " ": () => this.decide([...this.getMarks()]),
      a: () => this.decide(this.getIds()),
      z: () => this.undo(),
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
    };
    const isMove = event.key.startsWith("Arrow");
    let act = event.repeat && !isMove ? undefined : acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1];
    const chosen = digit && !event.repeat && this.group.images[Number(digit) - 1];
    if (chosen) act = () => this.decide([chosen[ID]]);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  leave() {
    document.removeEventListener("keydown", this.onKey);
    this.edits.detach(this);
  }
}

export default function ({ data, parentElement, setStateValue }) {
  const desk = (parentElement.desk ||= new Desk());
  desk.edits = getEditSender(data.key);
  desk.edits.attach(desk, setStateValue);
  if (!desk.root.isConnected) parentElement.append(desk.root);
  desk.update(data);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.desk !== desk) return;
      desk.leave();
      parentElement.desk = null;
    });
}
