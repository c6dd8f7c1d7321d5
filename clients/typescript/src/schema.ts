// Made by generate.py from the server's OpenAPI document: change the server, not this file.

/** What became of messages. */
export interface AddData {
  /** How many messages were in the request. */
  message_count: number;
  /** How it is getting on. */
  status: "accumulated" | "extracted";
}

/** Messages for a session. */
export interface AddRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The conversation. */
  session_id: SessionName;
  /** What was said, in order. */
  messages: MessageItem[];
  /** Only keep the messages: no memory is made of them before a flush, or a quiet time. By default false. */
  defer_extraction?: boolean;
  /**
   * Answer with 202 as soon as the messages are kept, and make memory of them afterwards: see /tasks. By default
   * false.
   */
  async_mode?: boolean;
}

/** What is to be known before anything is asked. */
export interface BriefRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The tokens that the text may cost. By default 1500. */
  budget?: number;
}

/** What the server has been given. */
export interface Capabilities {
  /** Whether a model betters what the rules write. */
  llm: boolean;
  /** Whether memory is found by meaning, too. */
  embed: boolean;
  /** Whether a model can put hits in order. */
  rerank: boolean;
  /** Whether images and sound can be sent to a model. */
  multimodal_llm: boolean;
  /** Whether documents can be read; always so. */
  parser: boolean;
}

/** The categories there are. */
export interface CategoriesData {
  /** The categories there are from the start, then those that documents were given. */
  categories: CategoryItem[];
}

/** Whose categories are meant. */
export interface CategoriesRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
}

/** A category, and how many documents are filed under it. */
export interface CategoryItem {
  /** Its name. */
  category_id: string;
  /** What belongs there. */
  description: string;
  /** How many documents are filed under it. */
  document_count: number;
}

/** A piece of a message that has several. */
export interface ContentItem {
  /** What kind of thing it is. */
  type: "text" | "image" | "audio" | "doc" | "pdf" | "html" | "email";
  /** The text of the piece. */
  text?: string | null;
  /** Where a file is: an address or a path that the server may read. */
  uri?: string | null;
  /** A file's content, in base64; `ext` says what it is. */
  base64?: string | null;
  /** A file's ending, as in `pdf`. */
  ext?: string | null;
  /** What it is called. */
  name?: string | null;
  /** Anything else, which comes back as it was. */
  extras?: Record<string, unknown> | null;
}

/** What a model should know of a user before it answers. */
export interface ContextRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The user whose memory it is: their `sender_id`. */
  user_id: Name;
  /** What is asked, if something is, in plain words. By default "". */
  query?: string;
  /** The tokens that the text may cost. By default 1000. */
  budget?: number;
}

/** How much was forgotten. */
export interface DeleteData {
  /** What was said, in order. */
  messages: number;
  /** Stretches of conversation. */
  episodes: number;
  /** Single things that were said. */
  atomic_facts: number;
  /** What is known of a user. */
  profiles: number;
  /** What an agent was asked to do, and how it went about it. */
  agent_cases: number;
  /** How an agent does kinds of tasks. */
  agent_skills: number;
}

/** What is to be forgotten: one of these. */
export interface DeleteRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** An episode, fact, case or skill, or a waiting message. */
  id?: string | null;
  /** The conversation. */
  session_id?: SessionName | null;
  /** The user whose memory it is: their `sender_id`. */
  user_id?: Name | null;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id?: Name | null;
  /** With an owner: only records of this type. */
  memory_type?: "episode" | "profile" | "agent_case" | "agent_skill" | null;
  /** Everything of this app and project. By default false. */
  all?: boolean;
}

/** The document that a hit is of. */
export interface DocumentContext {
  /** The document's id. */
  doc_id: string;
  /** What the document is called. */
  title: string;
  /** What the document is about. */
  summary: string;
}

/** A document that was just stored. */
export interface DocumentData {
  /** The document's id. */
  doc_id: string;
  /** What the document is filed under. */
  category_id: string;
  /** How many topics the document has. */
  topic_count: number;
  /** The name of its file; null if it had none. */
  source_name: string | null;
  /** The address of its text, as Markdown. */
  md_path: string;
  /** The address of the file as it was sent, if it is kept. */
  original_file_path: string | null;
}

/** A document that was forgotten. */
export interface DocumentDeleteData {
  /** The document's id. */
  doc_id: string;
  /** How many topics went with it. */
  deleted_topics: number;
}

