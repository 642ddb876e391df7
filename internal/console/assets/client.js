// Reaches the endpoints of internal/inspect/api with the token of this tab.

const base = new URL('../inspect/', document.baseURI);
const key = 'dovetail-token';
let token = '';

// Failure is a request that failed, with what to do next.
export class Failure extends Error {
  constructor(message, next, status) {
    super(message);
    this.next = next;
    this.status = status;
  }
}

// takeToken reads the token of the address (#token=...), or of this tab. It removes it from the address at once, so that it
// is neither bookmarked nor shared. The part after # is never sent to a server.
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  if (fragment.has('token')) {
    keepToken(fragment.get('token'));
    history.replaceState(null, '', location.pathname + location.search);
    return true;
  }
  try {
    token ||= sessionStorage.getItem(key) ?? '';
  } catch {
    // Without storage the token lasts as long as the page.
  }
  return false;
}

// keepToken keeps the token for this tab; an empty one is removed.
export function keepToken(text) {
  token = (text ?? '').trim();
  try {
    if (token) sessionStorage.setItem(key, token);
    else sessionStorage.removeItem(key);
  } catch {
    // As above.
  }
}

export const hasToken = () => token !== '';

export const fleet = async () => {
  const f = await request('fleet');
  return { ...f, pools: f.pools ?? [], nodes: f.nodes ?? [], pending: f.pending ?? [] };
};
export const past = (query) => request('history?' + new URLSearchParams(query));
export const savings = (query) => request('savings?' + new URLSearchParams(query));
export const explain = (subject) => request('explain?' + new URLSearchParams({ ...subject, document: 'true' }));
export const plan = (whatIf) => request('plan?document=true', { method: 'POST', body: JSON.stringify(whatIf), headers: { 'Content-Type': 'application/json' } }, 4);

// An object that is not found comes as JSON, with names that were perhaps meant; all else as text.
function explained(text) {
  try {
    const { subject, similar } = JSON.parse(text);
    const name = [subject.kind, subject.namespace, subject.name].filter(Boolean).join('/');
    return `${name} was not found.` + (similar?.length ? ` Did you mean ${similar.join(' or ')}?` : '');
  } catch {
    return text;
  }
}

async function request(path, options = {}, tries = 0) {
  const timeout = AbortSignal.timeout(60_000);
  let response;
  try {
    response = await fetch(new URL(path, base), {
      ...options,
      headers: { Accept: 'application/json', ...(token && { Authorization: 'Bearer ' + token }), ...options.headers },
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
      signal: timeout,
    });
  } catch (error) {
    if (timeout.aborted) throw new Failure('The server did not respond within a minute.', 'Look at the log of the controller.', 0);
    throw new Failure('The server cannot be reached.', 'Check that kubectl port-forward, or dovetail console, still runs.', 0);
  }
  if (response.ok) return response.json();
  if (response.status === 429 && tries > 0) {
    await new Promise((resume) => setTimeout(resume, 1000 * Math.min(10, Number(response.headers.get('Retry-After')) || 1)));
    return request(path, options, tries - 1);
  }
  const text = explained((await response.text()).trim());
  throw new Failure(text || 'The server responded with status ' + response.status + '.', nextStep(response.status), response.status);
}

function nextStep(status) {
  switch (status) {
    case 401:
      return 'Create a token and paste it.';
    case 403:
      return 'Grant the owner of the token the right, or paste the token of another one.';
    case 404:
      return 'The object may be gone by now. If the whole page shows nothing, set --serve-decisions=true for the controller: the page shows what it serves.';
    case 501:
      return '';
    case 429:
    case 503:
      return 'The page tries again by itself.';
    default:
      return status >= 500 ? 'The page tries again by itself. If that does not help, look at the log of the controller.' : '';
  }
}
