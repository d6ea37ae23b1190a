// A button that downloads a file with its progress. Texts are only ever set as text content.

const PROGRESS_INTERVAL_MS = 250;

function element(kind, className) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  return made;
}

function formatBytes(count) {
  if (count < 1e6) return `${Math.max(1, Math.round(count / 1e3))} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(2)} GB`;
}

function build(parentElement) {
  const root = element("div", "download");
  const made = { root, button: element("button", "main"), spinner: element("span", "spinner"), message: element("span", "message"),
    cancel: element("button", "plain"), running: null };
  made.button.type = made.cancel.type = "button";
  made.cancel.textContent = "Cancel";
  made.message.setAttribute("role", "status");
  made.spinner.hidden = made.cancel.hidden = true;
  made.button.onclick = () => download(made);
  made.cancel.onclick = () => made.running?.abort();
  root.append(made.button, made.spinner, made.message, made.cancel);
  parentElement.append(root);
  return made;
}

function showMessage(made, text, { bad = false, busy = false } = {}) {
  made.message.textContent = text;
  made.message.classList.toggle("bad", bad);
  made.message.setAttribute("role", bad ? "alert" : "status");
  made.spinner.hidden = made.cancel.hidden = !busy;
  made.button.hidden = busy;
}

async function receive(response, made) {
  const parts = [];
  let count = 0;
  let shown = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    count += part.value.length;
    if (performance.now() - shown > PROGRESS_INTERVAL_MS) {
      shown = performance.now();
      showMessage(made, `Downloading: ${formatBytes(count)}`, { busy: true });
    }
  }
  return new Blob(parts, { type: response.headers.get("content-type") || "application/octet-stream" });
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

async function download(made) {
  const { url, file } = made.data;
  const running = made.running = new AbortController();
  const started = performance.now();
  const describeWait = () => `Preparing ${file}: ${Math.round((performance.now() - started) / 1000)} s`;
  showMessage(made, describeWait(), { busy: true });
  const clock = setInterval(() => showMessage(made, describeWait(), { busy: true }), 1000);
  try {
    const response = await fetch(url, { signal: running.signal });
    clearInterval(clock);
    if (!response.ok) throw new Error(await response.text());
    const blob = await receive(response, made);
    save(blob, file);
    showMessage(made, `Downloaded ${file} (${formatBytes(blob.size)})`);
  } catch (error) {
    if (running.signal.aborted) showMessage(made, "Cancelled");
    else showMessage(made, error instanceof TypeError ? "The app does not respond. Check that it is still running." : error.message, { bad: true });
  } finally {
    clearInterval(clock);
    made.running = null;
    showFileName(made);
  }
}

function showFileName(made) {
  made.button.textContent = `Download ${made.data.file}`;
  made.button.title = made.data.file;
}

export default function ({ data, parentElement }) {
  const made = parentElement.crlcDownload ?? build(parentElement);
  parentElement.crlcDownload = made;
  const changed = made.data && made.data.url !== data.url;
  made.data = data;
  if (!made.running) {
    if (changed) showMessage(made, "");
    showFileName(made);
  }
}
