// Looks at the gateway about once a second while somebody looks at the page, and says how old what is shown is.

const EVERY = 1000;
const PATIENCE = 4000;
/** Older than this is no longer "now". */
const STALE = 3500;
const CONFIG_EVERY = 5;

/** When the shown facts were read, by this page's own clock. */
let looked = 0;
let facts = null;
let requests = [];
let cursor = '';
let looks = 0;
let trouble = '';
let timer = 0;
let looking = false;

async function read(path) {
  const answer = await fetch(path, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

/** What came since the last look, before what was there. */
function addRequests(page) {
  const old = cursor && page.next.split('-')[0] === cursor.split('-')[0] ? requests : [];
  const first = Number(page.next.split('-')[1]);
  const fresh = page.decisions.map((request, at) => ({ ...request, key: `${page.next.split('-')[0]}-${first - at}`,
    ended: Date.parse(request.time) + request.duration_ms }));
  requests = [...fresh, ...old].slice(0, KEPT);
  cursor = page.next;
}

async function look() {
  const started = performance.now();
  const withConfig = looks % CONFIG_EVERY === 0;
  const [upstreams, plugins, decisions, config] = await Promise.all([
    read('/debug/upstreams'),
    read('/debug/plugins'),
    read(`/debug/decisions?limit=${KEPT}&after=${encodeURIComponent(cursor)}`),
    withConfig ? read('/debug/config') : facts.config,
  ]);
  looks += 1;
  const restarted = cursor && decisions.next.split('-')[0] !== cursor.split('-')[0];
  addRequests(decisions);
  const whole = Number(cursor.split('-')[1]) <= requests.length;
  // Times left are those of the gateway's moment, which lies between asking and hearing.
  looked = (started + performance.now()) / 2;
  facts = { upstreams, plugins, requests, config, whole };
  if (restarted) looks = 0;
}

function draw() {
  if (!facts) return;
  say(byId('version'), facts.upstreams.version);
  drawVerdict(facts, findProblems(facts));
  drawTiles(facts);
  drawTargets(facts);
  drawRequests(facts.requests);
  drawRoutes(facts);
  drawGates(facts);
  drawPlugins(facts);
  drawConfig(facts);
}

/** How fresh it is. A gateway that does not answer is the first thing to say. */
function drawLive() {
  const age = performance.now() - looked;
  const stale = facts !== null && age > STALE;
  const lost = stale || (facts === null && trouble !== '');
  const state = lost ? 'lost' : facts ? 'fresh' : 'waiting';
  mark(document.body, state);
  if (lost) {
    const since = facts ? `no answer for ${left(age)}` : 'no answer';
    say(byId('live-text'), since);
    mark(byId('verdict'), 'verdict bad');
    say(byId('verdict-mark'), SIGNS.bad);
    say(byId('verdict-head'), 'The gateway does not answer');
    say(byId('verdict-more'), facts ? `What is shown below is as of ${clock(Date.now() - age)}. ${trouble}` : trouble);
    document.title = `${SIGNS.bad} no answer – Sluice`;
    drawIcon('bad');
  } else if (facts) {
    say(byId('live-text'), 'live');
    tickAll();
  }
}

async function round() {
  clearTimeout(timer);
  if (looking || document.hidden) return;
  looking = true;
  try {
    await look();
    trouble = '';
    draw();
  } catch (error) {
    trouble = error.name === 'TimeoutError' ? `It was given ${length(PATIENCE)}.` : `${error.message}.`;
    looks = 0;
  } finally {
    looking = false;
    drawLive();
    timer = setTimeout(round, EVERY);
  }
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) round();
});
setInterval(() => {
  if (!document.hidden) drawLive();
}, 250);
round();
