// A client for `cofio serve`: conversations in, memory out, documents, search and the states of agents.

import { Caller } from "./calls.ts";
import { Checkpoints } from "./checkpoints.ts";
import { Documents } from "./documents.ts";
import { type CofioOptions, Http, type RequestOptions, sleep } from "./http.ts";
import type {
  AddRequest,
  Calls,
  GetAgentCaseItem,
  GetAgentSkillItem,
  GetAtomicFactItem,
  GetData,
  GetEpisodeItem,
  GetProfileItem,
  GetRequest,
  MessageItem,
  SearchData,
  SearchRequest,
  TaskItem,
} from "./schema.ts";

export { type Checkpoint, type CheckpointHeading, Checkpoints } from "./checkpoints.ts";
export { Documents } from "./documents.ts";
export { CofioError, type CofioOptions, type RequestOptions } from "./http.ts";
export type * from "./schema.ts";

/** A message as a person types it: the time is now, and the sender the role's, unless they are given. */
export type Message = Omit<MessageItem, "timestamp" | "sender_id"> & { timestamp?: number; sender_id?: string };

type AddInput = Omit<AddRequest, "messages"> & { messages: Message[] };
/** With the id of the request: where the answer is `queued`, it is the task's. */
type Answered<Data> = Data & { request_id: string };

/** What a record of each type looks like. */
export interface RecordTypes {
  episode: GetEpisodeItem;
  atomic_fact: GetAtomicFactItem;
  profile: GetProfileItem;
  agent_case: GetAgentCaseItem;
  agent_skill: GetAgentSkillItem;
}

const FIELDS = {
  episode: "episodes",
  atomic_fact: "atomic_facts",
  profile: "profiles",
  agent_case: "agent_cases",
  agent_skill: "agent_skills",
} as const satisfies Record<GetRequest["memory_type"], keyof GetData>;

/** A random id. Pages without HTTPS have no `crypto.randomUUID`. */
function makeId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The memory behind one server. */
export class Cofio {
  /** The states of agents, by thread. */
  readonly checkpoints: Checkpoints;
  /** A knowledge base of documents, beside what is remembered of conversations. */
  readonly documents: Documents;
  readonly #calls: Caller;
  #last = 0;

  constructor(options: CofioOptions = {}) {
    const http = new Http(options);
    this.#calls = new Caller(http);
    this.checkpoints = new Checkpoints(http);
    this.documents = new Documents(this.#calls);
  }

  /** Makes any call of the API by its name: what it takes and gives is in `Calls`. */
  async call<Name extends keyof Calls>(
    name: Name,
    request: Calls[Name]["request"],
    options?: RequestOptions,
  ): Promise<Calls[Name]["response"]> {
    return (await this.#calls.ask(name, request, options)).data;
  }

  /**
   * Keeps messages of a session: they are on disk when this resolves. With `async_mode`, see `waitForTask`.
   * It is sent again when the connection is lost before the answer; each message is kept once.
   */
  async add(request: AddInput, options?: RequestOptions): Promise<Answered<Calls["add"]["response"]>> {
    // Once, before the first attempt, so that another attempt repeats it. The server knows a message with a time by that.
    const messages = request.messages.map((message) => ({
      ...message,
      sender_id: message.sender_id ?? message.role,
      timestamp: message.timestamp ?? this.#now(),
      message_id: message.message_id ?? (message.timestamp === undefined ? makeId() : null),
    }));
    const { data, request_id } = await this.#calls.ask("add", { ...request, messages }, options, true);
    return { ...data, request_id };
  }

  /** The time in milliseconds, later with each call: messages are sorted by it, and keep the order they were given in. */
  #now(): number {
    this.#last = Math.max(Date.now(), this.#last + 1);
    return this.#last;
  }

  /** Turns what a session holds into episodes, facts and profiles now, rather than when the conversation moves on. */
  async flush(
    request: Calls["flush"]["request"],
    options?: RequestOptions,
  ): Promise<Answered<Calls["flush"]["response"]>> {
    const { data, request_id } = await this.#calls.ask("flush", request, options);
    return { ...data, request_id };
  }

  /** Finds what answers a query, among what is remembered of a user or by an agent. */
  async search(request: SearchRequest, options?: RequestOptions): Promise<SearchData> {
    return await this.call("search", request, options);
  }

  /** One page of an owner's records of one type. */
  async get(request: GetRequest, options?: RequestOptions): Promise<Calls["get"]["response"]> {
    return await this.call("get", request, options);
  }

  /** Every record of an owner of one type, page by page. */
  async *list<Type extends GetRequest["memory_type"]>(
    request: Omit<GetRequest, "page" | "memory_type"> & { memory_type: Type },
    options?: RequestOptions,
  ): AsyncGenerator<RecordTypes[Type], void, void> {
    for (let page = 1, seen = 0; ; page += 1) {
      const found = await this.get({ ...request, page }, options);
      const records = (found[FIELDS[request.memory_type]] ?? []) as Array<RecordTypes[Type]>;
      yield* records;
      seen += records.length;
      if (records.length === 0 || seen >= found.total_count) return;
    }
  }

  /** Forgets a record, a session, an owner's memory, or all of an app and project. */
  async delete(request: Calls["delete"]["request"], options?: RequestOptions): Promise<Calls["delete"]["response"]> {
    return await this.call("delete", request, options);
  }

  /** Puts a record right by hand. */
  async update(request: Calls["update"]["request"], options?: RequestOptions): Promise<Calls["update"]["response"]> {
    return await this.call("update", request, options);
  }

  /** How a request that was answered at once, to be carried out later, is getting on. */
  async task(id: string, options?: RequestOptions): Promise<TaskItem> {
    return await this.call("task", { task_id: id }, options);
  }

  /** Waits until such a request has been carried out, or has failed. */
  async waitForTask(id: string, options: RequestOptions & { every?: number } = {}): Promise<TaskItem> {
    for (;;) {
      const task = await this.task(id, options);
      if (task.status === "success" || task.status === "failed") return task;
      await sleep(options.every ?? 200, options.signal);
    }
  }

  /** Whether the server is well, and what it can do. */
  async health(options?: RequestOptions): Promise<Calls["health"]["response"]> {
    return await this.call("health", {}, options);
  }
}
