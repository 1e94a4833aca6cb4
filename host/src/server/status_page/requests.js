// The last requests, each with its attempts on a line of time. A request that has ended never changes, so that its
// row is made once.

const KEPT = 500;
/** Rows that are shown at first; a phone has less room. */
const FIRST = matchMedia('(max-width: 760px)').matches ? 15 : 40;

const FILTERS = [
  ['all', 'All', () => true],
  ['left', 'Not as planned', (request) => !['ok', 'idle'].includes(weight(request.outcome)) || request.attempts.length > 1],
  ['failed', 'Failed', (request) => weight(request.outcome) === 'bad'],
];
let filter = 'all';

const COLUMNS = [['time'], ['route', 'Route'], ['outcome'], ['attempts'], ['commit', 'to commit', 'number'], ['total', 'total', 'number']];

/** Parts of the line of time, in milliseconds from arrival: [class, from, to, attempt]. */
function timeline(request) {
  const parts = [];
  let at = 0;
  for (const attempt of request.attempts) {
    const from = attempt.start_ms ?? at;
    if (from > at) parts.push(['wait', at, from, null]);
    const to = from + attempt.ms;
    const committed = attempt.n === request.attempts.length && request.latency_ms !== null && request.served_model !== null;
    parts.push([attempt.kind && !committed ? 'failed' : 'served', from, to, attempt]);
    at = to;
    if (committed && request.duration_ms > to) {
      parts.push([attempt.kind ? 'broken' : 'flow', to, request.duration_ms, attempt]);
      at = request.duration_ms;
    }
  }
  if (request.duration_ms > at) parts.push(['wait', at, request.duration_ms, null]);
  return parts;
}

/** An attempt in words. */
function attemptWords(attempt, request) {
  const status = attempt.status && attempt.kind ? ` (${attempt.status})` : '';
  const end = attempt.kind ?? (request.served_model === null || request.outcome === 'client_cancelled' ? 'client left' : 'served');
  return `${attempt.target} ${end}${status} ${length(attempt.ms)}`;
}

function drawTimeline(request) {
  const bar = el('div', 'bar');
  bar.setAttribute('role', 'img');
  const words = request.attempts.map((attempt) => attemptWords(attempt, request));
  if (leftOut(request)) words.unshift(LEFT_OUT);
  bar.setAttribute('aria-label', plain(words.join(', then ') || 'no attempt'));
  const whole = Math.max(request.duration_ms, 1);
  for (const [kind, from, to, attempt] of timeline(request)) {
    const part = el('span', `part ${kind}`);
    part.style.setProperty('--from', `${(from / whole) * 100}%`);
    part.style.setProperty('--size', `${(Math.max(to - from, 0) / whole) * 100}%`);
    hint(part, attempt ? attemptWords(attempt, request) : `waiting ${length(to - from)}`);
    bar.append(part);
  }
  return bar;
}

const LEFT_OUT = 'first choice left out';

/** The first choice could not be asked at all. */
function leftOut(request) {
  return request.is_fallback && request.attempts.every((attempt) => attempt.role === 'fallback');
}

/** The steps under the bar: who was tried, why it was left, who served. */
function drawSteps(request) {
  const steps = el('p', 'steps');
  const skipped = leftOut(request);
  if (skipped || request.attempts.length === 0) {
    const why = request.failure_kind ?? (skipped ? 'unable' : request.outcome);
    const left = el('span', 'step failed');
    left.append(el('span', 'sign', skipped ? '↷' : '✕'), el('code', '', why));
    hint(left, skipped ? LEFT_OUT : 'no attempt');
    steps.append(left);
    if (request.attempts.length) steps.append(el('span', 'arrow', '→'));
  }
  request.attempts.forEach((attempt, at) => {
    if (at > 0) steps.append(el('span', 'arrow', '→'));
    const step = el('span', attempt.kind ? 'step failed' : 'step served');
    step.append(el('span', 'sign', attempt.kind ? '✕' : '✓'), el('b', '', attempt.target));
    if (attempt.kind) step.append(el('code', '', attempt.kind));
    step.append(el('span', 'took', length(attempt.ms)));
    steps.append(step);
  });
  return steps;
}

