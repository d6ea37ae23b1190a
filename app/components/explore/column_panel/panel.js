// Histograms of columns. Sends `changed` to Python: {name, first, last} for consecutive bins, {name, values} for
// categories or a part of a text. Texts are set as text content.

const LISTED = 6; // categories shown before the user asks for all
const CLICK_PIXELS = 4;

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function bars(heights, className) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const width = 1 / heights.length;
  path.setAttribute("class", className);
  path.setAttribute("d", heights.map((height, at) => {
    const left = (at + 0.06) * width, right = (at + 0.94) * width;
    return height ? `M${left} 1V${1 - height}H${right}V1Z` : "";
  }).join(""));
  return path;
}

/** One column; `send` is called with the change that the user made. */
class Card {
  constructor(send) {
    this.box = element("section");
    this.send = send;
    const header = element("header");
    this.heading = element("h2");
    this.clear = element("button", "clear", "✕");
    this.clear.type = "button";
    this.body = element("div");
    header.append(this.heading, this.clear);
    this.box.append(header, this.body);
  }

  update(column) {
    const text = JSON.stringify(column);
    if (text === this.text || this.isDragging) return;
    this.text = text;
    this.column = column;
    this.box.dataset.name = column.name;
    this.heading.textContent = this.heading.title = column.title;
    if (column.help) this.heading.title = `${column.title}. ${column.help}`;
    this.clear.setAttribute("aria-label", `Remove the filter of ${column.title}`);
    this.box.className = column.kind;
    if (column.kind === "text") this.drawText();
    else if (column.kind === "category") this.drawCategories();
    else this.drawRange();
  }

  mark(isActive, clear) {
    this.box.classList.toggle("active", isActive);
    this.clear.onclick = clear;
  }

  drawText() {
    if (!this.input) {
      this.input = element("input");
      this.input.type = "search";
      this.input.placeholder = "Part of the text";
      this.input.onchange = () => this.send({ name: this.column.name, values: this.input.value ? [this.input.value] : [] });
      this.body.replaceChildren(this.input);
    }
    this.input.setAttribute("aria-label", `${this.column.title} contains`);
    this.input.value = this.column.value;
    this.mark(Boolean(this.column.value), () => this.send({ name: this.column.name, values: [] }));
  }

  drawCategories() {
    const { name, names, texts, totals, counts, selected, hidden } = this.column;
    const focused = this.body.getRootNode().activeElement?.dataset?.value;
    const most = Math.max(...totals, 1);
    const chosen = new Set(selected);
    const limit = this.isOpen || names.length <= LISTED + 1 ? names.length : LISTED;
    const rows = names.slice(0, limit).map((value, at) => {
      const row = element("button", "row");
      row.type = "button";
      row.dataset.value = value;
      row.setAttribute("aria-pressed", String(chosen.has(value)));
      row.title = `${texts[at]}: ${counts[at].toLocaleString("en")} of ${totals[at].toLocaleString("en")} images`;
      const all = element("span", "bar"), part = element("span", "bar part");
      all.style.width = `${(100 * totals[at]) / most}%`;
      part.style.width = `${(100 * counts[at]) / most}%`;
      row.append(all, part, element("span", "name", texts[at]), element("span", "count", counts[at].toLocaleString("en")));
      row.onclick = () => {
        if (!chosen.delete(value)) chosen.add(value);
        this.send({ name, values: [...chosen] });
      };
      return row;
    });
    if (limit < names.length) {
      const more = element("button", "more", `Show ${names.length - limit} more`);
      more.type = "button";
      more.onclick = () => { this.isOpen = true; this.drawCategories(); };
      rows.push(more);
    } else if (hidden) {
      rows.push(element("div", "axis", `${hidden.toLocaleString("en")} rare values are not listed`));
    }
    this.body.replaceChildren(...rows);
    rows.find((row) => row.dataset.value === focused && focused !== undefined)?.focus();
    this.mark(chosen.size > 0, () => this.send({ name, values: [] }));
  }

  drawRange() {
    const { totals, counts, ticks, low, high } = this.column;
    if (!this.plot) this.buildPlot();
    const most = Math.max(...totals, 1);
    const scale = (count) => (count ? Math.max(count / most, 0.06) : 0);
    this.svg.replaceChildren(bars(totals.map(scale), "all"), bars(counts.map(scale), "now"));
    this.axis.replaceChildren();
    if (ticks.length > 1) {
      for (const tick of ticks.filter((one) => one.at > 0.05 && one.at < 0.95)) {
        const mark = element("span", "tick", tick.text);
        mark.style.left = `${100 * tick.at}%`;
        this.axis.append(mark);
      }
    } else this.axis.append(element("span", "", low), element("span", "", high));
    const focused = this.body.getRootNode().activeElement?.dataset?.end;
    this.range = this.column.selected;
    this.place();
    if (focused && this.body.contains(this.body.getRootNode().activeElement)) this[focused].focus();
    this.mark(this.range !== null, () => this.apply(0, totals.length));
  }

