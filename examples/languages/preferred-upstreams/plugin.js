// Which upstreams a call prefers, by a table in the settings.
//
// Rules are tried in order, and the first that matches decides. Targets it names come first, in its order; all others
// follow in the order of the route, or are excluded when the rule says `only`. A call that no rule matches keeps the
// order of the route.

const settings = { rules: [] };
let targets = [];

/** What a rule may ask of a call: its name in `when`, what is written there, and whether a call is so. */
const CONDITIONS = {
    model: { is: "a text", of: text, holds: (wanted, request) => request.model === wanted },
    task: { is: "a text", of: text, holds: (wanted, request) => request.task === wanted },
    caller: { is: "a text", of: text, holds: (wanted, request) => request.caller === wanted },
    streaming: { is: "true or false", of: flag, holds: (wanted, request) => request.streaming === wanted },
    tools: { is: "true or false", of: flag, holds: (wanted, request) => request.tools === wanted },
    images: { is: "true or false", of: flag, holds: (wanted, request) => request.images === wanted },
    json_output: { is: "true or false", of: flag, holds: (wanted, request) => request.jsonOutput === wanted },
    min_input_tokens: { is: "a number", of: count, holds: (wanted, request) => request.inputTokens >= wanted },
    headers: {
        is: "an object of names in lower case and values",
        of: (value) => object(value) && Object.entries(value).every(([k, v]) => k === k.toLowerCase() && text(v)),
        holds: (wanted, request) =>
            Object.entries(wanted).every(([name, value]) => request.headers.some(([n, v]) => n === name && v === value)),
    },
};

function text(value) {
    return typeof value === "string" && value !== "";
}

function flag(value) {
    return typeof value === "boolean";
}

function count(value) {
    return Number.isInteger(value) && value >= 0;
}

function object(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The operator reads this: which setting, what was expected, what came. */
function refuse(setting, expected, found) {
    throw `settings.${setting}: expected ${expected}, got ${JSON.stringify(found) ?? "nothing"}`;
}

function only(setting, value, known) {
    if (!object(value)) refuse(setting, "an object", value);
    for (const key of Object.keys(value)) {
        if (!known.includes(key)) refuse(setting, `no more than ${known.join(", ")}`, key);
    }
}

/** A name stands for one target (`upstream/model`) or for all of an upstream. */
function named(name) {
    return (target) => target.upstream === name || `${target.upstream}/${target.model}` === name;
}

function condition(where, [name, wanted]) {
    const known = CONDITIONS[name];
    if (!known.of(wanted)) refuse(`${where}.when.${name}`, known.is, wanted);
    return (request) => known.holds(wanted, request);
}

function rule(given, at) {
    const where = `rules[${at}]`;
    only(where, given, ["when", "prefer", "only"]);
    const { when = {}, prefer, only: exclusive = false } = given;
    only(`${where}.when`, when, Object.keys(CONDITIONS));
    if (!Array.isArray(prefer) || prefer.length === 0) refuse(`${where}.prefer`, "a list of targets, best first", prefer);
    if (!flag(exclusive)) refuse(`${where}.only`, "true or false", exclusive);
    const places = new Map();
    for (const [place, name] of prefer.entries()) {
        const found = targets.filter(named(name));
        if (found.length === 0) refuse(`${where}.prefer`, "upstreams or targets of a route", name);
        for (const target of found) {
            if (!places.has(target.index)) places.set(target.index, 1 - place / prefer.length);
        }
    }
    const conditions = Object.entries(when).map((entry) => condition(where, entry));
    return {
        reason: `rule ${at}`,
        matches: (request) => conditions.every((holds) => holds(request)),
        score: (target) => places.get(target) ?? (exclusive ? undefined : 0),
    };
}

export const plugin = {
    describe() {
        return { name: "preferred-upstreams", version: "0.1.0", tagsHead: false, tagsRecord: false };
    },

    configure(json, facts) {
        const given = JSON.parse(json);
        only("rules", given, ["rules"]);
        const { rules = [] } = given;
        if (!Array.isArray(rules)) refuse("rules", "a list", rules);
        targets = facts;
        settings.rules = rules.map(rule);
    },
};

export const router = {
    score(request, candidates) {
        const first = settings.rules.find(({ matches }) => matches(request));
        if (first === undefined) return candidates.map(() => ({ score: 1, reason: undefined }));
        return candidates.map(({ target }) => ({ score: first.score(target), reason: first.reason }));
    },
};
