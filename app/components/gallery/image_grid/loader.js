// Loader of the images of a grid. One response has all of them, each after its length; each is shown as it arrives.

const LENGTH_BYTES = 4;
const MAX_CALL_ARGUMENTS = 8192; // safe number of arguments of one function call

/** Splitter of a byte stream into complete images; an image of length 0 cannot be shown. */
class ImageSplitter {
  constructor() {
    this.rest = new Uint8Array(0);
  }

  /** Return the images that these further bytes complete. */
  add(bytes) {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    const view = new DataView(all.buffer);
    const images = [];
    let at = 0;
    while (at + LENGTH_BYTES <= all.length) {
      const end = at + LENGTH_BYTES + view.getUint32(at, true);
      if (end > all.length) break;
      images.push(all.subarray(at + LENGTH_BYTES, end));
      at = end;
    }
    this.rest = all.slice(at);
    return images;
  }
}

/** Yield the bytes of the images of a response, each as it arrives. */
async function* streamImages(url, signal) {
  const response = await fetch(url, { credentials: "same-origin", signal });
  if (!response.ok) throw new Error(await response.text());
  const splitter = new ImageSplitter();
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield* splitter.add(part.value);
}

/**
 * Return an image as a data URL. Blob URLs would have to be released, and take twice as long to show: the browser
 * requests each of them from another process.
 */
function buildDataUrl(image) {
  if (!image.length) return null;
  const type = image[0] === 0x89 ? "image/png" : "image/jpeg";
  let letters = "";
  for (let at = 0; at < image.length; at += MAX_CALL_ARGUMENTS) {
    letters += String.fromCharCode(...image.subarray(at, at + MAX_CALL_ARGUMENTS));
  }
  return `data:${type};base64,${btoa(letters)}`;
}

/** Loader that replaces its previous request. */
class ImageLoader {
  /** Call `show` with the index and the data URL of each image; with null if the image cannot be shown. */
  async load(url, count, show) {
    this.stop();
    const controller = (this.controller = new AbortController());
    let shown = 0;
    try {
      for await (const image of streamImages(url, controller.signal)) {
        if (controller.signal.aborted) return;
        show(shown++, buildDataUrl(image));
      }
    } catch (error) {
      if (!controller.signal.aborted) console.warn(`The images could not be loaded: ${error.message}`);
    }
    if (controller.signal.aborted) return;
    while (shown < count) show(shown++, null);
  }

  /** Cancel the request. */
  stop() {
    this.controller?.abort();
  }
}
