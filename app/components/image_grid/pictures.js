// All pictures of a grid come in one answer: each after its length, cut up and shown as they arrive.

const LENGTH_BYTES = 4;
const LETTERS_AT_ONCE = 8192; // a call takes only so many

/** Cuts a stream of bytes into pictures, whole ones only; a picture without bytes cannot be shown. */
class Cutter {
  constructor() {
    this.rest = new Uint8Array(0);
  }

  /** The pictures that are complete with these further bytes. */
  add(bytes) {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    const view = new DataView(all.buffer);
    const pictures = [];
    let at = 0;
    while (at + LENGTH_BYTES <= all.length) {
      const end = at + LENGTH_BYTES + view.getUint32(at, true);
      if (end > all.length) break;
      pictures.push(all.subarray(at + LENGTH_BYTES, end));
      at = end;
    }
    this.rest = all.slice(at);
    return pictures;
  }
}

/**
 * A picture as an address that holds it whole. Blobs would have to be given back, and take twice as long to be shown:
 * the browser asks another of its processes for each.
 */
function addressOf(picture) {
  if (!picture.length) return null;
  const type = picture[0] === 0x89 ? "image/png" : "image/jpeg";
  let letters = "";
  for (let at = 0; at < picture.length; at += LETTERS_AT_ONCE) {
    letters += String.fromCharCode(...picture.subarray(at, at + LETTERS_AT_ONCE));
  }
  return `data:${type};base64,${btoa(letters)}`;
}

class Pictures {
  /** Calls `show` with the place and the address of each picture, or with no address where it cannot be shown. */
  async load(address, count, show) {
    this.stop();
    const stopper = (this.stopper = new AbortController());
    let shown = 0;
    try {
      const answer = await fetch(address, { credentials: "same-origin", signal: stopper.signal });
      if (!answer.ok) throw new Error(await answer.text());
      const cutter = new Cutter();
      const reader = answer.body.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        if (stopper.signal.aborted) return;
        for (const picture of cutter.add(part.value)) show(shown++, addressOf(picture));
      }
    } catch (error) {
      if (!stopper.signal.aborted) console.warn(`Pictures could not be loaded: ${error.message}`);
    }
    if (stopper.signal.aborted) return;
    while (shown < count) show(shown++, null);
  }

  /** Nobody waits any more for what is on its way. */
  stop() {
    this.stopper?.abort();
  }
}
