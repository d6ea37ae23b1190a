// Draws the labelling component. Names, paths and reasons are safe text: they are only ever set as text content.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Create a button that does not take the focus, so that the keys still label images. */
function button(className, act, title) {
  const made = element("button", className);
  made.type = "button";
  if (title) made.title = title;
  made.addEventListener("mousedown", (event) => event.preventDefault());
  made.addEventListener("click", act);
  return made;
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function thumbnail(tile, caption) {
  const figure = element("figure");
  const image = element("img");
  image.alt = "";
  image.title = tile.title;
  image.src = tile.src;
  figure.append(image);
  if (caption) {
    const text = element("figcaption");
    const dot = element("span", "dot");
    dot.style.background = tile.colour;
    text.title = "Cosine similarity, at most 1 (s in Fig. 2 of the paper). The colour shows the cluster.";
    text.append(dot, element("span", "", caption));
    figure.append(text);
  }
  return figure;
}

class View {
  constructor(desk) {
    this.desk = desk;
    this.loaded = new Map(); // large images, loaded before they are shown
    this.root = element("div", "desk");
    this.root.tabIndex = -1;
    this.stage();
    this.help = element("section", "help");
    this.nearTitle = element("h2", "", "Nearest images (similarity)");
    this.nearTitle.title = "Most similar images by their features, the nearest first";
    this.near = element("div", "thumbs");
    this.typicalTitle = element("h2");
    this.typical = element("div", "thumbs");
    this.help.append(this.nearTitle, this.near, this.typicalTitle, this.typical);
    this.nameSide();
    this.strip = element("div", "strip");
    this.strip.setAttribute("role", "group");
    this.strip.setAttribute("aria-label", "Next images");
    this.foot();
    const top = element("div", "top");
    top.append(this.left, this.help, this.names);
    this.root.append(top, this.strip, this.footer);
  }

  stage() {
    this.left = element("section", "stage");
    this.frame = element("div", "frame");
    this.mark = element("div", "mark");
    this.what = element("div", "what");
    this.title = element("span", "path");
    this.reason = element("span", "reason");
    this.reason.title = "Why this image is suggested";
    this.what.append(this.title, this.reason);
    this.keys = element("div", "keys");
    const desk = this.desk;
    const key = (className, hint, act, title) => {
      const made = button(`key ${className}`, act, title);
      made.hint = element("kbd", "", hint);
      made.word = element("span");
      made.append(made.hint, made.word);
      this.keys.append(made);
      return made;
    };
    this.accept = key("accept", "Space", () => desk.accept(), "Label the image with the suggested name");
    this.backKey = key("narrow", "←", () => desk.step(-1), "Previous image (arrow left)");
    this.exclude = key("", "X", () => desk.exclude(), "Leave the image out of training and exports");
    this.skip = key("", "S", () => desk.skip(), "Decide later");
    this.undo = key("", "Z", () => desk.undo(), "Undo the last decision");
    this.onKey = key("narrow", "→", () => desk.step(1), "Next image (arrow right)");
    put(this.skip.word, "Skip");
    put(this.undo.word, "Undo");
    this.left.append(this.frame, this.what, this.keys);
  }

  nameSide() {
    this.names = element("section", "names");
    this.namesTitle = element("h2", "", "Names");
    this.list = element("ol", "list");
    this.box = element("input");
    this.box.type = "text";
    this.box.maxLength = 200;
    this.box.placeholder = "N: find or add a name";
    this.box.setAttribute("aria-label", "Find or add a name");
    this.box.addEventListener("input", () => this.drawNames());
    this.box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && !event.isComposing) {
        const name = this.chosenName();
        this.leaveBox();
        if (name) this.desk.label(name);
      } else if (event.key === "Escape") this.leaveBox();
      else if (event.key === "Tab" && !event.shiftKey && this.completion()) {
        event.preventDefault();
        this.box.value = this.completion();
        this.drawNames();
      }
    });
    this.names.append(this.namesTitle, this.list, this.box);
  }

  leaveBox() {
    this.box.value = "";
    this.box.blur();
    this.root.focus({ preventScroll: true });
    this.drawNames();
  }

  /** Return the name that Enter chooses: the typed one, as it is written already. A longer name is never chosen, because
   *  its beginning may be a new name: "sea" beside "seashore". */
  chosenName() {
    const text = this.box.value.trim();
    return this.matching(text).find((one) => one.name.toLowerCase() === text.toLowerCase())?.name ?? text;
  }

  /** Return the only name that starts with the typed text, which Tab completes; `null` if there is none. */
  completion() {
    const text = this.box.value.trim().toLowerCase();
    const names = text ? this.matching(text).map((one) => one.name).filter((name) => name.toLowerCase().startsWith(text)) : [];
    return names.length === 1 && names[0].toLowerCase() !== text ? names[0] : null;
  }

  matching(text) {
    const part = text.toLowerCase();
    return this.desk.data.names.filter((one) => one.name.toLowerCase().includes(part));
  }

  foot() {
    this.footer = element("div", "foot");
    this.progress = element("span", "progress");
    this.progress.title = "Images that are labelled, excluded or skipped";
    this.message = element("span", "message");
    this.saved = element("span", "saved");
    this.saved.setAttribute("role", "status");
    this.saved.title = "Time when the last decision was saved";
    this.alert = element("div", "alert");
    this.alert.setAttribute("role", "alert");
    this.alert.hidden = true;
    this.alertText = element("span");
    this.again = button("link", () => this.desk.tryAgain());
    put(this.again, "Try again");
    this.dismiss = button("link", () => this.desk.dismiss());
    put(this.dismiss, "Dismiss");
    this.alert.append(this.alertText, this.again, this.dismiss);
    this.footer.append(this.progress, this.message, this.saved, this.alert);
  }

  draw() {
    this.drawStage();
    this.drawNames();
    this.drawStrip();
    this.drawFoot();
    this.preload();
  }

  drawStage() {
    const { desk } = this;
    const item = desk.current();
    const state = item ? desk.state(item.id) : {};
    this.root.dataset.at = item ? item.id : "";
    const shown = item ? item.id : `none ${desk.isLoading()} ${desk.data.empty}`;
    if (this.shown !== shown) {
      this.shown = shown;
      this.drawImage(item);
      this.drawHelp(item);
    }
    put(this.mark, state.excluded ? "Excluded" : state.label || "");
    this.mark.hidden = !this.mark.textContent;
    this.mark.classList.toggle("out", !!state.excluded);
    const proposal = item ? desk.proposal(item) : null;
    this.accept.hint.hidden = !proposal;
    put(this.accept.word, proposal ? `${proposal}${item.confidence === null ? "" : ` · ${Math.round(item.confidence * 100)}% confidence`}`
      : !item ? "" : item.confidence === null ? "No suggestion before training" : "No suggestion: the cluster has no name");
    this.accept.disabled = !proposal;
    this.accept.title = proposal ? `Label the image with the name of its cluster (confidence ${Math.round((item.confidence || 0) * 100)}%)`
      : "Name the cluster on the Clusters page to get suggestions";
    put(this.exclude.word, state.excluded ? "Include" : "Exclude");
    for (const one of [this.exclude, this.skip]) one.disabled = !item;
  }

  drawImage(item) {
    if (!item) {
      const end = element("div", "end");
      const isLoading = this.desk.isLoading();
      end.append(element("b", "", isLoading ? "Loading the next images" : this.desk.data.empty || "All images are reviewed."),
        element("span", "", isLoading ? "" : "Select other images above, go back with the arrow key, or improve the run with your labels."));
      this.frame.replaceChildren(end);
      put(this.title, "");
      put(this.reason, "");
      return;
    }
    const low = element("img", "low");
    low.alt = "";
    low.src = item.src;
    const large = this.fetch(item);
    large.alt = item.title;
    large.className = "large";
    this.frame.replaceChildren(low, large, this.mark);
    put(this.title, item.title);
    this.title.title = item.title;
    put(this.reason, item.reason);
  }

  drawHelp(item) {
    const cluster = item && this.desk.clusters.get(item.cluster);
    this.near.replaceChildren(...(item ? item.near.map((tile) => thumbnail(tile, tile.caption)) : []));
    this.typical.replaceChildren(...(cluster ? cluster.typical.map((tile) => thumbnail(tile, "")) : []));
    put(this.typicalTitle, cluster ? `Typical images of ${cluster.text}` : "");
    this.typicalTitle.title = this.typicalTitle.textContent;
    this.typicalTitle.style.setProperty("--dot", cluster ? cluster.colour : "transparent");
    this.nearTitle.hidden = !item;
  }

  drawNames() {
    const { data } = this.desk;
    const item = this.desk.current();
    const now = item ? this.desk.state(item.id).label : null;
    const shown = this.matching(this.box.value.trim());
    const indices = new Map(data.names.map((one, index) => [one.name, index]));
    const text = JSON.stringify([shown, now, data.enough, this.box.value]);
    if (text === this.namesText) return;
    this.namesText = text;
    const rows = shown.map((one) => {
      const index = indices.get(one.name);
      const row = element("li", one.name === now ? "name given" : "name");
      const made = button("", () => this.desk.label(one.name), `${one.name}: ${one.count} of at least ${data.enough} recommended labels`);
      const bar = element("span", "bar");
      bar.style.setProperty("--fraction", Math.min(1, one.count / data.enough));
      const count = element("span", "count", one.count < data.enough ? `${one.count} of ${data.enough}` : `${one.count}`);
      const key = element("kbd", index < 10 ? "" : "none", index < 10 ? `${(index + 1) % 10}` : "");
      made.append(key, element("span", "text", one.name), count, bar);
      row.append(made);
      return row;
    });
    const typed = this.box.value.trim();
    if (typed && !shown.some((one) => one.name.toLowerCase() === typed.toLowerCase())) {
      const completion = this.completion();
      const completing = completion ? `, Tab for “${completion}”` : "";
      rows.push(element("li", "hint", `Press Enter to create “${typed}”${completing}`));
    } else if (!rows.length)
      rows.push(element("li", "hint", "No names yet. Press N, type a name, then press Enter to label this image. Then press 1 to reuse it."));
    this.list.replaceChildren(...rows);
  }

  drawStrip() {
    const { desk } = this;
    const here = desk.index();
    const from = Math.max(0, Math.min(here - 3, desk.order.length - 12));
    const part = desk.order.slice(from, from + 12).filter((id) => desk.items.has(id));
    const text = JSON.stringify(part.map((id) => [id, desk.state(id), id === desk.at]));
    if (text === this.stripText) return;
    this.stripText = text;
    this.strip.replaceChildren(...part.map((id) => {
      const item = desk.items.get(id);
      const state = desk.state(id);
      const made = button(id === desk.at ? "cell here" : "cell", () => desk.goTo(id), item.title);
      made.append(...thumbnail(item).childNodes);
      const word = state.excluded ? "✕" : state.label || (state.skipped ? "Skipped" : "");
      made.append(element("span", word ? "word done" : "word", word || " "));
      return made;
    }));
  }

  drawFoot() {
    const { desk } = this;
    const { data } = desk;
    const total = desk.order.length;
    const done = desk.order.filter((id) => !desk.isOpen(id)).length;
    put(this.progress, total ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")} reviewed${data.source ? ` · ${data.source}` : ""}` : "");
    put(this.message, data.message || "");
    const failed = desk.failed.length;
    const words = failed ? "Not saved" : desk.pending.length ? `Saving ${desk.pending.length}…` : data.saved ? `Saved ${data.saved}` : "";
    put(this.saved, words);
    this.saved.classList.toggle("bad", failed > 0);
    this.alert.hidden = !failed;
    if (failed) put(this.alertText, `${failed === 1 ? "1 decision was" : `${failed} decisions were`} not saved: ${desk.failed[failed - 1].text} `);
  }

  fetch(item) {
    let image = this.loaded.get(item.large);
    if (!image) {
      image = new Image();
      image.decoding = "sync";
      image.src = item.large;
      this.loaded.set(item.large, image);
      while (this.loaded.size > 24) this.loaded.delete(this.loaded.keys().next().value);
    }
    return image;
  }

  preload() {
    const { desk } = this;
    const here = Math.max(0, desk.index());
    for (const id of desk.order.slice(here, here + 6)) if (desk.items.has(id)) this.fetch(desk.items.get(id));
  }
}
