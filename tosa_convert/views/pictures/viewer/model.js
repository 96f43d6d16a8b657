// The data of the report, and questions about it.
//
// nodes: { kind: "operator" | "input" | "output", title, lines, family, width, height, group,
//   inputs and outputs: [slot, value] pairs; operators also have number, attributes, location, work,
//   findings (numbers in `findings`), and ownGroup if the operator runs regions }.
// values: { name, type, label, producer?, users?, constant?, scales? }.
// groups: { kind, label, lines, parent, node?, width, height, isOpen; items, rows, x and above: the
//   places of its layout, row after row, from left to right, where an item of null is a bend of a line,
//   and `above` the place that it should be right below, or -1; routes: [values, path, isCut], where a path has places, or FROM_OUTSIDE or TO_OUTSIDE at its ends }.
// An item is a node's number, or the complement (~) of a group's number.

const data = JSON.parse(document.getElementById("data").textContent);
const { nodes, values, groups, metrics } = data;
const FROM_OUTSIDE = -1, TO_OUTSIDE = -2;
const WHOLE = ~0;

const isOpen = groups.map((group) => group.isOpen);

function itemOf(node) {
  const own = nodes[node].ownGroup;
  return own === undefined ? node : ~own;
}

function parentOf(item) {
  return item >= 0 ? nodes[item].group : groups[~item].parent;
}

/** The node that an item stands for, or undefined for a scope or region. */
function nodeOf(item) {
  return item >= 0 ? item : groups[~item].node;
}

/** The groups that an item is in, the innermost first. */
function groupsAround(item) {
  const found = [];
  for (let group = parentOf(item); group !== null; group = groups[group].parent) found.push(group);
  return found;
}

/** The item itself, or the outermost closed group that hides it. */
function shownItem(item) {
  let shown = item;
  for (const group of groupsAround(item)) if (!isOpen[group]) shown = ~group;
  return shown;
}

/** The node's place in words, such as "encoder / layer_1". */
function placeOf(item) {
  return groupsAround(item).reverse().slice(1).map((group) => groups[group].label).join(" / ");
}

function titleOf(item) {
  return item >= 0 ? nodes[item].title : groups[~item].label;
}

/** The names of a node's results, or of the input or output that it is. */
function namesOf(node) {
  const { kind, inputs, outputs } = nodes[node];
  return (kind === "output" ? inputs : outputs).map(([, value]) => values[value].name);
}

/** The nodes that compute the operands of an item, and those that use its results. */
function neighbours(item) {
  const node = nodeOf(item);
  if (node === undefined) return { before: [], after: [] };
  const before = nodes[node].inputs.map(([, value]) => values[value].producer);
  const after = nodes[node].outputs.flatMap(([, value]) => values[value].users ?? []);
  const unique = (list) => [...new Set(list.filter((number) => number !== undefined))];
  return { before: unique(before), after: unique(after) };
}
