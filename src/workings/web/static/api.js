// The server's answers. What it refuses is an Error with its one line.

let unanswered = 0;  // questions

export async function ask(path, body, signal) {
  const request = body === undefined ? { signal } : {
    signal,
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer: is `workings serve` still running?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Error(told.error ?? `the server answered ${response.status}`);
  }
  return response;
}

export async function get(path, body, signal) {
  unanswered += 1;
  try {
    return await (await ask(path, body, signal)).json();
  } finally {
    unanswered -= 1;
  }
}

// Wait until everything is answered, or nobody would wait any longer.
export async function quiet(most = 15_000) {
  const pause = (time) => new Promise((done) => setTimeout(done, time));
  for (let waited = 0; waited < most; waited += 50) {
    await pause(50);  // an answer may be a reason to ask again
    if (!unanswered) return;
  }
}

// Asks one thing after the other: while an answer is awaited, only the latest question is kept.
export function latest(answer, refuse) {
  let waiting = null;
  let busy = false;
  return async function next(path, body) {
    waiting = [path, body];
    if (busy) return;
    busy = true;
    while (waiting) {
      const question = waiting;
      waiting = null;
      try {
        const told = await get(...question);
        if (!waiting) answer(told, question[1]);
      } catch (error) {
        if (!waiting) refuse(error.message, question[1]);
      }
    }
    busy = false;
  };
}

export async function download(body, path = "/api/export") {
  const response = await ask(path, body);
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? "workings";
  save(await response.blob(), name);
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
