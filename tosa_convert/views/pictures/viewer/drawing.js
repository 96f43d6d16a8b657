// Draws what is visible on the canvas; the further away, the fewer details.

const graphCanvas = document.getElementById("graph");
const graphContext = graphCanvas.getContext("2d");
const FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const LINE_HEIGHT = 15, FONT_SIZE = 11.6;
/** Below these sizes in pixels, texts and round corners are not drawn. */
const LEGIBLE = 4.5, ROUNDED = 7;

/** The colours of viewer.css, by name. */
let palette = {};

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "text", "quiet", "accent", "edge", "frame", "frame-fill", "closed", "box-line",
    "box-text", "box-quiet", "no-data", "right", "within", "wrong", "worst", "inherits",
    ...new Set(nodes.map((node) => node.family))];
  palette = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** camera: the world's point in the upper left corner, and pixels for a unit of the world. */
const camera = { x: 0, y: 0, scale: 1 };
let selected = null;
/** The items around the selected one, and the values that it computes and uses. */
let related = { items: new Set(), values: new Set() };

function draw() {
  const ratio = window.devicePixelRatio || 1;
  const width = graphCanvas.clientWidth, height = graphCanvas.clientHeight;
  if (graphCanvas.width !== Math.round(width * ratio) || graphCanvas.height !== Math.round(height * ratio)) {
    graphCanvas.width = Math.round(width * ratio);
    graphCanvas.height = Math.round(height * ratio);
  }
  const context = graphContext;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = palette.page;
  context.fillRect(0, 0, graphCanvas.width, graphCanvas.height);
  const scale = camera.scale * ratio;
  context.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
  context.textBaseline = "middle";
  const visible = {
    left: camera.x, top: camera.y,
    right: camera.x + width / camera.scale, bottom: camera.y + height / camera.scale,
  };
  drawGroup(context, 0, 0, 0, visible, camera.scale);
}

/** The rows of a group that are between two heights, as a half-open range. */
function visibleRows(at, top, bottom) {
  const first = lowerBound(at.rowBottoms, top), last = lowerBound(at.rowTops, bottom);
  return [first, last];
}

/** The first index whose number is not below the limit; numbers ascend. */
function lowerBound(numbers, limit) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function drawGroup(context, number, x, y, visible, scale) {
  const group = groups[number], at = arranged(number);
  const [first, last] = visibleRows(at, visible.top - y, visible.bottom - y);
  // Rows that share a pixel look like one.
  const step = Math.max(1, Math.floor((0.6 / scale) * (at.rowTops.length / Math.max(1, at.height))));
  drawLines(context, at, x, y, first - 1, last + 1, step, visible, scale);
  for (let row = first; row < last; row += step) {
    for (let place = at.rowStarts[row]; place < at.rowStarts[row + 1]; place++) {
      const item = group.items[place];
      if (item === null) continue;
      const left = x + at.centers[place] - at.widths[place] / 2;
      if (left > visible.right || left + at.widths[place] < visible.left) continue;
      drawItem(context, item, left, y + at.rowTops[row], at.widths[place], at.heights[place], visible, scale);
    }
  }
}

function drawItem(context, item, x, y, width, height, visible, scale) {
  const isFrame = item < 0 && isOpen[~item];
  context.fillStyle = isFrame ? palette["frame-fill"] : fillOf(item);
  const isWrong = showErrors && rowOf(item)?.ok === false, isGuilty = isWrong && !rowOf(item).inherits;
  context.strokeStyle = item === selected ? palette.accent
    : related.items.has(item) ? palette.accent : isGuilty ? palette.worst
      : item < 0 ? palette.frame : palette["box-line"];
  context.lineWidth = item === selected ? 3 : related.items.has(item) || isGuilty ? 2 : 1;
  if (height * scale < ROUNDED) {
    context.fillRect(x, y, width, height);
    if (item === selected) context.strokeRect(x, y, width, height);
  } else {
    context.beginPath();
    context.roundRect(x, y, width, height, item < 0 ? 8 : nodes[item].kind === "operator" ? 4 : 14);
    context.fill();
    if (item < 0 && !isFrame) context.setLineDash([5, 3]);
    context.stroke();
    context.setLineDash([]);
  }
  if (isFrame) drawGroup(context, ~item, x, y, visible, scale);
  if (FONT_SIZE * scale >= LEGIBLE) drawTexts(context, item, x, y, width, isWrong);
}

