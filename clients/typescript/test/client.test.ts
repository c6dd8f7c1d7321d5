// Runs against a real server, whose address is in COFIO_URL; a second one, which wants a token, is in COFIO_LOCKED_URL.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Cofio, CofioError, type GetEpisodeItem } from "../src/index.ts";

const url = process.env["COFIO_URL"] ?? "http://127.0.0.1:8427";
const memory = new Cofio({ url });

async function remember(user: string, ...said: string[]): Promise<string> {
  const session_id = `${user}-${Math.random().toString(36).slice(2)}`;
  await memory.add({ session_id, messages: said.map((content) => ({ role: "user", sender_id: user, content })) });
  await memory.flush({ session_id });
  return session_id;
}

/** A server whose answers are known beforehand, and what it was asked. */
async function scripted(
  answers: Array<(response: ServerResponse) => void>,
  use: (address: string, asked: IncomingMessage[]) => Promise<void>,
): Promise<void> {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    request.resume();
    asked.push(request);
    (answers.shift() ?? ((last) => last.writeHead(500).end()))(response);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

function refuse(status: number, headers: Record<string, string> = {}) {
  return (response: ServerResponse) => {
    const error = { code: "QUEUE_SATURATED", message: "later" };
    response.writeHead(status, headers).end(JSON.stringify({ request_id: "7", error }));
  };
}

function succeed(data: unknown) {
  return (response: ServerResponse) => {
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ request_id: "8", data }));
  };
}

test("what was said is found", async () => {
  await remember("alice", "I love climbing in Yosemite every spring.");
  const { episodes } = await memory.search({ user_id: "alice", query: "climbing in Yosemite" });
  assert.match(episodes[0]?.episode ?? "", /Yosemite/);
});

test("records are listed page by page, with their facts", async () => {
  for (const place of ["Porto", "Lisbon", "Faro"]) await remember("ben", `I live in ${place} now, near the river.`);
  const episodes: GetEpisodeItem[] = [];
  for await (const episode of memory.list({ user_id: "ben", memory_type: "episode", page_size: 2 })) episodes.push(episode);
  assert.equal(episodes.length, 3);
  const facts = [];
  for await (const fact of memory.list({ user_id: "ben", memory_type: "atomic_fact" })) facts.push(fact.content);
  assert.ok(facts.some((fact) => fact.includes("Porto")), String(facts));
});

test("a request that is carried out later is waited for by its id", async () => {
  const session_id = "carla-later";
  const messages = [{ role: "user" as const, sender_id: "carla", content: "I play the cello in a quartet." }];
  const queued = await memory.add({ session_id, messages, async_mode: true });
  assert.equal(queued.status, "queued");
  const task = await memory.waitForTask(queued.request_id, { every: 20, signal: AbortSignal.timeout(60_000) });
  assert.equal(task.status, "success");
  assert.equal(task.task_type, "memory_add");
});

test("a record is put right, and forgotten", async () => {
  const session_id = await remember("dora", "My dentist is Doctor Alves in Braga.");
  const { episodes } = await memory.get({ user_id: "dora", memory_type: "episode" });
  await memory.update({ id: episodes[0]?.id ?? "", subject: "Dora's dentist" });
  const again = await memory.get({ user_id: "dora", memory_type: "episode" });
  assert.equal(again.episodes[0]?.subject, "Dora's dentist");
  const gone = await memory.delete({ session_id });
  assert.equal(gone.episodes, 1);
  assert.equal((await memory.get({ user_id: "dora", memory_type: "episode" })).total_count, 0);
});

test("a wrong request is an error that says what is wrong", async () => {
  const wrong = memory.search({ query: "whose?" });
  await assert.rejects(wrong, (error: unknown) => {
    assert.ok(error instanceof CofioError);
    assert.equal(error.status, 422);
    assert.match(error.message, /exactly one of user_id \/ agent_id/);
    assert.match(error.requestId ?? "", /^[0-9a-f]{32}$/);
    return true;
  });
});

