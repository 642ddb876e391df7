// Plans with changes that are not made.
import { byID, el, sync } from './dom.js';
import { hourly, monthly, percent, plural } from './format.js';
import { documentOf } from './document.js';
import { plan } from './client.js';

const result = byID('whatif-result');
let running = 0; // number of the latest run; earlier ones are not shown

export function startWhatIf() {
  const form = byID('whatif');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    run();
  });
  form.addEventListener('reset', () => {
    running++;
    result.replaceChildren();
  });
}

// showChoices offers what the fleet has: zones and capacity types.
export function showChoices(fleet) {
  const known = new Set();
  for (const n of fleet.nodes) {
    if (n.zone) known.add('zone=' + n.zone);
    if (n.capacityType) known.add('capacity-type=' + n.capacityType);
  }
  sync(byID('without-choices'), [...known].sort(), (c) => c, (c) => el('label', { class: 'chip', title: c }, el('input', { type: 'checkbox', name: 'without', value: c }), c.slice(c.indexOf('=') + 1)));
}

const lines = (id) => byID(id).value.split('\n').map((line) => line.trim()).filter(Boolean);

// whatIf reads the form. A line that is malformed is an error that names it.
function whatIf() {
  const without = [...document.querySelectorAll('#without-choices input:checked')].map((c) => c.value);
  const value = { set: lines('set'), without: [...without, ...lines('without')], addPods: byID('add-pods').value.trim() };
  const prices = {};
  for (const line of lines('prices')) {
    const [key, price, ...rest] = line.split('=').map((part) => part.trim());
    if (!key || !price || rest.length || !(Number(price) >= 0)) throw new Error(`"${line}" is not TYPE/ZONE/CAPACITY-TYPE=USD. Write, for example, m5.xlarge/*/spot=0.09.`);
    prices[key] = Number(price);
  }
  return { ...(value.set.length && { set: value.set }), ...(value.without.length && { without: value.without }), ...(value.addPods && { addPods: value.addPods }), ...(Object.keys(prices).length && { prices }) };
}

async function run() {
  const mine = ++running;
  result.replaceChildren(el('p', { class: 'line' }, 'Planning …'));
  let shown;
  try {
    shown = changes(await plan(whatIf()));
  } catch (error) {
    shown = [el('p', { class: 'problem' }, error.message), error.next ? el('p', { class: 'line' }, error.next) : null].filter(Boolean);
  }
  if (mine === running) result.replaceChildren(...shown);
}

function changes({ response: c, document: d }) {
  const saved = c.before.hourly - c.after.hourly;
  const gap = c.bound > 0 ? `${percent((c.after.hourly - c.bound) / c.bound)} above the lower bound of ${hourly(c.bound)}` : 'lower bound not known';
  return [
    el('dl', { class: 'figures-row' },
      figure('Now', hourly(c.before.hourly), plural(c.before.nodes, 'node')),
      figure('Afterwards', hourly(c.after.hourly), plural(c.after.nodes, 'node')),
      figure(saved >= 0 ? 'Saves' : 'Costs more', monthly(Math.abs(saved)), gap),
      figure('Evictions', String(c.evictions), (c.remove ?? []).length + ' removed, ' + (c.launch ?? []).length + ' launched'),
      figure('Without a node', String((c.unplaced ?? []).length), 'pods that no node can be planned for')),
    ...documentOf(d),
  ];
}

const figure = (name, value, more) => el('div', {}, el('dt', {}, name), el('dd', {}, value, el('small', {}, more)));