/** A document with its topics. */
export interface DocumentDetail {
  /** The document's id. */
  doc_id: string;
  /** What the document is filed under. */
  category_id: string;
  /** What the document is called. */
  title: string;
  /** What the document is about. */
  summary: string;
  /** The name of its file; null if it had none. */
  source_name: string | null;
  /** Where the file comes from, in a word of the sender's. */
  source_type: string | null;
  /** The address of the file as it was sent; null if it is not kept. */
  original_file_path: string | null;
  /** Its topics, in the order of the document. */
  topics: TopicOverview[];
  /** When it came in. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
}

/** A document in a list. */
export interface DocumentOverview {
  /** The document's id. */
  doc_id: string;
  /** What the document is filed under. */
  category_id: string;
  /** What the document is called. */
  title: string;
  /** How many topics the document has. */
  topic_count: number;
  /** When it came in. */
  created_at: string;
}

/** A page of documents. */
export interface DocumentPage {
  /** The documents of this page. */
  documents: DocumentOverview[];
  /** How many there are. */
  total: number;
  /** Which page, from 1. */
  page: number;
  /** How many there are on a page, at most 100. */
  page_size: number;
}

/** What was changed of a document. */
export interface DocumentPatchData {
  /** The document's id. */
  doc_id: string;
  /** What has changed: title, category_id. */
  updated_fields: string[];
  /** When it last changed. */
  updated_at: string;
}

/** Which document is meant. */
export interface DocumentRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
}

/** Which documents are listed. */
export interface DocumentsRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** What the document is filed under. */
  category_id?: string | null;
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
  /** What they are sorted by. By default "created_at". */
  sort_by?: "created_at" | "updated_at" | "title";
  /** desc: the newest first, or from Z to A. By default "desc". */
  sort_order?: "asc" | "desc";
}

/** What went wrong. */
export interface ErrorBody {
  /** What kind of failure it is, for programs: NOT_FOUND, INVALID_INPUT and the like. */
  code: string;
  /** What went wrong and what to do about it, in a sentence. */
  message: string;
  /** When it happened, in the display zone. */
  timestamp: string;
  /** The path that was called. */
  path: string;
}

/** The answer to a request that cannot be met. */
export interface ErrorEnvelope {
  /** The id of the request, which the log has, too. */
  request_id: string;
  /** Why it failed; null while it has not. */
  error: ErrorBody;
}

/** A tree of conditions: AND, OR, and the names of fields. */
export interface FilterNode {
  /** Conditions that must all hold. */
  AND?: FilterNode[] | null;
  /** Conditions of which one must hold. */
  OR?: FilterNode[] | null;
  [name: string]: unknown;
}

/** What became of a session. */
export interface FlushData {
  /** How it is getting on. */
  status: "extracted" | "no_extraction";
}

/** The session that is to be carved now. */
export interface FlushRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The conversation. */
  session_id: SessionName;
}

/** What an agent was asked to do, and how it went about it. */
export interface GetAgentCaseItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id: string;
  /** The conversation. */
  session_id: string;
  /** What was asked for. */
  task_intent: string;
  /** What was tried, step by step, and what came of it. */
  approach: string;
  /** How well it went, from 0 to 1. */
  quality_score: number;
  /** What made the difference; null where nothing did. */
  key_insight: string | null;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
}

/** How an agent does a kind of task. */
export interface GetAgentSkillItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id: string;
  /** What it is called. */
  name: string;
  /** When it is of use. */
  description: string;
  /** What it says. */
  content: string;
  /** How sure it is, from 0 to 1. */
  confidence: number;
  /** How well tried it is, from 0 to 1: it grows with its cases. */
  maturity_score: number;
  /** The cases that it was made of. */
  source_case_ids: string[];
}

/** One thing that was said, in a list. */
export interface GetAtomicFactItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The user whose memory it is: their `sender_id`. */
  user_id: string;
  /** The conversation. */
  session_id: string;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** Everyone who spoke. */
  sender_ids: string[];
  /** What `parent_id` is the id of. */
  parent_type: string;
  /** The stretch of conversation that it comes from. */
  parent_id: string;
  /** What it says. */
  content: string;
}

/** A page of records. */
export interface GetData {
  /** Stretches of conversation. */
  episodes: GetEpisodeItem[];
  /** What is known of a user. */
  profiles: GetProfileItem[];
  /** What an agent was asked to do, and how it went about it. */
  agent_cases: GetAgentCaseItem[];
  /** How an agent does kinds of tasks. */
  agent_skills: GetAgentSkillItem[];
  /** Only with `memory_type` `atomic_fact`. By default []. */
  atomic_facts?: GetAtomicFactItem[];
  /** How many there are on all pages. */
  total_count: number;
  /** How many are on this page. */
  count: number;
}

/** A stretch of conversation. */
export interface GetEpisodeItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The user whose memory it is: their `sender_id`. */
  user_id: string | null;
  /** The conversation. */
  session_id: string;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** Everyone who spoke. */
  sender_ids: string[];
  /** It in one or two sentences. */
  summary: string;
  /** What it is about, in a few words. */
  subject: string;
  /** What was said, told in the third person. */
  episode: string;
  /** What kind of thing it is. */
  type: "Conversation";
}

