// The fleet as a map: one tile for each node, in groups, coloured by how much of it is requested.
import { el, set, show, sync, write, byID } from './dom.js';
import { age, busiest, hourly, number, percent, plural, quantity, shareOf } from './format.js';

const groupings = {
  pool: { label: 'pool', of: (n) => n.pool || 'no NodePool' },
  zone: { label: 'zone', of: (n) => n.zone || 'zone not known' },
  type: { label: 'type', of: (n) => n.instanceType || 'type not known' },
  capacity: { label: 'capacity type', of: (n) => n.capacityType || 'capacity type not known' },
  state: { label: 'state', of: (n) => n.state },
  none: { label: 'nothing', of: () => '' },
};
// Sizes of tiles in px. A step down happens only when the tiles no longer fit, so that a node more or less moves little.
const sizes = [124, 96, 54, 46, 40, 35, 30, 26, 22, 19, 17, 15, 13, 11];
const roomy = 96; // from this size on, tiles have text
const narrowest = 130; // of a column

let fleet = null;
let open = () => {};
let active = ''; // name of the tile that the Tab key reaches

const map = byID('map');
const card = byID('card');
const choices = { group: byID('group-by'), then: byID('then-by'), colour: byID('colour-by'), filter: byID('filter') };

// startFleet prepares the map. The function is called with the node that is to be explained.
export function startFleet(openNode) {
  open = openNode;
  for (const [value, { label }] of Object.entries(groupings)) {
    if (value !== 'none') choices.group.append(el('option', { value }, label));
    choices.then.append(el('option', { value }, label));
  }
  choices.group.value = 'pool';
  choices.then.value = 'zone';
  for (const control of Object.values(choices)) control.addEventListener('input', draw);
  byID('fleet-tools').addEventListener('submit', (event) => {
    event.preventDefault();
    tiles().find((t) => t.dataset.dim !== 'true')?.focus();
  });
  map.addEventListener('keydown', onKey);
  map.addEventListener('focusin', (event) => point(event.target.closest('button.tile'), true));
  map.addEventListener('focusout', hideCard);
  map.addEventListener('pointerover', (event) => event.pointerType !== 'touch' && point(event.target.closest('button.tile'), false));
  map.addEventListener('pointerleave', hideCard);
  map.addEventListener('scroll', hideCard, { passive: true });
  new ResizeObserver(draw).observe(map);
}

export function clearFleet() {
  fleet = null;
  hideCard();
}

export function showFleet(value) {
  fleet = value;
  const resources = ['busiest', ...Object.keys(fleet.totals.use ?? {}).filter((r) => r !== 'ephemeral-storage').sort(byImportance)];
  sync(choices.colour, resources, (r) => r, (r) => el('option', { value: r }, r === 'busiest' ? 'CPU or memory' : r === 'cpu' ? 'CPU' : r));
  draw();
}

const byImportance = (a, b) => rank(a) - rank(b) || a.localeCompare(b);
const rank = (resource) => ['cpu', 'memory', 'pods'].indexOf(resource) + 1 || 9;

function draw() {
  if (!fleet) return;
  const nodes = [...fleet.nodes].sort((a, b) => compare(a.instanceType, b.instanceType) || compare(a.name, b.name));
  if (!nodes.some((n) => n.name === active)) active = '';
  const wanted = choices.filter.value.trim().toLowerCase();
  let matches = 0;
  const outer = grouped(nodes, choices.group.value);
  active ||= outer[0] ? grouped(outer[0].nodes, choices.then.value)[0].nodes[0].name : '';
  // Zones and the like are below each other in all groups, if there is room for a column each.
  const columns = grouped(nodes, choices.then.value).map((g) => g.name);
  const inColumns = columns.length * narrowest <= map.clientWidth || columns.length === 1;
  sync(map, outer, (g) => g.name, createGroup, (section, group) => {
    write(section.parts.title, group.name);
    write(section.parts.figures, figures(group.nodes));
    section.parts.inner.style.setProperty('--columns', inColumns ? columns.length : 'auto-fill');
    sync(section.parts.inner, grouped(group.nodes, choices.then.value), (g) => g.name, createSubgroup, (part, sub) => {
      write(part.parts.title, sub.name);
      show(part.parts.line, sub.name !== '');
      part.style.gridColumn = inColumns ? columns.indexOf(sub.name) + 1 : '';
      write(part.parts.figures, number(sub.nodes.length));
      set(part, 'aria-label', sub.name ? `${group.name}, ${sub.name}: ${plural(sub.nodes.length, 'node')}` : null);
      sync(part.parts.inner, sub.nodes, (n) => n.name, createTile, (tile, node) => {
        const dim = wanted !== '' && !matchesFilter(node, wanted);
        matches += dim ? 0 : 1;
        updateTile(tile, node, dim);
      });
    });
  });
  write(byID('filter-count'), wanted ? `${number(matches)} of ${plural(nodes.length, 'node')} match` : '');
  resize();
}

