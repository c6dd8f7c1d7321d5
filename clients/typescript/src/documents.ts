// The knowledge base: documents go in whole, and are found by their topics.

import type { Caller } from "./calls.ts";
import type { RequestOptions } from "./http.ts";
import type { Calls } from "./schema.ts";

type Request<Name extends keyof Calls> = Calls[Name]["request"];
type Response<Name extends keyof Calls> = Calls[Name]["response"];

/** Documents, and the topics that their headings make of them. */
export class Documents {
  readonly #calls: Caller;

  constructor(calls: Caller) {
    this.#calls = calls;
  }

  /** Takes a document in; `file` is a `File`, whose name tells what it is, or a `Blob` with a type. */
  async add(request: Request<"add_document">, options?: RequestOptions): Promise<Response<"add_document">> {
    return (await this.#calls.ask("add_document", request, options)).data;
  }

  /** Puts another file in a document's place; its id stays. */
  async replace(request: Request<"replace_document">, options?: RequestOptions): Promise<Response<"replace_document">> {
    return (await this.#calls.ask("replace_document", request, options)).data;
  }

  /** A document with its topics. */
  async get(request: Request<"get_document">, options?: RequestOptions): Promise<Response<"get_document">> {
    return (await this.#calls.ask("get_document", request, options)).data;
  }

  /** One page of the documents. */
  async list(request: Request<"list_documents"> = {}, options?: RequestOptions): Promise<Response<"list_documents">> {
    return (await this.#calls.ask("list_documents", request, options)).data;
  }

  /** Gives a document another title or category. */
  async update(request: Request<"patch_document">, options?: RequestOptions): Promise<Response<"patch_document">> {
    return (await this.#calls.ask("patch_document", request, options)).data;
  }

  /** Forgets a document with all of its topics. */
  async delete(request: Request<"delete_document">, options?: RequestOptions): Promise<Response<"delete_document">> {
    return (await this.#calls.ask("delete_document", request, options)).data;
  }

  /** The file as it was sent. */
  async original(request: Request<"get_original">, options?: RequestOptions): Promise<Blob> {
    return (await this.#calls.ask("get_original", request, options)).data;
  }

  /** What the document says, as Markdown. */
  async markdown(request: Request<"get_markdown">, options?: RequestOptions): Promise<string> {
    return await (await this.#calls.ask("get_markdown", request, options)).data.text();
  }

  /** One topic, with what it says. */
  async topic(request: Request<"get_topic">, options?: RequestOptions): Promise<Response<"get_topic">> {
    return (await this.#calls.ask("get_topic", request, options)).data;
  }

  /** The topics that answer a query. */
  async search(request: Request<"search_knowledge">, options?: RequestOptions): Promise<Response<"search_knowledge">> {
    return (await this.#calls.ask("search_knowledge", request, options)).data;
  }

  /** What documents are filed under. */
  async categories(
    request: Request<"list_categories"> = {},
    options?: RequestOptions,
  ): Promise<Response<"list_categories">> {
    return (await this.#calls.ask("list_categories", request, options)).data;
  }
}