/** What is known of a user. */
export interface GetProfileItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The user whose memory it is: their `sender_id`. */
  user_id: string | null;
  /**
   * What is known of the user: `summary`, `explicit_info`, `implicit_traits`, and `instructions` to the
   * assistant, newest first.
   */
  profile_data: Record<string, unknown>;
}

/** Which records of an owner are listed. */
export interface GetRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The user whose memory it is: their `sender_id`. */
  user_id?: Name | null;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id?: Name | null;
  /** What kind of record it is. */
  memory_type: "episode" | "profile" | "agent_case" | "agent_skill" | "atomic_fact";
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
  /** What they are sorted by; profiles and skills always by `updated_at`. By default "timestamp". */
  sort_by?: "timestamp" | "updated_at";
  /** desc: the newest first. By default "desc". */
  sort_order?: "asc" | "desc";
  /** Conditions that a record must meet: by session_id, timestamp, sender_id, parent_type, parent_id. */
  filters?: FilterNode | null;
}

/** A server that is up. */
export interface Health {
  /** It is up. */
  status: "ok";
  storage: StorageHealth;
  /** The version of cofio. */
  version: string;
  capabilities: Capabilities;
  /** What it cannot do without what it has not been given. */
  disabled_features: string[];
  /** The way from what is written to what is found. */
  cascade: IndexHealth;
  /** The requests that were answered with 202. */
  memorize_queue: QueueHealth;
  /** How the model is getting on; only where there is one. */
  model?: ModelHealth | null;
  /** How the standby that answers reads is getting on; only where there is one. */
  replica?: ReplicaHealth | null;
}

/** The way from what is written to what is found. There is none here: it is found from the same moment on. */
export interface IndexHealth {
  /** Always so. */
  healthy: boolean;
  /** Why it is not healthy; none. */
  reasons: string[];
  /** What cannot be found yet; nothing. */
  pending: number;
  /** Always 0. */
  failed_permanent: number;
  /** Always 0. */
  failed_retryable: number;
  /** Always 0. */
  drain_consecutive_failures: number;
  /** Always 0. */
  unrecoverable_total: number;
  /** Always 0. */
  optimize_failure_streak: number;
  /** Always 0. */
  prune_stale_seconds: number;
  /** Always empty: /metrics counts what the store holds. */
  index_rows: Record<string, number>;
  /** Never so: an index that is lost is made again. */
  index_emptied: boolean;
}

/** A text to put into an agent's context. */
export interface InjectionData {
  /** The memories as a block between two tags; without any it is empty, and that of a context says so. */
  text: string;
  /** What the text costs a model: a token for four letters of English, or for one of another script. */
  tokens: number;
  /** The records that it shows. */
  record_ids: string[];
}

/** A piece of deferred work. */
export interface JobItem {
  /** Its id; that of the request, where it is one that was answered with 202. */
  job_id: string;
  /** How it is getting on. */
  status: "queued" | "running" | "waiting" | "done" | "failed";
  /** The conversation. */
  session_id: string;
  /** How many messages were in the request. */
  message_count: number;
  /** What came of it; null while it is not done. */
  result: "accumulated" | "extracted" | "no_extraction" | "refined" | "left as it is" | null;
  /** Why it failed; null while it has not. */
  error: string | null;
  /** When it came in. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
}

/** A page of jobs, the newest first. */
export interface JobsData {
  /** The jobs of this page, the newest first. */
  jobs: JobItem[];
  /** How many there are on all pages. */
  total_count: number;
  /** How many are on this page. */
  count: number;
}

/** Which pieces of deferred work are asked about: one, or all of a page. */
export interface JobsRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** Its id; that of the request, where it is one that was answered with 202. */
  job_id?: string | null;
  /** How it is getting on. */
  status?: "queued" | "running" | "waiting" | "done" | "failed" | null;
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
}

/** A topic that answers. */
export interface KnowledgeHit {
  /** The topic's id: the document's, and a number from 1 on; 0 is the document itself. */
  topic_id: string;
  /** What the topic is called: its heading, or its first line. */
  topic_name: string;
  /** The names that lead to it from the document, with " > " between. */
  topic_path: string;
  /** How many steps lead to it from the document. */
  depth: number;
  /** What the topic is about. */
  summary: string;
  /** What the document is filed under. */
  category_id: string;
  /** What the topic says, with `include_content`. */
  content: string | null;
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
  /** The method that was asked for. */
  retrieval_method: string;
  /** The name of the document's file. */
  source: string | null;
  /** The document that it is of. */
  document: DocumentContext;
}

/** The topics that answer, best first. */
export interface KnowledgeSearchData {
  /** The topics that answer, best first. */
  hits: KnowledgeHit[];
  /** How many there are. */
  total: number;
  /** How long it took, in milliseconds. */
  took_ms: number;
}

