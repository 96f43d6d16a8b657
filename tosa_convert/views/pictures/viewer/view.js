// The camera, the mouse, the small map, and where items are.

const stage = document.getElementById("stage");
const map = document.getElementById("map");
let isWaiting = false, mapPicture = null;
/** Room beside the graph for the sizes of its last tensors. */
const LABEL_WIDTH = 80;

/** Draw at the next frame. */
function redraw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    draw();
    drawMap();
  });
}

/** Draw after groups have been opened or closed, or colours have changed. */
function rebuild() {
  mapPicture = null;
  redraw();
}

/** The rectangle of a shown item, in the world's coordinates. */
function boxOf(item) {
  if (item === WHOLE) return { x: 0, y: 0, width: arranged(0).width, height: arranged(0).height };
  const number = parentOf(item), outer = boxOf(~number), at = arranged(number);
  const place = groups[number].items.indexOf(item);
  return {
    x: outer.x + at.centers[place] - at.widths[place] / 2,
    y: outer.y + at.rowTops[groups[number].rows[place]],
    width: at.widths[place], height: at.heights[place],
  };
}

/** The innermost item at a point of the world, or null. */
function itemAt(x, y, number = 0, left = 0, top = 0) {
  const group = groups[number], at = arranged(number);
  const row = lowerBound(at.rowBottoms, y - top);
  if (row === at.rowTops.length || at.rowTops[row] > y - top) return number ? ~number : null;
  for (let place = at.rowStarts[row]; place < at.rowStarts[row + 1]; place++) {
    const item = group.items[place];
    const start = left + at.centers[place] - at.widths[place] / 2;
    if (item === null || x < start || x > start + at.widths[place] || y - top > at.rowTops[row] + at.heights[place]) continue;
    return item < 0 && isOpen[~item] ? itemAt(x, y, ~item, start, top + at.rowTops[row]) : item;
  }
  return number ? ~number : null;
}

function worldPoint(event) {
  const frame = graphCanvas.getBoundingClientRect();
  return [camera.x + (event.clientX - frame.left) / camera.scale, camera.y + (event.clientY - frame.top) / camera.scale];
}

/** Zoom, so that a point of the canvas stays where it is; by default its middle. */
function zoom(factor, px = graphCanvas.clientWidth / 2, py = graphCanvas.clientHeight / 2) {
  const scale = Math.min(4, Math.max(smallestScale(), camera.scale * factor));
  camera.x += px / camera.scale - px / scale;
  camera.y += py / camera.scale - py / scale;
  camera.scale = scale;
  redraw();
}

function smallestScale() {
  const whole = boxOf(WHOLE);
  return Math.min(0.2, 0.8 * graphCanvas.clientWidth / whole.width, 0.8 * graphCanvas.clientHeight / whole.height);
}

function showAll() {
  const whole = boxOf(WHOLE), width = graphCanvas.clientWidth, height = graphCanvas.clientHeight;
  camera.scale = Math.min(1, width / (whole.width + 40), height / (whole.height + 40));
  camera.x = whole.width / 2 - width / 2 / camera.scale;
  camera.y = whole.height / 2 - height / 2 / camera.scale;
  redraw();
}

/** The upper end of the graph at a size that can be read: where the inputs are. */
function showStart() {
  const whole = boxOf(WHOLE);
  camera.scale = Math.max(0.7, Math.min(1, graphCanvas.clientWidth / (whole.width + 40)));
  const first = groups[0].items.find((item) => item !== null);
  const box = first === undefined ? whole : boxOf(first);
  camera.x = box.x + box.width / 2 - graphCanvas.clientWidth / 2 / camera.scale;
  camera.y = -10;
  redraw();
}

/** Move the camera, so that an item is in the middle and can be read. */
function centerOn(item) {
  const box = boxOf(item);
  const fits = Math.min(1, graphCanvas.clientWidth / (box.width + 80), graphCanvas.clientHeight / (box.height + 80));
  camera.scale = Math.min(Math.max(camera.scale, 0.75), Math.max(fits, 0.75));
  camera.x = box.x + box.width / 2 - graphCanvas.clientWidth / 2 / camera.scale;
  const height = graphCanvas.clientHeight / camera.scale;
  camera.y = box.height > height ? box.y - 20 : box.y + box.height / 2 - height / 2;
  redraw();
}

/** Move the camera back to the graph: all of a small one is shown, and no edge of a large one is far away. */
function showNoEmptySide() {
  const whole = boxOf(WHOLE), legend = document.getElementById("legend").clientHeight;
  const moved = (start, visible, size, before, after) => before + size + after <= visible
    ? (size - visible + after - before) / 2 : Math.min(Math.max(start, -before), size + after - visible);
  camera.x = moved(camera.x, graphCanvas.clientWidth / camera.scale, whole.width, 20, LABEL_WIDTH);
  camera.y = moved(camera.y, graphCanvas.clientHeight / camera.scale, whole.height, 20, 20 + legend / camera.scale);
  redraw();
}

