"""Write the goldens anew, to be read by a person before they are committed: python -m tests.core.extract.write"""

from __future__ import annotations

from .script import CONVERSATIONS, GOLDENS, golden, read

if __name__ == "__main__":
    GOLDENS.mkdir(exist_ok=True)
    for path in CONVERSATIONS:
        (GOLDENS / path.name).write_text(golden(read(path)))
