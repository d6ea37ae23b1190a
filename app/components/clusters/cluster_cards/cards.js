// Clusters as cards. Sends `opened` (a cluster), `image` (an id) and `work`: names and selections that the user changed.
// Titles and names are safe text: they are only ever set as text content or value.

const MIN_CARD_WIDTH = 250; // pixels
const CARD_GAP = 12;

/** The elements of one cluster; they stay when its texts change, so that the focus and a typed name stay. */
class Card {
  constructor(deck, number) {
    this.deck = deck;
    this.number = number;
    this.root = element("section", "cluster");
    this.root.dataset.cluster = number;
    this.dot = element("span", "dot");
    this.size = element("span", "size");
    this.first = element("div", "line");
    this.second = element("div", "line second");
    this.bar = element("span", "bar");
    this.bar.append(element("i"));
    this.percent = element("span", "percent");
    this.closest = element("span", "closest");
    this.second.append(this.bar, this.percent, this.closest);
    this.images = element("div", "images");
    this.images.addEventListener("keydown", (event) => this.moveFocus(event));
    const header = element("header");
    header.append(this.first, this.second);
    this.words = element("div", "words");
    this.root.append(header, this.images, this.words);
    if (deck.data.editing) this.addControls();
    else this.first.append(this.dot, (this.title = element("span", "title")), this.size);
  }

  addControls() {
    this.select = element("input", "select");
    this.select.type = "checkbox";
    this.select.onchange = () => this.deck.selectCluster(this.number, this.select.checked);
    this.title = element("button", "title");
    this.title.type = "button";
    this.title.onclick = () => this.deck.send("opened", this.number);
    this.name = element("input", "name");
    this.name.placeholder = "Name this cluster";
    this.name.maxLength = 200;
    this.name.setAttribute("aria-label", `Name of cluster ${this.number}`);
    this.name.onchange = () => this.deck.rename(this.number, this.name.value);
    this.name.onkeydown = (event) => this.leaveName(event);
    const open = element("button", "open", "Open");
    open.type = "button";
    open.onclick = () => this.deck.send("opened", this.number);
    this.openButton = open;
    this.first.append(this.select, this.dot, this.title, this.size);
    // The field is the last control of the card: Tab goes from it to the next name, Shift + Tab to the other controls.
    const foot = element("div", "foot");
    foot.append(open, this.name);
    this.root.append(foot);
  }

  update(card) {
    this.root.setAttribute("aria-label", card.title);
    this.dot.style.background = card.colour;
    this.size.textContent = card.size;
    this.title.textContent = this.title.title = card.title;
    this.second.hidden = card.confidence === null;
    if (card.confidence !== null) {
      const text = `${Math.round(100 * card.confidence)}%`;
      this.bar.firstChild.style.width = text;
      this.bar.firstChild.style.background = card.colour;
      this.percent.replaceChildren(text, element("span", "unit", " confidence"));
      this.closest.textContent = card.closest;
      this.second.title = card.help;
    }
    this.showWords(card);
    if (this.deck.data.editing) {
      this.select.setAttribute("aria-label", `Select ${card.title}`);
      this.openButton.setAttribute("aria-label", `Open ${card.title}`);
      const isEdited = this.deck.edits.find((one) => one.cluster === this.number);
      if (this.name !== this.name.getRootNode().activeElement && !isEdited) this.name.value = card.name;
    }
  }

  /** Show suggested names; a click uses one as the name. */
  showWords(card) {
    this.words.hidden = card.words === null;
    if (card.words === null) return;
    const isEditing = this.deck.data.editing;
    const chips = card.words.map((word) => {
      const chip = element(isEditing ? "button" : "span", "word", `${word.name} `);
      const score = `×${word.lift.toFixed(1)}`;
      chip.append(element("span", "score", score));
      chip.title = isEditing ? `Use “${word.name}” as the name. ${word.help}` : word.help;
      if (!isEditing) return chip;
      chip.type = "button";
      chip.setAttribute("aria-pressed", word.name === card.name);
      chip.setAttribute("aria-label", `${word.name} ${score}: use as name for cluster ${this.number}`);
      chip.onclick = () => this.deck.useWord(this.number, word.name);
      return chip;
    });
    const text = JSON.stringify([card.words, card.name, isEditing]);
    if (this.words.dataset.text === text) return; // the focus stays on a chip
    this.words.dataset.text = text;
    this.words.replaceChildren(...(chips.length ? chips : [element("span", "no-word", "no fitting word")]));
  }

  showImages(items) {
    this.tiles = items.map((item, order) => {
      const tile = element("button", "tile");
      tile.type = "button";
      tile.title = item.title;
      tile.tabIndex = order ? -1 : 0; // one stop of the Tab key for all images; arrow keys move between them
      tile.setAttribute("aria-label", item.title);
      tile.onclick = () => this.deck.send("image", item.id);
      const image = element("img");
      image.alt = "";
      image.decoding = "async";
      tile.append(image);
      return tile;
    });
    this.images.replaceChildren(...(this.tiles.length ? this.tiles : [element("div", "empty", "No images.")]));
  }