  buildPlot() {
    this.plot = element("div", "plot");
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("viewBox", "0 0 1 1");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("aria-hidden", "true");
    this.window = element("div", "window");
    this.low = this.buildHandle("low");
    this.high = this.buildHandle("high");
    this.window.append(this.low, this.high);
    this.plot.append(this.svg, this.window);
    this.axis = element("div", "axis");
    this.body.replaceChildren(this.plot, this.axis);
    this.plot.onpointerdown = (event) => this.drag(event);
  }

  buildHandle(end) {
    const handle = element("div", `handle ${end}`);
    handle.tabIndex = 0;
    handle.dataset.end = end;
    handle.setAttribute("role", "slider");
    handle.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      let [first, last] = this.range ?? [0, this.column.totals.length];
      if (end === "low") first = Math.min(Math.max(first + step, 0), last - 1);
      else last = Math.max(Math.min(last + step, this.column.totals.length), first + 1);
      this.range = [first, last];
      this.place();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.apply(first, last), 300);
    };
    return handle;
  }

  place() {
    const count = this.column.totals.length;
    const [first, last] = this.range ?? [0, count];
    this.window.style.left = `${(100 * first) / count}%`;
    this.window.style.width = `${(100 * (last - first)) / count}%`;
    this.window.style.background = this.range ? "" : "none";
    for (const [end, at] of [["low", first], ["high", last]]) {
      const handle = this[end];
      handle.setAttribute("aria-label", `${end === "low" ? "Lowest" : "Highest"} ${this.column.title}`);
      handle.setAttribute("aria-valuemin", "0");
      handle.setAttribute("aria-valuemax", String(count));
      handle.setAttribute("aria-valuenow", String(at));
    }
    const { title, labels, ends, low, high } = this.column;
    this.low.setAttribute("aria-valuetext", first ? labels[first] : low);
    this.high.setAttribute("aria-valuetext", last < count ? ends[last] : high);
    // As in the chip: the outer bins have no limit.
    const range = !first ? `≤ ${ends[last]}` : last === count ? `≥ ${labels[first]}` : `${labels[first]} – ${ends[last]}`;
    this.heading.textContent = this.range && (first || last < count) ? `${title}: ${range}` : title;
  }

  drag(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    const count = this.column.totals.length;
    const area = this.plot.getBoundingClientRect();
    const before = this.range;
    const [first, last] = before ?? [0, count];
    const bin = (at) => Math.min(Math.max(((at - area.left) / area.width) * count, 0), count);
    const start = bin(event.clientX);
    const end = event.target.dataset?.end;
    const moves = !end && before && event.target === this.window;
    const update = (at) => {
      const now = bin(at);
      if (end === "low") this.range = [Math.min(Math.round(now), last - 1), last];
      else if (end === "high") this.range = [first, Math.max(Math.round(now), first + 1)];
      else if (moves) {
        const by = Math.min(Math.max(Math.round(now - start), -first), count - last);
        this.range = [first + by, last + by];
      } else {
        const low = Math.floor(Math.min(start, now));
        this.range = [Math.min(low, count - 1), Math.min(Math.max(Math.ceil(Math.max(start, now)), low + 1), count)];
      }
      this.place();
    };
    this.isDragging = true;
    this.plot.setPointerCapture(event.pointerId);
    this.plot.onpointermove = (moved) => update(moved.clientX);
    this.plot.onpointerup = this.plot.onpointercancel = (up) => {
      this.plot.onpointermove = this.plot.onpointerup = this.plot.onpointercancel = null;
      this.isDragging = false;
      const isClick = Math.abs(up.clientX - event.clientX) < CLICK_PIXELS;
      if (up.type === "pointercancel") this.range = before;
      else if (isClick && !end) this.range = before ? null : [Math.min(Math.floor(start), count - 1), Math.min(Math.floor(start), count - 1) + 1];
      this.place();
      if (String(this.range) !== String(before)) this.apply(...(this.range ?? [0, count]));
    };
  }

  apply(first, last) {
    this.text = null; // the answer is drawn also if it equals the state before
    this.send({ name: this.column.name, first, last });
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const panel = (parentElement.columnPanel ||= parentElement.appendChild(element("div", "panel")));
  panel.tabIndex = 0; // a region that scrolls must be reachable with the keyboard
  panel.setAttribute("role", "region");
  panel.setAttribute("aria-label", "Columns");
  const cards = (panel.cards ||= new Map());
  for (const column of data.columns) {
    let card = cards.get(column.name);
    if (!card || (card.column && card.column.kind !== column.kind)) {
      card?.box.remove();
      card = new Card((change) => panel.send(change));
      cards.set(column.name, card);
    }
    card.update(column);
  }
  panel.send = (change) => setTriggerValue("changed", change);
  const names = new Set(data.columns.map((column) => column.name));
  for (const [name, card] of cards) if (!names.has(name)) { card.box.remove(); cards.delete(name); }
  const order = data.columns.map((column) => cards.get(column.name).box);
  if (order.some((box, at) => panel.children[at] !== box)) panel.replaceChildren(...order);
}
