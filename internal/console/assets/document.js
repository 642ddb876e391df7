// Renders documents (inspect.Document) and recorded decisions, and shows them in the drawer.
import { byID, el, show } from './dom.js';
import { hourly, moment } from './format.js';

const drawer = byID('drawer');
const body = byID('drawer-body');
const title = byID('drawer-title');
const back = byID('drawer-back');
const stack = []; // of functions that show what was shown before
let current = null;
let openSubject = () => {};

export function startDrawer(open) {
  openSubject = open;
  byID('drawer-close').addEventListener('click', () => drawer.close());
  back.addEventListener('click', () => {
    current = stack.pop() ?? null;
    current?.();
    show(back, stack.length > 0);
  });
  drawer.addEventListener('click', (event) => event.target === drawer && drawer.close());
  drawer.addEventListener('close', () => {
    stack.length = 0;
    current = null;
    body.replaceChildren();
  });
}

// openDrawer shows something; what was shown before is one step back.
export function openDrawer(render) {
  if (drawer.open && current) stack.push(current);
  current = render;
  render();
  show(back, stack.length > 0);
  if (!drawer.open) drawer.showModal();
  title.focus();
}

// fillDrawer replaces what the drawer shows.
export function fillDrawer(heading, ...content) {
  title.textContent = heading;
  body.replaceChildren(...content);
  body.scrollTop = 0;
}

export const isShown = (render) => drawer.open && current === render;

// documentOf renders a document.
export function documentOf(d) {
  return [el('p', { class: 'answer' }, d.answer), ...(d.sections ?? []).map(sectionOf)];
}

function sectionOf(s) {
  return el('section', {}, el('h3', {}, s.title), ...(s.lines ?? []).map((line) => el('p', { class: 'line' }, ...linked(line))), s.rows?.length ? table(s.columns ?? [], s.rows, s.title) : null,
    s.omitted ? el('p', { class: 'line' }, `and ${s.omitted}`) : null);
}

function table(columns, rows, caption) {
  const used = rows[0].map((_, i) => i).filter((i) => rows.some((row) => row[i]));
  const numeric = used.filter((i) => rows.every((row) => amount.test(row[i] ?? '')));
  const mark = (i) => (numeric.includes(i) ? 'true' : null);
  return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': caption },
    el('table', {}, columns.length ? el('thead', {}, el('tr', {}, used.map((i) => el('th', { scope: 'col', 'data-number': mark(i) }, columns[i] ?? '')))) : null,
      el('tbody', {}, rows.map((row) => el('tr', {}, used.map((i) => el('td', { 'data-number': mark(i) }, cell(columns[i] ?? '', row[i] ?? ''))))))));
}

const amount = /^([-+−]?\$?[\d,.]+( ?%)?(\/h)?)?$/;

// cell is a text, or a button where the column says what object it names.
function cell(column, text) {
  const kind = { pod: 'pod', node: 'node', nodepool: 'nodepool', nodeclaim: 'nodeclaim' }[column.toLowerCase()];
  if (!kind || !(kind === 'pod' ? /^[a-z0-9.-]+\/[a-z0-9.-]+$/ : /^[a-z0-9.-]+$/).test(text)) return linked(text);
  return el('button', { type: 'button', class: 'link', onclick: () => openSubject(parseSubject(kind + '/' + text)) }, text);
}

const subject = /\b(pod\/[a-z0-9][a-z0-9.-]*\/[a-z0-9][a-z0-9.-]*[a-z0-9]|(?:node|nodeclaim|nodepool)\/[a-z0-9][a-z0-9.-]*[a-z0-9])/g;

// linked makes buttons of the objects that a text names, so that one explanation leads to the next.
function linked(text) {
  return String(text).split(subject).map((part, i) => (i % 2 ? subjectButton(part) : part));
}

export function subjectButton(name) {
  return el('button', { type: 'button', class: 'link', onclick: () => openSubject(parseSubject(name)) }, name);
}

export function parseSubject(name) {
  const [kind, ...rest] = name.split('/');
  return kind === 'pod' && rest.length === 2 ? { kind, namespace: rest[0], name: rest[1] } : { kind, name: rest.join('/') };
}

export const nameOf = (s) => [s.kind, s.namespace, s.name].filter(Boolean).join('/');

// eventOf renders an event: what happened, the objects, and the decision as it was recorded.
export function eventOf(e) {
  return [
    el('p', { class: 'answer' }, e.text),
    el('dl', { class: 'facts' },
      fact('When', moment(e.at)), fact('Kind', e.kind), fact('Source', e.source === 'event' ? 'event of Kubernetes' : 'ledger'),
      e.saves ? fact('Saves', hourly(e.saves)) : null, e.id ? fact('Command', e.id) : null),
    e.objects?.length ? el('section', {}, el('h3', {}, 'Objects'), el('ul', { class: 'objects' }, e.objects.map((o) => el('li', {}, subjectButton(o))))) : null,
    e.detail ? el('section', {}, el('h3', {}, 'As it was recorded'), value(e.detail, 0)) : null,
  ].filter(Boolean);
}

function fact(name, text) {
  return [el('dt', {}, name), el('dd', {}, text)];
}

// value renders any JSON: lists of objects as tables or lists, objects as names with values.
function value(v, depth) {
  if (Array.isArray(v)) {
    if (v.every((item) => item === null || typeof item !== 'object')) return el('span', {}, v.length ? v.map(String).join(', ') : 'none');
    return el('ol', { class: 'values' }, v.map((item) => el('li', {}, value(item, depth + 1))));
  }
  if (v !== null && typeof v === 'object') {
    return el('dl', { class: 'facts nested' }, Object.entries(v).map(([k, item]) => [el('dt', {}, words(k)), el('dd', {}, depth > 8 ? JSON.stringify(item) : value(item, depth + 1))]));
  }
  return el('span', {}, v === null ? 'none' : typeof v === 'string' && /^\d{4}-\d\d-\d\dT/.test(v) && !Number.isNaN(Date.parse(v)) ? moment(v) : String(v));
}

// words makes "instanceType" "instance type".
const words = (name) => name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
