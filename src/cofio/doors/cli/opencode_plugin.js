// cofio hooks: what agents remember. `cofio hooks install opencode` writes this file, `uninstall` removes it.
import { spawn } from "node:child_process"

const LINE = "COMMAND"
const MILLISECONDS = 5000

// Runs one hook and resolves to what it adds to the context; to nothing whatever goes wrong.
function run(event) {
  return new Promise((resolve) => {
    try {
      const child = spawn(LINE, { shell: true, stdio: ["pipe", "pipe", "ignore"], timeout: MILLISECONDS })
      let out = ""
      child.on("error", () => resolve(""))
      child.stdout.on("data", (piece) => (out += piece))
      child.on("close", () => {
        try {
          resolve(JSON.parse(out).additionalContext ?? "")
        } catch {
          resolve("")
        }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(event))
    } catch {
      resolve("")
    }
  })
}

export const CofioHooks = async ({ directory }) => {
  const started = new Set()
  const base = (event, session) => ({ hook_event_name: event, session_id: session, cwd: directory })
  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID
      const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      const events = started.has(session) ? [] : [{ ...base("SessionStart", session), source: "startup" }]
      started.add(session)
      const texts = await Promise.all([...events, { ...base("UserPromptSubmit", session), prompt }].map(run))
      const text = texts.filter(Boolean).join("\n")
      if (text && output.message?.id) {
        const id = `prt_cofio${Date.now().toString(36)}`
        output.parts.push({ id, sessionID: session, messageID: output.message.id, type: "text", text, synthetic: true })
      }
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID
      if (session && event.type === "session.idle") await run(base("Stop", session))
      if (session && event.type === "session.compacted") {
        started.delete(session)
        await run(base("PreCompact", session))
      }
    },
  }
}
