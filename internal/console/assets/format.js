// Puts values into words.

const hoursPerMonth = 730;
const small = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: 2 });
const tiny = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: 4 });
const whole = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 0 });
const plain = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const count = new Intl.NumberFormat('en-US');
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const exact = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' });
const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

export const number = (n) => count.format(n);
// hourly is a price per hour; without some of the prices, the sum is a lower limit.
export const hourly = (usd, unpriced = 0) => (unpriced ? '≥ ' : '') + (Math.abs(usd) < 1 ? tiny : small).format(usd) + '/h';
export const monthly = (usd) => whole.format(usd * hoursPerMonth) + '/month';
export const amount = (usd) => (Math.abs(usd) >= 1000 ? whole : small).format(usd);
export const percent = (share) => Math.round(share * 100) + ' %';
export const timeOf = (at) => clock.format(new Date(at));
export const secondOf = (at) => exact.format(new Date(at));
export const dayOf = (at) => day.format(new Date(at));
export const moment = (at) => full.format(new Date(at));

// plural is "1 node" or "2 nodes".
export const plural = (n, noun) => number(n) + ' ' + noun + (n === 1 ? '' : 's');

// age is a duration in its largest unit, as kubectl shows it.
export function age(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return seconds + ' s';
  if (seconds < 2 * 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 48 * 3600) return Math.floor(seconds / 3600) + ' h';
  return Math.floor(seconds / 86400) + ' d';
}

// quantity is an amount of a resource in the unit of inspect.Use: thousandths of a core, bytes, or pieces.
export function quantity(resource, value) {
  if (resource === 'cpu') return plain.format(value / 1000);
  if (resource !== 'memory' && resource !== 'ephemeral-storage') return count.format(value);
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < 5) {
    value /= 1024;
    unit++;
  }
  return plain.format(value) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit];
}

// shareOf is how much of a resource is requested, from 0 to 1.
export const shareOf = (use) => (use && use.allocatable > 0 ? use.requested / use.allocatable : 0);

// busiest is the share of CPU or memory, whichever is higher.
export const busiest = (use) => Math.max(shareOf(use?.cpu), shareOf(use?.memory));
