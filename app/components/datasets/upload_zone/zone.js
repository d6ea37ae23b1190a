// Drop zone: shows what was dropped, uploads it on request with its progress, and sends `uploaded` (id and name of the
// folder) to Python until Python confirms it. Names are only ever set as text content.

const PARALLEL = 4; // a browser opens six connections to a server, and the page needs some of them
const RESEND_MS = 1500;
const SHOWN_MS = 100;

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const formatCount = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function formatBytes(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at += 1) bytes /= 1000;
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

function makeButton(text, className, act) {
  const button = element("button", className, text);
  button.type = "button";
  button.onclick = act;
  return button;
}

function makeInput(zone, isFolder) {
  const input = element("input");
  input.type = "file";
  input.multiple = true;
  input.hidden = true;
  input.webkitdirectory = isFolder;
  input.setAttribute("aria-label", isFolder ? "Folder to upload" : "Files to upload");
  if (!isFolder) input.accept = [...zone.data.suffixes, ".zip"].join(",");
  input.onchange = () => {
    const found = readChosen(input);
    input.value = "";
    if (found.length) showFound(zone, found);
  };
  return input;
}

function showStart(zone, problem = "") {
  zone.state = "start";
  zone.root.className = "zone";
  const [files, folder] = [makeInput(zone, false), makeInput(zone, true)];
  const text = element("span", problem ? "problem" : "text", problem || "Or drop images, folders or a .zip here");
  if (problem) text.setAttribute("role", "alert");
  zone.root.replaceChildren(
    text, files, folder,
    makeButton("Choose files", "", () => files.click()), makeButton("Choose folder", "", () => folder.click()),
  );
}

function showFound(zone, found) {
  const sorted = sortFiles(found, zone.data.suffixes);
  if (!sorted.files.length) {
    showStart(zone, `No images in ${formatCount(found.length, "file")}.`);
    return;
  }
  zone.state = "found";
  zone.root.className = "zone";
  const from = sorted.name ? ` from ${sorted.name}` : "";
  const facts = [`${formatCount(sorted.files.length, "file")}${from}, ${formatBytes(sorted.bytes)}.`];
  if (sorted.others) facts.push(`${formatCount(sorted.others, "other file")} left out.`);
  if (sorted.unreadable) facts.push(`${formatCount(sorted.unreadable, "file")} unreadable.`);
  facts.push(`They are copied to ${zone.data.destination}.`);
  const start = makeButton(`Import ${formatCount(sorted.files.length, "file")}`, "primary", () => upload(zone, sorted));
  zone.root.replaceChildren(
    element("span", "text", facts.join(" ")), makeButton("Cancel", "", () => showStart(zone)), start,
  );
  start.focus({ preventScroll: true });
}

function showProgress(zone, sorted) {
  zone.state = "uploading";
  zone.root.className = "zone";
  const bar = element("progress");
  bar.max = Math.max(1, sorted.bytes);
  bar.setAttribute("aria-label", "Copying files");
  const text = element("span", "text");
  zone.root.replaceChildren(bar, text, makeButton("Cancel", "", () => stop(zone)));
  let last = 0;
  return (doneFiles, doneBytes) => {
    const now = performance.now();
    if (now - last < SHOWN_MS && doneFiles < sorted.files.length) return;
    last = now;
    bar.value = doneBytes;
    text.textContent = `Copying: ${doneFiles.toLocaleString("en")} of ${formatCount(sorted.files.length, "file")}, `
      + `${formatBytes(doneBytes)} of ${formatBytes(sorted.bytes)}. Keep this page open.`;
  };
}

async function request(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The app does not answer. Nothing was imported: try again.");
  }
  if (!answer.ok) throw new Error((await answer.text()) || `The files could not be stored (${answer.status}).`);
  return answer;
}

async function upload(zone, sorted) {
  const control = new AbortController();
  const report = showProgress(zone, sorted);
  zone.stop = () => control.abort();
  let [next, doneFiles, doneBytes, id] = [0, 0, 0, ""];
  const send = async () => {
    while (next < sorted.files.length) {
      const { file, path } = sorted.files[next];
      next += 1;
      try {
        await file.slice(0, 1).arrayBuffer(); // fails if the file is gone: a request would only say "failed to fetch"
      } catch {
        throw new Error(`${path} cannot be read. Nothing was imported.`);
      }
      const address = `/uploads/${id}?path=${encodeURIComponent(path.toWellFormed?.() ?? path)}`;
      await request(address, { method: "PUT", body: file, signal: control.signal });
      doneFiles += 1;
      doneBytes += file.size;
      report(doneFiles, doneBytes);
    }
  };
  try {
    report(0, 0);
    const answer = await request(`/uploads?bytes=${sorted.bytes}`, { method: "POST", signal: control.signal });
    id = (await answer.json()).id;
    await Promise.all(Array.from({ length: PARALLEL }, send));
    confirm(zone, id, sorted.name);
  } catch (error) {
    control.abort();
    if (id) fetch(`/uploads/${id}`, { method: "DELETE", keepalive: true }).catch(() => {});
    if (zone.root.isConnected) showStart(zone, error.name === "AbortError" ? "" : error.message);
  } finally {
    zone.stop = null;
  }
}

// Streamlit drops a message if the next one follows at once: it is repeated until Python knows the upload.
function confirm(zone, id, name) {
  zone.state = "waiting";
  zone.root.replaceChildren(element("span", "text", "Starting the import…"));
  const send = () => {
    if (zone.data.finished === id || !zone.root.isConnected) {
      clearInterval(zone.timer);
      if (zone.root.isConnected) showStart(zone);
      return;
    }
    zone.send("uploaded", { id, name });
  };
  zone.timer = setInterval(send, RESEND_MS);
  send();
}

function stop(zone) {
  zone.stop?.();
}

function acceptDrops(zone) {
  const isFiles = (event) => [...event.dataTransfer.types].includes("Files");
  let depth = 0; // dragenter and dragleave also come from the elements inside
  zone.root.ondragover = (event) => isFiles(event) && event.preventDefault();
  zone.root.ondragenter = (event) => {
    if (isFiles(event)) zone.root.classList.toggle("over", (depth += 1) > 0);
  };
  zone.root.ondragleave = () => zone.root.classList.toggle("over", (depth = Math.max(0, depth - 1)) > 0);
  zone.root.ondrop = async (event) => {
    event.preventDefault();
    depth = 0;
    zone.root.classList.remove("over");
    if (zone.state !== "start" && zone.state !== "found") return;
    const text = element("span", "text", "Reading folders…");
    zone.root.replaceChildren(text);
    const found = await readDropped(event.dataTransfer, (count) => {
      text.textContent = `Reading folders: ${formatCount(count, "file")}`;
    });
    showFound(zone, found);
  };
}

export default function ({ data, parentElement, setTriggerValue }) {
  const isNew = !parentElement.crlcUpload;
  const zone = parentElement.crlcUpload ??= { root: element("div", "zone") };
  zone.data = data;
  zone.send = setTriggerValue;
  if (isNew) {
    zone.root.setAttribute("role", "group");
    zone.root.setAttribute("aria-label", "Upload");
    parentElement.append(zone.root);
    acceptDrops(zone);
    showStart(zone);
  }
  return () => {
    if (zone.root.isConnected) return;
    clearInterval(zone.timer);
    stop(zone);
  };
}
