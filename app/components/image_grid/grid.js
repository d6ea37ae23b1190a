// A grid of images that can be opened and picked. Sends `opened` (an id) and `picked` (all picked ids) to Python.
// Names and captions come from outside and are only ever set as text.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function figureOf(gallery, item, order) {
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
    const box = element("button", "pick", "✓");
    box.type = "button";
    box.title = "Pick this image (Ctrl and click; Shift and click for all up to here)";
    box.setAttribute("aria-label", `Pick ${item.title}`);
    box.onclick = (event) => pick(gallery, order, event.shiftKey);
    figure.append(box);
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

/** Put a picture into its frame, which has its size already; one that cannot be shown is said to be so. */
function show(gallery, order, url) {
  const figure = gallery.grid.children[order];
  if (!figure) return;
  if (url) figure.querySelector("img").src = url;
  else figure.classList.add("broken");
}

/** A new page begins with its first images, also where the grid scrolls inside something. */
function showBeginning(gallery) {
  for (let box = gallery.grid.getRootNode().host; box; box = box.parentElement) {
    const above = gallery.grid.getBoundingClientRect().top - box.getBoundingClientRect().top;
    const scrolls = box.scrollHeight > box.clientHeight && getComputedStyle(box).overflowY !== "visible";
    if (!scrolls) continue;
    if (above < 0) box.scrollTop += above;
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
  clearTimeout(gallery.telling); // several quick picks are told once
  gallery.telling = setTimeout(() => gallery.send("picked", [...gallery.picked]), 150);
}

function mark(gallery) {
  gallery.data.items.forEach((item, order) => {
    const isPicked = gallery.picked.has(item.id);
    const figure = gallery.grid.children[order];
    figure.classList.toggle("picked", isPicked);
    figure.querySelector(".pick")?.setAttribute("aria-pressed", isPicked);
  });
}

/** Arrows move between images; the grid is one stop for the Tab key less than its images, which is fine. */
function walk(event, gallery) {
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
  const text = JSON.stringify([data.items, data.columns, data.picking, data.pictures]);
  if (!gallery.grid) {
    gallery.grid = element("div", "gallery");
    gallery.grid.addEventListener("keydown", (event) => walk(event, gallery));
    parentElement.append(gallery.grid);
  }
  gallery.pictures ||= new Pictures();
  if (gallery.text !== text) {
    const isOther = gallery.text !== undefined && gallery.address !== data.pictures;
    gallery.text = text;
    gallery.lastPicked = undefined;
    gallery.grid.style.gridTemplateColumns = `repeat(${data.columns}, minmax(0, 1fr))`;
    gallery.address = data.pictures;
    gallery.grid.replaceChildren(...data.items.map((item, order) => figureOf(gallery, item, order)));
    gallery.pictures.load(data.pictures, data.items.length, (order, url) => show(gallery, order, url));
    if (isOther) showBeginning(gallery);
  }
  mark(gallery);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.gallery !== gallery) return;
      gallery.pictures.stop();
      parentElement.gallery = null;
    });
}
