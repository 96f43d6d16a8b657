// Makes room for what is shown: the layout's rows become coordinates, in which an open group
// takes as much space as its content. `placement.py` does the same for SVG; a test compares the two.

const arrangements = new Array(groups.length).fill(null);

/** The content of an open group, relative to its upper left corner. Computed once for each change. */
function arranged(number) {
  return (arrangements[number] ??= arrange(groups[number]));
}

/** Open or close a group. The groups around it change, too. */
function setOpen(number, open) {
  if (isOpen[number] === open || number === 0) return;
  isOpen[number] = open;
  for (let group = number; group !== null; group = groups[group].parent) arrangements[group] = null;
}

function sizeOf(item) {
  if (item === null) return [metrics.bend, 0];
  if (item >= 0) return [nodes[item].width, nodes[item].height];
  if (!isOpen[~item]) return [groups[~item].width, groups[~item].height];
  const inner = arranged(~item);
  return [inner.width, inner.height];
}

function arrange(group) {
  const count = group.items.length;
  const widths = new Float64Array(count), heights = new Float64Array(count);
  const rowCount = count ? group.rows[count - 1] + 1 : 0;
  const rowHeights = new Float64Array(rowCount), rowStarts = new Int32Array(rowCount + 1);
  for (let place = 0; place < count; place++) {
    [widths[place], heights[place]] = sizeOf(group.items[place]);
    const row = group.rows[place];
    rowHeights[row] = Math.max(rowHeights[row], heights[place]);
    rowStarts[row + 1] = place + 1;
  }
  const rowTops = new Float64Array(rowCount), rowBottoms = new Float64Array(rowCount);
  let y = metrics.header;
  for (let row = 0; row < rowCount; row++) {
    rowTops[row] = y;
    rowBottoms[row] = y + rowHeights[row];
    y = rowBottoms[row] + metrics.rowGap;
  }
  const centers = centersOf(group, rowStarts, widths);
  let width = 0;
  for (let place = 0; place < count; place++) width = Math.max(width, centers[place] + widths[place] / 2);
  const shift = metrics.padding + Math.max(0, (group.width - width - 2 * metrics.padding) / 2);
  for (let place = 0; place < count; place++) centers[place] += shift;
  const result = {
    width: Math.max(group.width, width + 2 * metrics.padding),
    height: y - (rowCount ? metrics.rowGap : 0) + metrics.padding,
    centers, widths, heights, rowTops, rowBottoms, rowStarts,
  };
  Object.assign(result, linesOf(group, result));
  return result;
}

// How much more an aligned place counts than one that is not, and a bend than an item.
const ALIGNED = 1e5, BEND = 30;

/**
 * The middle of each place. Each row in turn, down, up and down again, moves as near as it can to the
 * places that its places are connected with. Those that the layout aligned (`above`) have the say.
 */
function centersOf(group, rowStarts, widths) {
  const count = group.items.length, rowCount = rowStarts.length - 1;
  const above = group.above, below = new Int32Array(count).fill(-1);
  above.forEach((upper, place) => { if (upper >= 0) below[upper] = place; });
  const ups = Array.from({ length: count }, () => []), downs = Array.from({ length: count }, () => []);
  for (const [, path, isCut] of group.routes) {
    for (let step = 0; !isCut && step + 1 < path.length; step++) {
      const one = Math.min(path[step], path[step + 1]), other = Math.max(path[step], path[step + 1]);
      if (one < 0) continue;
      downs[one].push(other);
      ups[other].push(one);
    }
  }
  const x = Float64Array.from(group.x, (unit) => unit * metrics.unit);
  const wanted = new Float64Array(count), weights = new Float64Array(count).fill(1);
  wanted.set(x);
  for (let row = 0; row < rowCount; row++) settle(x, rowStarts[row], rowStarts[row + 1], widths, wanted, weights);
  for (const [isDown, chosen, others] of [[true, above, ups], [false, below, downs], [true, above, ups]]) {
    for (let step = 0; step < rowCount; step++) {
      const row = isDown ? step : rowCount - 1 - step;
      for (let place = rowStarts[row]; place < rowStarts[row + 1]; place++) {
        const near = others[place];
        if (chosen[place] >= 0) {
          wanted[place] = x[chosen[place]];
          weights[place] = ALIGNED;
        } else {
          let sum = 0;
          for (const other of near) sum += x[other];
          wanted[place] = near.length ? sum / near.length : x[place];
          weights[place] = group.items[place] === null ? BEND : 1;
        }
      }
      settle(x, rowStarts[row], rowStarts[row + 1], widths, wanted, weights);
    }
  }
  let left = count ? Infinity : 0;
  for (let place = 0; place < count; place++) left = Math.min(left, x[place] - widths[place] / 2);
  return x.map((center) => center - left);
}

/**
 * Put the places of a row as near as possible to where they want to be, without overlaps. The weighted
 * squares of the distances are least: places that would overlap become a block, whose position is the
 * mean of what they want (pool adjacent violators).
 */
