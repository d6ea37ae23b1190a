// Search box with suggestions. Sends `search` ({text, kind}) to Python; kind is null to search everything, and the text empty to
// end a search.
// Suggestions are fetched from a route while the user types. Texts are set as text content.

const TYPING_PAUSE_MS = 120;
const ICON = `<svg viewBox="0 -960 960 960" aria-hidden="true"><path d="M784-120 532-372q-30 24-69 38t-83 14q-109
 0-184.500-75.500T120-580q0-109 75.500-184.500T380-840q109 0 184.500 75.500T640-580q0 44-14 83t-38 69l252 252-56 56ZM380-400q75
 0 127.500-52.500T560-580q0-75-52.500-127.500T380-760q-75 0-127.500 52.500T200-580q0 75 52.500 127.500T380-400Z"/></svg>`;

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

class SearchBox {
  constructor() {
    this.root = element("div", "box");
    this.root.innerHTML = ICON;
    this.input = element("input", "text");
    this.input.type = "search";
    this.input.placeholder = "Search images";
    this.input.maxLength = 200;
    this.input.title = "Finds images by word (dog), label, name of a cluster or file name";
    const attributes = { role: "combobox", "aria-label": "Search images", "aria-autocomplete": "list",
      "aria-expanded": "false", "aria-controls": "suggestions", autocomplete: "off", spellcheck: "false" };
    for (const [name, value] of Object.entries(attributes)) this.input.setAttribute(name, value);
    this.panel = element("div", "panel");
    this.panel.popover = "manual"; // in the top layer: containers of the page cannot cut it off
    this.list = element("div");
    this.list.id = "suggestions";
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Suggestions");
    this.note = element("div", "note");
    this.panel.append(this.list, this.note);
    this.root.append(this.input, this.panel);
    this.options = [];
    this.input.oninput = () => this.type();
    this.input.onkeydown = (event) => this.press(event);
    this.input.onfocus = () => this.input.value.trim() && this.type();
    this.input.onblur = () => this.close();
    this.input.onsearch = () => this.clear(); // the cross that browsers draw empties the box
    this.panel.onmousedown = (event) => event.preventDefault(); // the box keeps the focus
  }

  update(data) {
    const isFocused = this.input.getRootNode().activeElement === this.input;
    if (this.data?.query && !data.query && !isFocused) this.input.value = "";
    if (!this.data && data.query) this.input.value = data.query; // the page was left and opened again
    this.data = data;
  }

  type() {
    clearTimeout(this.timer);
    const text = this.input.value.trim();
    if (text) this.timer = setTimeout(() => this.complete(text), TYPING_PAUSE_MS);
    else this.close();
  }

  async complete(text) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    try {
      const response = await fetch(`${this.data.url}?q=${encodeURIComponent(text)}`, { signal: request.signal });
      if (response.ok) this.show(text, (await response.json()).suggestions);
    } catch (error) {
      if (error.name !== "AbortError") this.close(); // the server is gone; the page says so
    }
  }

  show(text, suggestions) {
    this.textWithoutImages = suggestions.length ? null : text;
    if (this.input.getRootNode().activeElement !== this.input) return;
    this.options = suggestions.map((one, index) => {
      const option = element("div", "option");
      option.id = `suggestion-${index}`;
      option.setAttribute("role", "option");
      const name = element("span", "name", one.text);
      name.title = one.text;
      option.append(name, element("span", "kind", one.kind), element("span", "count", one.images.toLocaleString("en")));
      option.onclick = () => this.search(one.text, one.kind);
      option.suggestion = one;
      return option;
    });
    this.list.replaceChildren(...this.options);
    const hasWords = suggestions.some((one) => one.kind === "word");
    this.note.textContent = !suggestions.length ? this.data.nothing : hasWords ? this.data.origin : "";
    this.note.hidden = !this.note.textContent;
    this.activate(-1);
    const place = this.root.getBoundingClientRect();
    Object.assign(this.panel.style, { left: `${place.left}px`, top: `${place.bottom + 4}px` });
    this.panel.style.minWidth = `${place.width}px`;
    if (!this.panel.matches(":popover-open")) this.panel.showPopover();
    this.input.setAttribute("aria-expanded", "true");
  }

  activate(index) {
    this.active = index;
    this.options.forEach((option, order) => option.setAttribute("aria-selected", order === index));
    if (index >= 0) this.input.setAttribute("aria-activedescendant", this.options[index].id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    clearTimeout(this.timer);
    this.request?.abort();
    if (this.panel.matches(":popover-open")) this.panel.hidePopover();
    this.options = [];
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
  }

  press(event) {
    event.stopPropagation(); // letters are text here, not keys of the page
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.options.length) {
      event.preventDefault();
      const count = this.options.length + 1; // one place is the text itself
      this.activate(((this.active + 1 + step + count) % count) - 1);
    } else if (event.key === "Enter" && !event.isComposing) {
      const chosen = this.options[this.active]?.suggestion;
      this.search(chosen?.text ?? this.input.value, chosen?.kind ?? null);
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (this.panel.matches(":popover-open")) this.close();
      else this.input.value = "";
      this.clear();
    }
  }

  /** End the search whose images the gallery lists, once the box is empty. */
  clear() {
    if (this.input.value.trim()) return;
    this.close();
    if (!this.data.query) return;
    this.data = { ...this.data, query: "" }; // the same key may end in several events
    this.send({ text: "", kind: null });
  }

  search(text, kind) {
    text = text.trim();
    if (!text) return this.clear();
    this.input.value = text;
    if (text === this.textWithoutImages) return; // the message stays
    this.close();
    this.send({ text, kind });
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const box = (parentElement.searchBox ||= new SearchBox());
  box.send = (value) => setTriggerValue("search", value);
  if (!box.root.isConnected) parentElement.append(box.root);
  box.update(data);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.searchBox !== box) return;
      clearTimeout(box.timer);
      box.request?.abort();
      parentElement.searchBox = null;
    });
}
