"""A chat that remembers its user, over REST, with nothing but Python's standard library.

Start `cofio serve` (or `make run`) in one terminal and this in another. It needs no model: the answers come from what
is remembered. With a model you would put what `recall()` finds in front of the user's message.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from uuid import uuid4

ADDRESS = os.environ.get("COFIO_URL", "http://127.0.0.1:8427")
TOKEN = os.environ.get("COFIO_TOKEN", "")  # of `cofio token add NAME`, where the server wants one


def call(verb: str, **body: object) -> Any:
    """The data of an answer."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    request = urllib.request.Request(f"{ADDRESS}/api/v2/memory/{verb}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["data"]


def say(session: str, user: str, text: str) -> None:
    """Remember a message; it is on the server's disk when this returns."""
    message = {"sender_id": user, "role": "user", "timestamp": int(time.time() * 1000), "content": text}
    call("add", session_id=session, messages=[message])


def recall(user: str, question: str) -> list[str]:
    """What is known of a user that answers the question, the best first."""
    found = call("search", user_id=user, query=question, top_k=3)
    return [fact["content"] for episode in found["episodes"] for fact in episode["atomic_facts"]]


def main(user: str) -> None:
    """Tell something in one session, and ask for it in the next."""
    monday = f"monday-{uuid4().hex[:8]}"
    say(monday, user, "I moved to Lisbon last month, and I work as a nurse.")
    say(monday, user, "My dog is called Rex.")
    call("flush", session_id=monday)  # the chat is over: carve it into memory now

    for question in ("Where did she move to?", "What is the dog called?"):
        answers = recall(user, question)
        print(f"{question} {answers[0] if answers else 'I do not know yet.'}")
    print("Profile:", call("get", user_id=user, memory_type="profile")["profiles"][0]["profile_data"]["summary"])


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "maya")
    except urllib.error.HTTPError as error:
        sys.exit(f"the server answered {error.code}: {error.read().decode()}")
    except urllib.error.URLError as error:
        sys.exit(f"no server at {ADDRESS} ({error.reason}): start `cofio serve` in another terminal, or set COFIO_URL")
