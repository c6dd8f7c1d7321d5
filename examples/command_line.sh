#!/bin/sh
# A day on the command line, in a folder of its own. `cofio` has to be on the PATH.
set -eu
cd "${1:-$(mktemp -d)}"

cofio add "We deploy on Tuesdays, from main." --title "Deploys" --tag ops --author pm
cofio add "Stateless tokens, no session store." --title "Auth: chose JWT" --tag auth --author pm
printf 'The staging database moved to port 5433.\n' | cofio add --title "Staging" --tag ops

echo "== by words and by meaning"
cofio search which day do we deploy --limit 1
echo "== by tag, for a program"
cofio list --json | head -n 3
echo "== kept"
cofio export notes.jsonl
cofio backup copy
cofio --store copy search staging port --limit 1
cofio doctor
