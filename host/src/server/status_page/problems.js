// What is wrong, from the facts of one look: a list of {level, key, subject, what, since, until, next}, the worst
// first. `since` is a moment of the gateway's clock, `until` what is left in milliseconds. Pure.

const RANK = { bad: 0, warn: 1, note: 2 };
/** As many targets of one upstream with one trouble are one problem. */
const TOGETHER = 4;
const LAST_MINUTE = 60_000;

const NOT_READY = {
  no_target: 'no target of any route can take a call',
  draining: 'it is going away: calls that run are finished, no new ones should come',
  starting: 'it has not begun to serve',
  plugin: 'a plugin without which calls are denied does not run',
};

/** How a target stands: {state, level, words, until, next}. */
function standing(target, blocked) {
  const breaker = target.breaker;
  if (breaker.state === 'open') {
    const due = breaker.until_ms === null || breaker.until_ms <= 0;
    return { state: 'open', level: 'warn', words: 'open', until: due ? null : breaker.until_ms,
      next: due ? 'the next call is its probe' : 'probe in' };
  }
  if (breaker.state === 'half_open') {
    return { state: 'half_open', level: 'warn', words: 'half-open', until: null, next: 'one probe decides' };
  }
  if (target.cooldown_ms > 0) {
    return { state: 'cooling', level: 'warn', words: 'cooling', until: target.cooldown_ms, next: 'tried again in' };
  }
  if (!target.able) {
    const why = blocked.get(target.target);
    const credential = why?.why === 'no_credential';
    return { state: credential ? 'no_credential' : 'cooling', level: 'warn',
      words: credential ? 'no credential' : 'credentials rest', until: why?.until_ms ?? null, next: 'tried again in' };
  }
  return { state: 'able', level: 'ok', words: 'able', until: null, next: '' };
}

function aboutTarget(target, stands) {
  const breaker = target.breaker;
  const failures = breaker.failures > 0 ? `, ${count(breaker.failures, 'failure')} in a row` : '';
  const what = {
    open: `breaker open${failures}`,
    half_open: 'breaker half-open',
    cooling: target.cooldown_kind ? `cooling after ${target.cooldown_kind}` : 'all its credentials rest',
    no_credential: 'every credential was refused (401 or 403)',
  }[stands.state];
  const since = stands.state === 'open' || stands.state === 'half_open' ? when(breaker.opened_at) : null;
  return { level: 'warn', key: `target ${target.target}`, subject: target.target, what, since, until: stands.until, next: stands.next,
    group: `${stands.state} ${target.upstream}`, upstream: target.upstream, words: stands.words };
}

/** Many targets of one upstream with the same trouble are told as one. */
function together(problems) {
  const groups = new Map();
  for (const problem of problems) {
    groups.set(problem.group, [...(groups.get(problem.group) ?? []), problem]);
  }
  return [...groups.values()].flatMap((group) => {
    if (group.length < TOGETHER) return group;
    const soonest = group.reduce((a, b) => ((b.until ?? 0) < (a.until ?? 0) ? b : a));
    const since = group.map((problem) => problem.since).filter((at) => at !== null);
    return [{ ...soonest, key: `upstream ${soonest.group}`, subject: soonest.upstream,
      what: `${group.length} targets ${soonest.words}`, since: since.length ? Math.min(...since) : null,
      next: soonest.until === null ? soonest.next : `the first: ${soonest.next}` }];
  });
}

function aboutRoutes(readiness) {
  return Object.entries(readiness.routes).filter(([, able]) => able === 0).map(([route]) => ({
    level: 'bad', key: `route ${route}`, subject: `route ${route}`, what: 'cannot serve: none of its targets is able',
    since: null, until: null, next: 'calls get an error at once',
  }));
}

function aboutGates(gates) {
  return gates.filter((gate) => gate.queue > 0 && gate.in_flight >= gate.limit).map((gate) => ({
    level: 'warn', key: `gate ${gate.gate}`, subject: `gate ${gate.gate}`,
    what: `full: ${gate.in_flight} of ${gate.limit} in flight, ${gate.queue} waiting`,
    since: null, until: null, next: 'calls wait their turn, then are refused',
  }));
}

