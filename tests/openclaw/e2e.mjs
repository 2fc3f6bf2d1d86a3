// A day and a night with the real gateway: 20 turns, session-flush, dreamer, and then everybody who reads the table is
// asked for what the night made of the day. Started by e2e.sh, which says what is installed where.
import { readFileSync, readdirSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DIM, Gateway, call, check, client, embed, here, run, startMock } from "./machine.mjs";

const { DREAMER, FLUSH, READERS, PLUGIN_LANCEDB } = process.env;
const database = join(run, "lancedb");
const memory = join(run, "ws/memory");
const question = "Where does my sister Anna live?";
const isConsolidated = text => /Lisbon/.test(text) && /Porto/.test(text) && /before/.test(text);
const percent = score => `${(score * 100).toFixed(0)} %`;

/** What the gateway captured a month ago. */
const KNOWN = ["The user's sister Anna lives in Porto.", "The user prefers tea in the morning.", "The user's dog is called Biscuit."];

async function seed(mock) {
  const writer = await client(PLUGIN_LANCEDB, database);
  await writer.ask("create", { dim: DIM });
  const vectors = await embed(mock, KNOWN);
  const createdAt = Date.now() - 30 * 86_400_000;
  await writer.ask("add", { rows: KNOWN.map((text, at) => ({ text, vector: vectors[at], createdAt })) });
  writer.end();
}

/** Settings of the programs under test, as a person with this gateway has them. */
function settings(gateway, mock) {
  const home = join(run, "dreamer");
  mkdirSync(home, { mode: 0o700 });
  const lines = { DREAMER_EPISODES_DIR: memory, DREAMER_LANCEDB_URI: database, DREAMER_EMBEDDING_PROVIDER: "openai",
    DREAMER_LLM_PROVIDER: "openai", OPENAI_API_KEY: "mock-key", OPENAI_BASE_URL: mock.url, OPENAI_EMBEDDING_MODEL: "mock-embed",
    OPENAI_LLM_MODEL: "mock-chat", DREAMER_EMBEDDING_DIM: DIM, DREAMER_TIMEZONE: "UTC", ...gateway.environment };
  writeFileSync(join(home, ".env"), Object.entries(lines).map(([name, value]) => `${name}=${value}\n`).join(""), { mode: 0o600 });
  return home;
}

async function ask(reader, vector) {
  return reader.ask("search", { vector });
}

/** What memory_recall tells the agent: `1. [fact] text (72%)` a line. */
function recalled(reply) {
  return reply.split("\n").flatMap(line => {
    const found = line.match(/^\d+\. \[\w+\] (.*) \((\d+)%\)$/);
    return found ? [{ text: found[1].replaceAll("&#39;", "'").replaceAll("&amp;", "&"), score: Number(found[2]) / 100 }] : [];
  });
}

const mock = await startMock();
await seed(mock);
const gateway = await Gateway.prepare(mock, PLUGIN_LANCEDB);
await gateway.start();
const home = settings(gateway, mock);
const vector = (await embed(mock, [question]))[0];

// --- The day ---------------------------------------------------------------------------------------------------------
const turns = readFileSync(join(here, "conversation.txt"), "utf8").trim().split("\n");
check(turns.length === 20, "the conversation has 20 turns", turns.length);
for (const turn of turns) {
  const reply = await gateway.say(turn);
  if (turn.includes("memory_recall")) check(recalled(reply)[0]?.text === KNOWN[0], "by day the gateway recalls the old state", reply);
  else if (turn.includes("memory_store")) check(reply.startsWith("Stored"), "by day the gateway stores a memory", reply);
  else if (reply !== "Noted.") check(false, `the gateway answers "${turn}"`, reply);
}
// Handles that are open before the night and stay open, as a running gateway has one; the last is of the plugin's version.
const readers = [];
for (const folder of READERS.split(":")) {
  const reader = await client(folder, database);
  await reader.ask("open");
  check((await ask(reader, vector))[0]?.text === KNOWN[0], `lancedb ${reader.version} reads the table before the night`);
  readers.push({ folder, reader });
}

