// Numbers and times as people read them. Everything here is text from values; nothing looks at the page.

const NONE = '–';

/** A length of time: `850 ms`, `1.25 s`, `14 s`, `2 m 05 s`, `1 h 10 m`, `3 d 4 h`. */
function length(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1) return ms === 0 ? '0 ms' : '<1 ms';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9995) return `${(ms / 1000).toFixed(2)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const two = (n) => String(n).padStart(2, '0');
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** A time left, in steps that do not flicker: whole seconds, rounded up. */
function left(ms) {
  return length(Math.max(0, Math.ceil(ms / 1000)) * 1000).replace('0 ms', '0 s').replace(/\.00 s$/, ' s');
}

/** How long ago, in whole units. */
function ago(ms) {
  return ms < 1500 ? 'just now' : `${left(ms)} ago`;
}

function micros(us) {
  if (us === null || us === undefined) return NONE;
  return us < 1000 ? `${us} µs` : length(us / 1000);
}

function share(x) {
  if (x === null || x === undefined) return NONE;
  const percent = x * 100;
  return `${percent > 99 && percent < 100 ? percent.toFixed(1) : Math.round(percent)} %`;
}

function count(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

/** The time of day here, to the second. */
function clock(at) {
  const two = (n) => String(n).padStart(2, '0');
  const time = new Date(at);
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

function when(text) {
  const at = text ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? null : at;
}

/** A large number with thin gaps. */
function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** Control characters and those that turn the direction of text, made visible. */
function plain(text) {
  return String(text ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, '\ufffd');
}

/** So much of a text that it stays on a line or two. */
function short(text) {
  return text.length > 140 ? `${text.slice(0, 139)}…` : text;
}

const OUTCOMES = {
  success: 'ok',
  fallback_success: 'saved',
  interrupted: 'bad',
  exhausted: 'bad',
  budget_exhausted: 'bad',
  refused: 'bad',
  rejected_upstream: 'warn',
  invalid_request: 'warn',
  denied: 'warn',
  client_cancelled: 'idle',
};

/** What an outcome means to an operator: `ok`, `saved` by a fallback, `bad`, `warn` (the caller's doing), `idle`. */
function weight(outcome) {
  return OUTCOMES[outcome] ?? 'warn';
}
