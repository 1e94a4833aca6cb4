"""One call through the official OpenAI SDK for Python, and whether it saw what it should see.

The SDK is used as its users use it, with one exception: it does not retry on its own, so that what
it reports is what the gateway said. Prints `ok` and exits 0, or says what was different and exits 1.
"""

import argparse
import sys

import openai


class Surprise(Exception):
    """Something was not as expected."""


def expect(what, got, want):
    if got != want:
        raise Surprise(f"{what}: got {got!r}, expected {want!r}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--mode", choices=["plain", "stream"], required=True)
    parser.add_argument("--expect", choices=["answer", "interrupted", "refused"], required=True)
    parser.add_argument("--text", default="", help="the whole text, or what comes before the interruption")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="a header of the answer")
    parser.add_argument("--status", type=int, help="of a refusal")
    parser.add_argument("--code", help="of a refusal or an interruption")
    parser.add_argument("--class", dest="kind", help="of the exception")
    return parser.parse_args()


def create(client, args):
    return client.chat.completions.with_raw_response.create(
        model=args.model,
        messages=[{"role": "user", "content": "hello"}],
        stream=args.mode == "stream",
    )


def check_headers(headers, args):
    for pair in args.header:
        name, _, value = pair.partition("=")
        expect(f"header {name}", headers.get(name), value)
    if not headers.get("x-request-id"):
        raise Surprise("no x-request-id on the answer")


def read(stream, seen):
    """Adds to `seen` as it comes, so that it is there when the stream breaks."""
    for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                seen["text"] += choice.delta.content
            if choice.finish_reason:
                seen["finish"] = choice.finish_reason


def check_answer(client, args):
    raw = create(client, args)
    check_headers(raw.headers, args)
    answer = raw.parse()
    if args.mode == "plain":
        expect("text", answer.choices[0].message.content, args.text)
        expect("finish reason", answer.choices[0].finish_reason, "stop")
        return
    seen = {"text": "", "finish": None}
    read(answer, seen)
    expect("text", seen["text"], args.text)
    expect("finish reason", seen["finish"], "stop")


def check_interrupted(client, args):
    raw = create(client, args)
    check_headers(raw.headers, args)
    seen = {"text": "", "finish": None}
    try:
        read(raw.parse(), seen)
    except openai.APIError as error:
        expect("text before the interruption", seen["text"], args.text)
        expect("finish reason", seen["finish"], None)
        if isinstance(error, openai.APIConnectionError):
            raise Surprise(f"the connection broke instead of an error being told: {error}") from error
        if args.code:
            expect("code", error.code, args.code)
        if not error.message:
            raise Surprise("an error without a message")
        return
    raise Surprise(f"half an answer was taken for a whole one: {seen}")


def check_refused(client, args):
    try:
        create(client, args)
    except openai.APIStatusError as error:
        expect("status", error.status_code, args.status)
        if args.code:
            expect("code", error.code, args.code)
        if args.kind:
            expect("class of the exception", type(error).__name__, args.kind)
        check_headers(error.response.headers, args)
        return
    raise Surprise("no exception")


def main():
    args = arguments()
    checks = {"answer": check_answer, "interrupted": check_interrupted, "refused": check_refused}
    client = openai.OpenAI(base_url=args.base_url, api_key="caller-key", max_retries=0, timeout=30)
    try:
        checks[args.expect](client, args)
    except (Surprise, openai.OpenAIError) as error:
        print(f"openai {openai.__version__} for Python: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