test("checkpoints come back as they were, the newest first", async () => {
  const state = { messages: ["hi", "naïve 🦭", "half \ud83e"], n: 1.5, nothing: null };
  const thread = "a/b ?#%é";
  const first = await memory.checkpoints.save(thread, state, { metadata: { step: 1 } });
  const second = await memory.checkpoints.save(thread, { n: 2 }, { id: "second/2" });
  assert.equal(second, "second/2");
  assert.deepEqual((await memory.checkpoints.load(thread, first))?.state, state);
  assert.deepEqual((await memory.checkpoints.load<{ n: number }>(thread))?.state, { n: 2 });
  const ids = (await memory.checkpoints.list(thread)).map((each) => each.checkpoint_id);
  assert.deepEqual(ids, [second, first]);
  assert.equal((await memory.checkpoints.list(thread, { limit: 1 })).length, 1);
  assert.equal(await memory.checkpoints.delete(thread, second), true);
  assert.equal(await memory.checkpoints.delete(thread, second), false);
  assert.equal(await memory.checkpoints.delete(thread), true);
  assert.equal(await memory.checkpoints.load(thread), null);
  assert.deepEqual(await memory.checkpoints.list(thread), []);
  await assert.rejects(memory.checkpoints.load(".."), /cannot stand in an address/);
});

