// Edits of the user that a component sends to Python. Every edit has a number and is sent until Python confirms it, so
// that none is lost while the page runs. `app/view_models/numbered_edits.py` applies each of them once.

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

class EditSender {
  constructor() {
    this.window = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    this.next = 1;
    this.pending = [];
  }

  /** Send an edit; it replaces earlier ones, not yet confirmed, for which `isReplaced` is true. */
  add(edit, isReplaced) {
    this.pending = this.pending.filter((one) => !isReplaced(one));
    this.pending.push({ n: this.next++, ...edit });
    this.setState("work", { window: this.window, edits: this.pending });
  }

  /** Drop the edits that Python has applied. */
  confirm({ window, answered }) {
    if (window === this.window) this.pending = this.pending.filter((one) => one.n > answered);
  }

  find(test) {
    return this.pending.findLast(test);
  }
}
