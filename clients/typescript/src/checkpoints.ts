// The states of agents: what a thread was like after each step, kept on the server.

import { CofioError, type Http, part, type RequestOptions } from "./http.ts";

/** What is known of a checkpoint without its state. */
export interface CheckpointHeading {
  checkpoint_id: string;
  created_at: string;
  metadata: Record<string, unknown> | null;
}

/** A checkpoint with its state. */
export interface Checkpoint<State> extends CheckpointHeading {
  thread_id: string;
  state: State;
}

/** Saves and loads checkpoints, by thread. */
export class Checkpoints {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Keeps a state, which has to be an object of JSON, and gives the checkpoint's id. */
  async save(
    thread: string,
    state: object,
    options: RequestOptions & { id?: string; metadata?: Record<string, unknown> } = {},
  ): Promise<string> {
    const { id, metadata, ...rest } = options;
    const json = { state, ...(id !== undefined && { checkpoint_id: id }), ...(metadata !== undefined && { metadata }) };
    const saved = await this.#http.send({ method: "POST", path: address(thread), json }, rest);
    return (saved as { checkpoint_id: string }).checkpoint_id;
  }

  /** The checkpoint of this id, or the newest of the thread; null when there is none. */
  async load<State = unknown>(
    thread: string,
    id?: string,
    options: RequestOptions = {},
  ): Promise<Checkpoint<State> | null> {
    const wanted = id ?? (await this.list(thread, { ...options, limit: 1 }))[0]?.checkpoint_id;
    if (wanted === undefined) return null;
    const found = this.#http.send({ method: "GET", path: address(thread, wanted) }, options);
    return (await found.catch(absent(null))) as Checkpoint<State> | null;
  }

  /** The newest checkpoints of a thread, newest first: 10 unless told otherwise, 10,000 at most. */
  async list(thread: string, options: RequestOptions & { limit?: number } = {}): Promise<CheckpointHeading[]> {
    const { limit, ...rest } = options;
    const found = await this.#http.send({ method: "GET", path: address(thread), query: { limit } }, rest);
    return (found as { checkpoints: CheckpointHeading[] }).checkpoints;
  }

  /** Forgets one checkpoint, or the whole thread; tells whether there was one. */
  async delete(thread: string, id?: string, options: RequestOptions = {}): Promise<boolean> {
    const done = this.#http.send({ method: "DELETE", path: address(thread, id) }, options);
    return (await done.then(() => true).catch(absent(false))) as boolean;
  }
}

function address(thread: string, id?: string): string {
  const all = `/threads/${part("thread", thread)}/checkpoints`;
  return id === undefined ? all : `${all}/${part("id", id)}`;
}

/** Turns the answer that there is nothing into a value; every other error stays one. */
function absent<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if (error instanceof CofioError && error.status === 404) return value;
    throw error;
  };
}
