// What was decided, latest first, and the pods that wait for a node.
import { byID, el, set, show, sync, write } from './dom.js';
import { age, dayOf, hourly, number, plural, timeOf } from './format.js';
import { eventOf, fillDrawer, openDrawer, parseSubject } from './document.js';

const kinds = [ // the first that the kind contains says how an event is marked
  ['command', 'act'], ['removal', 'act'], ['terminat', 'act'], ['disrupt', 'act'], ['launch', 'grow'], ['plan', 'grow'], ['nominat', 'grow'], ['block', 'stop'],
  ['fail', 'stop'], ['unconsolidatable', 'stop'], ['drain', 'act'], ['outcome', 'done'],
];

const most = 1000; // events that a response may have
let wanted = 200;

// startTimeline lets the reader go back in time; refresh requests what is wanted.
export function startTimeline(refresh) {
  byID('timeline-more').addEventListener('click', () => {
    wanted = Math.min(most, wanted * 2.5);
    refresh();
  });
}

// eventsWanted is how many events are requested.
export const eventsWanted = () => wanted;

export function showTimeline(history) {
  const events = [...(history.events ?? [])].reverse();
  show(byID('timeline-more'), events.length >= wanted && wanted < most);
  const seen = new Map(); // events at one time of one kind are told apart by their number
  const items = [];
  let lastDay = '';
  for (const e of events) {
    const day = dayOf(e.at);
    if (day !== lastDay) items.push({ key: 'day ' + day, day });
    lastDay = day;
    const key = [e.at, e.kind, e.id, e.text].join(' ');
    seen.set(key, (seen.get(key) ?? 0) + 1);
    items.push({ key: key + ' ' + seen.get(key), event: e });
  }
  sync(byID('timeline'), items, (i) => i.key, (i) => (i.day ? el('li', { class: 'day' }, i.day) : eventItem(i.event)));
  const empty = byID('timeline-empty');
  show(empty, events.length === 0 || (history.notes ?? []).length > 0);
  write(empty, [events.length ? '' : 'Nothing was decided yet.', ...(history.notes ?? [])].filter(Boolean).join(' '));
}

function eventItem(e) {
  const mark = kinds.find(([part]) => e.kind.toLowerCase().includes(part))?.[1] ?? 'note';
  return el('li', {}, el('button', { type: 'button', class: 'event', 'data-mark': mark, onclick: () => openDrawer(() => fillDrawer(e.kind, ...eventOf(e))) },
    el('time', { datetime: e.at }, timeOf(e.at)),
    el('span', { class: 'event-text' }, el('span', { class: 'event-kind' }, e.kind), e.text),
    e.saves ? el('span', { class: 'saves' }, (e.saves > 0 ? '−' : '+') + hourly(Math.abs(e.saves))) : null));
}

export function showPending(fleet, openSubject) {
  const pods = fleet.pending ?? [];
  write(byID('pending-count'), pods.length ? plural(pods.length, 'pod') : '');
  show(byID('pending-empty'), pods.length === 0);
  const mostPods = 500;
  sync(byID('pending'), pods.slice(0, mostPods), (p) => p.pod, (p) => pendingItem(p, openSubject), (item, p) => {
    write(item.parts.since, age(Date.parse(fleet.at) - Date.parse(p.since)));
    const why = p.planned ? ['Planned: ' + p.planned] : (p.why ?? []).map((f) => f.text);
    write(item.parts.why, why[0] ?? 'Not planned for yet.');
    write(item.parts.fix, (!p.planned && p.why?.find((f) => f.fix)?.fix) || '');
    show(item.parts.fix, item.parts.fix.textContent !== '');
    write(item.parts.more, why.length > 1 ? `and ${number(why.length - 1)} more` : '');
    set(item, 'data-planned', p.planned ? 'true' : null);
  });
  if (pods.length > mostPods) write(byID('pending-count'), `${plural(pods.length, 'pod')}, the first ${number(mostPods)} shown`);
}

function pendingItem(p, openSubject) {
  const since = el('span', { class: 'since' });
  const why = el('span', { class: 'why' });
  const more = el('span', { class: 'more' });
  const fix = el('span', { class: 'fix' });
  const button = el('button', { type: 'button', class: 'pod', onclick: () => openSubject(parseSubject('pod/' + p.pod)) },
    el('span', { class: 'pod-name' }, p.pod, since), el('span', {}, why, ' ', more), fix);
  return Object.assign(el('li', {}, button), { parts: { since, why, more, fix } });
}
