// What the cluster cost over time, against the lower bound and what it would have cost without consolidation.
import { byID, el, set, show, svg, write } from './dom.js';
import { amount, hourly, moment, percent, timeOf, dayOf, plural } from './format.js';

const spans = [['6', '6 hours'], ['24', '24 hours'], ['168', '7 days'], ['720', '30 days'], ['0', 'All']]; // in hours

const chart = byID('chart');
const readout = byID('chart-readout');
const span = byID('costs-span');
const hour = 3600_000;
const gap = 2.1 * hour; // between points of which nothing is known
const margin = { left: 54, right: 14, top: 12, bottom: 24 };
let recorded = []; // what the server knows; at is a number
let points = []; // those that are shown: { at, hourly, bound, saved, nodes, pods, evictions }
let chosen = -1; // index of the point that is read out; -1 is the latest
let sampled = []; // what this page has seen, for servers that keep no history
let frame = null; // where the points are on the screen

export function startCosts() {
  chart.tabIndex = 0;
  chart.setAttribute('role', 'group');
  chart.setAttribute('aria-label', 'Cost over time. Left and right arrow keys read out one point after the other.');
  chart.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || points.length === 0) return;
    event.preventDefault();
    choose(Math.min(points.length - 1, Math.max(0, (chosen < 0 ? points.length - 1 : chosen) + step)));
  });
  chart.addEventListener('pointermove', (event) => {
    if (!frame || points.length === 0) return;
    const at = frame.time(event.clientX - chart.getBoundingClientRect().left);
    choose(points.reduce((best, p, i) => (Math.abs(p.at - at) < Math.abs(points[best].at - at) ? i : best), 0));
  });
  for (const name of ['pointerleave', 'blur']) chart.addEventListener(name, () => choose(-1));
  span.append(...spans.map(([value, text]) => el('option', { value, selected: value === '24' ? '' : null }, text)));
  span.addEventListener('input', select);
  new ResizeObserver(() => draw()).observe(chart);
}

// showCosts draws what the server has recorded; without a record, what this page has seen.
export function showCosts(costs, fleet) {
  if (fleet && sampled.at(-1)?.at !== Date.parse(fleet.at)) {
    sampled.push({ at: Date.parse(fleet.at), hourly: fleet.totals.hourly, bound: fleet.totals.bound, nodes: fleet.totals.nodes, pods: fleet.totals.pods });
    sampled = sampled.slice(-2000);
  }
  recorded = (costs ?? []).map((c) => ({ ...c, at: Date.parse(c.at) }));
  select();
}

// select takes the points of the time that is chosen.
function select() {
  points = recorded.length > 1 ? within(recorded, Number(span.value) * hour) : sampled;
  if (chosen >= points.length) chosen = -1;
  const first = points[0];
  const last = points.at(-1);
  let range = 'Nothing is known yet.';
  if (recorded.length > 1) range = `${dayOf(first.at)} ${timeOf(first.at)} to ${dayOf(last.at)} ${timeOf(last.at)}`;
  else if (first) range = 'The server records no costs: since this page was opened.';
  write(byID('costs-range'), range);
  set(byID('costs-range'), 'class', recorded.length > 1 ? 'hidden' : 'sub'); // of what is recorded, the axis shows it
  draw();
}

// within is the end of a list. What held when it begins is its first point.
function within(list, length) {
  if (length === 0) return list;
  const begin = list.at(-1).at - length;
  const from = list.findIndex((p) => p.at >= begin);
  const before = list[from - 1];
  const held = before && begin - before.at < gap ? [{ ...before, at: begin, evictions: 0 }] : [];
  return [...held, ...list.slice(from)];
}

export function clearCosts() {
  recorded = [];
  points = [];
  sampled = [];
}

function choose(index) {
  chosen = index;
  draw();
}