function settle(x, start, end, widths, wanted, weights) {
  const offsets = new Float64Array(end - start);
  const means = [], totals = [], counts = [];
  for (let place = start; place < end; place++) {
    const index = place - start;
    if (index) offsets[index] = offsets[index - 1] + ((widths[place - 1] + widths[place]) / 2 + metrics.gap);
    let mean = wanted[place] - offsets[index], total = weights[place], count = 1;
    while (means.length && means[means.length - 1] >= mean) {
      const weight = totals.pop();
      mean = (mean * total + means.pop() * weight) / (total + weight);
      total += weight;
      count += counts.pop();
    }
    means.push(mean);
    totals.push(total);
    counts.push(count);
  }
  let place = start;
  means.forEach((mean, block) => {
    for (let left = counts[block]; left > 0; left--, place++) x[place] = mean + offsets[place - start];
  });
}

/**
 * The pieces of the lines of a group, by the row that they begin in: pieces[row + 1], where row -1 is
 * the upper edge of the group. A piece goes from (x1, y1) down to `bend`, and from there to (x2, y2).
 * entries and exits: value -> where its line meets the upper and the lower edge.
 */
function linesOf(group, at) {
  const rowCount = at.rowTops.length;
  const pieces = Array.from({ length: rowCount + 1 }, () => []);
  const bottom = at.rowBottoms[rowCount - 1] + metrics.padding || metrics.header;
  const ends = group.routes.map(([lineValues, path]) => endpoints(group, at, lineValues, path));
  spread(group, at, ends);
  const entries = new Map(), exits = new Map();
  group.routes.forEach(([lineValues, path], route) => {
    for (const value of lineValues) {
      if (path[0] === FROM_OUTSIDE) append(entries, value, firstX(at, path, ends[route]));
      if (path[path.length - 1] === TO_OUTSIDE) append(exits, value, lastX(at, path, ends[route]));
    }
  });
  group.routes.forEach(([lineValues, path, isCut], route) => {
    for (let step = 0; step + 1 < path.length; step++) {
      const from = path[step], to = path[step + 1];
      const piece = { route, values: lineValues, isCut, isFirst: step === 0, from, to, row: -1 };
      if (from === FROM_OUTSIDE) {
        [piece.x1, piece.y1, piece.bend] = [mean(entries, lineValues), 0, 0];
      } else {
        piece.x1 = step ? at.centers[from] : ends[route].start;
        piece.row = group.rows[from];
        piece.y1 = at.rowTops[piece.row] + at.heights[from];
        piece.bend = at.rowBottoms[piece.row];
      }
      if (to === TO_OUTSIDE) {
        [piece.x2, piece.y2] = [mean(exits, lineValues), bottom];
      } else {
        piece.x2 = step + 2 < path.length ? at.centers[to] : ends[route].end;
        piece.y2 = at.rowTops[group.rows[to]];
      }
      pieces[piece.row + 1].push(piece);
    }
  });
  return { pieces, entries, exits };
}

/** Where a line leaves its first item and reaches its last one: at an open group, where it goes on. */
function endpoints(group, at, lineValues, path) {
  const x = (place, side) => {
    const item = group.items[place];
    if (item === null || item >= 0 || !isOpen[~item]) return null;
    const inner = mean(arranged(~item)[side], lineValues);
    return inner === null ? null : at.centers[place] - at.widths[place] / 2 + inner;
  };
  const first = path[0], last = path[path.length - 1];
  return {
    start: first < 0 ? null : x(first, "exits") ?? at.centers[first],
    end: last < 0 ? null : x(last, "entries"),
    previous: path.length > 2 || first < 0 ? at.centers[path[path.length - 2]] ?? 0 : at.centers[first],
  };
}

/** Lines that reach one box reach it side by side, in the order of where they come from. */
function spread(group, at, ends) {
  const arriving = new Map();
  group.routes.forEach(([, path], route) => {
    const last = path[path.length - 1];
    if (last >= 0 && ends[route].end === null) append(arriving, last, route);
  });
  for (const [place, routes] of arriving) {
    routes.sort((a, b) => ends[a].previous - ends[b].previous);
    const step = Math.min(16, (at.widths[place] - 24) / routes.length);
    routes.forEach((route, number) => {
      ends[route].end = at.centers[place] + (number - (routes.length - 1) / 2) * step;
    });
  }
}

function firstX(at, path, end) {
  return path.length > 2 ? at.centers[path[1]] : end.end ?? at.width / 2;
}

function lastX(at, path, end) {
  return path.length > 2 ? at.centers[path[path.length - 2]] : end.start ?? at.width / 2;
}

function append(map, key, entry) {
  const list = map.get(key);
  if (list) list.push(entry);
  else map.set(key, [entry]);
}

/** The mean of all entries of some keys, or null if there is none. */
function mean(map, keys) {
  const found = keys.flatMap((key) => map.get(key) ?? []);
  return found.length ? found.reduce((sum, x) => sum + x, 0) / found.length : null;
}
