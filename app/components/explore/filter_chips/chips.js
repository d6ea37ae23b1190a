// Chips of the active filters. Sends `removed` (names of filters) to Python. Texts are set as text content.

const ONE_LINE_CHIPS = 2;

function buildChip(text, className, title, action) {
  const chip = document.createElement("button");
  chip.type = "button";
  chip.className = className;
  chip.title = title;
  const words = document.createElement("span");
  words.textContent = text;
  chip.append(words);
  chip.onclick = action;
  return chip;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const text = JSON.stringify(data.chips);
  const list = (parentElement.chipList ||= parentElement.appendChild(document.createElement("div")));
  list.className = data.chips.length > ONE_LINE_CHIPS ? "chips many" : "chips";
  if (list.dataset.text !== text) {
    list.dataset.text = text;
    const remove = (chips) => setTriggerValue("removed", chips.map((chip) => chip.name));
    const made = data.chips.map((chip) => {
      const button = buildChip(chip.text, "chip", `${chip.text}. Click to remove this filter.`, () => remove([chip]));
      button.dataset.name = chip.name;
      return button;
    });
    if (made.length > ONE_LINE_CHIPS) made.push(buildChip("Clear all", "all", "Remove all filters", () => remove(data.chips)));
    list.replaceChildren(...made);
  }
}