function fillOf(item) {
  if (showErrors) return errorColor(rowOf(item));
  return item < 0 ? palette.closed : palette[nodes[item].family];
}

function drawTexts(context, item, x, y, width, isWrong) {
  const lines = item < 0 ? groups[~item].lines : [shortTitle(item), ...nodes[item].lines];
  const room = width - 16;
  const strong = showErrors && rowOf(item) !== undefined && !(item < 0 && isOpen[~item]) ? readableOn(fillOf(item)) : null;
  lines.forEach((line, number) => {
    context.font = `${number ? 400 : 600} ${FONT_SIZE}px ${FONT}`;
    context.fillStyle = strong ?? (number ? palette["box-quiet"] : palette["box-text"]);
    context.fillText(line, x + 12, y + 14.5 + number * LINE_HEIGHT, room);
  });
  context.textAlign = "right";
  if (isWrong) context.fillText("\u2717", x + width - 6, y + 14.5);
  else if (item < 0) context.fillText(isOpen[~item] ? "\u2212" : "+", x + width - 10, y + 14.5);
  context.textAlign = "left";
}

/** A node's title without its middle, if it is too long for its box. */
function shortTitle(item) {
  const title = nodes[item].title, most = 30;
  return title.length <= most ? title : `${title.slice(0, most / 2 - 1)}\u2026${title.slice(-most / 2)}`;
}

function drawLines(context, at, x, y, first, last, step, visible, scale) {
  const chosen = [];
  context.strokeStyle = palette.edge;
  context.lineWidth = Math.max(1.2, 0.6 / scale);
  context.beginPath();
  for (let row = Math.max(-1, first); row < Math.min(last, at.rowTops.length); row += step) {
    for (const piece of at.pieces[row + 1]) {
      if (Math.max(piece.x1, piece.x2) + x < visible.left || Math.min(piece.x1, piece.x2) + x > visible.right) continue;
      if (related.values.size && piece.values.some((value) => related.values.has(value))) chosen.push(piece);
      else if (piece.isCut) traceStubs(context, piece, x, y);
      else trace(context, piece, x, y, scale);
    }
  }
  context.stroke();
  if (FONT_SIZE * scale > 7) drawLabels(context, at, x, y, first, last);
  context.strokeStyle = palette.accent;
  context.lineWidth = Math.max(2.2, 1.2 / scale);
  context.beginPath();
  for (const piece of chosen) trace(context, piece, x, y, scale);
  context.stroke();
}

function trace(context, piece, x, y, scale) {
  const x1 = x + piece.x1, x2 = x + piece.x2, bend = y + piece.bend, y2 = y + piece.y2;
  context.moveTo(x1, y + piece.y1);
  if (piece.bend !== piece.y1) context.lineTo(x1, bend);
  if (Math.abs(x1 - x2) * scale < 1 || scale < 0.12) context.lineTo(x2, y2);
  else context.bezierCurveTo(x1, (bend + y2) / 2, x2, (bend + y2) / 2, x2, y2);
}

/** A line that is too long: a short piece at each end. */
function traceStubs(context, piece, x, y) {
  context.moveTo(x + piece.x1, y + piece.y1);
  context.lineTo(x + piece.x1, y + piece.y1 + metrics.rowGap / 3);
  context.moveTo(x + piece.x2, y + piece.y2 - metrics.rowGap / 3);
  context.lineTo(x + piece.x2, y + piece.y2);
}

/** The sizes of a tensor, once below the row of the box that computes it, up to the next one's. */
function drawLabels(context, at, x, y, first, last) {
  context.font = `400 10px ${FONT}`;
  context.fillStyle = palette.quiet;
  for (let row = Math.max(0, first); row < Math.min(last, at.rowTops.length); row++) {
    const labelled = new Map();
    for (const piece of at.pieces[row + 1]) {
      if (piece.isFirst && piece.values.length === 1 && !labelled.has(piece.from)) labelled.set(piece.from, piece);
    }
    const ordered = [...labelled.values()].sort((a, b) => a.x1 - b.x1);
    ordered.forEach((piece, place) => {
      const room = place + 1 < ordered.length ? ordered[place + 1].x1 - piece.x1 - 8 : undefined;
      context.fillText(values[piece.values[0]].label, x + piece.x1 + 5, y + piece.bend + 10, room);
    });
  }
}
