// Shows that a click was heard, and opens the keyboard shortcuts. Streamlit gives no sign between a click and the first
// answer of the server: this watches the messages to the server, and shows a sign if one that the user caused is not
// answered at once. Messages of pages that refresh themselves show no sign, and their runs are no answers.
//
// It also restores a page that Streamlit has cleared. A page that refreshes itself may send a message just before another
// page opens; its run then starts late, and Streamlit takes its page for a new one and clears the page that is open.
// A message that such a page would send just after the user has opened another page is dropped: a busy server merges
// both, and stays on the page of the later one.

const CAUSED_MS = 5000; // a message this soon after a key or click was caused by it: a busy browser sends it late
const PATIENCE_MS = 100; // a quicker answer shows no sign
const QUIET_MS = 150; // the page runs no more: the answer is complete
const STALE_MS = 500; // elements that are faded for longer show the sign, although the server has answered
const MAX_MS = 60000;
const OPENING_MS = 20000; // a page that has not opened by then will not: its request was lost
const RING_OFFSET = 14;
const TYPED_IN = "input, textarea, select, [contenteditable=''], [contenteditable='true']";

/** Return whether a key only writes text, which the page does not answer. */
function isTyping(event) {
  const target = event.composedPath()[0];
  const writes = event.type === "keydown" && !["Enter", "Tab", "Escape"].includes(event.key);
  return writes && target instanceof Element && Boolean(target.closest(TYPED_IN) || target.isContentEditable);
}

/** Return the fields of a protobuf message by number: numbers and bytes; of a repeated field, all values. */
function readFields(bytes) {
  const fields = new Map();
  let at = 0;
  const readNumber = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (!(byte & 128)) return value; // also past the end, where `byte` is undefined
    }
  };
  while (at < bytes.length) {
    const key = readNumber();
    const size = { 0: 0, 1: 8, 2: null, 5: 4 }[key & 7];
    let value = size === 0 || size === null ? readNumber() : size;
    if (size !== 0) value = bytes.subarray(at, (at += value));
    fields.set(key >>> 3, [...(fields.get(key >>> 3) ?? []), value]);
  }
  return fields;
}

const text = (bytes) => new TextDecoder().decode(bytes);

/** Return the request to run a page in a message to the server (`BackMsg`): page, fragment, and whether it is a poll. */
function readRequest(bytes) {
  const state = readFields(bytes).get(11)?.[0]; // rerun_script
  if (!state) return null;
  const fields = readFields(state);
  const read = (number) => text(fields.get(number)?.[0] ?? new Uint8Array());
  return { page: read(3), fragment: read(5), isPoll: Boolean(fields.get(6)?.[0]) };
}

/** Return the start or end of a run in a message of the server (`ForwardMsg`), with the fragments that it runs. */
function readRun(bytes) {
  const fields = readFields(bytes);
  if (!fields.has(4) && !fields.has(6)) return null; // neither new_session nor script_finished
  const run = readFields(fields.get(2)?.[0] ?? new Uint8Array()).get(6)?.[0] ?? new Uint8Array();
  const isEnded = fields.has(6) && fields.get(6)[0] !== 2; // 2: ended early, and runs again
  const fragments = (readFields(run).get(2) ?? []).map(text);
  const page = fields.has(4) ? text(readFields(fields.get(4)[0]).get(9)?.[0] ?? new Uint8Array()) : null;
  return { isStarted: fields.has(4), isEnded, fragments, page };
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
        this.addEventListener("message", (event) => feedback.receive(event.data));
      }
      const request = content[0] instanceof Uint8Array ? readRequest(content[0]) : null;
      if (request && feedback.isLate(request)) return undefined;
      const result = send.apply(this, content);
      if (request && !request.isPoll && performance.now() - feedback.actedAt < CAUSED_MS) feedback.wait(request);
      return result;
    };
  }

  /** Return whether a request is a poll of a page that the user is leaving; otherwise note whether it leaves the page. */
  isLate(request) {
    const now = performance.now();
    if (request.isPoll) return request.page === this.leaving && now - this.leftAt < OPENING_MS;
    if (request.page) Object.assign(this, { leaving: request.page === this.page ? null : this.page, leftAt: now });
    return false;
  }

  /** Wait for the answer to a request of the user. */
  wait(request) {
    Object.assign(this, { request, sentAt: performance.now(), hasStarted: false, answeredAt: null });
    this.timer ??= setInterval(() => this.check(), PATIENCE_MS);
  }

  /** Note the start or end of a run that answers the request: one of the whole page, or of its fragment. */
  receive(data) {
    const run = data instanceof ArrayBuffer ? readRun(new Uint8Array(data)) : null;
    if (!run) return;
    if (run.isStarted) this.notePage(run);
    if (run.isEnded) this.restorePage();
    if (!this.timer || (run.fragments.length && !run.fragments.includes(this.request.fragment))) return;
    if (run.isStarted) this.hasStarted = true;
    if (run.isEnded && this.hasStarted) this.answeredAt = performance.now();
  }

  /** Note which page is open, and whether the run of a fragment of another page has cleared it. */
  notePage(run) {
    if (!run.fragments.length) {
      Object.assign(this, { page: run.page, isCleared: false });
      if (run.page !== this.leaving) this.leaving = null;
    }
    else if (this.page && run.page !== this.page) this.isCleared = true;
  }

  /** Run a cleared page again; not before the request of the user is answered, which may open yet another page. */
  restorePage() {
    if (!this.isCleared || this.timer) return;
    this.isCleared = false;
    setTimeout(() => this.send("restored", true)); // after Streamlit has handled the message
  }

  check() {
    const now = performance.now();
    const app = document.querySelector('[data-testid="stApp"]');
    const isRunning = app?.getAttribute("data-test-script-state") === "running";
    const isStale = document.querySelector('[data-stale="true"]') !== null;
    if (isRunning || isStale) this.busyAt = now;
    const lastSign = Math.max(this.answeredAt ?? 0, this.busyAt ?? 0);
    const isBusy = isRunning || (isStale && now - this.sentAt > STALE_MS);
    if ((this.answeredAt && now - lastSign > QUIET_MS) || now - this.sentAt > MAX_MS) {
      clearInterval(this.timer);
      this.timer = null;
      this.sign.classList.remove("shown");
      this.restorePage();
    } else if (!this.sign.classList.contains("shown") && (!this.answeredAt || isBusy)) {
      this.placeRing();
      this.sign.style.colorScheme = getComputedStyle(app).colorScheme; // it is outside of the app
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
