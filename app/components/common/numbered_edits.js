// Edits of the user that a component sends to Python. Every edit has a number and is sent until Python confirms it, so
// that none is lost while the page runs. `app/view_models/numbered_edits.py` applies each of them once.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const RESEND_MS = 1000;
const FORGET_MS = 30000;

/** Return the edits of the component with this key. They outlive its element, which Streamlit recreates when elements
 *  above it appear: an edit that was not confirmed by then is sent by the new element. */
function getEditSender(key) {
  const senders = (window.crlcEditSenders ||= new Map());
  if (!senders.has(key)) senders.set(key, new EditSender());
  return senders.get(key);
}

class EditSender {
  constructor() {
    this.window = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    this.next = 1;
    this.attempt = 0;
    this.pending = [];
    this.elements = new Map(); // the elements on the page, and the function that sends through each; the last one sends
  }

  /** Send an edit; it replaces earlier ones, not yet confirmed, for which `isReplaced` is true. */
  add(edit, isReplaced) {
    this.pending = this.pending.filter((one) => !isReplaced(one));
    this.pending.push({ n: this.next++, ...edit });
    this.send();
  }

  send() {
    const setState = [...this.elements.values()].at(-1);
    // Streamlit reports only values that have changed: the number of the attempt makes each one different.
    setState?.("work", { window: this.window, edits: this.pending, attempt: ++this.attempt });
    this.sendLater();
  }

  sendLater() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.pending.length && this.send(), RESEND_MS);
  }

  /** Drop the edits that Python has applied. */
  confirm({ window, answered }) {
    if (window === this.window) this.pending = this.pending.filter((one) => one.n > answered);
    if (!this.pending.length) clearTimeout(this.timer);
  }

  /** Send from now on through an element of the component. */
  attach(element, setState) {
    const isNew = !this.elements.has(element);
    this.elements.delete(element);
    this.elements.set(element, setState);
    if (isNew) this.sendLater();
  }

  /** Send through the element that stays; edits of a page that was left are not sent much later. */
  detach(element) {
    this.elements.delete(element);
    clearTimeout(this.timer);
    if (this.elements.size) this.sendLater();
    else this.timer = setTimeout(() => (this.pending = []), FORGET_MS);
  }

  find(test) {
    return this.pending.findLast(test);
  }
}