/** What is looked for in all documents. */
export interface KnowledgeSearchRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** What is looked for, in plain words. */
  query: string;
  /**
   * keyword: by words; vector: by meaning; hybrid: both; agentic, llm_multiround: in several rounds. By default
   * "hybrid".
   */
  method?: "keyword" | "vector" | "hybrid" | "agentic" | "llm_multiround";
  /** How many hits there may be. By default 10. */
  top_k?: number;
  /** The least score of a hit, from 0 to 1. */
  score_threshold?: number | null;
  /** Give what the topics say, too. By default false. */
  include_content?: boolean;
}

/** A message that has not been carved yet, and answers a query. */
export interface MessageHit {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The conversation. */
  session_id: string;
  /** Who speaks. A user's messages become the memory of that user. */
  sender_id: string;
  /** What whoever speaks is called. */
  sender_name: string | null;
  /** Who speaks: a user, an assistant, or a tool that answers a call. */
  role: "user" | "assistant" | "tool";
  /** What it says. */
  content: string | Array<Record<string, unknown>>;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** The tools that an assistant called, as OpenAI has them. */
  tool_calls: Array<Record<string, unknown>> | null;
  /** The call that a tool's message answers. */
  tool_call_id: string | null;
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
}

/** One turn of a conversation. */
export interface MessageItem {
  /** Who speaks. A user's messages become the memory of that user. */
  sender_id: Name;
  /** What whoever speaks is called. */
  sender_name?: string | null;
  /** Who speaks: a user, an assistant, or a tool that answers a call. */
  role: "user" | "assistant" | "tool";
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: number;
  /** What it says. */
  content: string | ContentItem[];
  /** The tools that an assistant called, as OpenAI has them. */
  tool_calls?: ToolCall[] | null;
  /** The call that a tool's message answers. */
  tool_call_id?: string | null;
  /** The client's own id for the message: sent twice, it is kept once. */
  message_id?: string | null;
}

/** How the model is getting on. */
export interface ModelHealth {
  /** Whether it could be asked the last time. */
  status: "ok" | "unavailable";
  /** Why it could not. By default "". */
  reason?: string;
  /** How much there is for it to do. */
  waiting: number;
}

/** A name: 1 to 128 of the letters a-z and A-Z, digits and _ . @ + -, but not . or .. alone. */
export type Name = string;

/** What is to change of a document. */
export interface PatchRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
  /** What the document is called. */
  title?: string | null;
  /** What the document is filed under. */
  category_id?: string | null;
}

/** The requests that were answered with 202, as far as this server knows of them. */
export interface QueueHealth {
  /** Whether they are being carried out. */
  healthy: boolean;
  /** Why they are not. */
  reasons: string[];
  /** Whether the threads are there that carry them out. */
  loop_alive: boolean;
  /** Whether the server is not about to stop. */
  accepting: boolean;
  /** How many are not finished. */
  pending: number;
  /** For how long the oldest of them has waited, in seconds. */
  oldest_pending_age_s: number | null;
  /** How many have failed since the server started. */
  failed: number;
  /** Always 0: a request that fails does not end a thread. */
  loop_restarts: number;
  /** When one last failed by a fault of the server's own. */
  last_loop_error_at: string | null;
}

/** A request that is carried out later; its id is that of a task. */
export interface QueuedData {
  /** How it is getting on. */
  status: "queued";
  /** How many messages were in the request. */
  message_count: number;
  /** How many requests of the session are not finished, this one among them. */
  pending: number;
}

/** What was waited for. */
export interface QuiesceData {
  /** Whether all that was written can be found; always so. */
  quiesced: boolean;
  /** How many were waited for; always 0. */
  drained: number;
  /** How much was pending before; always 0. */
  pending_before: number;
  /** How much was pending afterwards; always 0. */
  pending_after: number;
  /** How many can never be found; always 0. */
  failed_permanent: number;
}

/** Nothing: whatever is sent is passed over. */
export interface QuiesceRequest {}

/** What bears on a prompt. */
export interface RecallRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The conversation. */
  session_id: SessionName;
  /** What the user has just written. */
  prompt: string;
  /** The tokens that the text may cost. By default 600. */
  budget?: number;
  /** Whether the agent has lost what it was shown, so that it may be shown again. By default false. */
  compacted?: boolean;
}

/** A file that is to take the place of a document. */
export interface ReplaceRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The file: text, Markdown, HTML, an office document, an email or a PDF, of at most 50 MiB. */
  file: Blob;
  /** What the document is called. */
  title: string;
  /** Where the file comes from, in a word of the sender's. */
  source_type?: string | null;
  /** What it is filed under; without it, that is decided by what it says. */
  category_id?: string | null;
  /** The document's id. */
  doc_id: string;
}

