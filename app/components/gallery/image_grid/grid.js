// A grid of images that can be opened and selected. Sends `opened` (an id) and `picked` (the ids of images that were
// selected, and of those that no longer are) to Python.
// Names and captions are safe text: they are only ever set as text content.

const SEND_MS = 150;
const MIN_TILE_PIXELS = 84;

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function buildFigure(gallery, item, order) {
  const figure = element("figure", item.mark || "");
  figure.dataset.id = item.id;
  const tile = element("button", "tile");
  tile.type = "button";
  tile.title = item.details ? `${item.title}\n${item.details}` : item.title;
  tile.setAttribute("aria-label", item.title);
  const image = element("img");
  image.alt = "";
  image.decoding = "async";
  image.onerror = () => figure.classList.add("broken");
  tile.append(image);
  tile.onclick = (event) => {
    const picks = event.ctrlKey || event.metaKey || event.shiftKey || !gallery.data.opening;
    if (gallery.data.picking && picks) pick(gallery, order, event.shiftKey);
    else if (gallery.data.opening) gallery.send("opened", item.id);
  };
  figure.append(tile);
  if (gallery.data.picking) {
    const checkbox = element("button", "pick", "✓");
    checkbox.type = "button";
    checkbox.tabIndex = -1; // the Tab key goes to one image; there, Space selects it
    checkbox.setAttribute("role", "checkbox");
    checkbox.title = "Select this image (Ctrl + click; Shift + click selects a range)";
    checkbox.setAttribute("aria-label", `Select ${item.title}`);
    checkbox.onclick = (event) => pick(gallery, order, event.shiftKey);
    figure.append(checkbox);
  }
  const caption = element("figcaption");
  if (item.colour) {
    const dot = element("span", "dot");
    dot.style.background = item.colour;
    caption.append(dot);
  }
  caption.append(element("span", "text", item.caption));
  caption.title = tile.title;
  figure.append(caption);
  return figure;
}

/** Show an image in its frame, whose size is already set; mark an image that cannot be loaded. */
function show(gallery, order, url) {
  const figure = gallery.grid.children[order];
  if (!figure) return;
  if (url) figure.querySelector("img").src = url;
  else figure.classList.add("broken");
}

/** Scroll a new page to its first images, even if the grid scrolls inside a container. */
function scrollToStart(gallery) {
  for (let container = gallery.grid.getRootNode().host; container; container = container.parentElement) {
    const above = gallery.grid.getBoundingClientRect().top - container.getBoundingClientRect().top;
    const scrolls = container.scrollHeight > container.clientHeight && getComputedStyle(container).overflowY !== "visible";
    if (!scrolls) continue;
    if (above < 0) container.scrollTop += above;
    return;
  }
}

function pick(gallery, order, range) {
  const { items } = gallery.data;
  const value = !isPicked(gallery, items[order].id);
  const from = range && gallery.lastPicked !== undefined ? gallery.lastPicked : order;
  for (let at = Math.min(from, order); at <= Math.max(from, order); at++) gallery.changes.set(items[at].id, value);
  gallery.lastPicked = order;
  mark(gallery);
  clearTimeout(gallery.sendTimer); // several quick selections are sent once
  gallery.sendTimer = setTimeout(() => sendPicks(gallery), SEND_MS);
}

/** Send the changes only: the selection may have many more images on other pages. */
function sendPicks(gallery) {
  const added = [...gallery.changes.keys()].filter((id) => gallery.changes.get(id));
  const removed = [...gallery.changes.keys()].filter((id) => !gallery.changes.get(id));
  gallery.changes.clear();
  added.forEach((id) => gallery.picked.add(id));
  removed.forEach((id) => gallery.picked.delete(id));
  gallery.send("picked", { added, removed });
}

function isPicked(gallery, id) {
  return gallery.changes.get(id) ?? gallery.picked.has(id);
}

function mark(gallery) {
  gallery.data.items.forEach((item, order) => {
    const value = isPicked(gallery, item.id);
    const figure = gallery.grid.children[order];
    figure.classList.toggle("picked", value);
    figure.querySelector(".pick")?.setAttribute("aria-checked", value);
  });
}

/** Move the focus between images with the arrow keys, and select an image with Space. */
function handleKey(event, gallery) {
  const tiles = [...gallery.grid.querySelectorAll(".tile")];
  const here = tiles.indexOf(event.target);
  if (here < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const columns = getComputedStyle(gallery.grid).gridTemplateColumns.split(" ").length;
  const last = tiles.length - 1;
  const targets = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowUp: here - columns, ArrowDown: here + columns };
  Object.assign(targets, { Home: 0, End: last });
  const selects = event.key === " " && gallery.data.picking;
  if (!selects && !(event.key in targets)) return;
  event.preventDefault();
  event.stopPropagation();
  if (!selects) tiles[targets[event.key]]?.focus();
  else if (event.type === "keydown" && !event.repeat) pick(gallery, here, event.shiftKey);
}

/** Make one image the stop of the Tab key: the focused one, or the first. */
function setTabStop(gallery, tile) {
  for (const one of gallery.grid.querySelectorAll(".tile")) one.tabIndex = one === tile ? 0 : -1;
}

/**
 * Show other images. The focus stays in the grid, on the same image or the first: on the page's body, a dialog around the
 * grid would no longer receive Escape.
 */
function replaceImages(gallery) {
  const { items, images } = gallery.data;
  const focused = gallery.grid.getRootNode().activeElement;
  const focusedId = gallery.grid.contains(focused) ? focused.closest("figure").dataset.id : null;
  gallery.grid.replaceChildren(...items.map((item, order) => buildFigure(gallery, item, order)));
  gallery.loader.load(images, items.length, (order, url) => show(gallery, order, url));
  if (!items.length) return;
  const same = items.findIndex((item) => String(item.id) === focusedId);
  const tile = gallery.grid.children[Math.max(0, same)].querySelector(".tile");
  setTabStop(gallery, tile);
  if (focusedId !== null) tile.focus({ preventScroll: true });
}

export default function ({ data, parentElement, setTriggerValue }) {
  const gallery = (parentElement.gallery ||= {});
  gallery.data = data;
  gallery.send = setTriggerValue;
  gallery.picked = new Set(data.picked);
  gallery.changes ||= new Map(); // not sent yet
  const text = JSON.stringify([data.items, data.columns, data.opening, data.picking, data.images]);
  if (!gallery.grid) {
    gallery.grid = element("div", "gallery");
    for (const kind of ["keydown", "keyup"]) {
      gallery.grid.addEventListener(kind, (event) => {
        if (kind === "keydown" || event.key === " ") handleKey(event, gallery); // a button is clicked when Space goes up
      });
    }
    gallery.grid.addEventListener("focusin", (event) => {
      if (event.target.matches(".tile")) setTabStop(gallery, event.target);
    });
    parentElement.append(gallery.grid);
  }
  gallery.loader ||= new ImageLoader();
  if (gallery.text !== text) {
    const isOther = gallery.text !== undefined && gallery.imagesUrl !== data.images;
    gallery.text = text;
    gallery.lastPicked = undefined;
    const columns = data.columns ?? `auto-fill, minmax(${MIN_TILE_PIXELS}px, 1fr)`;
    gallery.grid.style.gridTemplateColumns = data.columns ? `repeat(${columns}, minmax(0, 1fr))` : `repeat(${columns})`;
    gallery.imagesUrl = data.images;
    replaceImages(gallery);
    if (isOther) scrollToStart(gallery);
  }
  mark(gallery);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.gallery !== gallery) return;
      gallery.loader.stop();
      parentElement.gallery = null;
    });
}
