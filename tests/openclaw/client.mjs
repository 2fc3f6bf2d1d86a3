// One LanceDB client of JavaScript with one table handle that stays open, as the gateway's plugin has it. A child process
// (`spawn` in machine.mjs) so that each version of @lancedb/lancedb has a process of its own.
// usage: node client.mjs LANCE_FOLDER DATABASE    then messages {op, …} and answers {ok | error}
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

const [folder, database] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const lancedb = require("@lancedb/lancedb");
const agentId = "main";
const { version } = JSON.parse(readFileSync(`${folder}/node_modules/@lancedb/lancedb/package.json`, "utf8"));
// Gateways that came with 0.23 know no agents, and its filters no capital letters.
const ofAgent = query => version.startsWith("0.23.") ? query : query.where(`agentId = '${agentId}'`);
let table;

const literal = text => `'${text.replaceAll("'", "''")}'`;
const plain = row => ({ id: row.id, text: row.text, importance: row.importance });

const OPS = {
  version: () => version,
  /** As the gateway makes it: from a row that is a sample of the columns. */
  create: async ({ dim }) => {
    const sample = { id: "", text: "", vector: Array.from({ length: dim }).fill(0), importance: 0, category: "other", createdAt: 0, agentId: "" };
    const schema = lancedb.makeArrowTable([sample], { vectorColumns: { vector: { type: "float32" } } }).schema;
    const db = await lancedb.connect(database);
    table = await db.createEmptyTable("memories", schema, { mode: "create", existOk: true });
  },
  open: async ({ name = "memories" } = {}) => { table = await (await lancedb.connect(database)).openTable(name); },
  checkoutLatest: () => table.checkoutLatest(),
  count: () => table.countRows(),
  all: async () => (await table.query().select(["id", "text", "importance"]).toArray()).map(plain),
  /** The gateway's own search and score. */
  search: async ({ vector, limit = 5, min = 0.3 }) => (await ofAgent(table.vectorSearch(vector)).limit(limit).toArray())
    .map(row => ({ ...plain(row), score: 1 / (1 + (row._distance ?? 0)) })).filter(row => row.score >= min),
  add: async ({ rows }) => {
    const whole = rows.map(row => ({ id: row.id ?? randomUUID(), text: row.text, vector: row.vector, importance: row.importance ?? 0.7,
      category: row.category ?? "other", createdAt: row.createdAt ?? Date.now(), agentId }));
    await table.add(whole);
    return whole.map(row => row.id);
  },
  /** The text alone: a vector that 0.23 or 0.27 writes by an update, 0.23 cannot read. */
  update: ({ id, text }) => table.update({ where: `id = ${literal(id)}`, values: { text } }).then(() => null),
  delete: ({ id }) => table.delete(`id = ${literal(id)}`).then(() => null),
  /** Rows of the archive beside the table, on a handle of its own. */
  archived: async () => {
    const db = await lancedb.connect(database);
    if (!(await db.tableNames()).includes("memories_archive")) return [];
    return (await (await db.openTable("memories_archive")).query().select(["id", "text"]).toArray()).map(plain);
  },
};

process.on("message", async ({ call, op, rest }) => {
  try {
    process.send({ call, ok: (await OPS[op](rest)) ?? null });
  } catch (error) {
    process.send({ call, error: String(error?.message ?? error) });
  }
});