/** How the standby is getting on that answers reads. */
export interface ReplicaHealth {
  /** Whether reads go to it at the moment. */
  status: "ok" | "unused";
  /** Seconds that it was behind at most; null when that is not known. */
  lag: number | null;
  /** Why no reads go to it. By default "". */
  reason?: string;
}

/** A case that answers a query. */
export interface SearchAgentCaseItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id: string;
  /** The conversation. */
  session_id: string;
  /** What was asked for. */
  task_intent: string;
  /** What was tried, step by step, and what came of it. */
  approach: string;
  /** How well it went, from 0 to 1. */
  quality_score: number;
  /** What made the difference; null where nothing did. */
  key_insight: string | null;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
}

/** A skill that answers a query. */
export interface SearchAgentSkillItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id: string;
  /** What it is called. */
  name: string;
  /** When it is of use. */
  description: string;
  /** What it says. */
  content: string;
  /** How sure it is, from 0 to 1. */
  confidence: number;
  /** How well tried it is, from 0 to 1: it grows with its cases. */
  maturity_score: number;
  /** The cases that it was made of. */
  source_case_ids: string[];
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
}

/** One thing that was said: a fact, or the message that its episode was found by. */
export interface SearchAtomicFactItem {
  /** Of the fact; or of the message, as it came, where no fact tells all that it says. */
  id: string;
  /** What it says. */
  content: string;
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
  /** The id of the fact or message of the user that says something newer on this; if any. By default "". */
  superseded_by?: string;
  /** When that was said; only with `superseded_by`. By default "". */
  current_since?: string;
}

/** The hits of a search, by kind. */
export interface SearchData {
  /** Stretches of conversation. */
  episodes: SearchEpisodeItem[];
  /** What is known of a user. */
  profiles: SearchProfileItem[];
  /** What an agent was asked to do, and how it went about it. */
  agent_cases: SearchAgentCaseItem[];
  /** How an agent does kinds of tasks. */
  agent_skills: SearchAgentSkillItem[];
  /** Messages that wait, where `filters` names a session outright and the owner takes part. */
  unprocessed_messages: UnprocessedMessageDTO[];
  /** Only with `include_unprocessed`. By default []. */
  message_hits?: MessageHit[];
}

/** An episode that answers a query, with those of its facts that do. */
export interface SearchEpisodeItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The user whose memory it is: their `sender_id`. */
  user_id: string | null;
  /** The conversation. */
  session_id: string;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** Everyone who spoke. */
  sender_ids: string[];
  /** It in one or two sentences. */
  summary: string;
  /** What it is about, in a few words. */
  subject: string;
  /** What was said, told in the third person. */
  episode: string;
  /** What kind of thing it is. */
  type: "Conversation";
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number;
  /** Single things that were said. */
  atomic_facts: SearchAtomicFactItem[];
}

/** A profile beside the hits of a search; it is not ranked. */
export interface SearchProfileItem {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The user whose memory it is: their `sender_id`. */
  user_id: string | null;
  /**
   * What is known of the user: `summary`, `explicit_info`, `implicit_traits`, and `instructions` to the
   * assistant, newest first.
   */
  profile_data: Record<string, unknown>;
  /** How well it answers, from 0 to 1; it orders the hits of one answer. */
  score: number | null;
}

/** What is looked for, and in whose memory. */
export interface SearchRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The user whose memory it is: their `sender_id`. */
  user_id?: Name | null;
  /** The agent whose memory it is: its `sender_id` in the role `assistant`. */
  agent_id?: Name | null;
  /** What is looked for, in plain words. */
  query: string;
  /**
   * keyword: by words; vector: by meaning; hybrid: both; agentic and llm_multiround: in several rounds, which a
   * model directs where there is one. By default "hybrid".
   */
  method?: "keyword" | "vector" | "hybrid" | "agentic" | "llm_multiround";
  /** -1 for the server's defaults, or 1 to 100. By default -1. */
  top_k?: number;
  /** The least cosine of a hit that was found by meaning, from 0 to 1. */
  radius?: number | null;
  /** The least score of a hit, from 0 to 1. */
  min_score?: number | null;
  /** Give the user's profile, too. By default false. */
  include_profile?: boolean;
  /**
   * Have a model put an agent's cases and skills in order (method hybrid); ignored, with a note, where there is
   * none. By default false.
   */
  enable_llm_rerank?: boolean;
  /** Conditions that a record must meet: by session_id, timestamp, sender_id, parent_type, parent_id. */
  filters?: FilterNode | null;
  /** Look through messages of which no memory is made yet, too: `message_hits`. By default false. */
  include_unprocessed?: boolean;
}

/** A session's name: 1 to 128 characters of any kind. */
export type SessionName = string;

