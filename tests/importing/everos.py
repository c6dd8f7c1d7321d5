"""A memory of EverOS 1.0.2, as the writers of that very version wrote it."""

from __future__ import annotations

from pathlib import Path

SESSION = """\
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab
"""
TALK = f"{SESSION}**sender_ids**: [alice, bot]\n"


def make_day(kind: str, track: str, owner: str, appended: str, *entries: str) -> str:
    """The file of a day, with entries of one kind."""
    short = {"agent_case": "ac", "atomic_fact": "af", "foresight": "fs", "episode": "ep"}[kind]
    head = (
        f"---\nid: {kind}_log_{owner}_2026-11-15\ntype: {kind}_daily\nfile_type: {kind}_daily\nschema_version: 1\n"
        f"{track}_id: {owner}\ntrack: {track}\ndate: '2026-11-15'\nentry_count: {len(entries)}\n"
        f"last_appended_at: '2026-11-15T16:18:30.{appended}+00:00'\n---\n"
    )
    names = [f"{short}_20261115_{number:08}" for number in range(1, len(entries) + 1)]
    return head + "".join(
        f"<!-- entry:{name} -->\n## {name}\n\n**owner_id**: {owner}\n{entry}<!-- /entry:{name} -->\n"
        for name, entry in zip(names, entries, strict=True)
    )


FIXER, ALICE = "default_app/default_project/agents/fixer", "default_app/default_project/users/alice"
TREE = {
    f"{FIXER}/.cases/agent_case-2026-11-15.md": make_day("agent_case", "agent", "fixer", "153595", f"""\
{SESSION}**quality_score**: 0.85

### TaskIntent
Fix the deploy of the payments service

### Approach
1. Tried: make deploy
   Result: ok
Outcome: healthy

### KeyInsight
Look at the pods first.
"""),
    f"{FIXER}/skills/skill_deploy services/SKILL.md": """\
---
id: fixer_deploy services
type: agent_skill
schema_version: 1
agent_id: fixer
track: agent
name: deploy services
description: How to deploy.
confidence: 0.6
maturity_score: 1.0
source_case_ids:
- ac_20261115_00000001
cluster_id: cl_0123456789ab
created_at: null
updated_at: null
---
## Steps
1. make deploy
2. look at the pods
""",
    f"{ALICE}/.atomic_facts/atomic_fact-2026-11-15.md": make_day(
        "atomic_fact", "user", "alice", "150207",
        f"{SESSION}\n### Fact\nAlice loves climbing in Yosemite every spring.\n",
    ),
    f"{ALICE}/.foresights/foresight-2026-11-15.md": make_day(
        "foresight", "user", "alice", "151924",
        f"{SESSION}**start_time**: 2026-06-01\n**end_time**: 2026-06-30\n**duration_days**: 29\n\n"
        "### Foresight\nAlice will buy shoes.\n\n### Evidence\nShe said so.\n",
    ),
    f"{ALICE}/episodes/episode-2026-11-15.md": make_day("episode", "user", "alice", "147049", f"""\
{TALK}
### Subject
Alice plans a climbing trip to Yosemite

### Summary
Alice loves climbing.

### Content
On May 28, 2026 Alice told the assistant that she loves climbing.

### Plans
- Yosemite in spring
""", """\
**session_id**: chat-2
**timestamp**: 2026-05-29T08:00:00.500000+02:00
**parent_type**: memcell
**parent_id**: mc_ba9876543210
**sender_ids**: [alice, bot]

### Subject
Kaffee

### Summary
Alice trinkt Kaffee.

### Content
Alice mag Blue Bottle: „sehr gut“.
"""),
    f"{ALICE}/user.md": """\
---
id: profile_alice
type: user_profile
schema_version: 1
user_id: alice
track: user
summary: 'A climber: she lives near Yosemite.'
explicit_info:
- category: Hobby
  description: Loves climbing.
  evidence: I love climbing
implicit_traits:
- trait: active
  description: Likes sports.
  basis: talk
  evidence: x
profile_timestamp_ms: 1779967836000
---
A climber: she lives near Yosemite.
""",
    "shop/web/users/bob/episodes/episode-2026-11-15.md": make_day(
        "episode", "user", "bob", "159395", f"{TALK}\n### Content\nBob says hi.\n"
    ),
}  # fmt: skip


def make(folder: Path) -> Path:
    """Write the memory into a folder, with what else the product leaves there."""
    others = {
        ".index/sqlite/system.db": "not for us", "ome.toml": "[strategies]\n",
        "default_app/default_project/knowledge/guide.md": "# A guide\n",
    }  # fmt: skip
    for name, text in (TREE | others).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
