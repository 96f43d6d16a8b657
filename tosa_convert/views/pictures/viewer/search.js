// The search: every word must occur in an item's texts.

const searchBox = document.getElementById("search");
const resultList = document.getElementById("results");
const MOST_RESULTS = 200;
let results = [], current = -1, texts = null;

/** What is searched for an item: operator, place, names, types and location, in small letters. */
function textOf(item) {
  const parts = [titleOf(item)];
  const number = nodeOf(item);
  if (number !== undefined) {
    const node = nodes[number];
    parts.push(node.title, node.location ?? "", ...(node.attributes ?? []).flat());
    for (const [slot, value] of [...node.inputs, ...node.outputs]) {
      // The name of a tensor leads to the operator that computes it, unless none does.
      const isOwn = values[value].producer === number || values[value].producer === undefined;
      parts.push(...(isOwn ? [slot, values[value].name, values[value].type] : []));
    }
  }
  return parts.join("\n").toLowerCase();
}

function findItems(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  texts ??= [
    ...nodes.map((_, number) => [itemOf(number), textOf(itemOf(number))]),
    ...groups.flatMap((group, number) => (number && group.node === undefined ? [[~number, textOf(~number)]] : [])),
  ];
  const found = texts.filter(([, text]) => words.every((word) => text.includes(word)));
  // First what is called so, then what begins so.
  const rank = ([, text]) => {
    const lines = `\n${text}\n`;
    return lines.includes(`\n${words[0]}\n`) ? 0 : lines.includes(`\n${words[0]}`) ? 1 : 2;
  };
  return found.map((row) => [rank(row), row[0]]).sort((a, b) => a[0] - b[0]).map(([, item]) => item);
}

function showResults() {
  results = findItems(searchBox.value);
  current = results.length ? 0 : -1;
  resultList.replaceChildren(...results.slice(0, MOST_RESULTS).map((item, index) => {
    const number = nodeOf(item);
    const detail = number === undefined ? groups[~item].lines[1] : [namesOf(number).join(", "), placeOf(item)].filter(Boolean).join(" in ");
    const row = element("li", { role: "option", id: `result-${index}` }, element("b", {}, titleOf(item)), element("span", {}, detail));
    row.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      goTo(index);
    });
    return row;
  }));
  if (results.length > MOST_RESULTS) resultList.append(element("li", {}, element("span", {}, `and ${results.length - MOST_RESULTS} more`)));
  if (!results.length && searchBox.value.trim()) resultList.append(element("li", {}, element("span", {}, "nothing found")));
  const isShowing = searchBox.value.trim() !== "";
  resultList.hidden = !isShowing;
  searchBox.setAttribute("aria-expanded", String(isShowing));
  mark();
}

function mark() {
  [...resultList.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === current)));
  if (current < 0) {
    searchBox.removeAttribute("aria-activedescendant");
    return;
  }
  searchBox.setAttribute("aria-activedescendant", `result-${current}`);
  resultList.children[current]?.scrollIntoView({ block: "nearest" });
}

function goTo(index) {
  if (results[index] === undefined) return;
  current = index;
  select(results[index], true);
  hideResults();
}

function hideResults() {
  resultList.hidden = true;
  searchBox.setAttribute("aria-expanded", "false");
}

function listenToSearch() {
  searchBox.addEventListener("input", showResults);
  searchBox.addEventListener("focus", () => { if (searchBox.value.trim()) showResults(); });
  searchBox.addEventListener("blur", hideResults);
  searchBox.addEventListener("keydown", (event) => {
    const last = Math.min(results.length, MOST_RESULTS) - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      current = Math.max(0, Math.min(last, current + (event.key === "ArrowDown" ? 1 : -1)));
      mark();
      event.preventDefault();
    } else if (event.key === "Enter") {
      goTo(current);
      graphCanvas.focus();
    } else if (event.key === "Escape") {
      searchBox.value = "";
      hideResults();
      graphCanvas.focus();
    }
  });
}
