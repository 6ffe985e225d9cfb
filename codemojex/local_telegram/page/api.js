// The control API as functions. A refusal rejects with the server's sentence.

async function read(answer) {
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? answer.statusText);
  return body;
}

export async function get(look, query = {}) {
  return read(await fetch(`/control/${look}?${new URLSearchParams(query)}`));
}

export async function post(act, body) {
  const sent = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined && value !== null));
  return read(await fetch(`/control/${act}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(sent),
  }));
}

// One event stream for the whole page: browsers allow only a few connections per host.
export function listen(onEvent, onConnection) {
  const source = new EventSource("/control/events");
  source.onopen = () => onConnection(true);
  source.onerror = () => onConnection(false);
  source.onmessage = (message) => onEvent(JSON.parse(message.data));
}
