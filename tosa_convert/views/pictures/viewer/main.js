// Selection, keys and buttons.

/** Select an item, or nothing (null); `move` opens the groups around it and moves the camera to it. */
function select(item, move = false) {
  selected = item;
  related = { items: new Set(), values: new Set() };
  if (item !== null) {
    if (move) {
      for (const group of groupsAround(item)) setOpen(group, true);
      rebuild();
    }
    const { before, after } = neighbours(item);
    related.items = new Set([...before, ...after].map((node) => shownItem(itemOf(node))));
    const node = nodeOf(item);
    if (node !== undefined) related.values = new Set([...nodes[node].inputs, ...nodes[node].outputs].map(([, value]) => value));
    if (move) centerOn(item);
  }
  showPanel();
  announce(item);
  // The address does not change what the browser's Back button does.
  history.replaceState(null, "", item === null ? "#" : item >= 0 ? `#n${item}` : `#g${~item}`);
  redraw();
}

function announce(item) {
  const text = item === null ? "" : `${titleOf(item)} ${item >= 0 ? namesOf(item).join(", ") : groups[~item].lines[1]}`;
  document.getElementById("announcement").textContent = text;
}

function toggle(number) {
  keepInPlace(~number, () => setOpen(number, !isOpen[number]));
  if (selected !== null) select(shownItem(selected));
}

function setAll(open) {
  const kept = selected ?? groups[0].items.find((item) => item !== null);
  const change = () => groups.forEach((_, number) => setOpen(number, open));
  if (kept === undefined) change();
  else keepInPlace(kept, change);
  if (selected !== null) select(shownItem(selected));
}

/** Select the item of the address: #n12 for a node, #g3 for a group, #tensor=NAME for a tensor. */
function selectFromAddress() {
  const address = window.location.hash.slice(1);
  const match = /^([ng])(\d+)$/.exec(address);
  if (match) {
    const number = Number(match[2]);
    if (match[1] === "n" && number < nodes.length) select(itemOf(number), true);
    else if (match[1] === "g" && number < groups.length) select(~number, true);
  } else if (address.startsWith("tensor=")) {
    let name = address.slice("tensor=".length);
    try {
      name = decodeURIComponent(name);
    } catch { /* it is not encoded */ }
    const value = values.find((row) => row.name === name && (row.producer !== undefined || row.users));
    if (value) select(itemOf(value.producer ?? value.users[0]), true);
  }
}

/** Go to a neighbour: along tensors for up and down, in the same row for left and right. */
function follow(key) {
  if (selected === null) {
    const first = groups[0].items.find((item) => item !== null);
    if (first !== undefined) select(first, !isShown(first));
    return;
  }
  const { before, after } = neighbours(selected);
  let next;
  if (key === "ArrowUp") next = before[0];
  else if (key === "ArrowDown") next = after[0];
  if (next !== undefined) {
    const item = shownItem(itemOf(next));
    select(item, !isShown(item));
    return;
  }
  const number = parentOf(selected);
  if (number === null) return;
  const group = groups[number], place = group.items.indexOf(selected), row = group.rows[place];
  const step = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const isSideways = key === "ArrowLeft" || key === "ArrowRight";
  for (let other = place + step; other >= 0 && other < group.items.length; other += step) {
    if (isSideways && group.rows[other] !== row) return;
    if (group.items[other] !== null) {
      select(group.items[other], !isShown(group.items[other]));
      return;
    }
  }
}

function colorByErrors(on) {
  showErrors = on;
  document.getElementById("colors").setAttribute("aria-pressed", String(on));
  showLegend();
  rebuild();
}

const actions = {
  "+": () => zoom(1.3),
  "=": () => zoom(1.3),
  "-": () => zoom(1 / 1.3),
  0: showAll,
  e: () => setAll(true),
  c: () => setAll(false),
  o: () => { if (errors) colorByErrors(!showErrors); },
  Escape: () => select(null),
  "/": () => searchBox.focus(),
};

function onKey(event) {
  if (event.target === searchBox || event.ctrlKey || event.metaKey || event.altKey) return;
  const isInGraph = event.target === graphCanvas || event.target === document.body;
  if (event.key.startsWith("Arrow") && isInGraph) follow(event.key);
  else if ((event.key === "Enter" || event.key === " ") && isInGraph) {
    const number = selected === null ? undefined : selected < 0 ? ~selected : undefined;
    if (number === undefined) return;
    toggle(number);
  } else if (actions[event.key]) actions[event.key]();
  else return;
  event.preventDefault();
}

function start() {
  document.getElementById("title").textContent = data.title;
  readPalette();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readPalette();
    showLegend();
    rebuild();
  });
  const onClick = {
    "zoom-in": actions["+"], "zoom-out": actions["-"], fit: showAll, expand: actions.e, collapse: actions.c,
    colors: actions.o,
  };
  for (const [id, action] of Object.entries(onClick)) document.getElementById(id).addEventListener("click", action);
  document.getElementById("colors").hidden = errors === null;
  if (errors?.source === "power") document.getElementById("colors").textContent = "Power";
  document.getElementById("colors").setAttribute("aria-pressed", String(showErrors));
  listenToMouse((item) => {
    graphCanvas.focus();
    select(item);
  }, (item) => { if (item !== null && item < 0) toggle(~item); });
  listenToSearch();
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", selectFromAddress);
  showLegend();
  showPanel();
  showStart();
  const guilty = errors?.rows.find((row) => !row.ok && errors.source !== "power");
  if (guilty !== undefined) {
    centerOn(shownItem(itemOf(guilty.node)));
    showNoEmptySide();
  }
  selectFromAddress();
}

start();
