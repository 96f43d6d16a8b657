// The side panel: the selected item, or the whole program. Names of the program are only ever set as
// text, never as markup.

const panel = document.getElementById("panel");

function section(title, ...content) {
  const shown = content.filter((child) => child !== null);
  return shown.length ? [element("h3", {}, title), ...shown] : [];
}

function table(rows) {
  if (!rows.length) return null;
  const body = element("table");
  for (const [name, content] of rows) {
    body.append(element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, content)));
  }
  return body;
}

function link(text, item) {
  return element("button", { class: "link", onclick: () => select(item, true) }, text);
}

function quiet(text) {
  return element("p", { class: "quiet" }, text);
}

function showPanel() {
  const content = selected === null ? aboutProgram() : nodeOf(selected) !== undefined ? aboutNode(nodeOf(selected)) : aboutGroup(~selected);
  panel.replaceChildren(...content);
  panel.scrollTop = 0;
}

function aboutProgram() {
  return [
    element("h2", {}, data.title),
    table(data.facts),
    ...(errors ? aboutErrors() : []),
    ...section("Findings", ...data.findings.slice(0, 100).map((finding) => findingBox(finding, true))),
    ...section("Keys", table([
      ["/", "search"], ["arrows", "follow tensors up and down, go left and right"],
      ["Enter", "open or close a group"], ["+  -  0", "zoom in, zoom out, show everything"],
      ["e  c", "open or close all groups"], ...(errors ? [["o", "colour by error or kind"]] : []),
      ["Esc", "select nothing"], ["mouse", "drag or wheel moves, Ctrl and wheel zooms"],
    ])),
  ];
}

function aboutErrors() {
  const list = element("ul", { class: "worst" });
  for (const row of errors.rows.slice(0, 50)) {
    const mark = element("i");
    mark.style.background = errorColor(row);
    const name = [nodes[row.node].title, namesOf(row.node)[0]].filter(Boolean).join(" ");
    list.append(element("li", {}, mark, element("div", {}, link(name, itemOf(row.node)), quiet(row.text))));
  }
  const unmatched = errors.unmatched.length
    ? quiet(`In the result, but not in the program: ${errors.unmatched.slice(0, 8).join(", ")}`) : null;
  const title = errors.source === "power" ? "What check sees least of" : `Errors of ${errors.source}, the worst first`;
  return section(title, list, unmatched);
}

function findingBox(finding, hasPlace) {
  const box = element("div", { class: "finding" }, finding.message);
  if (finding.hint) box.append(quiet(finding.hint));
  box.append(quiet([finding.rule || finding.code, hasPlace ? finding.where : ""].filter(Boolean).join(", ")));
  return box;
}

function aboutNode(number) {
  const node = nodes[number];
  const kind = { operator: `operator ${node.number}`, input: "input", output: "output" }[node.kind];
  const place = placeOf(itemOf(number));
  const row = errorOf.get(number);
  const rows = [...(node.location ? [["location", element("code", {}, node.location)]] : []),
    ...(node.work ? [["multiply-accumulates", node.work]] : [])];
  return [
    element("h2", {}, node.title),
    quiet(place ? `${kind} in ${place}` : kind),
    ...(row ? section(errors.source === "power" ? "Power of the checks" : "Error", element("div", { class: row.ok ? "" : "finding" }, row.text)) : []),
    ...section("Findings", ...(node.findings ?? []).map((index) => findingBox(data.findings[index], false))),
    ...section("Attributes", table(node.attributes ?? [])),
    ...section("About", table(rows)),
    ...section("Operands", ...node.inputs.map(([slot, value]) => aboutValue(slot, value, "producer"))),
    ...section("Results", ...node.outputs.map(([slot, value]) => aboutValue(slot, value, "users"))),
    ...(node.ownGroup === undefined ? [] : [groupButton(node.ownGroup)]),
  ];
}

function aboutGroup(number) {
  const group = groups[number];
  const counts = new Map();
  const visit = (inner) => {
    for (const item of groups[inner].items) {
      if (item === null) continue;
      const node = nodeOf(item);
      if (node !== undefined && nodes[node].kind === "operator") counts.set(nodes[node].title, (counts.get(nodes[node].title) ?? 0) + 1);
      if (item < 0) visit(~item);
    }
  };
  visit(number);
  const rows = [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => [name, String(count)]);
  const row = worstInside.get(number);
  return [
    element("h2", {}, group.label),
    quiet([group.kind, placeOf(~number)].filter(Boolean).join(" in ")),
    groupButton(number),
    ...(row ? section(errors.source === "power" ? "Least seen inside" : "Worst error inside", link(nodes[row.node].title, itemOf(row.node)), quiet(row.text)) : []),
    ...section("Operators", table(rows)),
  ];
}

function groupButton(number) {
  return element("p", {}, element("button", { onclick: () => toggle(number) }, isOpen[number] ? "Close the group" : "Open the group"));
}

function aboutValue(slot, number, direction) {
  const value = values[number];
  const box = element("div", { class: "value" });
  const name = element("code", {}, value.name);
  box.append(slot ? element("div", {}, element("span", { class: "quiet" }, `${slot} `), name) : element("div", {}, name));
  box.append(quiet(value.type));
  if (direction === "producer" && value.producer !== undefined) {
    box.append("from ", link(describe(value.producer), itemOf(value.producer)));
  } else if (direction === "users") {
    for (const user of (value.users ?? []).slice(0, 40)) {
      box.append(element("div", {}, "to ", link(describe(user), itemOf(user))));
    }
    if ((value.users ?? []).length > 40) box.append(quiet(`and ${value.users.length - 40} more`));
  }
  if (value.constant) box.append(...aboutConstant(value.constant, ""));
  if (value.scales) box.append(...aboutConstant(value.scales, "scales: "));
  return box;
}

function describe(number) {
  const node = nodes[number];
  return node.kind === "operator" ? `${node.title} ${namesOf(number)[0] ?? ""}` : `${node.kind} ${node.title}`;
}

function aboutConstant(constant, prefix) {
  const size = `${prefix}${constant.count.toLocaleString("en")} x ${constant.dtype}, ${constant.bytes.toLocaleString("en")} bytes`;
  if (constant.elements) {
    return constant.count === 1 ? [element("code", {}, constant.elements[0])]
      : [quiet(size), element("pre", {}, constant.elements.join(" "))];
  }
  const parts = [quiet(size), quiet(`${constant.least} to ${constant.greatest}, mean ${constant.mean}, ${constant.zeros.toLocaleString("en")} zeros`)];
  if (constant.nans || constant.infinities) parts.push(quiet(`${constant.nans} NaN, ${constant.infinities} infinite`));
  if (constant.histogram) parts.push(histogram(constant));
  if (constant.few) parts.push(element("pre", {}, constant.few.map(([value, times]) => `${value}: ${times}`).join("\n")));
  return parts;
}

function histogram(constant) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const bins = constant.histogram, most = Math.max(...bins);
  picture.setAttribute("viewBox", `0 0 ${bins.length} 100`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `Histogram of ${bins.length} parts from ${constant.least} to ${constant.greatest}: ${bins.join(", ")}`);
  bins.forEach((count, bin) => {
    const bar = document.createElementNS(space, "rect");
    const height = count ? Math.max(2, 100 * count / most) : 0;
    for (const [name, number] of Object.entries({ x: bin + 0.06, y: 100 - height, width: 0.88, height })) bar.setAttribute(name, number);
    const title = document.createElementNS(space, "title");
    title.textContent = `${count}`;
    bar.append(title);
    picture.append(bar);
  });
  return picture;
}
