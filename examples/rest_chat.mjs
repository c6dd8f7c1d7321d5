// A chat that remembers its user, over REST, with nothing but fetch: Node 18 or newer, Deno, Bun, or a browser.
//
// Start `cofio serve` (or `make run`) in one terminal and `node examples/rest_chat.mjs` in another.

const address = process.env.COFIO_URL ?? "http://127.0.0.1:8427";
const token = process.env.COFIO_TOKEN; // of `cofio token add NAME`, where the server wants one
const user = process.argv[2] ?? "maya";

async function call(verb, body) {
  const response = await fetch(`${address}/api/v2/memory/${verb}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  }).catch((error) => {
    console.error(`no server at ${address} (${error.cause?.code}): start \`cofio serve\` in another terminal, or set COFIO_URL`);
    process.exit(1);
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${verb}: ${response.status} ${JSON.stringify(answer)}`);
  return answer.data;
}

async function recall(question) {
  const { episodes } = await call("search", { user_id: user, query: question, top_k: 3 });
  return episodes.flatMap((episode) => episode.atomic_facts.map((fact) => fact.content));
}

const session = `monday-${crypto.randomUUID().slice(0, 8)}`;
const said = ["I moved to Lisbon last month, and I work as a nurse.", "My dog is called Rex."];
const now = Date.now();
const messages = said.map((content, n) => ({ sender_id: user, role: "user", timestamp: now + 1000 * n, content }));
await call("add", { session_id: session, messages }); // on the server's disk when this returns
await call("flush", { session_id: session }); // the chat is over: carve it into memory now

for (const question of ["Where did she move to?", "What is the dog called?"]) {
  const [best] = await recall(question);
  console.log(question, best ?? "I do not know yet.");
}
