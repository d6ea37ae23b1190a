// A button that chooses an image file; files dropped on the page or pasted are accepted too.
// Sends `file` ({name, content in base64}) to Python; content is null if the file is too large.

const HELP = "Search by image: choose a file, drop one anywhere on this page, or paste one (Ctrl+V)";
const WAIT = "Search by image is available when the preview is complete";
const ICON = `<svg viewBox="0 -960 960 960" aria-hidden="true"><path d="M200-120q-33 0-56.500-23.500T120-200v-560q0-33
 23.500-56.500T200-840h240v80H200v560h560v-214l80 80v134q0 33-23.500 56.500T760-120H200Zm40-160 120-160 90 120 120-160
 150 200H240Zm622-144L738-548q-21 14-45 21t-51 7q-74 0-126-52.500T464-700q0-75 52.500-127.500T644-880q75 0 127.500
 52.500T824-700q0 27-8 52t-20 46l122 122-56 56ZM644-600q42 0 71-29t29-71q0-42-29-71t-71-29q-42 0-71 29t-29 71q0 42
 29 71t71 29Z"/></svg>`;

function element(kind, className) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  return made;
}

function encode(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",", 2)[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

async function send(made, file) {
  if (!file || made.data.disabled) return;
  try {
    const content = file.size > made.data.limit ? null : await encode(file);
    made.send({ name: file.name, content });
  } catch {
    made.send({ name: file.name, content: "!" }); // the file disappeared; Python says that it did not arrive
  }
}

const hasFiles = (transfer) => [...(transfer?.types ?? [])].includes("Files");

function listen(made) {
  const onDrag = (event) => {
    if (!hasFiles(event.dataTransfer)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = made.data.disabled ? "none" : "copy";
    made.over.hidden = made.data.disabled;
  };
  const onLeave = (event) => {
    if (event.relatedTarget === null) made.over.hidden = true; // the pointer has left the window
  };
  const onDrop = (event) => {
    made.over.hidden = true;
    if (!hasFiles(event.dataTransfer)) return;
    event.preventDefault(); // else the browser would open the file
    send(made, event.dataTransfer.files[0]);
  };
  const onPaste = (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file) return; // text is pasted as usual
    event.preventDefault();
    send(made, file);
  };
  const events = { dragenter: onDrag, dragover: onDrag, dragleave: onLeave, drop: onDrop, paste: onPaste };
  for (const [name, handler] of Object.entries(events)) document.addEventListener(name, handler);
  return () => {
    for (const [name, handler] of Object.entries(events)) document.removeEventListener(name, handler);
  };
}

function build(parentElement) {
  const made = { button: element("button", "pick"), input: element("input"), over: element("div", "over") };
  made.button.type = "button";
  made.button.innerHTML = ICON;
  made.button.setAttribute("aria-label", "Search by image");
  made.button.onclick = () => made.input.click();
  made.input.type = "file";
  made.input.accept = "image/*,.heic,.heif,.avif";
  made.input.onchange = () => {
    send(made, made.input.files[0]);
    made.input.value = ""; // so that the same file can be chosen again
  };
  made.over.hidden = true;
  made.over.textContent = "Drop an image to find similar ones";
  parentElement.append(made.button, made.input, made.over);
  made.stop = listen(made);
  return made;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const made = parentElement.crlcImageDrop ??= build(parentElement);
  made.send = (file) => setTriggerValue("file", file);
  made.data = data;
  made.button.disabled = data.disabled;
  made.button.title = data.disabled ? WAIT : HELP;
  return () =>
    setTimeout(() => {
      // Streamlit also calls this before each update, after which the button stays.
      const host = parentElement.host ?? parentElement;
      if (host.isConnected || parentElement.crlcImageDrop !== made) return;
      made.stop();
      parentElement.crlcImageDrop = null;
    });
}