function draw() {
  const width = chart.clientWidth;
  const height = chart.clientHeight;
  if (width === 0 || points.length === 0) return;
  const first = points[0].at;
  const last = Math.max(points.at(-1).at, first + 60_000);
  const top = niceTop(points.reduce((most, p) => Math.max(most, unconsolidated(p), p.bound ?? 0), 0.01));
  const x = (at) => margin.left + ((at - first) / (last - first)) * (width - margin.left - margin.right);
  const y = (usd) => margin.top + (1 - usd / top) * (height - margin.top - margin.bottom);
  frame = { time: (px) => first + ((px - margin.left) / (width - margin.left - margin.right)) * (last - first) };
  const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' });
  for (const share of [0, 0.5, 1]) {
    image.append(
      svg('line', { class: 'grid', x1: margin.left, x2: width - margin.right, y1: y(top * share), y2: y(top * share) }),
      svg('text', { class: 'tick', x: margin.left - 8, y: y(top * share) + 4, 'text-anchor': 'end' }, amount(top * share)),
    );
  }
  for (const at of timeTicks(first, last, width)) {
    const anchor = x(at) < margin.left + 20 ? 'start' : x(at) > width - margin.right - 24 ? 'end' : 'middle';
    image.append(svg('text', { class: 'tick', x: x(at), y: height - 6, 'text-anchor': anchor }, last - first > 36 * hour ? dayOf(at) : timeOf(at)));
  }
  const saves = points.some((p) => p.saved > 0);
  show(byID('key-unconsolidated'), saves);
  for (const run of runs(points, () => true, last)) {
    const cost = steps(run, (p) => p.hourly, x, y);
    image.append(svg('path', { class: 'cost-area', d: `${cost}V${y(0)}H${x(run.points[0].at)}Z` }), svg('path', { class: 'cost-line', d: cost }));
    if (saves) image.append(svg('path', { class: 'unconsolidated-line', d: steps(run, unconsolidated, x, y) }));
  }
  for (const run of runs(points, (p) => p.bound > 0, last)) image.append(svg('path', { class: 'bound-line', d: steps(run, (p) => p.bound, x, y) }));
  for (const p of points) {
    if (p.evictions > 0) image.append(svg('line', { class: 'eviction', x1: x(p.at), x2: x(p.at), y1: y(0), y2: y(0) - 6 }));
  }
  const shown = points[chosen < 0 ? points.length - 1 : chosen];
  if (chosen >= 0) image.append(svg('line', { class: 'cursor', x1: x(shown.at), x2: x(shown.at), y1: margin.top, y2: y(0) }));
  image.append(svg('circle', { class: 'cost-dot', cx: x(chosen < 0 ? last : shown.at), cy: y(shown.hourly), r: 4 }));
  chart.replaceChildren(image);
  const saved = shown.saved > 0 ? `, ${hourly(shown.saved)} less than without consolidation` : '';
  const above = shown.bound > 0 ? `, ${percent((shown.hourly - shown.bound) / shown.bound)} above the bound of ${hourly(shown.bound)}` : ', bound not known';
  readout.replaceChildren(
    el('span', { class: 'when' }, chosen < 0 ? 'Now' : moment(shown.at)),
    `${hourly(shown.hourly)}${saved}${above}, ${plural(shown.nodes, 'node')}, ${plural(shown.pods, 'pod')}${shown.evictions ? ', ' + plural(shown.evictions, 'eviction') : ''}`,
  );
}

// unconsolidated is what the nodes would have cost if none had ever been consolidated.
const unconsolidated = (p) => p.hourly + (p.saved ?? 0);

// timeTicks are full hours, days or minutes of the clock of the reader, as many as there is room for.
function timeTicks(first, last, width) {
  const most = Math.max(2, Math.floor(width / 130));
  const step = [1 / 60, 1 / 12, 1 / 4, 1 / 2, 1, 2, 3, 4, 6, 12, 24, 48, 168, 730].map((hours) => hours * hour).find((s) => (last - first) / s <= most) ?? (last - first) / most;
  const zone = new Date(first).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let at = Math.ceil((first - zone) / step) * step + zone; at <= last; at += step) ticks.push(at);
  return ticks;
}

// A cost holds until the next one is known: the line goes in steps.
function steps({ points: list, end }, value, x, y) {
  let path = '';
  for (const p of list) path += path ? `H${x(p.at)}V${y(value(p))}` : `M${x(p.at)} ${y(value(p))}`;
  return `${path}H${x(end)}`;
}

// runs splits the points where something is not known, or nothing was recorded for long. Each has the time until which its last
// point holds.
function runs(list, known, last) {
  const out = [];
  let run = null;
  let before = null;
  for (const p of list) {
    const lost = before !== null && p.at - before > gap;
    if (run && (lost || !known(p))) {
      run.end = lost ? before : p.at;
      run = null;
    }
    if (known(p)) {
      if (!run) out.push((run = { points: [], end: last }));
      run.points.push(p);
    }
    before = p.at;
  }
  return out;
}

function niceTop(highest) {
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= highest * 1.05) ?? 10 * power;
}