test("a document goes in whole, is found by its topics, and goes whole", async () => {
  const text = "# Travel policy\n\nBook early.\n\n## Trains\n\nTake the night train where there is one.\n";
  const file = new File([text], "travel policy.md", { type: "text/markdown" });
  const { doc_id, topic_count } = await memory.documents.add({ file, title: "Travel" });
  assert.equal(topic_count, 2);
  const { hits } = await memory.documents.search({ query: "night train", include_content: true });
  assert.equal(hits[0]?.document.doc_id, doc_id);
  assert.match(hits[0]?.content ?? "", /night train/);
  const topic = await memory.documents.topic({ topic_id: hits[0]?.topic_id ?? "" });
  assert.equal(topic.topic_name, "Trains");
  assert.equal(await (await memory.documents.original({ doc_id })).text(), text);
  assert.match(await memory.documents.markdown({ doc_id }), /## Trains/);
  const shorter = new File(["# Travel policy\n\nStay at home.\n"], "policy.md");
  await memory.documents.replace({ doc_id, file: shorter, title: "Travel" });
  assert.equal((await memory.documents.get({ doc_id })).topics.length, 1);
  const updated = await memory.documents.update({ doc_id, title: "Travelling" });
  assert.deepEqual(updated.updated_fields, ["title"]);
  const { documents } = await memory.documents.list();
  assert.deepEqual(documents.map((each) => each.title), ["Travelling"]);
  assert.ok((await memory.documents.categories()).categories.some((each) => each.document_count === 1));
  await memory.documents.delete({ doc_id });
  assert.equal((await memory.documents.list()).total, 0);
  const gone = memory.documents.get({ doc_id });
  await assert.rejects(gone, (error: unknown) => error instanceof CofioError && error.status === 404);
});

test("the server tells how it is", async () => {
  const health = await memory.health();
  assert.equal(health.status, "ok");
  assert.equal(typeof health.capabilities.llm, "boolean");
});

test("a token opens what is locked", async () => {
  const locked = process.env["COFIO_LOCKED_URL"];
  const token = process.env["COFIO_LOCKED_TOKEN"];
  assert.ok(locked && token, "the tests need a server that wants a token");
  const refused = new Cofio({ url: locked }).search({ user_id: "alice", query: "x" });
  await assert.rejects(refused, (error: unknown) => error instanceof CofioError && error.status === 401);
  const { episodes } = await new Cofio({ url: locked, token }).search({ user_id: "alice", query: "x" });
  assert.deepEqual(episodes, []);
});

test("the fetch of a browser, which must not be a method of anything, is called as a function", async () => {
  const own = globalThis.fetch;
  globalThis.fetch = function (this: unknown, input, init) {
    if (this !== undefined && this !== globalThis) throw new TypeError("Illegal invocation");
    return own(input, init);
  };
  try {
    assert.equal((await new Cofio({ url }).health()).status, "ok");
  } finally {
    globalThis.fetch = own;
  }
  let called = 0;
  const given: typeof fetch = function (this: unknown, input, init) {
    assert.equal(this, undefined);
    called += 1;
    return own(input, init);
  };
  await new Cofio({ url, fetch: given }).health();
  assert.equal(called, 1);
});

test("messages without a time keep their order, from one call to the next", async () => {
  const session_id = "ella-order";
  const say = (content: string) => ({ role: "user" as const, sender_id: "ella", content });
  const first = Array.from({ length: 100 }, (_, at) => say(`first ${at}`));
  await memory.add({ session_id, messages: first, defer_extraction: true });
  await memory.add({ session_id, messages: [say("then this"), say("and last this")], defer_extraction: true });
  const found = await memory.search({ user_id: "ella", query: "and last this", include_unprocessed: true, filters: { session_id } });
  const said = found.unprocessed_messages.map((each) => JSON.stringify(each));
  assert.equal(said.length, 102);
  assert.match(said[100] ?? "", /then this/);
  assert.match(said[101] ?? "", /and last this/);
});

test("a message whose answer was lost is sent again and kept once, and what the caller gave is as it was", async () => {
  const sent: Array<{ messages: Array<{ message_id: string | null }> }> = [];
  const losesFirst: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (sent.push(JSON.parse(String(init?.body))) === 1) throw new TypeError("fetch failed");
    return answer;
  };
  const session_id = "fay-lost";
  const messages = [{ role: "user" as const, sender_id: "fay", content: "I keep bees on the roof." }];
  const unlucky = new Cofio({ url, fetch: losesFirst });
  await unlucky.add({ session_id, messages, defer_extraction: true });
  assert.deepEqual(messages, [{ role: "user", sender_id: "fay", content: "I keep bees on the roof." }]);
  const dated = [{ role: "user" as const, sender_id: "fay", content: "And two goats.", timestamp: Date.now() }];
  for (const _ of [1, 2]) await unlucky.add({ session_id, messages: dated, defer_extraction: true });
  const found = await memory.search({ user_id: "fay", query: "bees", include_unprocessed: true, filters: { session_id } });
  assert.equal(found.unprocessed_messages.length, 2);
  const ids = sent.map((each) => each.messages[0]?.message_id);
  assert.match(ids[0] ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual(ids, [ids[0], ids[0], null, null]); // by its time, a message is known in another call, too
});

test("what was turned away unread is sent again, after the time that the server asks for", async () => {
  await scripted([refuse(429, { "Retry-After": "0" }), refuse(503, { "Retry-After": "0" }), succeed({ n: 1 })], async (address, asked) => {
    assert.deepEqual(await new Cofio({ url: address }).search({ user_id: "a", query: "x" }), { n: 1 });
    assert.equal(asked.length, 3);
  });
});

test("what may have been done is not sent again", async () => {
  for (const answer of [refuse(503), refuse(500), refuse(422, { "Retry-After": "0" })]) {
    await scripted([answer, succeed({})], async (address, asked) => {
      await assert.rejects(new Cofio({ url: address }).flush({ session_id: "s" }), CofioError);
      assert.equal(asked.length, 1);
    });
  }
});

test("it gives up after as many tries as it was told", async () => {
  await scripted([refuse(429, { "Retry-After": "0" }), refuse(429, { "Retry-After": "3" })], async (address, asked) => {
    const given = new Cofio({ url: address, retries: 1 }).search({ user_id: "a", query: "x" });
    await assert.rejects(given, (error: unknown) => {
      assert.ok(error instanceof CofioError);
      assert.deepEqual([error.status, error.code, error.requestId, error.retryAfter], [429, "QUEUE_SATURATED", "7", 3]);
      return true;
    });
    assert.equal(asked.length, 2);
  });
});

test("a page of a proxy is an error with its words, and a redirect is not followed", async () => {
  const page = (response: ServerResponse) => response.writeHead(502).end("<h1>Bad gateway</h1>");
  await scripted([(response) => void page(response)], async (address) => {
    const given = new Cofio({ url: address }).health();
    await assert.rejects(given, (error: unknown) => error instanceof CofioError && error.message === "<h1>Bad gateway</h1>");
  });
  await scripted([(response) => void response.writeHead(307, { Location: `${url}/health` }).end()], async (address, asked) => {
    await assert.rejects(new Cofio({ url: address, token: "secret" }).health(), TypeError);
    assert.equal(asked[0]?.headers.authorization, "Bearer secret");
  });
});

test("a request ends when it is aborted, and when it takes too long", async () => {
  const silent = () => undefined;
  await scripted([silent, silent], async (address) => {
    const stopped = new AbortController();
    const waiting = new Cofio({ url: address }).health({ signal: stopped.signal });
    stopped.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    await assert.rejects(new Cofio({ url: address, timeout: 20 }).health(), { name: "TimeoutError" });
  });
});

test("an address that cannot be right is refused at once", () => {
  assert.throws(() => new Cofio({ url: "ftp://127.0.0.1" }), /not an address of http/);
  assert.throws(() => new Cofio({ url: "http://me:word@127.0.0.1" }), /give a token instead/);
});