/** Whether the store takes writes. */
export interface StorageHealth {
  /** Why it refuses writes, if it does. */
  status: "ok" | "disk full" | "locked";
  /** The same in a sentence. By default "". */
  reason?: string;
}

/** A request that was answered with 202. */
export interface TaskItem {
  /** Its id. */
  id: string;
  /** How it is getting on. */
  status: "queued" | "processing" | "success" | "failed";
  /** What was asked for: to keep messages, or to flush a session. */
  task_type: "memory_add" | "memory_flush";
  /** Why it failed; null while it has not. */
  error: string | null;
  /** The kind of failure, for programs; null while there is none. */
  error_code: string | null;
  /** When it came in. */
  created_at: string;
  /** When it was finished; null while it is not. */
  finished_at: string | null;
}

/** A page of such requests, the newest first. */
export interface TaskPage {
  /** How many there are on all pages. */
  total: number;
  /** Which page, from 1. */
  page: number;
  /** How many there are on a page, at most 100. */
  page_size: number;
  /** The requests of this page. */
  items: TaskItem[];
}

/** Which request that was answered with 202 is asked about. */
export interface TaskRequest {
  /** The `request_id` of the answer with the status 202. */
  task_id: string;
}

/** Which requests that were answered with 202 are asked about. */
export interface TasksRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The conversation. */
  session_id?: SessionName | null;
  /** How it is getting on. */
  status?: "queued" | "processing" | "success" | "failed" | null;
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
}

/** A tool call that an assistant made. */
export interface ToolCall {
  /** Its id. */
  id: string;
  /** What kind of thing it is. By default "function". */
  type?: string;
  /** What is called. */
  function: ToolFunction;
}

/** The function that is called, and its arguments as JSON text. */
export interface ToolFunction {
  /** What it is called. */
  name: string;
  /** The arguments, as JSON text. */
  arguments: string;
}

/** A topic with what it says. */
export interface TopicDetail {
  /** The topic's id: the document's, and a number from 1 on; 0 is the document itself. */
  topic_id: string;
  /** What the topic is called: its heading, or its first line. */
  topic_name: string;
  /** The names that lead to it from the document, with " > " between. */
  topic_path: string;
  /** How many steps lead to it from the document. */
  depth: number;
  /** What the topic is about. */
  summary: string;
  /** The document's id. */
  doc_id: string;
  /** What the document is filed under. */
  category_id: string;
  /** What the topic says, with its heading; what the topics under it say is not in it. */
  content: string;
  /** Words that a model gave it; none without a model. */
  content_labels: string[];
  /** The topic that it is under; null for the document itself. */
  parent_topic_id: string | null;
  /** The topics under it. */
  children_topic_ids: string[];
  /** When it came in. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
}

/** A topic in the list of a document's. */
export interface TopicOverview {
  /** The topic's id: the document's, and a number from 1 on; 0 is the document itself. */
  topic_id: string;
  /** What the topic is called: its heading, or its first line. */
  topic_name: string;
  /** The names that lead to it from the document, with " > " between. */
  topic_path: string;
  /** How many steps lead to it from the document. */
  depth: number;
  /** What the topic is about. */
  summary: string;
}

/** Which topic is meant; the number 0 is the document itself. */
export interface TopicRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The topic's id: the document's, and a number from 1 on; 0 is the document itself. */
  topic_id: string;
}

/** What came of a strategy that was to be run. */
export interface TriggerData {
  /** How it is getting on. */
  status: "not_dispatched";
  /** What it is called. */
  name: string;
  /** How many were started; always 0. */
  dispatched: number;
  /** How each went; always empty. */
  runs: Array<Record<string, unknown>>;
}

/** A strategy that is to be run now. */
export interface TriggerRequest {
  /** What it is called. */
  name: string;
  /** Passed over. By default 120.0. */
  timeout?: number;
  /** Passed over. By default false. */
  force?: boolean;
}

/** A message that has not been carved yet. */
export interface UnprocessedMessageDTO {
  /** Its id. */
  id: string;
  /** The app whose memory it is. Nothing is ever seen from another. */
  app_id: string;
  /** The project of the app. Nothing is ever seen from another. */
  project_id: string;
  /** The conversation. */
  session_id: string;
  /** Who speaks. A user's messages become the memory of that user. */
  sender_id: string;
  /** What whoever speaks is called. */
  sender_name: string | null;
  /** Who speaks: a user, an assistant, or a tool that answers a call. */
  role: "user" | "assistant" | "tool";
  /** What it says. */
  content: string | Array<Record<string, unknown>>;
  /** When it was said: sent in milliseconds since 1970 (or seconds), shown as ISO 8601. */
  timestamp: string;
  /** The tools that an assistant called, as OpenAI has them. */
  tool_calls: Array<Record<string, unknown>> | null;
  /** The call that a tool's message answers. */
  tool_call_id: string | null;
}

