// A stand-in for a model's server: /v1/chat/completions (streamed or whole), /v1/embeddings, /v1/models, on loopback.
// usage: node mock-openai.mjs PORT LOGFILE
//
// Embeddings are hashed words, word pieces and CJK pairs, unit length: the same words are near, nothing else is.
// A user message with `TOOL:<name> {json}` has that tool called, if it is offered; the reply then repeats its result.
// Dreamer's two questions (`memories`, `verdicts`) are answered by rules that hold for any conversation, see `memories`
// and `verdicts` below; everybody else hears "Noted.".
import http from "node:http";
import { createHash, randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";

const [port, log] = [Number(process.argv[2]), process.argv[3]];

// --- Embeddings ------------------------------------------------------------------------------------------------------
const STOP = new Set(("a an and are as at be been by did do does for from had has have he her his how i in is it its me my "
  + "of on or our she since so that the their them they this to was we were what when where which who will with you your "
  + "user said s t before").split(" "));
const stem = word => word.replace(/(?:ing|ed|es|s)$/, rest => (word.length - rest.length >= 3 ? "" : rest));
const words = text => (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
const isCjk = word => /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/u.test(word);
const content = text => words(text).filter(word => !STOP.has(word) && !isCjk(word)).map(stem);

function embed(text, dim) {
  const vector = new Array(dim).fill(0);
  const add = (feature, weight) => {
    const hash = createHash("sha256").update(feature).digest();
    vector[hash.readUInt32BE(0) % dim] += hash[4] & 1 ? weight : -weight;
  };
  for (const word of content(text)) {
    add(word, 1);
    for (let at = 0; at + 4 <= word.length; at += 1) add(`~${word.slice(at, at + 4)}`, 0.25);
  }
  for (const word of words(text).filter(isCjk)) {
    const letters = [...word];
    letters.forEach((letter, at) => { add(letter, 0.5); if (at) add(letters[at - 1] + letter, 1); });
  }
  const length = Math.hypot(...vector);
  if (!length) { vector[0] = 1; return vector; }
  return vector.map(x => x / length);
}

// --- What Dreamer asks -----------------------------------------------------------------------------------------------
const jsonLines = text => text.split("\n").filter(line => line.startsWith("{")).flatMap(line => {
  try { return [JSON.parse(line)]; } catch { return []; }
});
const sentences = text => text.split(/(?<=[.!?])\s+/).map(s => s.trim()).filter(Boolean);
const states = sentence => content(sentence).length >= 3 && !sentence.endsWith("?") && !/^(thanks|hello|good|nice|ok|TOOL:\w+)\b/i.test(sentence);
const third = sentence => sentence
  .replace(/\b[Mm]y\b/g, "the user's").replace(/\bI am\b/g, "the user is").replace(/\bI have\b/g, "the user has")
  .replace(/\b(I|We) (prefer|want|like|need|work|live|take)\b/g, "the user $2s").replace(/\b(I|We)\b/g, "the user")
  .replace(/\bme\b/g, "the user").replace(/^t/, "T");

/** One memory for every chunk in which the user states something: its statements, told of the user. */
function memories(material) {
  const chunks = jsonLines(material).filter(chunk => chunk.chunk && chunk.speaker === "user");
  return { memories: chunks.flatMap(chunk => {
    const text = sentences(chunk.text).filter(states).map(third).join(" ").slice(0, 300);
    if (!text) return [];
    const category = /prefer|like|want/.test(text) ? "preference" : "fact";
    return [{ reason: "the user states it", chunks: [chunk.chunk], text, category, importance: /allerg/.test(text) ? 0.9 : 0.6,
      entities: [], tags: [], about: null, emotion: 0, decision: "keep" }];
  }) };
}

const CHANGE = /\b(moved|no longer|not .* any ?more|switched|changed|instead|now)\b/i;
/** The first words that two claims share, as they stand in each: whom or what both are about. */
function subject(text) {
  const named = text.match(/^[Tt]he user(?:'s(?: [a-z]+){1,2}? \p{Lu}\p{L}+)?/u);
  return named ? named[0] : text.split(" ")[0];
}
/** Same words: a duplicate. The same subject, something else in common and a word of change: a state that changed. */
function verdicts(material) {
  const [fresh, ...known] = jsonLines(material);
  const mine = new Set(content(fresh.text));
  const judge = old => {
    const theirs = new Set(content(old.text));
    const common = [...mine].filter(word => theirs.has(word)).length;
    const base = { memory: old.memory, reason: `${common} words in common`, new_subject: subject(fresh.text), old_subject: subject(old.text), texts: [] };
    if (common / new Set([...mine, ...theirs]).size >= 0.75) return { ...base, relation: "duplicate" };
    const [later, earlier] = old.said > fresh.said ? [old, fresh] : [fresh, old];
    if (base.new_subject !== base.old_subject || common < 1 || !CHANGE.test(later.text)) return { ...base, relation: "unrelated" };
    const text = `${later.text.replace(/\.$/, "")} (since ${later.said}); before that: ${earlier.text}`;
    return { ...base, relation: "state_change", texts: [text] };
  };
  return { verdicts: known.map(judge) };
}

// --- Chat ------------------------------------------------------------------------------------------------------------
const textOf = content => typeof content === "string" ? content
  : Array.isArray(content) ? content.map(part => part?.text ?? "").join("\n") : "";
const own = text => text.replace(/<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>[\s\S]*?<<<END_OPENCLAW_INTERNAL_CONTEXT>>>/g, "")
  .replace(/<relevant-memories>[\s\S]*?<\/relevant-memories>/g, "").trim();

function answer(body) {
  const messages = body.messages ?? [];
  const users = messages.flatMap((message, at) => message.role === "user" && own(textOf(message.content)) ? [at] : []);
  const at = users.at(-1) ?? 0;
  const last = own(textOf(messages[at]?.content));
  const asked = body.response_format?.json_schema?.name;
  if (asked === "memories") return { content: JSON.stringify(memories(last)) };
  if (asked === "verdicts") return { content: JSON.stringify(verdicts(last)) };
  const since = messages.slice(at + 1);
  const result = since.findLast(message => message.role === "tool");
  if (result) return { content: textOf(result.content) };
  const wanted = last.match(/TOOL:(\w+) (\{.*?\})/);
  const offered = (body.tools ?? []).some(tool => tool.function?.name === wanted?.[1]);
  if (!wanted || !offered) return { content: "Noted." };
  const call = { index: 0, id: `call_${randomUUID().slice(0, 8)}`, type: "function", function: { name: wanted[1], arguments: wanted[2] } };
  return { content: null, tool_calls: [call] };
}

function chat(body, response) {
  const message = { role: "assistant", ...answer(body) };
  const finish_reason = message.tool_calls ? "tool_calls" : "stop";
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
  const base = { id: `chatcmpl-${randomUUID().slice(0, 10)}`, created: Math.floor(Date.now() / 1000), model: body.model };
  if (!body.stream) return json(response, { ...base, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage });
  response.writeHead(200, { "content-type": "text/event-stream", connection: "close" });
  const event = value => response.write(`data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`);
  const chunk = { ...base, object: "chat.completion.chunk" };
  event({ ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] });
  event({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason }], usage });
  event("[DONE]");
  response.end();
}

function embeddings(body, response) {
  const input = [body.input].flat();
  const dim = Number(body.dimensions) || 512;
  // The OpenAI SDK of JavaScript asks for base64 and decodes it itself.
  const encode = body.encoding_format === "base64" ? v => Buffer.from(new Float32Array(v).buffer).toString("base64") : v => v;
  const data = input.map((text, index) => ({ object: "embedding", index, embedding: encode(embed(text, dim)) }));
  json(response, { object: "list", model: body.model, data, usage: { prompt_tokens: 1, total_tokens: 1 } });
}

function json(response, value) {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

http.createServer(async (request, response) => {
  if (request.method === "GET") {
    return json(response, { object: "list", data: ["mock-chat", "mock-embed"].map(id => ({ id, object: "model" })) });
  }
  let raw = "";
  for await (const part of request) raw += part;
  const body = JSON.parse(raw || "{}");
  appendFileSync(log, `${JSON.stringify({ at: Date.now(), path: request.url, body })}\n`);
  return request.url.endsWith("/embeddings") ? embeddings(body, response) : chat(body, response);
}).listen(port, "127.0.0.1");
