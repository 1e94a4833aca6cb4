// One call through the official OpenAI SDK for Node, and whether it saw what it should see.
//
// The SDK is used as its users use it, with one exception: it does not retry on its own, so that what
// it reports is what the gateway said. Prints `ok` and exits 0, or says what was different and exits 1.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: {
    "sdk-dir": { type: "string" }, // holds node_modules
    "base-url": { type: "string" },
    model: { type: "string" },
    mode: { type: "string" }, // plain, stream
    expect: { type: "string" }, // answer, interrupted, refused
    text: { type: "string", default: "" }, // the whole text, or what comes before the interruption
    header: { type: "string", multiple: true, default: [] }, // NAME=VALUE of the answer
    status: { type: "string" }, // of a refusal
    code: { type: "string" }, // of a refusal or an interruption
    class: { type: "string" }, // of the exception
  },
});

class Surprise extends Error {}

function expect(what, got, want) {
  if (got !== want) {
    throw new Surprise(`${what}: got ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
  }
}

for (const name of ["sdk-dir", "base-url", "model", "mode", "expect"]) {
  if (!args[name]) {
    console.error(`--${name} is missing`);
    process.exit(2);
  }
}

const require = createRequire(join(resolve(args["sdk-dir"]), "package.json"));
const OpenAI = require("openai");
const { VERSION: version } = require("openai/version");

const client = new OpenAI({
  baseURL: args["base-url"],
  apiKey: "caller-key",
  maxRetries: 0,
  timeout: 30_000,
});

function create() {
  return client.chat.completions
    .create({
      model: args.model,
      messages: [{ role: "user", content: "hello" }],
      stream: args.mode === "stream",
    })
    .withResponse();
}

function checkHeaders(headers) {
  for (const pair of args.header) {
    const at = pair.indexOf("=");
    expect(`header ${pair.slice(0, at)}`, headers.get(pair.slice(0, at)), pair.slice(at + 1));
  }
  if (!headers.get("x-request-id")) {
    throw new Surprise("no x-request-id on the answer");
  }
}

// Adds to `seen` as it comes, so that it is there when the stream breaks.
async function read(stream, seen) {
  for await (const chunk of stream) {
    for (const choice of chunk.choices) {
      seen.text += choice.delta.content ?? "";
      seen.finish = choice.finish_reason ?? seen.finish;
    }
  }
}

async function checkAnswer() {
  const { data, response } = await create();
  checkHeaders(response.headers);
  if (args.mode === "plain") {
    expect("text", data.choices[0].message.content, args.text);
    expect("finish reason", data.choices[0].finish_reason, "stop");
    return;
  }
  const seen = { text: "", finish: null };
  await read(data, seen);
  expect("text", seen.text, args.text);
  expect("finish reason", seen.finish, "stop");
}

async function checkInterrupted() {
  const { data, response } = await create();
  checkHeaders(response.headers);
  const seen = { text: "", finish: null };
  try {
    await read(data, seen);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError) || error instanceof OpenAI.APIConnectionError) {
      throw new Surprise(`not an error that was told: ${error}`);
    }
    expect("text before the interruption", seen.text, args.text);
    expect("finish reason", seen.finish, null);
    if (args.code) {
      expect("code", error.code, args.code);
    }
    return;
  }
  throw new Surprise(`half an answer was taken for a whole one: ${JSON.stringify(seen)}`);
}

async function checkRefused() {
  try {
    await create();
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) {
      throw error;
    }
    expect("status", error.status, Number(args.status));
    if (args.code) {
      expect("code", error.code, args.code);
    }
    if (args.class) {
      expect("class of the exception", error.constructor.name, args.class);
    }
    checkHeaders(error.headers);
    return;
  }
  throw new Surprise("no exception");
}

const checks = { answer: checkAnswer, interrupted: checkInterrupted, refused: checkRefused };
try {
  await checks[args.expect]();
  console.log("ok");
} catch (error) {
  console.error(`openai ${version} for Node: ${error.constructor.name}: ${error.message}`);
  process.exitCode = 1;
}