/** Keep a point of the screen above the same item while groups open and close. */
function keepInPlace(item, change) {
  const before = boxOf(shownItem(item));
  change();
  const after = boxOf(shownItem(item));
  camera.x += after.x + after.width / 2 - before.x - before.width / 2;
  camera.y += after.y - before.y;
  rebuild();
}

function isShown(item) {
  const box = boxOf(item);
  return box.x < camera.x + graphCanvas.clientWidth / camera.scale && box.x + box.width > camera.x &&
    box.y < camera.y + graphCanvas.clientHeight / camera.scale && box.y + box.height > camera.y;
}

function drawMap() {
  const width = map.clientWidth, height = map.clientHeight;
  if (!width) return;
  const whole = boxOf(WHOLE);
  if (mapPicture === null || mapPicture.width !== width || mapPicture.height !== height) {
    mapPicture = Object.assign(document.createElement("canvas"), { width, height });
    const context = mapPicture.getContext("2d");
    // The map fills its height: most networks are long, and a true picture would be a thin line.
    context.setTransform(width / whole.width, 0, 0, height / whole.height, 0, 0);
    drawMapGroup(context, 0, 0, 0, height / whole.height);
  }
  map.width = width;
  map.height = height;
  const context = map.getContext("2d");
  context.drawImage(mapPicture, 0, 0);
  context.strokeStyle = palette.accent;
  context.lineWidth = 2;
  const x = camera.x / whole.width * width, y = camera.y / whole.height * height;
  const w = graphCanvas.clientWidth / camera.scale / whole.width * width;
  const h = graphCanvas.clientHeight / camera.scale / whole.height * height;
  context.strokeRect(Math.max(1, x), Math.max(1, y), Math.min(width - 2, w), Math.max(4, Math.min(height - 2, h)));
}

function drawMapGroup(context, number, x, y, scale) {
  const group = groups[number], at = arranged(number);
  const least = 1.5 / scale;
  // What is wrong is drawn last, so that no other box hides it.
  for (const onlyWrong of showErrors ? [false, true] : [false]) {
    for (let place = 0; place < group.items.length; place++) {
      const item = group.items[place];
      if (item === null || (showErrors && (rowOf(item)?.ok === false) !== onlyWrong && !(item < 0 && isOpen[~item]))) continue;
      const left = x + at.centers[place] - at.widths[place] / 2, top = y + at.rowTops[group.rows[place]];
      if (item < 0 && isOpen[~item]) drawMapGroup(context, ~item, left, top, scale);
      else {
        context.fillStyle = !showErrors && item >= 0 && nodes[item].family === "elementwise" ? palette.edge : fillOf(item);
        context.fillRect(left, top, at.widths[place], Math.max(least * (onlyWrong ? 2 : 1), at.heights[place]));
      }
    }
  }
}

function moveByMap(event) {
  const frame = map.getBoundingClientRect(), whole = boxOf(WHOLE);
  camera.x = (event.clientX - frame.left) / frame.width * whole.width - graphCanvas.clientWidth / 2 / camera.scale;
  camera.y = (event.clientY - frame.top) / frame.height * whole.height - graphCanvas.clientHeight / 2 / camera.scale;
  redraw();
}

function listenToMouse(onClick, onDoubleClick) {
  let start = null;
  graphCanvas.addEventListener("pointerdown", (event) => {
    start = { x: event.clientX, y: event.clientY, cameraX: camera.x, cameraY: camera.y, moved: false };
    graphCanvas.setPointerCapture(event.pointerId);
  });
  graphCanvas.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const dx = event.clientX - start.x, dy = event.clientY - start.y;
    start.moved ||= Math.hypot(dx, dy) > 4;
    if (!start.moved) return;
    graphCanvas.classList.add("moving");
    camera.x = start.cameraX - dx / camera.scale;
    camera.y = start.cameraY - dy / camera.scale;
    redraw();
  });
  graphCanvas.addEventListener("pointerup", (event) => {
    graphCanvas.classList.remove("moving");
    if (start !== null && !start.moved) onClick(itemAt(...worldPoint(event)));
    start = null;
  });
  graphCanvas.addEventListener("pointercancel", () => { start = null; });
  graphCanvas.addEventListener("dblclick", (event) => onDoubleClick(itemAt(...worldPoint(event))));
  graphCanvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? graphCanvas.clientHeight : 1;
    if (event.ctrlKey || event.metaKey) {
      const frame = graphCanvas.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * unit / 240), event.clientX - frame.left, event.clientY - frame.top);
    } else {
      const sideways = event.shiftKey && !event.deltaX;
      camera.x += (sideways ? event.deltaY : event.deltaX) * unit / camera.scale;
      camera.y += (sideways ? 0 : event.deltaY) * unit / camera.scale;
      redraw();
    }
  }, { passive: false });
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    moveByMap(event);
  });
  map.addEventListener("pointermove", (event) => { if (event.buttons) moveByMap(event); });
  new ResizeObserver(redraw).observe(stage);
}