const compare = (a, b) => (a ?? '').localeCompare(b ?? '', 'en', { numeric: true });

function grouped(nodes, by) {
  const groups = new Map();
  for (const n of nodes) {
    const name = groupings[by].of(n);
    if (!groups.has(name)) groups.set(name, { name, nodes: [] });
    groups.get(name).nodes.push(n);
  }
  return [...groups.values()].sort((a, b) => compare(a.name, b.name));
}

function figures(nodes) {
  let cost = 0;
  let unpriced = 0;
  let requested = 0;
  let allocatable = 0;
  for (const n of nodes) {
    cost += n.price ?? 0;
    unpriced += n.price === undefined ? 1 : 0;
    requested += n.use?.cpu?.requested ?? 0;
    allocatable += n.use?.cpu?.allocatable ?? 0;
  }
  const price = unpriced === nodes.length ? 'price not known' : hourly(cost, unpriced);
  return `${plural(nodes.length, 'node')} · ${price} · ${percent(allocatable ? requested / allocatable : 0)} CPU`;
}

function matchesFilter(n, wanted) {
  return wanted.split(/\s+/).every((word) => [n.name, n.claim, n.pool, n.instanceType, n.zone, n.capacityType, n.state, n.drift && 'drifted', n.blocked && 'blocked'].some((text) => text?.toLowerCase().includes(word)));
}

function createGroup() {
  const title = el('h3');
  const figures = el('p', { class: 'figures' });
  const inner = el('div', { class: 'subgroups' });
  return Object.assign(el('section', { class: 'group' }, el('div', { class: 'group-head' }, title, figures), inner), { parts: { title, figures, inner } });
}

function createSubgroup() {
  const title = el('span');
  const figures = el('span', { class: 'figures' });
  const line = el('p', { class: 'subgroup-head' }, title, figures);
  const inner = el('div', { class: 'tiles' });
  return Object.assign(el('div', { class: 'subgroup', role: 'group' }, line, inner), { parts: { title, figures, line, inner } });
}

function createTile(node) {
  const title = el('span', { class: 'tile-title' });
  const share = el('span', { class: 'tile-share' });
  const tile = el('button', { type: 'button', class: 'tile', onclick: () => open(tile.node) }, title, share);
  return Object.assign(tile, { node, parts: { title, share } });
}

function updateTile(tile, node, dim) {
  tile.node = node;
  const share = choices.colour.value === 'busiest' || !choices.colour.value ? busiest(node.use) : shareOf(node.use?.[choices.colour.value]);
  const level = Math.round(Math.min(1, share) * 100);
  if (tile.level !== level) {
    tile.level = level;
    tile.style.setProperty('--level', level + '%');
    set(tile, 'data-tone', level > 86 ? 'high' : level > 55 ? 'middle' : 'low'); // for the colour of the text
  }
  set(tile, 'data-state', node.state);
  set(tile, 'data-blocked', node.blocked ? 'true' : null);
  set(tile, 'data-dim', dim ? 'true' : null);
  set(tile, 'tabindex', node.name === active ? '0' : '-1');
  set(tile, 'aria-label', describe(node).join(', '));
  write(tile.parts.title, node.instanceType || node.name);
  write(tile.parts.share, percent(share));
}

// describe says all about a node, for the card and for screen readers.
function describe(node) {
  return [
    node.name,
    stateOf(node),
    [node.instanceType, node.zone, node.capacityType].filter(Boolean).join(', '),
    node.pool ? 'NodePool ' + node.pool : 'no NodePool',
    `CPU ${percent(shareOf(node.use?.cpu))}, memory ${percent(shareOf(node.use?.memory))} requested`,
    plural(node.pods, 'pod'),
    node.price === undefined ? 'price not known' : hourly(node.price),
    node.drift ? 'drifted: ' + node.drift : '',
    node.blocked ? 'blocked: ' + node.blocked.text : '',
  ].filter(Boolean);
}

function stateOf(node) {
  if (node.state === 'Removing') return node.moving?.length ? `being removed, ${plural(node.moving.length, 'pod')} still to leave` : 'being removed';
  return { Launching: 'launching', Initializing: 'initializing', Ready: 'ready', NotReady: 'not ready' }[node.state] ?? node.state;
}

const tiles = () => [...map.querySelectorAll('button.tile')];

