"""A memory of EverOS 1.0.2, as the writers of that very version wrote it."""

from __future__ import annotations

from pathlib import Path

TREE = {
    "default_app/default_project/agents/fixer/.cases/agent_case-2026-11-15.md": """\
---
id: agent_case_log_fixer_2026-11-15
type: agent_case_daily
file_type: agent_case_daily
schema_version: 1
agent_id: fixer
track: agent
date: '2026-11-15'
entry_count: 1
last_appended_at: '2026-11-15T16:18:30.153595+00:00'
---
<!-- entry:ac_20261115_00000001 -->
## ac_20261115_00000001

**owner_id**: fixer
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab
**quality_score**: 0.85

### TaskIntent
Fix the deploy of the payments service

### Approach
1. Tried: make deploy
   Result: ok
Outcome: healthy

### KeyInsight
Look at the pods first.
<!-- /entry:ac_20261115_00000001 -->
""",
    "default_app/default_project/agents/fixer/skills/skill_deploy services/SKILL.md": """\
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
    "default_app/default_project/users/alice/.atomic_facts/atomic_fact-2026-11-15.md": """\
---
id: atomic_fact_log_alice_2026-11-15
type: atomic_fact_daily
file_type: atomic_fact_daily
schema_version: 1
user_id: alice
track: user
date: '2026-11-15'
entry_count: 1
last_appended_at: '2026-11-15T16:18:30.150207+00:00'
---
<!-- entry:af_20261115_00000001 -->
## af_20261115_00000001

**owner_id**: alice
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab

### Fact
Alice loves climbing in Yosemite every spring.
<!-- /entry:af_20261115_00000001 -->
""",
    "default_app/default_project/users/alice/.foresights/foresight-2026-11-15.md": """\
---
id: foresight_log_alice_2026-11-15
type: foresight_daily
file_type: foresight_daily
schema_version: 1
user_id: alice
track: user
date: '2026-11-15'
entry_count: 1
last_appended_at: '2026-11-15T16:18:30.151924+00:00'
---
<!-- entry:fs_20261115_00000001 -->
## fs_20261115_00000001

**owner_id**: alice
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab
**start_time**: 2026-06-01
**end_time**: 2026-06-30
**duration_days**: 29

### Foresight
Alice will buy shoes.

### Evidence
She said so.
<!-- /entry:fs_20261115_00000001 -->
""",
    "default_app/default_project/users/alice/episodes/episode-2026-11-15.md": """\
---
id: episode_log_alice_2026-11-15
type: episode_daily
file_type: episode_daily
schema_version: 1
user_id: alice
track: user
date: '2026-11-15'
entry_count: 2
last_appended_at: '2026-11-15T16:18:30.147049+00:00'
---
<!-- entry:ep_20261115_00000001 -->
## ep_20261115_00000001

**owner_id**: alice
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab
**sender_ids**: [alice, bot]

### Subject
Alice plans a climbing trip to Yosemite

### Summary
Alice loves climbing.

### Content
On May 28, 2026 Alice told the assistant that she loves climbing.

### Plans
- Yosemite in spring
<!-- /entry:ep_20261115_00000001 -->
<!-- entry:ep_20261115_00000002 -->
## ep_20261115_00000002

**owner_id**: alice
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
<!-- /entry:ep_20261115_00000002 -->
""",
    "default_app/default_project/users/alice/user.md": """\
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
    "shop/web/users/bob/episodes/episode-2026-11-15.md": """\
---
id: episode_log_bob_2026-11-15
type: episode_daily
file_type: episode_daily
schema_version: 1
user_id: bob
track: user
date: '2026-11-15'
entry_count: 1
last_appended_at: '2026-11-15T16:18:30.159395+00:00'
---
<!-- entry:ep_20261115_00000001 -->
## ep_20261115_00000001

**owner_id**: bob
**session_id**: chat-1
**timestamp**: 2026-05-28T11:30:36+00:00
**parent_type**: memcell
**parent_id**: mc_0123456789ab
**sender_ids**: [alice, bot]

### Content
Bob says hi.
<!-- /entry:ep_20261115_00000001 -->
""",
}


def make(folder: Path) -> Path:
    """Write the memory into a folder, with what else the product leaves there."""
    for name, text in TREE.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / ".index" / "sqlite").mkdir(parents=True)
    (folder / ".index" / "sqlite" / "system.db").write_bytes(b"not for us")
    (folder / "ome.toml").write_text("[strategies]\n")
    document = folder / "default_app" / "default_project" / "knowledge" / "guide.md"
    document.parent.mkdir(parents=True)
    document.write_text("# A guide\n")
    return folder
