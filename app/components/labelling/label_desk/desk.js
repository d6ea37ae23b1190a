// The user's decisions, image by image. Every decision has a number, the id of its image and the name itself, and is
// sent until Python confirms it: quick keys are neither lost nor applied to another image.

const RESEND_MS = 4000;
const OPEN_FORM = '[data-testid="stPopoverBody"], [role="dialog"]';
const TYPED_IN = "input, textarea, select, [contenteditable=''], [contenteditable='true']";
const OWN_KEYS = "button, a, summary, [role=radio], [role=tab], [role=slider], [role=option], [role=menuitem]";

class Desk {
  constructor(key) {
    this.viewKey = key; // key of the view that the images belong to
    this.window = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    this.next = 1;
    this.seen = 0;
    this.pending = [];
    this.failed = [];
    this.stack = []; // decisions that Z can undo, the last one at the end
    this.order = [];
    this.items = new Map();
    this.clusters = new Map();
    this.states = new Map();
    this.local = new Map(); // decisions that Python has not confirmed yet
    this.at = null;
    this.sentAt = 0;
    this.view = new View(this);
    this.parents = new Map(); // the elements on the page, and the function that sends through each; the last one is used
    this.onKey = (event) => this.key(event);
    this.onLeave = (event) => this.pending.length && event.preventDefault();
  }

  listen() {
    if (this.isListening) return;
    document.addEventListener("keydown", this.onKey);
    window.addEventListener("beforeunload", this.onLeave);
    // A lost message is sent again; Python applies each decision once.
    this.timer = setInterval(() => {
      if (this.pending.length && Date.now() - this.sentAt > RESEND_MS) this.send();
    }, RESEND_MS / 2);
    this.isListening = true;
  }

  leave() {
    document.removeEventListener("keydown", this.onKey);
    window.removeEventListener("beforeunload", this.onLeave);
    clearInterval(this.timer);
    this.isListening = false;
  }

  /** Show the desk in an element of the page, and send through it. */
  mount(parent, setState) {
    this.parents.delete(parent);
    this.parents.set(parent, setState);
    this.settle();
  }

  /** Show the desk in the newest element. Streamlit may run an element once more before it removes it. */
  settle() {
    const found = [...this.parents].at(-1);
    if (!found) {
      this.leave();
      return;
    }
    const [parent, setState] = found;
    this.setState = setState;
    if (this.view.root.parentNode !== parent) parent.append(this.view.root);
    this.listen();
  }

  /** Forget an element that is no longer on the page. */
  unmount(parent) {
    if (parent.isConnected) return;
    this.parents.delete(parent);
    this.settle();
  }

  /** Apply the data from Python. The current image stays, unless the queue has changed. */
  update(data) {
    this.data = { ...data, names: [...data.names] };
    for (const item of data.items) this.items.set(item.id, item);
    for (const [number, cluster] of Object.entries(data.clusters)) this.clusters.set(Number(number), cluster);
    for (const [id, label, excluded, skipped] of data.states) this.states.set(id, { label, excluded, skipped });
    this.order = data.order;
    if (data.window === this.window) this.applyOutcome(data);
    this.pending.forEach((one) => this.addName(one));
    if (data.queue !== this.queue) {
      this.queue = data.queue;
      this.at = null;
      this.stack = [];
      if (!this.isUserElsewhere()) this.view.root.focus({ preventScroll: true });
      this.at = this.order.find((id) => this.isOpen(id)) ?? null;
    } else if (this.at === null || !this.order.includes(this.at)) {
      this.at = this.order.find((id, index) => index >= (this.left ?? 0) && this.isOpen(id)) ?? null;
    }
    this.view.draw();
  }

  /** Return whether the user types, or uses a form over the page, which closes when it loses the focus. */
  isUserElsewhere() {
    const focused = [document.activeElement, this.view.root.getRootNode().activeElement];
    return focused.some((one) => one?.matches(TYPED_IN)) || document.querySelector(OPEN_FORM) !== null;
  }

  applyOutcome(data) {
    for (const [number, text] of data.failed) {
      const decision = this.pending.find((one) => one.n === number);
      if (!decision || number <= this.seen) continue;
      this.stack = this.stack.filter((one) => one.n !== number);
      this.failed.push({ ...decision, text });
    }
    this.seen = Math.max(this.seen, data.answered);
    this.pending = this.pending.filter((one) => one.n > this.seen);
    for (const [id, state] of this.local) if (state.n <= this.seen) this.local.delete(id);
  }

  /** Assign a key to a new name immediately, before Python confirms it. */
  addName({ act, name }) {
    if (act === "label" && !this.data.names.some((one) => one.name === name)) this.data.names.push({ name, count: 0 });
  }

