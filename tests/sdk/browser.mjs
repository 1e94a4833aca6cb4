// A real browser, told what to do line by line.
//
// Each line of standard input is one JSON object, each is answered with one line: {"ok": value} or {"error": text}.
//
//   {"open": URL}            loads a page
//   {"until": EXPRESSION}    waits until a JavaScript expression of the page is true
//   {"get": EXPRESSION}      its value
//   {"size": [W, H]}         the window
//   {"scheme": "dark"}       what the system of the reader prefers
//   {"shot": PATH}           writes a picture of the window; with "whole": true of the whole page
//   {"seen": true}           what the page asked for and complained of so far: {requests, complaints}
//
// The browser can reach this machine only. It ends with standard input.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: {
    "sdk-dir": { type: "string" }, // holds node_modules
    browser: { type: "string" }, // the program
    patience: { type: "string", default: "15000" }, // of `until`, milliseconds
  },
});
const require = createRequire(join(resolve(args["sdk-dir"]), "package.json"));
const { launch } = require("puppeteer-core");

const browser = await launch({
  executablePath: args.browser,
  headless: true,
  // Over a pipe rather than a socket: a browser whose driver was killed sees it close, and ends too.
  pipe: true,
  args: [
    // Tests may run as root, where there is no sandbox; the page comes from the gateway under test.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ],
});
const page = await browser.newPage();
const requests = new Set();
const complaints = [];
page.on("request", (request) => requests.add(request.url()));
page.on("console", (message) => {
  if (["error", "warn", "warning"].includes(message.type())) complaints.push(message.text());
});
page.on("pageerror", (error) => complaints.push(String(error)));

const commands = {
  open: (url) => page.goto(url, { waitUntil: "load" }).then((answer) => answer.headers()),
  until: (expression) => page.waitForFunction(expression, { polling: 50, timeout: Number(args.patience) }).then(() => true),
  get: (expression) => page.evaluate(expression),
  size: ([width, height]) => page.setViewport({ width, height, deviceScaleFactor: 1 }),
  scheme: (value) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]),
  shot: (path, { whole }) => page.screenshot({ path, fullPage: whole === true }).then(() => true),
  seen: async () => ({ requests: [...requests], complaints }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const [name] = Object.keys(command);
  let answer;
  try {
    answer = { ok: (await commands[name](command[name], command)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
