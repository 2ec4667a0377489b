/* Where maps come from: the server that wrote the page, or the page itself where it was written to a file. */
const data = JSON.parse($("data").textContent);

async function ask(path, request) {
  let reply;
  try {
    reply = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
  } catch {
    throw new Error("server: expected an answer, got none: it has ended");
  }
  const answer = await reply.json().catch(() => ({ error: `server: expected JSON, got status ${reply.status}` }));
  if (!reply.ok || answer.error) throw new Error(answer.error);
  return answer;
}

const served = {
  view: request => ask("api/view", request),
  map: (request, layer, head) => ask("api/map", { ...request, head: headName(layer, head) }),
  changes: () => ask("api/changes", {}),
};

const kept = {
  parsed: new Map(),
  id: request => [request.run, request.compared, request.values].join("-"),
  has(request) { return this.id(request) in data.views; },
  async view(request) {
    if (!this.has(request)) throw new Error(`page: expected what it was written with, got ${this.id(request)}`);
    return data.views[this.id(request)];
  },
  async map(request, layer, head) {
    const id = this.id(request);
    if (!this.parsed.has(id)) { this.parsed.clear(); this.parsed.set(id, JSON.parse($("maps-" + id).textContent)); }
    return { bits: data.bits, range: data.views[id].layers[layer][head].range, code: this.parsed.get(id)[layer][head] };
  },
  changes: async () => [],
};

const source = data.live ? served : kept;
