// Starts the page, keeps it fresh, and says when it is not.
import { byID, clear, el, set, show, sync, write } from './dom.js';
import { age, amount, hourly, moment, monthly, number, percent, plural, secondOf, shareOf } from './format.js';
import * as client from './client.js';
import { documentOf, fillDrawer, isShown, nameOf, openDrawer, startDrawer } from './document.js';
import { clearFleet, showFleet, startFleet } from './fleet.js';
import { clearCosts, showCosts, startCosts } from './costs.js';
import { clearSavings, showSavings, startSavings } from './savings.js';
import { eventsWanted, showPending, showTimeline, startTimeline } from './timeline.js';
import { showChoices, startWhatIf } from './whatif.js';

const interval = 10_000; // between refreshes
const longest = 60_000; // between refreshes that fail
const planInterval = 60_000; // between plans
const savingsInterval = 60_000; // between reports of what was saved
const savingsDays = 31; // that are shown
const old = 30_000; // data is called old from this age on

const state = { fleet: null, history: null, plan: null, planned: 0, planning: false, reported: 0, received: 0, loads: 0, failures: 0, paused: false, timer: 0, busy: null, announced: '' };

start();

function start() {
  client.takeToken();
  addEventListener('hashchange', () => client.takeToken() && refresh());
  startTheme();
  startDrawer(explain);
  startFleet((node) => explain(node.state === 'Launching' && node.claim ? { kind: 'nodeclaim', name: node.claim } : { kind: 'node', name: node.name }));
  startCosts();
  startTimeline(refresh);
  startSavings(explain);
  startWhatIf();
  byID('token-form').addEventListener('submit', (event) => {
    event.preventDefault();
    client.keepToken(byID('token-input').value);
    byID('token-input').value = '';
    refresh();
  });
  byID('forget').addEventListener('click', () => {
    client.keepToken('');
    askForToken('The token was removed from this tab.');
  });
  byID('refresh').addEventListener('click', refresh);
  byID('pause').addEventListener('click', (event) => {
    state.paused = !state.paused;
    set(event.currentTarget, 'aria-pressed', state.paused);
    if (state.paused) clearTimeout(state.timer);
    else refresh();
    showFreshness();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) clearTimeout(state.timer);
    else if (!state.paused && client.hasToken()) refresh();
  });
  setInterval(showFreshness, 5_000);
  refresh();
}

// refresh requests everything once. A second call while one is on its way waits for that one.
function refresh() {
  state.busy ??= load().finally(() => {
    state.busy = null;
  });
  return state.busy;
}

async function load() {
  clearTimeout(state.timer);
  if (!client.hasToken()) {
    askForToken('');
    return;
  }
  try {
    const [fleet, history] = await Promise.all([client.fleet(), client.past({ limit: eventsWanted() }).catch(missingHistory)]);
    state.received = Date.now();
    state.failures = 0;
    show(byID('failure'), false);
    showAll(fleet, history);
  } catch (error) {
    state.failures++;
    if (error.status === 401 || error.status === 403) {
      askForToken(error.message + ' ' + error.next);
      return;
    }
    showFailure(error);
  }
  byID('freshness').dataset.shown = String(++state.loads);
  showFreshness();
  if (!state.paused && !document.hidden) state.timer = setTimeout(refresh, Math.min(longest, interval * 2 ** Math.min(3, state.failures)));
}

// planAhead adds what a plan knows to the fleet: the lower bound, and why pods are pending. A plan takes longer than the rest,
// so that it is requested less often, and what it said is shown until the next one.
async function planAhead() {
  if (state.planning || Date.now() - state.planned < planInterval) return;
  state.planning = true;
  try {
    const { response } = await client.plan({});
    state.planned = Date.now();
    state.plan = response;
    if (state.fleet) showFleetParts(state.fleet);
  } catch {
    state.planned = Date.now() - planInterval / 2; // it may be busy with the plan of another user
  } finally {
    state.planning = false;
  }
}

// report shows what was spent and saved. That changes slowly.
async function report() {
  if (Date.now() - state.reported < savingsInterval) return;
  state.reported = Date.now();
  let savings;
  try {
    savings = await client.savings({ since: new Date(Date.now() - savingsDays * 86_400_000).toISOString() });
  } catch (error) {
    savings = { notes: [error.message, error.next ?? ''] };
  }
  if (state.fleet) showSavings(savings); // the token may be forgotten by now
}

function withPlan(fleet) {
  if (!state.plan) return fleet;
  const why = new Map((state.plan.unplaced ?? []).map((u) => [u.pod, u.why]));
  const planned = new Map((state.plan.binds ?? []).map((b) => [b.pod, b.to]));
  for (const l of state.plan.launch ?? []) {
    for (const pod of l.pods ?? []) planned.set(pod, `a new ${l.instanceType} in ${l.zone}, ${l.capacityType}`);
  }
  return {
    ...fleet,
    totals: { ...fleet.totals, bound: fleet.totals.bound || state.plan.before?.bound },
    pending: fleet.pending.map((p) => ({ ...p, why: p.why?.length ? p.why : why.get(p.pod), planned: p.planned || planned.get(p.pod) })),
  };
}

// The fleet is worth showing without its history.
function missingHistory(error) {
  if (error.status === 401 || error.status === 403) throw error;
  return { events: [], notes: ['Earlier decisions could not be read: ' + error.message] };
}

