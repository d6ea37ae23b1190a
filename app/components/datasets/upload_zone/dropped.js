// Files of a drop or a file input, with their relative paths. Folders are read to the end, and hidden files left out.

const isHidden = (name) => name.startsWith(".");

function readAll(reader) {
  // readEntries gives at most 100 entries at a time, and none at the end.
  return new Promise((resolve, reject) => {
    const found = [];
    const next = () => reader.readEntries((some) => {
      if (!some.length) return resolve(found);
      found.push(...some);
      next();
    }, reject);
    next();
  });
}

async function readEntry(entry, path, found, report) {
  if (isHidden(entry.name)) return;
  if (entry.isFile) {
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    if (file) found.push({ file, path: path + entry.name });
    else found.unreadable += 1;
    report(found.length);
  } else if (entry.isDirectory) {
    let inside = [];
    try {
      inside = await readAll(entry.createReader());
    } catch {
      found.unreadable += 1;
    }
    for (const one of inside) await readEntry(one, `${path}${entry.name}/`, found, report);
  }
}

async function readDropped(transfer, report) {
  const found = Object.assign([], { unreadable: 0 });
  // Entries must be taken before the first await: the browser empties the list afterwards.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  for (const entry of entries) await readEntry(entry, "", found, report);
  return found;
}

function readChosen(input) {
  const found = [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
  return Object.assign(found.filter((one) => !one.path.split("/").some(isHidden)), { unreadable: 0 });
}

// One folder alone gives its name to the dataset; its files then lose this first part of their paths.
function sortFiles(found, suffixes) {
  const hasSuffix = (path, suffix) => path.toLowerCase().endsWith(suffix);
  const isWanted = ({ path }) => suffixes.some((suffix) => hasSuffix(path, suffix))
    || (hasSuffix(path, ".zip") && !path.includes("/"));
  const files = found.filter(isWanted);
  const roots = new Set(files.map(({ path }) => (path.includes("/") ? path.split("/")[0] : "")));
  const name = roots.size === 1 ? [...roots][0] : "";
  return {
    name,
    files: name ? files.map(({ file, path }) => ({ file, path: path.slice(name.length + 1) })) : files,
    others: found.length - files.length,
    unreadable: found.unreadable,
    bytes: files.reduce((sum, { file }) => sum + file.size, 0),
  };
}
