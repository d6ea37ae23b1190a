// Shows that a click was heard, and opens the keyboard shortcuts. Streamlit gives no sign between a click and the first
// answer of the server: this watches the messages to the server, and shows a sign if one that the user caused is not
// answered at once. Messages of pages that refresh themselves show no sign.

const CAUSED_MS = 450; // a message this soon after a key or click was caused by it; components send after up to 150 ms
const PATIENCE_MS = 100; // a quicker answer shows no sign
const QUIET_MS = 150; // the page runs no more: the answer is complete
const MAX_MS = 60000;
const RING_OFFSET = 14;
const TYPED_IN = "input, textarea, select, [contenteditable=''], [contenteditable='true']";

/** Return whether a key only writes text, which the page does not answer. */
function isTyping(event) {
  const target = event.composedPath()[0];
  const writes = event.type === "keydown" && !["Enter", "Tab", "Escape"].includes(event.key);
  return writes && target instanceof Element && Boolean(target.closest(TYPED_IN) || target.isContentEditable);
}

class Feedback {
  constructor() {
    this.actedAt = -Infinity;
    this.place = null;
    this.sign = document.createElement("div");
    this.sign.id = "crlc-busy";
    this.sign.setAttribute("aria-hidden", "true");
    this.bar = document.createElement("div");
    this.bar.className = "bar";
    this.ring = document.createElement("div");
    this.ring.className = "ring";
    this.sign.append(this.bar, this.ring);
    document.body.append(this.sign);
    for (const kind of ["pointerdown", "click"]) document.addEventListener(kind, (event) => this.act(event), true);
    for (const kind of ["keydown", "change"]) document.addEventListener(kind, (event) => this.act(event), true);
    document.addEventListener("keydown", (event) => this.key(event));
    this.watchMessages();
  }

  /** Remember when and where the user acted. */
  act(event) {
    if (!event.isTrusted || isTyping(event)) return;
    this.actedAt = performance.now();
    if (event.clientX || event.clientY) this.place = { x: event.clientX, y: event.clientY };
    else {
      const target = event.composedPath()[0];
      const box = target instanceof Element && target !== document.body && target.getBoundingClientRect();
      this.place = box ? { x: box.right - 2 * RING_OFFSET, y: box.top } : null;
    }
  }

  watchMessages() {
    const feedback = this;
    const send = WebSocket.prototype.send;
    const known = new WeakSet();
    WebSocket.prototype.send = function (...content) {
      if (!known.has(this)) {
        known.add(this);
        this.addEventListener("message", () => (feedback.answeredAt = performance.now()));
      }
      const result = send.apply(this, content);
      if (performance.now() - feedback.actedAt < CAUSED_MS) feedback.wait();
      return result;
    };
  }

  wait() {
    this.sentAt = performance.now();
    if (this.timer) return;
    this.timer = setInterval(() => this.check(), PATIENCE_MS);
  }

  check() {
    const now = performance.now();
    const app = document.querySelector('[data-testid="stApp"]');
    const isRunning = app?.getAttribute("data-test-script-state") === "running";
    if (isRunning) this.ranAt = now;
    const lastSign = Math.max(this.answeredAt ?? 0, this.ranAt ?? 0);
    const isAnswered = lastSign > this.sentAt && !isRunning && now - lastSign > QUIET_MS;
    if (isAnswered || now - this.sentAt > MAX_MS) {
      clearInterval(this.timer);
      this.timer = null;
      this.sign.classList.remove("shown");
    } else if (!this.sign.classList.contains("shown") && (isRunning || !(this.answeredAt > this.sentAt))) {
      this.placeRing();
      this.sign.classList.add("shown");
    }
  }

  placeRing() {
    this.ring.hidden = !this.place; // a key that no element received
    if (!this.place) return;
    this.ring.style.left = `${Math.min(this.place.x + RING_OFFSET, innerWidth - 24)}px`;
    this.ring.style.top = `${Math.min(Math.max(0, this.place.y - RING_OFFSET), innerHeight - 24)}px`;
  }

  key(event) {
    if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event) || document.querySelector('[role="dialog"]')) return;
    event.preventDefault();
    this.send("shortcuts", true);
  }
}

export default function ({ setTriggerValue }) {
  window.crlcFeedback ||= new Feedback();
  window.crlcFeedback.send = setTriggerValue;
}
