// A call by its name: where it is, how its request is sent, and what its answer is, are in `ROUTES`.

import { type Http, part, type RequestOptions } from "./http.ts";
import { type Calls, ROUTES } from "./schema.ts";

/** An answer, with the id of its request where it has one. */
export interface Answer<Data> {
  request_id: string;
  data: Data;
}

/** Makes calls of one server. */
export class Caller {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  async ask<Name extends keyof Calls>(
    name: Name,
    request: Calls[Name]["request"],
    options: RequestOptions = {},
    idempotent = false,
  ): Promise<Answer<Calls[Name]["response"]>> {
    const route = ROUTES[name];
    const fields: Record<string, unknown> = { ...request };
    const path = route.path.replace(/\{(\w+)\}/g, (_, field: string) => {
      const value = String(fields[field] ?? "");
      delete fields[field];
      return part(field, value);
    });
    const carried =
      route.body === "json" ? { json: fields } : route.body === "form" ? { form: form(fields) } : { query: fields };
    const sent = { method: route.method, path, idempotent, ...carried };
    const answer =
      route.answer === "blob"
        ? await (await this.#http.receive(sent, options)).blob()
        : await this.#http.send(sent, options);
    return (route.answer === "enveloped" ? answer : { request_id: "", data: answer }) as Answer<Calls[Name]["response"]>;
  }
}

function form(fields: Record<string, unknown>): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Blob) made.append(name, value);
    else if (value !== undefined && value !== null) made.append(name, String(value));
  }
  return made;
}