function aboutPlugins(plugins) {
  const said = {
    rejected: ['nothing of it runs', (plugin) => (plugin.on_error === 'deny' ? 'calls that need it are denied' : 'the others answer in its place')],
    last_good: ['its new file was refused', () => 'the last good version keeps serving'],
    set_aside: ['set aside after failures in a row', () => 'the bundled policy answers; it is tried again'],
  };
  return plugins.filter((plugin) => plugin.state in said).map((plugin) => {
    const [what, next] = said[plugin.state];
    const refused = plugin.rejection && plugin.state !== 'set_aside';
    return { level: plugin.state === 'rejected' && plugin.on_error === 'deny' ? 'bad' : 'warn', key: `plugin ${plugin.name}`,
      subject: `plugin ${plugin.name}`, what: refused ? `${what} (${plugin.rejection.reason}): ${short(plugin.rejection.message)}` : what,
      since: refused ? when(plugin.rejection.at) : null, until: null, next: next(plugin) };
  });
}

function aboutConfig(config) {
  if (!config) return [];
  const found = [];
  const refused = config.last_rejection;
  if (refused?.standing) {
    const first = refused.mistakes[0];
    const more = refused.mistakes.length > 1 ? ` (and ${refused.mistakes.length - 1} more)` : '';
    const what = first ? `line ${first.line}: ${first.key}: ${first.text}${more}` : refused.message;
    found.push({ level: 'warn', key: 'config', subject: 'configuration file', what: `refused: ${what}`,
      since: when(refused.at), until: null, next: 'the last good one keeps serving' });
  }
  if (config.needs_restart.length) {
    found.push({ level: 'note', key: 'restart', subject: 'configuration file', what: `changed: ${config.needs_restart.join(', ')}`,
      since: null, until: null, next: 'in force after a restart' });
  }
  return found;
}

function aboutRecords(records) {
  if (!records?.away_since) return [];
  return [{ level: 'warn', key: 'records', subject: 'store of records', what: 'its database takes nothing',
    since: when(records.away_since), until: null, next: `${count(records.spooled, 'record')} in the spool; the log says why` }];
}

/** Requests of the last minute, counted by what they mean. */
function lastMinute(requests, now) {
  const recent = requests.filter((request) => now - request.ended < LAST_MINUTE);
  const counts = { ok: 0, saved: 0, bad: 0, warn: 0, idle: 0 };
  for (const request of recent) counts[weight(request.outcome)] += 1;
  return { recent, counts };
}

function aboutRequests(requests, now) {
  const { recent, counts } = lastMinute(requests, now);
  if (counts.bad < 3 || counts.bad < recent.length * 0.05) return [];
  const kinds = new Map();
  for (const request of recent.filter((one) => weight(one.outcome) === 'bad')) {
    const kind = request.failure_kind ?? request.outcome;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  const [most] = [...kinds].sort((a, b) => b[1] - a[1]);
  return [{ level: 'bad', key: 'requests', word: 'errors', subject: 'requests', since: null, until: null, next: 'see the last requests below',
    what: `${counts.bad} of ${recent.length} in the last minute failed, most with ${most[0]}` }];
}

function findProblems({ upstreams, plugins, config, requests }) {
  const now = when(upstreams.now);
  const { readiness } = upstreams;
  const blocked = new Map(readiness.blocked.map((entry) => [entry.target, entry]));
  const targets = upstreams.targets.map((target) => [target, standing(target, blocked)]);
  const found = [
    ...aboutRoutes(readiness),
    ...aboutRequests(requests, now),
    ...together(targets.filter(([, stands]) => stands.level !== 'ok').map(([target, stands]) => aboutTarget(target, stands))),
    ...aboutGates(upstreams.gates),
    ...aboutPlugins(plugins.plugins),
    ...aboutConfig(config),
    ...aboutRecords(upstreams.records),
  ];
  if (readiness.reason === 'draining' || readiness.reason === 'starting' || readiness.reason === 'plugin') {
    found.unshift({ level: 'bad', key: 'ready', subject: 'gateway', what: `not ready: ${NOT_READY[readiness.reason]}`, since: null, until: null, next: '' });
  }
  return found.sort((a, b) => RANK[a.level] - RANK[b.level]);
}

/** The one sentence above all. */
function headline(readiness, problems) {
  if (!readiness.ready) return { level: 'bad', text: `Not ready: ${NOT_READY[readiness.reason] ?? readiness.reason}` };
  const bad = problems.filter((problem) => problem.level === 'bad').length;
  const warn = problems.filter((problem) => problem.level === 'warn').length;
  if (bad) return { level: 'bad', text: `Callers get errors: ${count(bad + warn, 'problem')}` };
  if (warn) return { level: 'warn', text: `Serving, with ${count(warn, 'problem')}` };
  return { level: 'ok', text: 'Nothing is wrong' };
}
