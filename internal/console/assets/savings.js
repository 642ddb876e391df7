// What was spent each day, and what consolidation saved.
import { byID, clear, el, set, show, sync, write } from './dom.js';
import { amount, number, percent, plural } from './format.js';

const groupings = [['day', 'Days'], ['nodePools', 'NodePools'], ['namespaces', 'Namespaces']];
const by = byID('savings-by');
let report = null;
let openSubject = () => {};

export function startSavings(open) {
  openSubject = open;
  by.append(...groupings.map(([value, text]) => el('option', { value }, text)));
  by.addEventListener('input', draw);
}

// showSavings shows a report (inspect.Savings), or why there is none.
export function showSavings(savings) {
  report = savings;
  draw();
}

export function clearSavings() {
  report = null;
  for (const id of ['savings-columns', 'savings-rows', 'savings-answer', 'savings-notes']) clear(byID(id));
}

function draw() {
  if (!report) return;
  const days = [...(report.days ?? [])].reverse(); // the latest first
  const daily = by.value === 'day';
  const rows = days.flatMap((d) => (daily ? [d.total] : d[by.value] ?? []).map((r) => ({ ...r, day: d.day, hours: d.hours })));
  const named = { nodePools: 'NodePool', namespaces: 'Namespace' }[by.value];
  const columns = ['Day', ...(named ? [named] : []), 'Spent', 'Without consolidation', 'Saved', 'Evictions', ...(daily ? ['Above the bound', 'Hours observed'] : [])];
  const texts = named ? 2 : 1; // columns of words; the others are numbers
  sync(byID('savings-columns'), columns, (c) => c, (c) => el('th', { scope: 'col', 'data-number': columns.indexOf(c) >= texts ? 'true' : null }, c));
  sync(byID('savings-rows'), rows, (r) => [by.value, r.day, r.name ?? ''].join(' '), (r) => el('tr', {}, columns.map((c, i) => el(i ? 'td' : 'th', { scope: i ? null : 'row', 'data-number': i >= texts ? 'true' : null, 'data-column': c }, c === 'NodePool' ? poolOf(r.name) : ''))), (row, r) => {
    const saved = r.unconsolidated - r.spent;
    const cells = [r.day, ...(named ? [r.name] : []), amount(r.spent), amount(r.unconsolidated), saved > 0 ? `${amount(saved)} (${percent(saved / r.unconsolidated)})` : amount(saved), number(r.evictions)];
    if (daily) cells.push(r.bound > 0 ? percent(r.boundSpent / r.bound - 1) : '–', r.hours.toFixed(1));
    cells.forEach((text, i) => row.children[i].firstElementChild ?? write(row.children[i], text));
    set(row, 'data-aside', r.name?.startsWith('(') ? 'true' : null);
  });
  show(byID('savings-scroll'), rows.length > 0);
  write(byID('savings-answer'), rows.length ? inAll(days) : '');
  const notes = [days.length ? '' : 'Nothing is recorded of what the cluster cost.', ...(report.notes ?? [])].filter(Boolean);
  write(byID('savings-notes'), notes.join(' '));
  show(byID('savings-notes'), notes.length > 0);
}

// poolOf is a button that explains a NodePool. Names in parentheses stand for several, or for none.
const poolOf = (name) => (/^[a-z0-9]/.test(name ?? '') ? el('button', { type: 'button', class: 'link', onclick: () => openSubject({ kind: 'nodepool', name }) }, name) : null);

function inAll(days) {
  const spent = days.reduce((sum, d) => sum + d.total.spent, 0);
  const without = days.reduce((sum, d) => sum + d.total.unconsolidated, 0);
  const saved = without - spent;
  return `${amount(spent)} in ${plural(days.length, 'day')}` + (saved > 0 ? `, ${amount(saved)} (${percent(saved / without)}) less than without consolidation` : '');
}
