// A grid of images that can be opened and selected. Sends `opened` (an id) and `picked` (all selected ids) to Python.
// Names and captions are safe text: they are only ever set as text content.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function buildFigure(gallery, item, order) {
  const figure = element("figure", item.mark || "");
  const tile = element("button", "tile");
  tile.type = "button";
  tile.title = item.title;
  tile.setAttribute("aria-label", item.title);
  const image = element("img", item.is_tiny ? "tiny" : "");
  image.alt = "";
  image.decoding = "async";
  image.onerror = () => figure.classList.add("broken");
  tile.append(image);
  tile.onclick = (event) => {
    if (gallery.data.picking && (event.ctrlKey || event.metaKey || event.shiftKey)) pick(gallery, order, event.shiftKey);
    else gallery.send("opened", item.id);
  };
  figure.append(tile);
  if (gallery.data.picking) {
    const checkbox = element("button", "pick", "✓");
    checkbox.type = "button";
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
  caption.title = item.title;
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
  const value = !gallery.picked.has(items[order].id);
  const from = range && gallery.lastPicked !== undefined ? gallery.lastPicked : order;
  for (let at = Math.min(from, order); at <= Math.max(from, order); at++) {
    if (value) gallery.picked.add(items[at].id);
    else gallery.picked.delete(items[at].id);
  }
  gallery.lastPicked = order;
  mark(gallery);
  clearTimeout(gallery.sendTimer); // several quick selections are sent once
  gallery.sendTimer = setTimeout(() => gallery.send("picked", [...gallery.picked]), 150);
}

function mark(gallery) {
  gallery.data.items.forEach((item, order) => {
    const isPicked = gallery.picked.has(item.id);
    const figure = gallery.grid.children[order];
    figure.classList.toggle("picked", isPicked);
    figure.querySelector(".pick")?.setAttribute("aria-pressed", isPicked);
  });
}

/** Move the focus between images with the arrow keys. */
function moveFocus(event, gallery) {
  const tiles = [...gallery.grid.querySelectorAll(".tile")];
  const here = tiles.indexOf(event.target);
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -gallery.data.columns, ArrowDown: gallery.data.columns };
  if (here < 0 || !(event.key in steps)) return;
  event.preventDefault();
  event.stopPropagation();
  tiles[here + steps[event.key]]?.focus();
}

export default function ({ data, parentElement, setTriggerValue }) {
  const gallery = (parentElement.gallery ||= {});
  gallery.data = data;
  gallery.send = setTriggerValue;
  gallery.picked = new Set(data.picked);
  const text = JSON.stringify([data.items, data.columns, data.picking, data.images]);
  if (!gallery.grid) {
    gallery.grid = element("div", "gallery");
    gallery.grid.addEventListener("keydown", (event) => moveFocus(event, gallery));
    parentElement.append(gallery.grid);
  }
  gallery.loader ||= new ImageLoader();
  if (gallery.text !== text) {
    const isOther = gallery.text !== undefined && gallery.imagesUrl !== data.images;
    gallery.text = text;
    gallery.lastPicked = undefined;
    gallery.grid.style.gridTemplateColumns = `repeat(${data.columns}, minmax(0, 1fr))`;
    gallery.imagesUrl = data.images;
    gallery.grid.replaceChildren(...data.items.map((item, order) => buildFigure(gallery, item, order)));
    gallery.loader.load(data.images, data.items.length, (order, url) => show(gallery, order, url));
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
