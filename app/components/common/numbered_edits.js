// Edits of the user that a component sends to Python. Every edit has a number and is sent until Python confirms it, so
// that none is lost while the page runs. `app/view_models/numbered_edits.py` applies each of them once.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const RESEND_MS = 1000;

class EditSender {
  constructor() {
    this.window = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    this.next = 1;
    this.attempt = 0;
    this.pending = [];
  }

  /** Send an edit; it replaces earlier ones, not yet confirmed, for which `isReplaced` is true. */
  add(edit, isReplaced) {
    this.pending = this.pending.filter((one) => !isReplaced(one));
    this.pending.push({ n: this.next++, ...edit });
    this.send();
  }

  send() {
    clearTimeout(this.timer);
    // Streamlit reports only values that have changed: the number of the attempt makes each one different.
    this.setState("work", { window: this.window, edits: this.pending, attempt: ++this.attempt });
    this.timer = setTimeout(() => this.pending.length && this.send(), RESEND_MS);
  }

  /** Drop the edits that Python has applied. */
  confirm({ window, answered }) {
    if (window === this.window) this.pending = this.pending.filter((one) => one.n > answered);
    if (!this.pending.length) clearTimeout(this.timer);
  }

  /** Stop sending; call it when the component is removed. */
  stop() {
    clearTimeout(this.timer);
  }

  find(test) {
    return this.pending.findLast(test);
  }
}
