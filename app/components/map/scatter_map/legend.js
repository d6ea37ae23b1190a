// Helpers of the map, and its legend, which explains the colours and hides values.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Decode a mask with one bit per point, the first in the lowest bit of the first byte. */
function bits(text, count) {
  if (text === null || text === undefined) return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return (row) => row < count && (bytes[row >> 3] >> (row & 7)) & 1;
}

async function fetchArray(url, Kind) {
  const response = await fetch(url, { credentials: "same-origin" });
  if (!response.ok) throw new Error(await response.text());
  return new Kind(await response.arrayBuffer());
}

/** Wait until the browser is idle, at most half a second. */
function idle() {
  return new Promise((done) => {
    if (window.requestIdleCallback) requestIdleCallback(done, { timeout: 500 });
    else setTimeout(done, 100);
  });
}

class Legend {
  /**
   * `changed` is called with the set of hidden values after the user hid or showed some; `highlighted` with the value
   * that the mouse or the keyboard is on, and with null when it leaves.
   */
  constructor(changed, highlighted) {
    this.box = element("div", "legend");
    this.changed = changed;
    this.highlighted = highlighted;
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
      const count = entry.count.toLocaleString("en");
      const chip = element("button");
      chip.type = "button";
      chip.title = `${entry.text}: ${count} images. Click to hide or show, double-click to show only this.`;
      const dot = element("span", "dot");
      dot.style.background = entry.colour;
      chip.append(dot, element("span", "text", entry.text), element("span", "count", count));
      chip.onmouseenter = chip.onfocus = () => this.highlighted(entry.value);
      chip.onmouseleave = chip.onblur = () => this.highlighted(null);
      chip.onclick = (event) => this.toggle(entry.value, event.detail > 1);
      this.box.append(chip);
      this.chips.set(entry.value, chip);
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
    for (const [other, chip] of this.chips) chip.classList.toggle("here", other === value);
  }

  mark(hidden) {
    this.hidden = hidden;
    for (const [value, chip] of this.chips) chip.setAttribute("aria-pressed", !hidden.has(value));
  }
}
