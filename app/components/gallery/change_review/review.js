// Reassigned images, each with two buttons: accept labels it with the name of its new cluster, reject with that of its
// old cluster; the pressed button again removes the label. Sends `work` (labels and names of clusters), `opened` (an
// image) and `expanded` (a group). Without `is_editable`, images are only shown. File names and cluster names are safe
// text: they are only ever set as text content.

const UNNAMED = "Name the cluster first";

function buildTile(review, item) {
  const isEditable = review.data.is_editable;
  const tile = element(isEditable ? "button" : "div", "tile");
  tile.title = item.title;
  tile.setAttribute("aria-label", item.title);
  if (isEditable) {
    tile.type = "button";
    tile.onclick = () => review.send("opened", item.id);
  } else {
    tile.setAttribute("role", "img");
  }
  const image = element("img");
  image.alt = "";
  image.decoding = "async";
  tile.append(image);
  review.tiles.push(tile);
  return tile;
}

function buildChoice(kind, text, act) {
  const choice = element("button", `choice ${kind}`, text);
  choice.type = "button";
  choice.onclick = act;
  return choice;
}

/** One group; its elements stay when labels and names change, so that the focus stays. */
class Group {
  constructor(review, group) {
    this.review = review;
    this.root = element("section", "group");
    this.root.dataset.group = group.key;
    const examples = [group.before, group.after].map((side, index) => {
      const box = element("div", "examples");
      if (index === 0) box.append(...side.examples.map((item) => buildTile(review, item)));
      return box;
    });
    const middle = element("div", "images");
    this.figures = group.images.map((item) => this.buildImage(item));
    middle.append(...this.figures.map((one) => one.root));
    examples[1].append(...group.after.examples.map((item) => buildTile(review, item)));
    this.heads = { before: element("div", "head"), middle: element("div", "head"), after: element("div", "head") };
    this.text = element("span", "count");
    const all = element("div", "all");
    this.acceptAll = buildChoice("accept", "Accept all", () => this.labelAll("after"));
    this.rejectAll = buildChoice("reject", "Reject all", () => this.labelAll("before"));
    all.append(this.acceptAll, this.rejectAll);
    this.heads.middle.append(this.text, ...(review.data.is_editable ? [all] : []));
    this.root.append(this.heads.before, this.heads.middle, this.heads.after, examples[0], middle, examples[1]);
    this.more = element("button", "more");
    this.more.type = "button";
    this.more.onclick = () => review.send("expanded", group.key);
    this.root.append(this.more);
  }

  buildImage(item) {
    const root = element("figure", "image");
    const choices = element("div", "choices");
    const accept = buildChoice("accept", "✓", () => this.toggle(item.id, "after"));
    const reject = buildChoice("reject", "✗", () => this.toggle(item.id, "before"));
    const other = element("span", "other");
    choices.append(accept, reject);
    root.append(buildTile(this.review, item), ...(this.review.data.is_editable ? [choices, other] : []));
    return { root, accept, reject, other, item };
  }

  update(group) {
    this.group = group;
    this.updateHead("before", "Before");
    this.updateHead("after", "Now");
    const total = group.total.toLocaleString("en");
    const shown = this.figures.length;
    this.text.textContent = shown < group.total ? `${total} reassigned, showing ${shown}` : `${total} reassigned`;
    this.acceptAll.textContent = `Accept these ${shown}`;
    this.rejectAll.textContent = `Reject these ${shown}`;
    this.more.hidden = !group.can_expand;
    this.more.textContent = "Show more images";
    this.mark();
  }

  getName(side) {
    const { number, name } = this.group[side];
    const edit = this.review.edits.find((one) => one.cluster === number && one.is_before === (side === "before"));
    return edit ? edit.name : name;
  }