// --- The night -------------------------------------------------------------------------------------------------------
const flush = () => call(FLUSH, ["--home", home, "--json"]);
const first = flush();
check(first.code === 0, "session-flush ends the session", first.err);
const flushed = JSON.parse(first.out);
check(flushed.status === "flushed" && flushed.messages === 40 && flushed.user_messages === 20 && flushed.warnings.length === 0,
  "its episode holds the whole day: 40 messages, 20 of the user", flushed);
const before = readdirSync(memory).sort();
const second = flush();
const again = second.code === 0 ? JSON.parse(second.out) : {};
check(again.status === "nothing_to_flush" && again.why, "a second session-flush with nothing to say says so", second.out + second.err);
check(String(readdirSync(memory).sort()) === String(before) && before.length === 1, "and writes no file", readdirSync(memory));

const night = call(DREAMER, ["--home", home, "--verbose"]);
check(night.code === 0, "dreamer dreams", night.err);
const dreamLog = readdirSync(join(home, "dream-log")).filter(name => name.endsWith(".md")).map(name => readFileSync(join(home, "dream-log", name), "utf8")).join("\n");
const fresh = await client(PLUGIN_LANCEDB, database);
await fresh.ask("open");
const rows = await fresh.ask("all");
const texts = rows.map(row => row.text);
const consolidated = texts.filter(isConsolidated);
check(consolidated.length === 1, "the changed state is one memory with its past", texts);
check(!texts.includes(KNOWN[0]) && (await fresh.ask("archived")).some(row => row.text === KNOWN[0]), "the old state is in the archive", texts);
check(texts.filter(text => text.includes("tea")).length === 1, "what was known already is not stored twice", texts);
for (const word of ["hazelnuts", "2027-02-15", "Okafor", "Friday", "Lindqvist", "PostgreSQL 17", "cello", "bullet points", "2027-01-20", "Biscuit", "Kestrel"]) {
  check(texts.filter(text => text.includes(word)).length === 1, `one memory says ${word}`, texts);
}
check(!texts.some(text => /TOOL:|joke|capital|Noted|Good (morning|night)/.test(text)), "small talk and tool calls are no memories", texts);
check(mock.asked().some(({ body }) => body.response_format?.json_schema?.name === "verdicts"), "the model was asked to judge", dreamLog);

// --- Everybody who reads the table -----------------------------------------------------------------------------------
for (const { folder, reader } of readers) {
  const fresh = await client(folder, database);
  await fresh.ask("open");
  const [top] = await ask(fresh, vector);
  check(isConsolidated(top.text) && top.score >= 0.4, `lancedb ${reader.version}, opened after the night: ${percent(top.score)}`, top);
  fresh.end();
  const sees = async () => (await ask(reader, vector)).some(row => isConsolidated(row.text));
  const open = await sees();
  await reader.ask("checkoutLatest");
  check(await sees(), `lancedb ${reader.version}, opened before the night: ${open ? "sees it at once" : "sees it after checkoutLatest"}`);
  reader.end();
}
// A running gateway reads the version of the table that it opened, until it writes itself or is restarted.
const recall = async () => recalled(await gateway.say(`TOOL:memory_recall {"query":"${question}"}`));
const sees = found => found.some(row => isConsolidated(row.text));
let found = await recall();
console.log(`note  the running gateway ${sees(found) ? "sees" : "does not see"} the night's work at once`);
if (!sees(found)) {
  await gateway.say('TOOL:memory_store {"text":"The user went to the market in the rain.","category":"other"}');
  found = await recall();
  console.log(`note  the running gateway ${sees(found) ? "sees" : "does not see"} it once it has stored a memory itself`);
}
if (!sees(found)) {
  await gateway.stop();
  await gateway.start();
  found = await recall();
  console.log("note  it was restarted, as a person must");
}
check(isConsolidated(found[0]?.text ?? "") && found[0].score >= 0.4, `the gateway's memory_recall finds it: ${percent(found[0]?.score ?? 0)}`, found);
await gateway.say("Does Anna like the weather in her new city?");
const injected = mock.asked().map(({ body }) => JSON.stringify(body.messages ?? "")).filter(text => text.includes("weather in her new city")).at(-1) ?? "";
check(/relevant-memories[^<]*Lisbon/.test(injected), "and it stands in the next prompt as a relevant memory", injected.slice(-2000));
await gateway.stop();
process.exit(0);