/** The record as it is now. */
export interface UpdateData {
  /** Its id. */
  id: string;
  /** What kind of record it is. */
  memory_type: "episode" | "atomic_fact" | "profile" | "agent_case" | "agent_skill";
  /** The record as it is now. */
  item: Record<string, unknown>;
}

/** A record that is put right by hand: its id, or the user whose profile it is, and what is to change. */
export interface UpdateRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** Its id. */
  id?: string | null;
  /** The user whose memory it is: their `sender_id`. */
  user_id?: Name | null;
  /** What it is about, in a few words. */
  subject?: string | null;
  /** It in one or two sentences. */
  summary?: string | null;
  /** What was said, told in the third person. */
  episode?: string | null;
  /** What it says. */
  content?: string | null;
  /** What was asked for. */
  task_intent?: string | null;
  /** What was tried, step by step, and what came of it. */
  approach?: string | null;
  /** What made the difference; null where nothing did. */
  key_insight?: string | null;
  /** How well it went, from 0 to 1. */
  quality_score?: number | null;
  /** What it is called. */
  name?: string | null;
  /** When it is of use. */
  description?: string | null;
  /** How sure it is, from 0 to 1. */
  confidence?: number | null;
  /**
   * What is known of the user: `summary`, `explicit_info`, `implicit_traits`, and `instructions` to the
   * assistant, newest first.
   */
  profile_data?: Record<string, unknown> | null;
}

/** A file that is to be a document. */
export interface UploadRequest {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The file: text, Markdown, HTML, an office document, an email or a PDF, of at most 50 MiB. */
  file: Blob;
  /** What the document is called. */
  title: string;
  /** Where the file comes from, in a word of the sender's. */
  source_type?: string | null;
  /** What it is filed under; without it, that is decided by what it says. */
  category_id?: string | null;
}

/** What stands in the address of `tasks`. */
export interface TasksParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The conversation. */
  session_id?: SessionName;
  /** How it is getting on. */
  status?: "queued" | "processing" | "success" | "failed";
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
}

/** What stands in the address of `task`. */
export interface TaskParameters {
  /** The `request_id` of the answer with the status 202. */
  task_id: string;
}

/** What stands in the address of `list_documents`. */
export interface ListDocumentsParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** What the document is filed under. */
  category_id?: string;
  /** Which page, from 1. By default 1. */
  page?: number;
  /** How many there are on a page, at most 100. By default 20. */
  page_size?: number;
  /** What they are sorted by. By default "created_at". */
  sort_by?: "created_at" | "updated_at" | "title";
  /** desc: the newest first, or from Z to A. By default "desc". */
  sort_order?: "asc" | "desc";
}

/** What stands in the address of `get_document`. */
export interface GetDocumentParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
}

/** What stands in the address of `replace_document`. */
export interface ReplaceDocumentParameters {
  /** The document's id. */
  doc_id: string;
}

/** A file that is to take the place of a document. */
export interface ReplaceDocumentBody {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The file: text, Markdown, HTML, an office document, an email or a PDF, of at most 50 MiB. */
  file: Blob;
  /** What the document is called. */
  title: string;
  /** Where the file comes from, in a word of the sender's. */
  source_type?: string | null;
  /** What it is filed under; without it, that is decided by what it says. */
  category_id?: string | null;
}

/** What stands in the address of `patch_document`. */
export interface PatchDocumentParameters {
  /** The document's id. */
  doc_id: string;
}

/** What is to change of a document. */
export interface PatchDocumentBody {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** What the document is called. */
  title?: string | null;
  /** What the document is filed under. */
  category_id?: string | null;
}

/** What stands in the address of `delete_document`. */
export interface DeleteDocumentParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
}

/** What stands in the address of `get_original`. */
export interface GetOriginalParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
}

/** What stands in the address of `get_markdown`. */
export interface GetMarkdownParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The document's id. */
  doc_id: string;
}

/** What stands in the address of `get_topic`. */
export interface GetTopicParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
  /** The topic's id: the document's, and a number from 1 on; 0 is the document itself. */
  topic_id: string;
}

/** What stands in the address of `list_categories`. */
export interface ListCategoriesParameters {
  /** The app whose memory it is. Nothing is ever seen from another. By default "default". */
  app_id?: Name;
  /** The project of the app. Nothing is ever seen from another. By default "default". */
  project_id?: Name;
}

