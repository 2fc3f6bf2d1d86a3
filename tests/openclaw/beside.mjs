// JavaScript and Rust write to one table at the same time: each LanceDB version adds, edits and deletes on its own open
// handle, while `dreamer` dreams one night after the other, stores, merges and archives. Then every row is accounted for,
// and each version reads, adds, edits and deletes on that same handle. Started by beside.sh.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DIM, call, callBeside, check, client, embed, run, sleep, startMock } from "./machine.mjs";

const { DREAMER, READERS, PLUGIN_LANCEDB } = process.env;
const seconds = Number(process.env.BESIDE_SECONDS);
const database = join(run, "lancedb");
const episodes = join(run, "episodes");
/** Rows of a round of one client: added, then of those edited and deleted. */
const ROUND = { add: 4, edit: 1, remove: 1 };
const PLACES = ["Porto", "Lisbon", "Madrid", "Rome", "Vienna", "Oslo", "Bergen", "Athens"];

/** The same, said in other words each day, so that a memory is reinforced: its importance is rewritten in place. */
const AGAIN = ["I prefer tea in the morning.", "In the morning I prefer tea.", "It is tea that I prefer in the morning.", "Tea in the morning is what I prefer.",
  "In the morning it is tea that I prefer.", "Tea I prefer, in the morning."];

/** Words that mean nothing to each other, so that no two rows are about one thing. */
function nonsense(seed) {
  let x = (seed * 2654435761) >>> 0 || 1;
  const letter = () => { x ^= x << 13; x >>>= 0; x ^= x >>> 17; x ^= x << 5; x >>>= 0; return String.fromCharCode(97 + (x % 26)); };
  return `${Array.from({ length: 4 }, () => Array.from({ length: 9 }, letter).join("")).join(" ")}.`;
}

const rows = async (first, count, name) => {
  const texts = Array.from({ length: count }, (_, n) => nonsense(first + n));
  const vectors = await embed(mock, texts);
  return texts.map((text, n) => ({ id: `${name}-${first + n}`, text, vector: vectors[n] }));
};

function settings() {
  const home = join(run, "dreamer");
  mkdirSync(home, { mode: 0o700 });
  mkdirSync(episodes);
  const lines = { DREAMER_EPISODES_DIR: episodes, DREAMER_LANCEDB_URI: database, DREAMER_EMBEDDING_PROVIDER: "openai",
    DREAMER_LLM_PROVIDER: "openai", OPENAI_API_KEY: "mock-key", OPENAI_BASE_URL: mock.url, OPENAI_EMBEDDING_MODEL: "mock-embed",
    OPENAI_LLM_MODEL: "mock-chat", DREAMER_EMBEDDING_DIM: DIM, DREAMER_TIMEZONE: "UTC" };
  writeFileSync(join(home, ".env"), Object.entries(lines).map(([name, value]) => `${name}=${value}\n`).join(""), { mode: 0o600 });
  return home;
}

/** One client that writes until `isOver`. Says what must be in the table, and what failed in between. */
async function write(writer, number, isOver) {
  const name = `js${number}`;
  const expected = new Map();
  const gone = new Set();
  const failures = new Map();
  const insist = async (op, rest) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await writer.ask(op, rest);
      } catch (error) {
        const what = `${op}: ${error.message.split("\n")[0].replace(/[0-9a-f-]{36}|\d{3,}/g, "…").slice(0, 160)}`;
        failures.set(what, (failures.get(what) ?? 0) + 1);
        if (tries === 100) throw new Error(`${op} of lancedb ${writer.version} fails again and again: ${error.message}`);
      }
    }
  };
  let rounds = 0;
  for (let next = number * 1_000_000; !isOver(); next += ROUND.add) {
    const fresh = await rows(next, ROUND.add, name);
    await insist("add", { rows: fresh });
    fresh.forEach(row => expected.set(row.id, row.text));
    // Words that weigh nothing for the mock's vectors, so that the row's own stays true.
    const edited = `And it is ${fresh[0].text}`;
    await insist("update", { id: fresh[0].id, text: edited });
    expected.set(fresh[0].id, edited);
    await insist("delete", { id: fresh[1].id });
    expected.delete(fresh[1].id);
    gone.add(fresh[1].id);
    await writer.ask("count");
    rounds += 1;
    await sleep(400);
  }
  return { writer, rounds, expected, gone, failures };
}

/** A day: something new, something said again, and a state that changed. */
function day(n) {
  const now = new Date();
  const stamp = new Date(now.getTime() - 1000 * (60 - (n % 60))).toISOString().slice(0, 19);
  const lines = [`user: "On walk ${n} I counted ${1000 + n} herons at the pond."`, `assistant: "Noted."`,
    `user: "My sister Anna moved from ${PLACES[n % PLACES.length]} to ${PLACES[(n + 1) % PLACES.length]}."`, `assistant: "Noted."`,
    `user: "${AGAIN[n % AGAIN.length]}"`, `assistant: "Noted."`];
  const text = `# Session: ${stamp.slice(0, 10)} ${stamp.slice(11)} UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: s-${n}\n`
    + `- **Source**: gateway:sessions.reset\n\n## Conversation Summary\n\n${lines.join("\n")}\n`;
  writeFileSync(join(episodes, `${stamp.slice(0, 10)}-walk-${n}.md`), text);
}

