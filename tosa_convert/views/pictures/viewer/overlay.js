// Errors of a result of check, bisect, suite or power, as colours.

const errors = data.errors;
let showErrors = errors !== null;
/** Node -> its row in errors.rows. */
const errorOf = new Map((errors?.rows ?? []).map((row) => [row.node, row]));
/** Group -> the worst row inside. Rows are sorted, the worst first. */
const worstInside = new Map();
for (const row of errors?.rows ?? []) {
  for (const group of [...groupsAround(row.node), nodes[row.node].ownGroup]) {
    if (group !== undefined && !worstInside.has(group)) worstInside.set(group, row);
  }
}

function rowOf(item) {
  return item >= 0 ? errorOf.get(item) : worstInside.get(~item);
}

/** The colour of an error: right, within what is allowed, or wrong, and the more the worse. */
function errorColor(row) {
  if (row === undefined) return palette["no-data"];
  if (row.inherits) return palette.inherits;
  if (row.ok && row.size === 0) return palette.right;
  if (row.ok) return mixed(palette.right, palette.within, Math.min(1, row.size));
  return mixed(palette.wrong, palette.worst, Math.min(1, Math.log10(row.size) / 3));
}

/** Black or white, whichever can be read better on a colour. */
function readableOn(color) {
  const parts = color.startsWith("#") ? [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16))
    : color.match(/\d+/g).map(Number);
  const [r, g, b] = parts.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function mixed(one, other, share) {
  const parts = (color) => [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));
  const [a, b] = [parts(one), parts(other)];
  return `rgb(${a.map((part, i) => Math.round(part + (b[i] - part) * share)).join(" ")})`;
}

function showLegend() {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  const entry = (color, text) => {
    const mark = element("i");
    mark.style.background = color;
    legend.append(element("span", {}, mark, text));
  };
  if (showErrors && errors.source === "power") {
    entry(palette.right, "one wrong element is seen from 0.001 % of the largest number");
    entry(palette.within, "from 100 %");
    entry(palette.wrong, "only if it is larger");
    entry(palette.worst, "never: no output changes, or too little");
    entry(palette["no-data"], "not in the result of power");
  } else if (showErrors) {
    const isSuite = errors.source === "suite";
    entry(palette.right, isSuite ? "all cases right" : "no difference");
    if (!isSuite) entry(palette.within, "near the bound");
    const isBisect = errors.source === "bisect";
    entry(palette.wrong, isSuite ? "some cases wrong" : isBisect ? "wrong by itself" : "wrong");
    entry(palette.worst, isSuite ? "all cases wrong" : "1000 times the bound, or no bound");
    if (isBisect) entry(palette.inherits, "wrong because of what is before it");
    entry(palette["no-data"], `not in the result of ${errors.source}`);
  } else {
    for (const family of [...new Set(nodes.map((node) => node.family))].sort()) entry(palette[family], family);
  }
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, text] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", text);
    else made.setAttribute(name, text);
  }
  made.append(...children);
  return made;
}
