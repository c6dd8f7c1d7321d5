"""How fast is the MCP door? `cofio mcp` beside agent-memory-store, which it takes the place of, in the same run.

usage: python -m benchmarks.mcp [--sizes 1000 10000] [--rounds 300] [--write]

Both servers are driven by the same small client, over the pipe that an agent would use, and in turns, so that a noisy
machine is fair to both. The peer is installed from npm into .node/peer when it is first needed; where that cannot be,
cofio is measured alone.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

import cofio

from ..__main__ import RESULTS, machine
from .measuring import ROUNDS, WARM, Report, measure
from .report import as_json, markdown
from .servers import found_peer


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000], help="how many chunks the stores hold")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how many calls of each tool are measured")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    if min(given.sizes) < 2 * (given.rounds + WARM):
        parser.error(f"a store of {min(given.sizes)} is too small for {given.rounds} rounds, which delete as many")
    peer, what = found_peer()
    head = f"cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}"
    report = Report(head=head, peer=what, rounds=given.rounds)
    measure(given.sizes, given.rounds, peer, report)
    text = markdown(report)
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "mcp.md").write_text(text)
        (RESULTS / "mcp.json").write_text(json.dumps(as_json(report), indent=1) + "\n")


if __name__ == "__main__":
    main()