function showAll(fleet, history) {
  const first = state.fleet === null;
  state.fleet = fleet;
  show(byID('token-view'), false);
  show(byID('main'), true);
  show(byID('forget'), true);
  state.history = history;
  showFleetParts(fleet);
  showFleet(fleet);
  write(byID('source'), fleet.source || 'console');
  write(byID('fleet-notes'), (fleet.notes ?? []).join(' '));
  show(byID('fleet-notes'), (fleet.notes ?? []).length > 0);
  showTimeline(history);
  showChoices(fleet);
  planAhead();
  report();
  const said = `${plural(fleet.totals.nodes, 'node')}, ${plural(fleet.pending.length, 'pending pod')}`;
  if (said !== state.announced) write(byID('announce'), first ? 'Loaded: ' + said : 'Now ' + said);
  state.announced = said;
}

function showFleetParts(fleet) {
  const known = withPlan(fleet);
  showTotals(known);
  showPending(known, explain);
  showCosts(state.history.costs, known);
}

function aboveText(t, above) {
  if (above !== null) return `${hourly(t.hourly - t.bound)} of ${hourly(t.bound)}`;
  return t.bound > 0 ? `the lower bound is ${hourly(t.bound)}` : 'the lower bound is not known';
}

function showTotals({ totals: t, pools, pending }) {
  const above = t.bound > 0 && !t.unpriced ? (t.hourly - t.bound) / t.bound : null;
  const waiting = pending.filter((p) => !p.planned).length;
  const cells = [
    ['Cost', t.unpriced && t.unpriced === t.nodes ? 'not known' : hourly(t.hourly, t.unpriced), t.unpriced ? `${plural(t.unpriced, 'node')} without a price` : monthly(t.hourly)],
    ['Above the bound', above === null ? '–' : percent(above), aboveText(t, above) + (above !== null && pending.length ? ' for running pods' : '')],
    ['Nodes', number(t.nodes), plural(pools.filter((p) => p.name).length, 'NodePool')],
    ['CPU requested', percent(shareOf(t.use?.cpu)), 'memory ' + percent(shareOf(t.use?.memory))],
    ['Pods', number(t.pods), t.pods && !t.unpriced ? amount((t.hourly / t.pods) * 730) + ' a month each' : ''],
    ['Pending', number(pending.length), pending.length ? (waiting ? `${number(waiting)} without a planned node` : 'all have a planned node') : 'none'],
  ];
  sync(byID('totals'), cells, (c) => c[0], ([name]) => {
    const value = el('dd');
    const more = el('dd', { class: 'more' });
    return Object.assign(el('div', {}, el('dt', {}, name), value, more), { parts: { value, more } });
  }, (cell, [name, value, more]) => {
    write(cell.parts.value, value);
    write(cell.parts.more, more);
    set(cell, 'data-alert', name === 'Pending' && waiting > 0 ? 'true' : null);
  });
}

// explain shows why an object is as it is.
function explain(subject) {
  const render = async () => {
    fillDrawer(nameOf(subject), el('p', { class: 'line' }, 'Loading …'));
    let content;
    try {
      const { document: d } = await client.explain(subject);
      content = documentOf(d);
    } catch (error) {
      content = [el('p', { class: 'problem' }, error.message), el('p', { class: 'line' }, error.next ?? '')];
    }
    if (isShown(render)) fillDrawer(nameOf(subject), ...content);
  };
  openDrawer(render);
}

function showFailure(error) {
  const box = byID('failure');
  box.replaceChildren(
    el('strong', {}, error instanceof client.Failure ? error.message : 'The response could not be shown: ' + error.message),
    el('span', {}, error.next ?? 'Reload the page. If that does not help, the server and this page are of different versions.'),
    el('button', { type: 'button', onclick: refresh }, 'Try again now'),
  );
  show(box, true);
}

function showFreshness() {
  const box = byID('freshness');
  if (!state.fleet) {
    set(box, 'data-state', state.failures ? 'old' : 'wait');
    write(byID('freshness-text'), state.failures ? 'No data' : 'Loading');
    return;
  }
  const since = Date.now() - state.received;
  const taken = state.received - Date.parse(state.fleet.at); // how old the data was when it came
  let text = 'Updated ' + secondOf(state.received);
  let mood = 'fresh';
  if (state.failures === 0 && (state.fleet.source ?? '').startsWith('snapshot')) {
    text = 'Taken ' + moment(state.fleet.at);
    mood = 'still';
  } else if (taken > old) {
    text = `Data of ${moment(state.fleet.at)}, ${age(taken + since)} old`;
    mood = 'old';
  } else if (state.failures || since > old) {
    text = `Data is ${age(since)} old`;
    mood = 'old';
  }
  if (state.paused) text += ', paused';
  set(box, 'data-state', state.paused && mood === 'fresh' ? 'paused' : mood);
  write(byID('freshness-text'), text);
}

// wipe removes all data from the page: whoever sits down here next has no token.
function wipe() {
  clearFleet();
  clearCosts();
  clearSavings();
  for (const id of ['totals', 'map', 'timeline', 'pending', 'chart', 'chart-readout', 'without-choices', 'whatif-result', 'fleet-notes', 'card']) clear(byID(id));
  write(byID('source'), 'console');
}

function askForToken(why) {
  wipe();
  clearTimeout(state.timer);
  Object.assign(state, { fleet: null, plan: null, planned: 0, reported: 0 });
  byID('drawer').close();
  show(byID('failure'), false);
  show(byID('main'), false);
  show(byID('forget'), false);
  show(byID('token-view'), true);
  write(byID('token-why'), why.trim());
  set(byID('freshness'), 'data-state', 'wait');
  write(byID('freshness-text'), 'No token');
  byID('token-input').focus();
}

function startTheme() {
  const root = document.documentElement;
  const button = byID('theme');
  const label = () => write(button, 'Theme: ' + root.dataset.theme);
  label();
  button.addEventListener('click', () => {
    const order = ['auto', 'light', 'dark'];
    root.dataset.theme = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    try {
      localStorage.setItem('dovetail-theme', root.dataset.theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    label();
  });
}
