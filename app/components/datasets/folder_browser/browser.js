// A list of folders. Sends `opened` (a path) to Python. Names are only ever set as text content.

const LOOKUP_MS = 800; // letters typed within this time form one prefix

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function join(folder, name) {
  const separator = folder.includes("\\") ? "\\" : "/";
  return folder.endsWith(separator) ? folder + name : folder + separator + name;
}

function build(parentElement) {
  const root = element("div", "browser");
  const made = { root, path: element("div", "path"), list: element("div", "list"), at: 0, prefix: "", typed: 0 };
  made.path.setAttribute("role", "navigation");
  made.path.setAttribute("aria-label", "Folders above");
  made.list.tabIndex = 0;
  made.list.setAttribute("role", "listbox");
  made.list.setAttribute("aria-label", "Folders");
  made.list.onkeydown = (event) => handleKey(made, event);
  root.append(made.path, made.list);
  parentElement.append(root);
  return made;
}

function select(made, at) {
  const rows = [...made.list.querySelectorAll(".folder")];
  made.at = Math.max(0, Math.min(at, rows.length - 1));
  rows.forEach((row, order) => row.setAttribute("aria-selected", String(order === made.at)));
  const row = rows[made.at];
  if (row) {
    made.list.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }
}

function open(made, at) {
  const name = made.data.names[at];
  if (name !== undefined) made.send(join(made.data.folder, name));
}

function openParent(made) {
  const parents = made.data.parents;
  if (parents.length > 1) made.send(parents[parents.length - 2].path);
}

function findPrefix(made, letter) {
  const now = performance.now();
  made.prefix = now - made.typed < LOOKUP_MS ? made.prefix + letter : letter;
  made.typed = now;
  const wanted = made.prefix.toLowerCase();
  const found = made.data.names.findIndex((name) => name.toLowerCase().startsWith(wanted));
  if (found >= 0) select(made, found);
}

function handleKey(made, event) {
  const page = Math.max(1, Math.floor(made.list.clientHeight / 32) - 1);
  const actions = {
    ArrowDown: () => select(made, made.at + 1),
    ArrowUp: () => select(made, made.at - 1),
    PageDown: () => select(made, made.at + page),
    PageUp: () => select(made, made.at - page),
    Home: () => select(made, 0),
    End: () => select(made, made.data.names.length - 1),
    Enter: () => open(made, made.at),
    ArrowRight: () => open(made, made.at),
    ArrowLeft: () => openParent(made),
    Backspace: () => openParent(made),
  };
  const isLetter = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey;
  const act = actions[event.key] ?? (isLetter ? () => findPrefix(made, event.key) : null);
  if (!act) return;
  event.preventDefault();
  event.stopPropagation(); // else the page would react to R and C
  act();
}

function show(made) {
  const { parents, names } = made.data;
  made.path.replaceChildren(...parents.flatMap((parent, order) => {
    const button = element("button", "", parent.name);
    button.type = "button";
    button.title = parent.path;
    button.onclick = () => made.send(parent.path);
    return order > 1 ? [element("span", "", "/"), button] : [button];
  }));
  made.list.replaceChildren(...names.map((name, order) => {
    const row = element("div", "folder", name);
    row.id = `folder-${order}`;
    row.setAttribute("role", "option");
    row.onclick = () => open(made, order);
    return row;
  }));
  made.prefix = ""; // the letters typed before were for the former folder
  if (!names.length) made.list.append(element("div", "empty", "No folders here."));
  select(made, 0);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const isNew = !parentElement.crlcFolders;
  const made = parentElement.crlcFolders ??= build(parentElement);
  made.send = (path) => setTriggerValue("opened", path);
  const changed = JSON.stringify(made.data) !== JSON.stringify(data);
  made.data = data;
  if (changed) show(made);
  if (isNew) made.list.focus({ preventScroll: true });
}