/** What each call takes and gives. */
export interface Calls {
  add: { request: AddRequest; response: AddData | QueuedData };
  flush: { request: FlushRequest; response: FlushData | QueuedData };
  search: { request: SearchRequest; response: SearchData };
  get: { request: GetRequest; response: GetData };
  delete: { request: DeleteRequest; response: DeleteData };
  update: { request: UpdateRequest; response: UpdateData };
  jobs: { request: JobsRequest; response: JobsData };
  tasks: { request: TasksParameters; response: TaskPage };
  task: { request: TaskParameters; response: TaskItem };
  trigger: { request: TriggerRequest; response: TriggerData };
  quiesce: { request: Record<string, never>; response: QuiesceData };
  brief: { request: BriefRequest; response: InjectionData };
  recall: { request: RecallRequest; response: InjectionData };
  context: { request: ContextRequest; response: InjectionData };
  add_document: { request: UploadRequest; response: DocumentData };
  list_documents: { request: ListDocumentsParameters; response: DocumentPage };
  get_document: { request: GetDocumentParameters; response: DocumentDetail };
  replace_document: { request: ReplaceDocumentParameters & ReplaceDocumentBody; response: DocumentData };
  patch_document: { request: PatchDocumentParameters & PatchDocumentBody; response: DocumentPatchData };
  delete_document: { request: DeleteDocumentParameters; response: DocumentDeleteData };
  get_original: { request: GetOriginalParameters; response: Blob };
  get_markdown: { request: GetMarkdownParameters; response: Blob };
  get_topic: { request: GetTopicParameters; response: TopicDetail };
  search_knowledge: { request: KnowledgeSearchRequest; response: KnowledgeSearchData };
  list_categories: { request: ListCategoriesParameters; response: CategoriesData };
  health: { request: Record<string, never>; response: Health };
}

/** Where a call is, how its request is sent, and what its answer is. */
export interface CallRoute {
  method: string;
  path: string;
  body: "json" | "form" | "none";
  answer: "enveloped" | "json" | "blob";
}

/** The route of each call. */
export const ROUTES: Record<keyof Calls, CallRoute> = {
  add: { method: "POST", path: "/api/v2/memory/add", body: "json", answer: "enveloped" },
  flush: { method: "POST", path: "/api/v2/memory/flush", body: "json", answer: "enveloped" },
  search: { method: "POST", path: "/api/v2/memory/search", body: "json", answer: "enveloped" },
  get: { method: "POST", path: "/api/v2/memory/get", body: "json", answer: "enveloped" },
  delete: { method: "POST", path: "/api/v2/memory/delete", body: "json", answer: "enveloped" },
  update: { method: "POST", path: "/api/v2/memory/update", body: "json", answer: "enveloped" },
  jobs: { method: "POST", path: "/api/v2/memory/jobs", body: "json", answer: "enveloped" },
  tasks: { method: "GET", path: "/api/v2/tasks", body: "none", answer: "enveloped" },
  task: { method: "GET", path: "/api/v2/tasks/{task_id}", body: "none", answer: "enveloped" },
  trigger: { method: "POST", path: "/api/v2/ome/trigger", body: "json", answer: "json" },
  quiesce: { method: "POST", path: "/api/v2/cascade/quiesce", body: "none", answer: "json" },
  brief: { method: "POST", path: "/api/v2/memory/brief", body: "json", answer: "enveloped" },
  recall: { method: "POST", path: "/api/v2/memory/recall", body: "json", answer: "enveloped" },
  context: { method: "POST", path: "/api/v2/memory/context", body: "json", answer: "enveloped" },
  add_document: { method: "POST", path: "/api/v2/knowledge/documents", body: "form", answer: "enveloped" },
  list_documents: { method: "GET", path: "/api/v2/knowledge/documents", body: "none", answer: "enveloped" },
  get_document: { method: "GET", path: "/api/v2/knowledge/documents/{doc_id}", body: "none", answer: "enveloped" },
  replace_document: { method: "PUT", path: "/api/v2/knowledge/documents/{doc_id}", body: "form", answer: "enveloped" },
  patch_document: { method: "PATCH", path: "/api/v2/knowledge/documents/{doc_id}", body: "json", answer: "enveloped" },
  delete_document: { method: "DELETE", path: "/api/v2/knowledge/documents/{doc_id}", body: "none", answer: "enveloped" },
  get_original: { method: "GET", path: "/api/v2/knowledge/documents/{doc_id}/original", body: "none", answer: "blob" },
  get_markdown: { method: "GET", path: "/api/v2/knowledge/documents/{doc_id}/markdown", body: "none", answer: "blob" },
  get_topic: { method: "GET", path: "/api/v2/knowledge/topics/{topic_id}", body: "none", answer: "enveloped" },
  search_knowledge: { method: "POST", path: "/api/v2/knowledge/search", body: "json", answer: "enveloped" },
  list_categories: { method: "GET", path: "/api/v2/knowledge/categories", body: "none", answer: "enveloped" },
  health: { method: "GET", path: "/health", body: "none", answer: "json" },
};
