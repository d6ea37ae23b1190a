// Helpers of the map, and its legend, which explains the colours and hides values.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Read a mask with one bit per point, the first in the lowest bit of the first byte; as bytes or base64. */
function bits(mask, count) {
  if (mask === null || mask === undefined) return null;
  const bytes = typeof mask === "string" ? Uint8Array.from(atob(mask), (letter) => letter.charCodeAt(0)) : mask;
  return (row) => row < count && (bytes[row >> 3] >> (row & 7)) & 1;
}

const EYE = "M12 5C7 5 2.7 8.1 1 12c1.7 3.9 6 7 11 7s9.3-3.1 11-7c-1.7-3.9-6-7-11-7zm0 11a4 4 0 1 1 0-8 4 4 0 0 1 0 8z";
const NAMESPACE = "http://www.w3.org/2000/svg";

function buildEye() {
  const icon = document.createElementNS(NAMESPACE, "svg");
  icon.setAttribute("viewBox", "0 0 24 24");
  const path = document.createElementNS(NAMESPACE, "path");
  path.setAttribute("d", EYE);
  icon.append(path);
  return icon;
}

class Legend {
  /**
   * `changed` is called with the set of hidden values after the user hid or showed some; `highlighted` with the value
   * that the mouse or the keyboard is on, and with null when it leaves; `selected` with a value whose images the user
   * selects, and whether they are added to the selection.
   */
  constructor(changed, highlighted, selected) {
    this.box = element("div", "legend");
    this.changed = changed;
    this.highlighted = highlighted;
    this.selected = selected;
    this.hidden = new Set();
    this.chips = new Map();
  }

  show(scale) {
    this.chips = new Map();
    this.box.replaceChildren();
    if (scale.kind !== "categories") {
      const ramp = element("div", "ramp");
      ramp.style.background = `linear-gradient(to right, ${scale.ramp.join(",")})`;
      this.box.append(element("span", "", scale.low), ramp, element("span", "", scale.high));
      return;
    }
    for (const entry of scale.entries) {
      const chip = element("div", "entry");
      const name = element("button", "name");
      name.type = "button";
      const dot = element("span", "dot");
      dot.style.background = entry.colour;
      name.append(dot, element("span", "text", entry.text), element("span", "count"));
      const eye = element("button", "eye");
      eye.type = "button";
      eye.append(buildEye());
      chip.append(name, eye);
      chip.onmouseenter = name.onfocus = () => this.highlighted(entry.value);
      chip.onmouseleave = name.onblur = () => this.highlighted(null);
      name.onclick = (event) => this.selected(entry.value, event.ctrlKey || event.metaKey);
      eye.onclick = (event) => this.toggle(entry.value, event.detail > 1);
      this.box.append(chip);
      this.chips.set(entry.value, { chip, name, eye, entry });
    }
  }

  /** Show the number of images of each value that match the filters; `get` returns it. */
  count(get) {
    for (const [value, { name, entry }] of this.chips) {
      const count = get(value).toLocaleString("en");
      const all = entry.count.toLocaleString("en");
      name.querySelector(".count").textContent = count;
      name.title = `${entry.text}: ${count === all ? "" : `${count} of `}${all} images. Click to select them, Ctrl + click to add them.`;
    }
  }

  toggle(value, alone) {
    const hidden = new Set(this.hidden);
    if (alone) {
      hidden.clear();
      if (this.alone !== value) for (const other of this.chips.keys()) if (other !== value) hidden.add(other);
      this.alone = this.alone === value ? null : value;
    } else if (!hidden.delete(value)) {
      hidden.add(value);
    }
    this.mark(hidden);
    clearTimeout(this.sendTimer); // a double click is one change, not two
    this.sendTimer = setTimeout(() => this.changed(this.hidden), 200);
  }

  /** Frame the value of the point under the mouse, so that the user need not compare colours. */
  frame(value) {
    for (const [other, { chip }] of this.chips) chip.classList.toggle("here", other === value);
  }

  mark(hidden) {
    this.hidden = hidden;
    for (const [value, { chip, eye, entry }] of this.chips) {
      const isHidden = hidden.has(value);
      chip.classList.toggle("hidden", isHidden);
      eye.setAttribute("aria-label", `${isHidden ? "Show" : "Hide"} ${entry.text}`);
      eye.title = `${isHidden ? "Show" : "Hide"} ${entry.text}. Double-click to show only this.`;
    }
  }
}