  // ---- state

  index() { return this.at === null ? this.order.length : this.order.indexOf(this.at); }
  current() { return this.at === null ? null : this.items.get(this.at) || null; }
  state(id) { return this.local.get(id) || this.states.get(id) || {}; }
  isLoading() { return this.at !== null; }

  isOpen(id) {
    const { label, excluded, skipped } = this.state(id);
    return !label && !excluded && !skipped;
  }

  proposal(item) { return this.clusters.get(item.cluster)?.name || null; }

  // ---- decisions

  decide(act, name, state) {
    const item = this.current();
    if (!item) return;
    const decision = { n: this.next++, act, id: item.id, name, before: this.state(item.id) };
    this.stack.push(decision);
    this.local.set(item.id, { ...state, n: decision.n });
    this.pending.push(decision);
    this.addName(decision);
    const here = this.index();
    this.left = here + 1;
    this.at = this.order.find((id, index) => index > here && this.isOpen(id)) ?? null;
    this.send();
    this.view.draw();
  }

  label(name) { this.decide("label", name, { label: name, excluded: false }); }
  skip() { this.decide("skip", "", { ...this.labelAndExclusion(), skipped: true }); }

  exclude() {
    const now = this.labelAndExclusion();
    this.decide(now.excluded ? "include" : "exclude", "", { ...now, excluded: !now.excluded });
  }

  labelAndExclusion() {
    const item = this.current();
    const { label, excluded } = item ? this.state(item.id) : {};
    return { label, excluded };
  }

  accept() {
    const item = this.current();
    const name = item && this.proposal(item);
    if (name) this.label(name);
  }

  undo() {
    const last = this.stack.pop();
    const decision = { n: this.next++, act: "undo", id: last ? last.id : this.at ?? 0, of: last ? last.n : null };
    if (last) {
      this.local.set(last.id, { ...last.before, n: decision.n });
      this.at = last.id;
    }
    this.pending.push(decision);
    this.send();
    this.view.draw();
  }

  tryAgain() {
    for (const { id, act, name, of } of this.failed) this.pending.push({ n: this.next++, act, id, name, of });
    this.failed = [];
    this.send();
    this.view.draw();
  }

  dismiss() {
    this.failed = [];
    this.view.draw();
  }

  // ---- moving

  goTo(id) {
    this.at = id;
    const here = this.index();
    if (this.order.slice(Math.max(0, here - 4), here + 10).some((near) => !this.items.has(near))) this.send();
    this.view.draw();
  }

  step(by) {
    const to = this.index() + by;
    if (to >= 0 && to < this.order.length) this.goTo(this.order[to]);
  }

  send() {
    this.sentAt = Date.now();
    const decisions = this.pending.map(({ n, act, id, name, of }) => ({ n, act, id, name, of }));
    this.setState("work", { window: this.window, seen: this.seen, at: this.at, decisions, time: this.sentAt });
  }

  // ---- keys

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
    const path = event.composedPath();
    const target = path[0] instanceof Element ? path[0] : document.body;
    if (target.closest(TYPED_IN) || target.isContentEditable || document.querySelector('[role="dialog"]')) return;
    const moves = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) };
    const letters = { x: () => this.exclude(), s: () => this.skip(), z: () => this.undo(), " ": () => this.accept() };
    letters.n = () => this.view.box.focus();
    // A button, a tab or a radio group elsewhere on the page keeps its own keys.
    const elsewhere = !path.includes(this.view.root) && target.closest(OWN_KEYS);
    if (elsewhere && (event.key === " " || event.key in moves)) return;
    const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1] ?? (/^[0-9]$/.test(event.key) ? event.key : null);
    let act = moves[event.key];
    if (!act && !event.repeat) {
      act = event.shiftKey ? undefined : letters[event.key.toLowerCase()];
      if (!act && digit !== null && (!event.shiftKey || /^[0-9]$/.test(event.key))) {
        const name = this.data.names[(Number(digit) + 9) % 10]?.name;
        act = name === undefined ? undefined : () => this.label(name);
      }
    }
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

/** The component outlives its element on the page, which Streamlit may recreate: no decision is lost. */
export default function ({ data, parentElement, setStateValue }) {
  if (window.crlcLabelDesk?.viewKey !== data.key) {
    window.crlcLabelDesk?.parents.clear();
    window.crlcLabelDesk?.settle();
    window.crlcLabelDesk = new Desk(data.key);
  }
  const desk = window.crlcLabelDesk;
  desk.mount(parentElement, setStateValue);
  desk.update(data);
  return () => setTimeout(() => desk.unmount(parentElement));
}