function pairs(list, entries) {
  for (const [name, value] of entries) {
    if (value === null || value === undefined || value === '') continue;
    const pair = el('div');
    pair.append(el('dt', '', name), el('dd', '', value));
    list.append(pair);
  }
}

/** Everything that was decided about a request. */
function drawDetails(request) {
  const list = el('dl', 'details');
  const tokens = request.tokens && `${request.tokens.input} in, ${request.tokens.output} out (${request.tokens.source})`;
  pairs(list, [
    ['request id', request.request_id],
    ['arrived', request.time],
    ['caller', request.caller],
    ['endpoint', request.endpoint],
    ['answer', `${request.status_code}, ${request.stream ? 'stream' : 'plain'}`],
    ['first failure', request.failure_kind],
    ['budget', `${length(request.budget_ms)}, ${length(request.budget_left_ms)} left`],
    ['first content', request.ttft_ms === null ? null : length(request.ttft_ms)],
    ['tokens', tokens],
    ['generation', request.generation],
    ['plugins', request.plugins.map((plugin) => `${plugin.kind} ${plugin.name}@${plugin.digest.slice(0, 8)}`).join(', ')],
  ]);
  for (const attempt of request.attempts) {
    const verdict = request.verdicts.find((one) => one.n === attempt.n);
    const judged = verdict && `; ${verdict.plugin ?? 'the host'} would ${verdict.action}, breaker ${verdict.breaker}`;
    pairs(list, [[`attempt ${attempt.n}`, `${attempt.role} ${attemptWords(attempt, request)}${judged ?? ''}`]]);
  }
  for (const choice of request.decision ?? []) {
    const score = choice.score === null ? 'excluded' : choice.score.toFixed(3);
    pairs(list, [[`score ${choice.target}`, `${score}${choice.reason ? `: ${choice.reason}` : ''}`]]);
  }
  pairs(list, Object.entries(request.tags));
  return list;
}

function makeRequest(request) {
  const row = tableRow(`request ${weight(request.outcome)}`, COLUMNS);
  const { time, route, outcome, attempts, commit, total } = row.cells_;
  const open = el('button', 'open', clock(request.ended));
  open.type = 'button';
  open.setAttribute('aria-expanded', 'false');
  hint(open, `arrived ${request.time}`);
  time.append(open);
  route.append(el('span', 'name', request.model ?? NONE));
  const chip = el('span', `chip ${weight(request.outcome)}`, request.outcome);
  outcome.append(el('span', 'status', request.status_code), ' ', chip);
  const plainly = request.attempts.length === 1 && !request.attempts[0].kind && !leftOut(request);
  const course = el('div', plainly ? 'course' : 'course eventful');
  course.append(drawTimeline(request), drawSteps(request));
  attempts.append(course);
  say(commit, request.latency_ms === null ? NONE : length(request.latency_ms));
  say(total, length(request.duration_ms));
  open.addEventListener('click', () => {
    const shown = row.classList.toggle('opened');
    open.setAttribute('aria-expanded', String(shown));
    if (shown) attempts.append(drawDetails(request));
    else attempts.querySelector('.details')?.remove();
  });
  return row;
}

function makeFilters() {
  keep(byId('filters'), FILTERS, ([name]) => name, ([name, label]) => {
    const button = el('button', '', label);
    button.type = 'button';
    button.addEventListener('click', () => {
      filter = name;
      draw();
    });
    return button;
  }, (button, [name]) => button.setAttribute('aria-pressed', String(name === filter)));
}

function drawRequests(requests) {
  makeFilters();
  const [, , fits] = FILTERS.find(([name]) => name === filter);
  const fitting = requests.filter(fits);
  const shown = folded(byId('requests-more'), fitting, FIRST, 'requests');
  keep(byId('requests'), shown, (request) => request.key, makeRequest);
  const none = byId('requests-none');
  none.hidden = fitting.length > 0;
  say(none, requests.length ? 'None of the last requests is of that sort.' : 'No request yet.');
}
