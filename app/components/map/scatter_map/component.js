// The map as a component of Streamlit: it loads points by URL, and sends `region` (a polygon), `value` (of a legend
// entry), `clicked`, `hidden` and `cleared` to Python.

class ServedMap extends PointMap {
  async update(data, send) {
    this.configure(data, send);
    const ticket = (this.ticket = (this.ticket || 0) + 1);
    try {
      if (data.compact && !this.coordinates) await idle(); // load the images beside the map first
      const [coordinates, ids, values, nameValues] = await Promise.all([
        this.load("coordinates", data.coordinates, Float32Array),
        this.load("ids", data.ids, Uint32Array),
        this.load("values", data.values, Uint16Array),
        data.names && this.load("names", data.names.values, Uint16Array),
      ]);
      if (ticket !== this.ticket) return;
      if (coordinates.length !== 2 * ids.length || values.length !== ids.length) throw new Error("lengths differ");
      this.show(coordinates, ids, values, data.names && { values: nameValues, entries: data.names.entries });
    } catch (error) {
      if (ticket === this.ticket) this.status.textContent = `The map could not be loaded: ${error.message}. Reload the page.`;
    }
  }

  /** Load images in one request; each is shown as it arrives. */
  async loadImages(ids, receive, signal) {
    try {
      let index = 0;
      for await (const image of streamImages(`${this.data.gallery}&ids=${ids.join(",")}`, signal)) {
        const id = ids[index++];
        if (image.length) receive(id, await createImageBitmap(new Blob([image])));
      }
    } catch (error) {
      if (!signal.aborted) console.warn(`The images on the map could not be loaded: ${error.message}`);
    }
  }

  async load(name, url, Kind) {
    this.loaded ??= {};
    if (this.loaded[name]?.url !== url) this.loaded[name] = { url, content: fetchArray(url, Kind) };
    return this.loaded[name].content;
  }
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

export default function ({ data, parentElement, setTriggerValue }) {
  // Streamlit calls again whenever the data changes: the map stays, with its view.
  const map = (parentElement.pointMap ||= new ServedMap(parentElement));
  map.update(data, setTriggerValue);
  return () =>
    setTimeout(() => {
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.pointMap !== map) return;
      map.destroy();
      parentElement.pointMap = null;
    });
}
