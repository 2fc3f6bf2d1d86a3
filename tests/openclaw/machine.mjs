// The processes of a run: the mock model, the real gateway, LanceDB clients, the programs under test. Each writes its id
// into RUN/pids, so that lab.sh ends what is left whatever happens here.
import { fork, spawn, spawnSync } from "node:child_process";
import { cpSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const here = dirname(fileURLToPath(import.meta.url));
export const run = process.env.RUN;
export const TOKEN = "test-gateway-token-0123456789";
export const DIM = 512;

export const sleep = ms => new Promise(done => setTimeout(done, ms));

/** A check that failed is the end; what held is told. */
export function check(holds, what, seen) {
  if (holds) return console.log(`ok    ${what}`);
  console.error(`FAILED ${what}`, seen === undefined ? "" : `\n  seen: ${typeof seen === "string" ? seen : JSON.stringify(seen, null, 1)}`);
  process.exit(1);
}

export async function freePort() {
  const server = createServer();
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise(done => server.close(done));
  return port;
}

function remember(child) {
  const file = join(run, "pids", String(child.pid));
  writeFileSync(file, "");
  child.on("exit", () => rmSync(file, { force: true }));
  return child;
}

async function answers(url, seconds, child, log) {
  for (let tries = 0; tries < seconds * 5; tries += 1) {
    if (await fetch(url).then(answer => answer.ok, () => false)) return;
    if (child.exitCode !== null) break;
    await sleep(200);
  }
  console.error(readFileSync(log, "utf8").slice(-4000));
  throw new Error(`nothing answers at ${url}; the end of its log stands above`);
}

/** Starts the mock model; gives its address and what it was asked. */
export async function startMock() {
  const port = await freePort();
  const log = join(run, "mock.out");
  const asked = join(run, "mock.jsonl");
  const out = openSync(log, "a");
  const child = remember(spawn(process.execPath, [join(here, "mock-openai.mjs"), String(port), asked], { stdio: ["ignore", out, out] }));
  await answers(`http://127.0.0.1:${port}/v1/models`, 20, child, log);
  return { port, url: `http://127.0.0.1:${port}/v1`, asked: () => readFileSync(asked, "utf8").split("\n").filter(Boolean).map(JSON.parse) };
}

export async function embed(mock, input) {
  const answer = await fetch(`${mock.url}/embeddings`, { method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "mock-embed", input, dimensions: DIM }) });
  return (await answer.json()).data.map(datum => datum.embedding);
}

/** The real gateway with its settings, plugin and state in the run's folder. */
export class Gateway {
  constructor(port, mock, environment) { Object.assign(this, { port, mock, environment }); }

  static async prepare(mock, lance) {
    const port = await freePort();
    cpSync(join(here, "plugins"), join(run, "plugins"), { recursive: true });
    symlinkSync(join(lance, "node_modules"), join(run, "plugins/lancedb-standin/node_modules"));
    const template = readFileSync(join(here, "openclaw.template.json"), "utf8");
    const settings = template.replaceAll("@RUN@", run).replaceAll("@PORT@", port).replaceAll("@MOCK@", mock.port);
    writeFileSync(join(run, "openclaw.json"), settings);
    const environment = { OPENCLAW_STATE_DIR: join(run, "state"), OPENCLAW_CONFIG_PATH: join(run, "openclaw.json") };
    return new Gateway(port, mock, environment);
  }

  async start() {
    const log = join(run, "gateway.out");
    const out = openSync(log, "a");
    const args = [process.env.OPENCLAW, "gateway", "run", "--port", String(this.port)];
    const env = { PATH: process.env.PATH, HOME: join(run, "home"), TZ: "UTC", ...this.environment };
    this.child = remember(spawn(process.execPath, args, { env, stdio: ["ignore", out, out] }));
    await answers(`http://127.0.0.1:${this.port}/healthz`, 180, this.child, log);
  }

  async stop() {
    const over = new Promise(done => this.child.once("exit", done));
    this.child.kill("SIGTERM");
    await over;
  }

  /** One turn of the main session; gives the agent's reply. */
  async say(text) {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", "x-openclaw-session-key": "agent:main:main" };
    const body = JSON.stringify({ model: "openclaw/main", messages: [{ role: "user", content: text }] });
    const answer = await fetch(`http://127.0.0.1:${this.port}/v1/chat/completions`, { method: "POST", headers, body });
    const told = await answer.text();
    if (!answer.ok) throw new Error(`the gateway answers ${answer.status}: ${told}`);
    return JSON.parse(told).choices[0].message.content;
  }
}

/** A LanceDB client; its answers come as they are or throw. */
export async function client(lance, database) {
  const child = remember(fork(join(here, "client.mjs"), [lance, database]));
  const open = new Map();
  let number = 0;
  child.on("message", ({ call, ok, error }) => {
    const { done, failed } = open.get(call);
    open.delete(call);
    error === undefined ? done(ok) : failed(new Error(error));
  });
  const ask = (op, rest = {}) => new Promise((done, failed) => {
    number += 1;
    open.set(number, { done, failed });
    child.send({ call: number, op, rest });
  });
  return { version: await ask("version"), ask, end: () => child.kill() };
}

const clean = () => Object.fromEntries(Object.entries(process.env).filter(([name]) => ["PATH", "LANG", "TMPDIR"].includes(name)));

/** Runs a program to its end. */
export function call(program, args, environment) {
  const env = { ...clean(), HOME: join(run, "home"), TZ: "UTC", ...environment };
  const done = spawnSync(program, args, { env, cwd: run, encoding: "utf8" });
  return { code: done.status, out: done.stdout ?? "", err: done.stderr ?? String(done.error) };
}

/** The same beside everything else. */
export function callBeside(program, args, environment) {
  const env = { ...clean(), HOME: join(run, "home"), TZ: "UTC", ...environment };
  const child = remember(spawn(program, args, { env, cwd: run, stdio: ["ignore", "pipe", "pipe"] }));
  let [out, err] = ["", ""];
  child.stdout.on("data", part => { out += part; });
  child.stderr.on("data", part => { err += part; });
  return new Promise(done => child.on("close", code => done({ code, out, err })));
}
