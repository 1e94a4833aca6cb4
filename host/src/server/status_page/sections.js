// The other parts of the page, each drawn from the facts of the last look.

const SIGNS = { ok: '✓', warn: '▲', bad: '✕', note: '•' };
const WORDS = { bad: 'down', warn: 'trouble', note: 'note' };
const TARGETS_FIRST = 16;
const SIDE_FIRST = 10;

function drawVerdict(facts, problems) {
  const { readiness, targets } = facts.upstreams;
  const { level, text } = headline(readiness, problems);
  mark(byId('verdict'), `verdict ${level}`);
  say(byId('verdict-mark'), SIGNS[level]);
  say(byId('verdict-head'), text);
  const able = targets.filter((target) => target.able).length;
  const routes = Object.values(readiness.routes);
  const serving = routes.filter((n) => n > 0).length;
  say(byId('verdict-more'), `${able} of ${count(targets.length, 'target')} able, ${serving} of ${count(routes.length, 'route')} can serve`);
  const shown = folded(byId('problems-more'), problems, 8, 'problems');
  keep(byId('problems'), shown, (problem) => problem.key, makeProblem, (node, problem) => updateProblem(node, problem, facts));
  document.title = level === 'ok' ? 'Sluice' : `${SIGNS[level]} ${text} – Sluice`;
  drawIcon(level);
}

function makeProblem() {
  const node = el('li');
  node.parts = { sign: el('span', 'sign'), subject: el('b', 'subject'), what: el('span', 'what'), since: el('span', 'since'), next: el('span', 'next') };
  const said = el('span', 'said');
  said.append(node.parts.subject, ' ', node.parts.what);
  node.append(node.parts.sign, said, node.parts.since, node.parts.next);
  return node;
}

function updateProblem(node, problem, facts) {
  const { sign, subject, what, since, next } = node.parts;
  mark(node, `problem ${problem.level}`);
  say(sign, `${SIGNS[problem.level]} ${problem.word ?? WORDS[problem.level]}`);
  say(subject, problem.subject);
  say(what, problem.what);
  say(since, problem.since === null ? '' : `since ${clock(problem.since)} · ${left(when(facts.upstreams.now) - problem.since)}`);
  countdown(next, problem.next, problem.until);
}