  moveFocus(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -3, ArrowDown: 3 }[event.key];
    const next = step && this.tiles[this.tiles.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.tiles.forEach((tile) => (tile.tabIndex = tile === next ? 0 : -1));
    next.focus();
  }

  /** Enter and Tab go on to the next name; Esc restores the name. */
  leaveName(event) {
    event.stopPropagation(); // letters are text here, not keys of the page
    if (event.key === "Escape") {
      this.name.value = this.deck.getCard(this.number).name;
      return;
    }
    if (event.key !== "Enter" && (event.key !== "Tab" || event.shiftKey)) return;
    if (event.isComposing) return;
    const next = this.deck.findNextName(this.number);
    if (next) {
      event.preventDefault();
      next.focus(); // the browser reports the change of this field when it loses the focus
      next.select();
    } else if (event.key === "Enter") this.name.blur();
  }
}

/** All cards of a page. */
class Deck {
  constructor() {
    this.cards = new Map();
    this.selected = new Set();
    this.loader = new ImageLoader();
    this.root = element("div", "cards");
    this.origin = element("div", "origin");
    this.observer = new ResizeObserver(() => this.setColumns());
    this.observer.observe(this.root);
  }

  /** Set as many columns as fit, then as few as the same number of rows needs: six cards are 3 + 3, not 5 + 1. */
  setColumns() {
    const fitting = Math.max(1, Math.floor((this.root.clientWidth + CARD_GAP) / (MIN_CARD_WIDTH + CARD_GAP)));
    const rows = Math.ceil(this.data.cards.length / fitting);
    this.root.style.setProperty("--columns", Math.max(1, Math.ceil(this.data.cards.length / Math.max(1, rows))));
  }

  getCard(number) {
    return this.data.cards.find((card) => card.number === number);
  }

  findNextName(number) {
    const order = this.data.cards.map((card) => card.number);
    return this.cards.get(order[order.indexOf(number) + 1])?.name;
  }

  update(data) {
    if (this.data && this.data.editing !== data.editing) this.cards.clear();
    this.data = data;
    this.edits.confirm(data);
    if (!this.edits.find((one) => one.selected)) this.selected = new Set(data.selected || []);
    const numbers = data.cards.map((card) => card.number);
    for (const number of numbers) if (!this.cards.has(number)) this.cards.set(number, new Card(this, number));
    for (const number of this.cards.keys()) if (!numbers.includes(number)) this.cards.delete(number);
    const roots = numbers.map((number) => this.cards.get(number).root);
    // Moving an element takes the focus from it: the order is set only if it has changed.
    if (roots.some((root, index) => this.root.children[index] !== root) || roots.length !== this.root.children.length) {
      this.root.replaceChildren(...roots);
    }
    if (this.imagesUrl !== data.images) this.loadImages();
    for (const card of data.cards) this.cards.get(card.number).update(this.applyPendingName(card));
    this.markSelected();
    this.setColumns();
    this.origin.textContent = `Suggested names: ${data.words}, with their lift over all images.`;
    this.origin.hidden = !data.cards.some((card) => card.words?.length);
  }

  /** Show a name that Python has not confirmed yet. */
  applyPendingName(card) {
    const edit = this.edits.find((one) => one.cluster === card.number);
    if (!edit) return card;
    return { ...card, name: edit.name, title: edit.name ? `${card.number} ${edit.name}` : `cluster ${card.number}` };
  }

  loadImages() {
    this.imagesUrl = this.data.images;
    for (const card of this.data.cards) this.cards.get(card.number).showImages(card.images);
    const tiles = this.data.cards.flatMap((card) => this.cards.get(card.number).tiles);
    if (!tiles.length) return;
    this.loader.load(this.data.images, tiles.length, (order, url) => {
      if (url) tiles[order].firstChild.src = url;
      else tiles[order].classList.add("broken");
    });
  }

  rename(cluster, text) {
    this.edits.add({ cluster, name: text.trim() }, (one) => one.cluster === cluster);
    this.cards.get(cluster).update(this.applyPendingName(this.getCard(cluster)));
  }

  useWord(cluster, word) {
    this.cards.get(cluster).name.value = word;
    this.rename(cluster, word);
  }

  selectCluster(cluster, isSelected) {
    if (isSelected) this.selected.add(cluster);
    else this.selected.delete(cluster);
    this.markSelected();
    this.edits.add({ selected: [...this.selected] }, (one) => one.selected);
  }

  markSelected() {
    for (const [number, card] of this.cards) {
      card.root.classList.toggle("selected", this.selected.has(number));
      if (card.select) card.select.checked = this.selected.has(number);
    }
  }
}

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const deck = (parentElement.deck ||= new Deck());
  deck.edits = getEditSender(data.key);
  deck.edits.attach(deck, setStateValue);
  deck.send = setTriggerValue;
  if (!deck.root.isConnected) parentElement.append(deck.root, deck.origin);
  deck.update(data);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.deck !== deck) return;
      deck.loader.stop();
      deck.edits.detach(deck);
      deck.observer.disconnect();
      parentElement.deck = null;
    });
}