  /** Show the title of a cluster; a cluster without a name has a field for it, because labels are names. */
  updateHead(side, word) {
    const { number, title, colour } = this.group[side];
    const name = this.getName(side);
    const head = this.heads[side];
    const text = `${word}: ${name ? `${number} ${name}` : title}`;
    if (head.dataset.text === text) return;
    head.dataset.text = text;
    const dot = element("span", "dot");
    dot.style.background = colour;
    const label = element("span", "title", text);
    label.title = text;
    head.replaceChildren(dot, label);
    if (name || !this.review.data.is_editable) return;
    const box = element("input", "name");
    box.placeholder = "Name this cluster";
    box.maxLength = 200;
    box.setAttribute("aria-label", `Name of ${title}, ${word.toLowerCase()}`);
    box.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter") box.blur();
    };
    box.onchange = () => box.value.trim() && this.review.rename(number, side === "before", box.value.trim());
    head.append(box);
  }

  getLabel(id) {
    const edit = this.review.edits.find((one) => one.ids?.includes(id));
    if (edit) return edit.name || null;
    return this.group.labels[this.group.images.findIndex((item) => item.id === id)];
  }

  mark() {
    const after = this.getName("after");
    const before = this.getName("before");
    for (const { root, accept, reject, other, item } of this.figures) {
      const label = this.getLabel(item.id);
      const isAccepted = Boolean(label) && label === after;
      const isRejected = Boolean(label) && label === before && !isAccepted;
      root.classList.toggle("accepted", isAccepted);
      root.classList.toggle("rejected", isRejected);
      other.textContent = label && !isAccepted && !isRejected ? label : "";
      describe(accept, after, isAccepted, `Accept ${item.title}`);
      describe(reject, before, isRejected, `Reject ${item.title}`);
    }
    for (const [button, name] of [[this.acceptAll, after], [this.rejectAll, before]]) {
      button.disabled = !name;
      button.title = name ? `Label these images “${name}”` : UNNAMED;
    }
  }

  toggle(id, side) {
    const name = this.getName(side);
    this.review.label([id], this.getLabel(id) === name ? "" : name);
  }

  labelAll(side) {
    this.review.label(this.figures.map(({ item }) => item.id), this.getName(side));
  }
}

function describe(button, name, isPressed, text) {
  button.disabled = !name;
  button.title = name ? `Label the image “${name}”` : UNNAMED;
  button.setAttribute("aria-label", text);
  button.setAttribute("aria-pressed", isPressed);
}

class Review {
  constructor() {
    this.root = element("div", "review");
    this.loaders = [];
    this.groups = new Map();
  }

  update(data) {
    if (data.is_editable) this.edits.confirm(data);
    this.data = data;
    this.root.classList.toggle("fixed", !data.is_editable);
    const images = JSON.stringify(data.images);
    if (images !== this.imagesText) {
      this.imagesText = images;
      this.tiles = [];
      this.groups = new Map(data.groups.map((group) => [group.key, new Group(this, group)]));
      this.root.replaceChildren(...[...this.groups.values()].map((group) => group.root));
      this.load();
    }
    this.draw();
  }

  draw() {
    this.root.dataset.pending = this.edits.pending.length;
    for (const group of this.data.groups) this.groups.get(group.key).update(group);
  }

  load() {
    this.stop();
    const tiles = this.tiles;
    let first = 0;
    for (const [url, count] of this.data.images) {
      const start = first;
      const loader = new ImageLoader();
      this.loaders.push(loader);
      loader.load(url, count, (order, source) => {
        const tile = tiles[start + order];
        if (source) tile.firstChild.src = source;
        else tile.classList.add("broken");
      });
      first += count;
    }
  }

  stop() {
    this.loaders.forEach((loader) => loader.stop());
    this.loaders = [];
  }

  label(ids, name) {
    this.edits.add({ ids, name }, () => false);
    this.draw();
  }

  rename(cluster, isBefore, name) {
    this.edits.add({ cluster, is_before: isBefore, name }, () => false);
    this.draw();
  }
}

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const review = (parentElement.review ||= new Review());
  review.edits = getEditSender(data.key);
  review.edits.attach(review, setStateValue);
  review.send = setTriggerValue;
  if (!review.root.isConnected) parentElement.append(review.root);
  review.update(data);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.review !== review) return;
      review.stop();
      review.edits.detach(review);
      parentElement.review = null;
    });
}