// Arrow keys go by what is on the screen: up and down to the nearest tile of another row.
function onKey(event) {
  const tile = event.target.closest('button.tile');
  if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = tiles();
  const at = all.indexOf(tile);
  let next;
  switch (event.key) {
    case 'ArrowRight': next = all[at + 1]; break;
    case 'ArrowLeft': next = all[at - 1]; break;
    case 'Home': next = all[0]; break;
    case 'End': next = all.at(-1); break;
    case 'ArrowDown': next = nearest(tile, all, 1); break;
    case 'ArrowUp': next = nearest(tile, all, -1); break;
    case 'Escape': hideCard(); return;
    default: return;
  }
  event.preventDefault();
  next?.focus();
}

function nearest(tile, all, direction) {
  const from = tile.getBoundingClientRect();
  let best;
  let least = Infinity;
  for (const other of all) {
    const box = other.getBoundingClientRect();
    const down = direction * (box.top - from.top);
    if (down < from.height / 2) continue;
    const aside = Math.abs(box.left - from.left);
    const distance = down + (aside < from.width / 2 ? 0 : 4 * aside);
    if (distance < least) {
      least = distance;
      best = other;
    }
  }
  return best;
}

function point(tile, byKeyboard) {
  if (!tile) {
    if (!byKeyboard) hideCard();
    return;
  }
  if (byKeyboard && tile.node.name !== active) {
    map.querySelector('button.tile[tabindex="0"]')?.setAttribute('tabindex', '-1');
    active = tile.node.name;
    tile.setAttribute('tabindex', '0');
  }
  showCard(tile);
}

function showCard(tile) {
  const n = tile.node;
  card.replaceChildren(
    el('p', { class: 'card-title' }, n.name),
    el('p', { class: 'card-sub' }, [n.instanceType, n.zone, n.capacityType].filter(Boolean).join(' · ') || 'not launched yet'),
    ...['cpu', 'memory', ...Object.keys(n.use ?? {}).filter((r) => !['cpu', 'memory', 'pods', 'ephemeral-storage'].includes(r))].filter((r) => n.use?.[r]).map((r) => bar(r, n.use[r])),
    el('p', { class: 'card-line' }, [n.pool ? 'NodePool ' + n.pool : 'no NodePool', plural(n.pods, 'pod'), n.price === undefined ? 'price not known' : hourly(n.price)].join(' · ')),
    el('p', { class: 'card-line' }, stateOf(n) + (n.created ? ' · ' + age(new Date(fleet.at) - new Date(n.created)) + ' old' : '')),
    n.drift ? el('p', { class: 'card-line warn' }, 'Drifted: ' + n.drift) : '',
    n.blocked ? el('p', { class: 'card-line warn' }, n.blocked.text) : '',
  );
  show(card, true);
  const box = tile.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = card;
  const below = box.bottom + 8 + height < innerHeight;
  card.style.left = Math.max(8, Math.min(innerWidth - width - 8, box.left + box.width / 2 - width / 2)) + 'px';
  card.style.top = Math.max(8, below ? box.bottom + 8 : box.top - height - 8) + 'px';
}

function bar(resource, use) {
  const level = el('span', { class: 'bar-level' });
  level.style.setProperty('--level', Math.min(100, Math.round(shareOf(use) * 100)) + '%');
  return el('div', { class: 'bar-row' }, el('span', {}, resource === 'cpu' ? 'CPU' : resource), el('span', { class: 'bar' }, level), el('span', { class: 'bar-text' }, `${quantity(resource, use.requested)} of ${quantity(resource, use.allocatable)}`));
}

function hideCard() {
  show(card, false);
}

// resize chooses the largest tiles that fit the map without scrolling.
function resize() {
  if (!fleet || map.clientWidth === 0) return;
  const parts = [...map.querySelectorAll('.tiles')].map((t) => ({ count: t.childElementCount, width: t.clientWidth, row: t.closest('.group') }));
  const rows = Map.groupBy ? Map.groupBy(parts, (p) => p.row) : null;
  const room = map.clientHeight;
  const fits = (size) => {
    let height = 0;
    for (const group of rows.values()) {
      const tallest = Math.max(...group.map((p) => Math.ceil(p.count / Math.max(1, Math.floor((p.width + gap(size)) / (size + gap(size)))))));
      height += 57 + tallest * (tileHeight(size) + gap(size));
    }
    return height <= room;
  };
  const size = (rows && sizes.find(fits)) || sizes.at(-1);
  if (map.dataset.size === String(size)) return;
  map.dataset.size = String(size);
  map.dataset.roomy = String(size >= roomy);
  map.style.setProperty('--tile', size + 'px');
  map.style.setProperty('--tile-height', tileHeight(size) + 'px');
  map.style.setProperty('--tile-gap', gap(size) + 'px');
}

const gap = (size) => (size >= 40 ? 6 : size >= 22 ? 3 : 2);
const tileHeight = (size) => (size >= roomy ? 36 : size);
