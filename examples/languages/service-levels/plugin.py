"""Says on each answer, and in its record, whether it kept the service level of its route.

A level is a set of limits, written down for a route or, as "*", for all that have none of their own. The head of the
answer tells what is known by then; the record, when the request has ended, what came of it, with every limit that was
missed and how fast the answer was written.
"""

import json
from typing import List, Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.plugin import Description
from wit_world.exports.tagger import AnswerFacts, Fact, Phase, Sink
from wit_world.imports.types import RequestFacts, TargetFacts

# Limits in milliseconds, and the fact each is held against.
LIMITS = {
    "latency_ms": lambda answer: answer.latency_ms,
    "first_content_ms": lambda answer: answer.first_content_ms,
    "duration_ms": lambda answer: answer.duration_ms,
}
EVERY_ROUTE = "*"
HEADER = "x-service-level"

levels: dict = {}
header: Optional[str] = HEADER


def refuse(setting: str, expected: str, found: object) -> Err:
    """What the operator reads: which setting, what was expected, what came."""
    return Err(f"settings.{setting}: expected {expected}, got {json.dumps(found)}")


def checked(given: object, routes: set) -> dict:
    """The levels of the settings, by route."""
    if not isinstance(given, dict):
        raise refuse("levels", "an object of routes", given)
    for route, level in given.items():
        if route != EVERY_ROUTE and route not in routes:
            raise refuse("levels", f"a route ({', '.join(sorted(routes))}) or {EVERY_ROUTE}", route)
        if not isinstance(level, dict):
            raise refuse(f"levels.{route}", "an object of limits", level)
        for name, limit in level.items():
            if name not in LIMITS:
                raise refuse(f"levels.{route}", f"no more than {', '.join(LIMITS)}", name)
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                raise refuse(f"levels.{route}.{name}", "whole milliseconds", limit)
    return given


class Plugin(exports.Plugin):
    def describe(self) -> Description:
        return Description("service-levels", "0.1.0", tags_head=True, tags_record=True)

    def configure(self, settings: str, targets: List[TargetFacts]) -> None:
        global levels, header
        given = json.loads(settings)
        for name in given:
            if name not in ("levels", "header"):
                raise refuse(name, "no more than levels and header", given[name])
        header = given.get("header", HEADER)
        if header is not None and not isinstance(header, str):
            raise refuse("header", "a name or null", header)
        levels = checked(given.get("levels", {}), {place.route for target in targets for place in target.places})


def missed(level: dict, answer: AnswerFacts) -> List[str]:
    """Every limit that this answer is over."""
    found = [(name, fact(answer), level[name]) for name, fact in LIMITS.items() if name in level]
    return [f"{name} {value} > {limit}" for name, value, limit in found if value is not None and value > limit]


def pace(answer: AnswerFacts) -> Optional[float]:
    """Output tokens for each second in which the answer was written."""
    if answer.usage is None or answer.first_content_ms is None or answer.duration_ms is None:
        return None
    written = answer.duration_ms - answer.first_content_ms
    return answer.usage.output * 1000 / written if written > 0 else None


class Tagger(exports.Tagger):
    def tag(self, request: RequestFacts, answer: AnswerFacts) -> List[Fact]:
        level = levels.get(request.model, levels.get(EVERY_ROUTE))
        if level is None or answer.served is None:
            return []
        over = missed(level, answer)
        word = "missed" if over else "kept"
        if answer.phase == Phase.HEAD:
            return [Fact(header, word, Sink.HEADER)] if header else []
        facts = [Fact("service_level", word, Sink.RECORD)]
        if over:
            facts.append(Fact("service_level_missed", ", ".join(over), Sink.RECORD))
        speed = pace(answer)
        if speed is not None:
            facts.append(Fact("tokens_per_second", f"{speed:.1f}", Sink.RECORD))
        return facts