const mock = await startMock();
const home = settings();
const maker = await client(PLUGIN_LANCEDB, database);
await maker.ask("create", { dim: DIM });
await maker.ask("add", { rows: [...await rows(0, 600, "seed"), ...(await embed(mock, ["The user's sister Anna lives in Porto."]))
  .map(vector => ({ id: "anna", text: "The user's sister Anna lives in Porto.", vector }))] });
const writers = [];
for (const folder of READERS.split(":")) {
  const writer = await client(folder, database);
  await writer.ask("open");
  writers.push(writer);
}

// --- At the same time ------------------------------------------------------------------------------------------------
const end = Date.now() + seconds * 1000;
let isOver = false;
const writing = writers.map((writer, at) => write(writer, at + 1, () => isOver));
let nights = 0;
let later = 0;
while (Date.now() < end) {
  nights += 1;
  day(nights);
  const begun = Date.now();
  const night = await callBeside(DREAMER, ["--home", home], {});
  console.log(`note  night ${nights} took ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  // 75 asks to try again later, and the next night does.
  if (night.code === 75) later += 1;
  else check(night.code === 0, `night ${nights}`, night.err);
}
isOver = true;
const written = await Promise.all(writing);
console.log(`note  the clients ended ${((Date.now() - end) / 1000).toFixed(1)} s after that`);
nights += 1;
day(nights);
const last = call(DREAMER, ["--home", home], {});
check(last.code === 0, "a night without the others", last.err);

// --- Nothing is lost -------------------------------------------------------------------------------------------------
const witness = await client(PLUGIN_LANCEDB, database);
await witness.ask("open");
const live = new Map((await witness.ask("all")).map(row => [row.id, row.text]));
const archived = new Map((await witness.ask("archived")).map(row => [row.id, row.text]));
check(live.size === await witness.ask("count"), "no row is there twice");
for (const { writer, rounds, expected, gone, failures } of written) {
  const lost = [...expected].filter(([id, text]) => live.get(id) !== text && archived.get(id) !== text);
  check(lost.length === 0, `lancedb ${writer.version}: ${expected.size} rows of ${rounds} rounds are as it left them`, lost.slice(0, 5));
  const back = [...gone].filter(id => live.has(id));
  check(back.length === 0, `lancedb ${writer.version}: none of ${gone.size} deleted rows came back`, back.slice(0, 5));
  for (const [what, times] of failures) console.log(`note  lancedb ${writer.version} had to try again ${times} times: ${what}`);
}
const texts = [...live.values(), ...archived.values()];
const herons = Array.from({ length: nights }, (_, n) => `counted ${1001 + n} herons`).filter(words => !texts.some(text => text.includes(words)));
check(herons.length === 0, `each of ${nights} nights left what its day said (${later} of them had to be tried again)`, herons);
const logs = readdirSync(join(home, "dream-log")).map(name => readFileSync(join(home, "dream-log", name), "utf8"));
check(logs.some(log => log.includes("before that")) && archived.size > 0, "and nights merged and archived", logs.at(-1));
check(logs.some(log => log.includes("## Said again")), "and reinforced what was said again", logs.at(-1));
console.log(`note  ${live.size} rows live, ${archived.size} archived`);

// --- On the same handles ---------------------------------------------------------------------------------------------
for (const writer of writers) {
  const [vector] = await embed(mock, [`Where did I count ${1000 + nights} herons?`]);
  const sees = async () => (await writer.ask("search", { vector, limit: 20 })).some(row => row.text.includes(`counted ${1000 + nights} herons`));
  const notes = [`${await sees() ? "sees" : "does not see"} the last night's work`];
  const [row] = await rows(9_000_000, 1, `after-${writer.version}`);
  await writer.ask("add", { rows: [row] });
  const text = async () => (await writer.ask("all")).find(found => found.id === row.id)?.text;
  check(await text() === row.text, `lancedb ${writer.version} adds and reads on the handle of before`);
  notes.push(`${await sees() ? "sees" : "does not see"} it after a write`);
  await writer.ask("update", { id: row.id, text: "edited at last" });
  check(await text() === "edited at last", `lancedb ${writer.version} updates`);
  await writer.ask("delete", { id: row.id });
  check(await text() === undefined, `lancedb ${writer.version} deletes`);
  await writer.ask("checkoutLatest");
  notes.push(`${await sees() ? "sees" : "does not see"} it after checkoutLatest`);
  console.log(`note  lancedb ${writer.version} ${notes.join(", ")}`);
  check(await sees(), `lancedb ${writer.version} finds what the last night stored`);
  writer.end();
}
process.exit(0);