function drawIcon(level) {
  const colour = { ok: '%231a7f4b', warn: '%23b06f00', bad: '%23c0262d' }[level];
  const shape = level === 'ok' ? `%3Ccircle cx='8' cy='8' r='7' fill='${colour}'/%3E` : `%3Cpath d='M8 1 15 15H1Z' fill='${colour}'/%3E`;
  const href = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E${shape}%3C/svg%3E`;
  if (byId('icon').getAttribute('href') !== href) byId('icon').setAttribute('href', href);
}

/** The value below which this share of the sorted numbers lies. */
function quantile(numbers, q) {
  if (!numbers.length) return null;
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

function drawTiles(facts) {
  const now = when(facts.upstreams.now);
  const { recent, counts } = lastMinute(facts.requests, now);
  const counted = recent.length - counts.idle;
  const global = facts.upstreams.gates.find((gate) => gate.gate === 'global');
  const commits = recent.map((request) => request.latency_ms).filter((ms) => ms !== null);
  // The gateway keeps so many; when they do not reach back a minute, they are of a shorter time.
  const span = facts.whole ? 60 : Math.max(1, Math.min(60, (now - Math.min(...facts.requests.map((r) => r.ended))) / 1000));
  const rate = recent.length / span;
  const tiles = [
    ['in flight', global ? `${grouped(global.in_flight)}` : NONE, global ? `of ${grouped(global.limit)}` : '', ''],
    ['waiting', grouped(facts.upstreams.gates.reduce((sum, gate) => sum + gate.queue, 0)), 'in queues', ''],
    ['requests', rate >= 10 ? grouped(Math.round(rate)) : rate.toFixed(1), 'per second', ''],
    ['answered', counted ? share((counts.ok + counts.saved + counts.warn) / counted) : NONE, 'in the last minute', counts.bad ? 'bad' : ''],
    ['by a fallback', counted ? share(counts.saved / counted) : NONE, count(counts.saved, 'request'), counts.saved ? 'saved' : ''],
    ['to commit', length(quantile(commits, 0.5)), `p95 ${length(quantile(commits, 0.95))}`, ''],
  ];
  keep(byId('tiles'), tiles, ([name]) => name, ([name]) => {
    const tile = el('div', 'tile');
    tile.parts = [el('dd', 'value'), el('dd', 'more')];
    tile.append(el('dt', '', name), ...tile.parts);
    return tile;
  }, (tile, [, value, more, level]) => {
    say(tile.parts[0], value);
    say(tile.parts[1], more);
    mark(tile, `tile ${level}`.trim());
  });
}

const TARGET_COLUMNS = [['name'], ['state'], ['flight', 'in flight', 'number'], ['success', 'success', 'number'], ['p50', 'p50', 'number'], ['p95', 'p95', 'number'], ['quota', 'quota', 'number']];

function drawTargets(facts) {
  const { targets, readiness } = facts.upstreams;
  const blocked = new Map(readiness.blocked.map((entry) => [entry.target, entry]));
  const rank = ({ stands, target }) => {
    if (stands.level !== 'ok') return ['open', 'half_open', 'no_credential', 'cooling'].indexOf(stands.state);
    return target.success_rate_1m !== null && target.success_rate_1m < 0.9 ? 4 : 5;
  };
  const rows = targets.map((target) => ({ target, stands: standing(target, blocked) }));
  rows.sort((a, b) => rank(a) - rank(b));
  const troubled = rows.filter((row) => rank(row) < 5).length;
  const shown = folded(byId('targets-more'), rows, Math.max(TARGETS_FIRST, Math.min(troubled, 64)), 'targets');
  byId('targets').parentElement.classList.toggle('unmetered', targets.every((target) => target.quota_left === null));
  const able = targets.filter((target) => target.able).length;
  say(byId('targets-sum'), able === targets.length ? `all ${able} able` : `${able} of ${targets.length} able`);
  keep(byId('targets'), shown, (row) => row.target.target, makeTarget, (node, row) => updateTarget(node, row, facts));
}

function makeTarget({ target }) {
  const row = tableRow('target', TARGET_COLUMNS);
  const { name, state } = row.cells_;
  row.parts = { routes: el('span', 'quiet small'), chip: el('span'), next: el('span', 'next'), since: el('span', 'quiet small'), gone: el('span', 'gone') };
  name.append(el('b', '', target.target), ' ', row.parts.routes);
  state.append(row.parts.chip, ' ', row.parts.next, ' ', row.parts.since, row.parts.gone);
  return row;
}

function updateTarget(row, { target, stands }, facts) {
  const { flight, success, p50, p95, quota } = row.cells_;
  const { routes, chip, next, since, gone } = row.parts;
  const { breaker } = target;
  mark(row, `target ${stands.level}`);
  say(routes, target.routes.join(', ') || 'no route');
  mark(chip, `chip ${stands.level} ${stands.state}`);
  say(chip, `${{ open: '✕', half_open: '◐' }[stands.state] ?? SIGNS[stands.level]} ${stands.words}`);
  countdown(next, stands.next, stands.until);
  const opened = when(breaker.opened_at);
  const now = when(facts.upstreams.now);
  const broken = stands.state === 'open' || stands.state === 'half_open';
  const again = breaker.opens > 1 ? `, opened ${breaker.opens} times` : '';
  let told = breaker.failures > 0 ? `${count(breaker.failures, 'failure')} in a row` : '';
  if (broken && opened !== null) told = `since ${clock(opened)}${breaker.failures ? `, ${count(breaker.failures, 'failure')}` : ''}${again}`;
  else if (stands.state === 'cooling' && target.cooldown_kind) told = target.cooldown_kind;
  say(since, told);
  gone.hidden = !(broken && stands.until !== null && opened !== null);
  if (!gone.hidden) gone.style.setProperty('--share', `${Math.min(100, ((now - opened) / (now - opened + stands.until)) * 100)}%`);
  say(flight, target.in_flight);
  say(success, share(target.success_rate_1m));
  mark(success, `success number ${target.success_rate_1m !== null && target.success_rate_1m < 0.9 ? 'low' : ''}`.trim());
  say(p50, length(target.latency_ms.p50));
  say(p95, length(target.latency_ms.p95));
  hint(p95, `first content p50 ${length(target.first_content_ms.p50)}, p95 ${length(target.first_content_ms.p95)}`);
  say(quota, share(target.quota_left));
}

function drawRoutes(facts) {
  const all = new Map();
  for (const target of facts.upstreams.targets) for (const route of target.routes) all.set(route, (all.get(route) ?? 0) + 1);
  const routes = Object.entries(facts.upstreams.readiness.routes).map(([name, able]) => ({ name, able, all: all.get(name) ?? able }));
  routes.sort((a, b) => Math.min(a.able / a.all, 1) - Math.min(b.able / b.all, 1));
  const shown = folded(byId('routes-more'), routes, SIDE_FIRST, 'routes');
  keep(byId('routes'), shown, (route) => route.name, (route) => {
    const node = el('li');
    node.able = el('span', 'number');
    node.append(el('b', '', route.name), node.able);
    return node;
  }, (node, { able, all: of }) => {
    const level = able === 0 ? 'bad' : able < of ? 'warn' : 'ok';
    mark(node, level);
    say(node.able, `${SIGNS[level]} ${able} of ${of}`);
  });
}

function drawGates(facts) {
  const gates = facts.upstreams.gates.map((gate) => ({ ...gate, use: gate.limit ? gate.in_flight / gate.limit : 0,
    upstream: facts.upstreams.upstreams.find((one) => `upstream:${one.upstream}` === gate.gate) }));
  const rank = (gate) => (gate.gate === 'global' ? 1e9 : 0) + gate.queue * 1e3 + gate.use;
  gates.sort((a, b) => rank(b) - rank(a));
  const shown = folded(byId('gates-more'), gates, SIDE_FIRST, 'gates');
  keep(byId('gates'), shown, (gate) => gate.gate, (gate) => {
    const node = el('li');
    node.parts = { number: el('span', 'number'), meter: el('span', 'meter'), queue: el('p', 'queue small'), keys: el('p', 'keys small') };
    node.append(el('b', '', gate.gate), ' ', node.parts.number, node.parts.meter, node.parts.queue, node.parts.keys);
    return node;
  }, (node, gate) => {
    const full = gate.in_flight >= gate.limit;
    mark(node, full ? (gate.queue ? 'bad' : 'warn') : 'ok');
    const most = gate.upstream ? ` of ${grouped(gate.upstream.gate.queue_limit)}` : '';
    say(node.parts.number, `${full ? 'full ' : ''}${grouped(gate.in_flight)} of ${grouped(gate.limit)}`);
    node.parts.queue.hidden = gate.queue === 0;
    say(node.parts.queue, `${grouped(gate.queue)}${most} waiting`);
    node.parts.meter.style.setProperty('--share', `${Math.min(1, gate.use) * 100}%`);
    drawCredentials(node.parts.keys, gate.upstream?.credentials ?? []);
  });
}

function drawCredentials(node, credentials) {
  const resting = credentials.filter((one) => one.state !== 'ok');
  node.hidden = resting.length === 0;
  const words = resting.slice(0, 4).map((one) => `credential ${one.index}: ${one.state}${one.until_ms === null ? '' : `, ${left(one.until_ms)} left`}`);
  say(node, `▲ ${credentials.length - resting.length} of ${credentials.length} credentials usable. ${words.join('; ')}`);
}

function drawPlugins(facts) {
  const levels = { active: 'ok', rejected: 'warn', last_good: 'warn', set_aside: 'warn', disabled: 'idle', removed: 'idle', replaced: 'idle' };
  const signs = { ok: '✓', warn: '▲', bad: '✕', idle: '•' };
  // Of a bundled one that no route asks there is nothing else to say while it is well.
  const told = facts.plugins.plugins.map((plugin) => ({ ...plugin, state: plugin.replaced && plugin.state === 'active' ? 'replaced' : plugin.state }));
  const plugins = told.map((plugin) => ({ ...plugin, level: plugin.state === 'rejected' && plugin.on_error === 'deny' ? 'bad' : levels[plugin.state] ?? 'warn' }));
  plugins.sort((a, b) => ['bad', 'warn', 'ok', 'idle'].indexOf(a.level) - ['bad', 'warn', 'ok', 'idle'].indexOf(b.level));
  say(byId('generation'), `generation ${facts.plugins.generation}`);
  keep(byId('plugins'), plugins, (plugin) => `${plugin.name} ${plugin.file}`, (plugin) => {
    const node = el('li');
    node.parts = { chip: el('span'), about: el('p', 'quiet small'), calls: el('p', 'quiet small'), refused: el('p', 'refused') };
    node.append(el('b', '', plugin.name), ' ', node.parts.chip, node.parts.about, node.parts.calls, node.parts.refused);
    return node;
  }, (node, plugin) => {
    const { chip, about, calls, refused } = node.parts;
    mark(chip, `chip ${plugin.level}`);
    say(chip, `${signs[plugin.level]} ${plugin.state.replace('_', ' ')}`);
    const since = when(plugin.since);
    say(about, [plugin.kinds.join(', '), plugin.file ?? 'bundled', plugin.version && `v${plugin.version}`, plugin.digest?.slice(0, 8),
      since !== null && `since ${clock(since)}`].filter(Boolean).join(' · '));
    const failures = Object.entries(plugin.failures).map(([kind, n]) => `${kind} ${grouped(n)}`);
    say(calls, plugin.calls ? [`${grouped(plugin.calls)} calls`, `p50 ${micros(plugin.p50_us)}`, `p99 ${micros(plugin.p99_us)}`,
      ...failures].join(' · ') : 'not called yet');
    calls.hidden = plugin.level === 'idle' || plugin.state === 'rejected';
    refused.hidden = !plugin.rejection;
    const rejection = plugin.rejection;
    if (rejection) say(refused, `Refused ${ago(when(facts.upstreams.now) - when(rejection.at))} (${rejection.reason}): ${rejection.message}`);
  });
}

function drawConfig(facts) {
  const { config } = facts;
  if (!config) return;
  const loaded = when(config.loaded_at);
  say(byId('config'), `${config.file ?? 'no file'}, generation ${config.generation}, in force for ${left(when(facts.upstreams.now) - loaded)}`);
}
