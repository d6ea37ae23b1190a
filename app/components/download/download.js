// A button that fetches a file, says how far that is, and has the browser save it. Texts are only ever set as text.

const SHOWN_EVERY_MS = 250;

function element(kind, className) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  return made;
}

function bytes(count) {
  if (count < 1e6) return `${Math.max(1, Math.round(count / 1e3))} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(2)} GB`;
}

function build(parentElement) {
  const root = element("div", "download");
  const made = { root, button: element("button", "main"), wheel: element("span", "wheel"), said: element("span", "said"),
    cancel: element("button", "plain"), running: null };
  made.button.type = made.cancel.type = "button";
  made.cancel.textContent = "Cancel";
  made.said.setAttribute("role", "status");
  made.wheel.hidden = made.cancel.hidden = true;
  made.button.onclick = () => begin(made);
  made.cancel.onclick = () => made.running?.abort();
  root.append(made.button, made.wheel, made.said, made.cancel);
  parentElement.append(root);
  return made;
}

function say(made, text, { bad = false, busy = false } = {}) {
  made.said.textContent = text;
  made.said.classList.toggle("bad", bad);
  made.said.setAttribute("role", bad ? "alert" : "status");
  made.wheel.hidden = made.cancel.hidden = !busy;
  made.button.hidden = busy;
}

async function received(answer, made) {
  const parts = [];
  let count = 0;
  let shown = 0;
  const reader = answer.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    count += part.value.length;
    if (performance.now() - shown > SHOWN_EVERY_MS) {
      shown = performance.now();
      say(made, `Receiving, ${bytes(count)}`, { busy: true });
    }
  }
  return new Blob(parts, { type: answer.headers.get("content-type") || "application/octet-stream" });
}

function save(blob, file) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = file;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // some browsers read it a moment later
}

async function begin(made) {
  const { url, file } = made.data;
  const running = made.running = new AbortController();
  const started = performance.now();
  const seconds = () => `Preparing ${file}, ${Math.round((performance.now() - started) / 1000)} s`;
  say(made, seconds(), { busy: true });
  const clock = setInterval(() => say(made, seconds(), { busy: true }), 1000);
  try {
    const answer = await fetch(url, { signal: running.signal });
    clearInterval(clock);
    if (!answer.ok) throw new Error(await answer.text());
    const blob = await received(answer, made);
    save(blob, file);
    say(made, `${file}, ${bytes(blob.size)}`);
  } catch (error) {
    if (running.signal.aborted) say(made, "Cancelled");
    else say(made, error instanceof TypeError ? "The app does not answer. Is it still running?" : error.message, { bad: true });
  } finally {
    clearInterval(clock);
    made.running = null;
    label(made);
  }
}

function label(made) {
  made.button.textContent = `Download ${made.data.file}`;
  made.button.title = made.data.file;
}

export default function ({ data, parentElement }) {
  const made = parentElement.crlcDownload ?? build(parentElement);
  parentElement.crlcDownload = made;
  const changed = made.data && made.data.url !== data.url;
  made.data = data;
  if (!made.running) {
    if (changed) say(made, "");
    label(made);
  }
}
