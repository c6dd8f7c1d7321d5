// One request to the server: where it goes, how long it may take, when it is tried again, and what a refusal becomes.

/** How to reach a server. */
export interface CofioOptions {
  /** Where `cofio serve` listens. By default `http://127.0.0.1:8427`. */
  url?: string;
  /** A token made by `cofio token add`; none is needed on the machine that the server runs on, unless it has one. */
  token?: string;
  /** Milliseconds after which a request without an answer is given up. By default 60,000. */
  timeout?: number;
  /** How often a request is sent again that the server turned away unread (429, 503). By default 2. */
  retries?: number;
  /** Sent with each request. */
  headers?: Record<string, string>;
  /** What sends a request. By default the platform's own `fetch`. */
  fetch?: typeof fetch;
}

/** What may be said of a single request. */
export interface RequestOptions {
  /** Ends the request when it is aborted. */
  signal?: AbortSignal;
}

/** What the server refused, or could not do. */
export class CofioError extends Error {
  override readonly name = "CofioError";
  /** The status of the answer. */
  readonly status: number;
  /** The server's word for it, such as `QUEUE_SATURATED`; `HTTP_ERROR` where it has none. */
  readonly code: string;
  /** The id under which the server's log speaks of it. */
  readonly requestId: string | undefined;
  /** Seconds after which the server would like to be asked again. */
  readonly retryAfter: number | undefined;

  constructor(message: string, told: { status: number; code: string; requestId?: string; retryAfter?: number }) {
    super(message);
    this.status = told.status;
    this.code = told.code;
    this.requestId = told.requestId;
    this.retryAfter = told.retryAfter;
  }
}

/** A request as it is sent. */
export interface Sent {
  method: string;
  path: string;
  /** Sent twice, it does what it does once, so that it is sent again when the connection is lost. */
  idempotent?: boolean;
  query?: Record<string, unknown>;
  json?: unknown;
  form?: FormData;
}

const LONGEST_PAUSE = 30_000; // ms

/** Sends requests to one server. */
export class Http {
  readonly url: string;
  readonly #options: CofioOptions;
  readonly #fetch: typeof fetch;

  constructor(options: CofioOptions) {
    const url = new URL(options.url ?? "http://127.0.0.1:8427");
    if (url.protocol !== "http:" && url.protocol !== "https:") {
      throw new TypeError(`url: ${url.href} is not an address of http or https`);
    }
    if (url.username || url.password) {
      throw new TypeError("url: a user or a password in it is not sent; give a token instead");
    }
    this.url = url.href.replace(/\/+$/, "");
    this.#options = options;
    // Called on its own: a browser's fetch refuses to be called as a method of another object.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** The JSON of the answer; a status of 400 and above becomes a CofioError. */
  async send(sent: Sent, options: RequestOptions = {}): Promise<unknown> {
    const answer = await this.receive(sent, options);
    return answer.status === 204 ? null : await answer.json();
  }

  /** The answer, once it is none of those that become a CofioError. */
  async receive(sent: Sent, options: RequestOptions = {}): Promise<Response> {
    const most = this.#options.retries ?? 2;
    for (let tried = 0; ; tried += 1) {
      let error: unknown;
      try {
        const answer = await this.#once(sent, options);
        if (answer.ok) return answer;
        error = await refusal(answer);
      } catch (lost) {
        error = lost;
      }
      if (tried >= most || !repeatable(error, sent)) throw error;
      const seconds = error instanceof CofioError ? error.retryAfter : undefined;
      const pause = seconds === undefined ? 250 * 2 ** tried : seconds * 1000;
      await sleep(Math.min(pause, LONGEST_PAUSE), options.signal);
    }
  }

  async #once(sent: Sent, options: RequestOptions): Promise<Response> {
    const headers = new Headers(this.#options.headers);
    if (this.#options.token !== undefined) headers.set("Authorization", `Bearer ${this.#options.token}`);
    if (sent.json !== undefined) headers.set("Content-Type", "application/json");
    const late = AbortSignal.timeout(this.#options.timeout ?? 60_000);
    const send = this.#fetch;
    return await send(this.url + sent.path + search(sent.query), {
      method: sent.method,
      headers,
      body: sent.form ?? (sent.json === undefined ? null : JSON.stringify(sent.json)),
      signal: options.signal === undefined ? late : AbortSignal.any([late, options.signal]),
      redirect: "error", // a token is for this server alone
    });
  }
}

/** One part of a path. */
export function part(name: string, value: string): string {
  // A browser's rules for addresses take these for steps in the path, however they are encoded.
  if (value === "" || value === "." || value === "..") throw new TypeError(`${name}: "${value}" cannot stand in an address`);
  return encodeURIComponent(value);
}

/** Whether sending a request again does nothing twice: it was refused unread, or is idempotent and got no answer. */
function repeatable(error: unknown, sent: Sent): boolean {
  if (!(error instanceof CofioError)) return sent.idempotent === true && error instanceof TypeError; // as fetch has it
  return error.status === 429 || (error.status === 503 && (error.retryAfter !== undefined || sent.method === "GET"));
}

function search(fields: Record<string, unknown> = {}): string {
  const pairs = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
}

async function refusal(answer: Response): Promise<CofioError> {
  const text = await answer.text();
  const told: { status: number; code: string; requestId?: string; retryAfter?: number } = {
    status: answer.status,
    code: "HTTP_ERROR",
  };
  const seconds = Number(answer.headers.get("Retry-After") ?? Number.NaN);
  if (Number.isFinite(seconds) && seconds >= 0) told.retryAfter = seconds;
  try {
    const { request_id, error } = JSON.parse(text) as {
      request_id?: string;
      error?: { code?: string; message?: string };
    };
    if (request_id !== undefined) told.requestId = request_id;
    if (error?.code !== undefined) told.code = error.code;
    return new CofioError(error?.message ?? text, told);
  } catch {
    return new CofioError(text || `${answer.status} ${answer.statusText}`, told); // a proxy's own page, say
  }
}

/** Waits; rejects when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
