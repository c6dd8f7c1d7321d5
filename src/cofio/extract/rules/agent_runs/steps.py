"""The steps of an agent's run: every tool call with its arguments, its result, and whether it failed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...extractor import Call, Message, Step
from ..lines import flatten
from .arguments import encode_arguments
from .commands import find_source, looks_up
from .results import NO_RESULT, summarize_result


def find_steps(messages: Sequence[Message]) -> tuple[Step, ...]:
    """Every tool call of the assistants in order, each with the result that answers it."""
    calls: list[Call] = []
    answers: list[tuple[range, Message]] = []
    latest = range(0)
    for message in messages:
        if message.role == "assistant" and message.calls:
            latest = range(len(calls), len(calls) + len(message.calls))
            calls += message.calls
        elif message.role == "tool":
            answers.append((latest, message))
    results = _match_results(calls, answers)
    return tuple(_build_step(call, results.get(at)) for at, call in enumerate(calls))


def _match_results(calls: list[Call], answers: list[tuple[range, Message]]) -> dict[int, str]:
    """The text of the result of each call that has one; an answer comes with the latest calls before it.

    An id that is used again belongs to the oldest call that still waits for it; but where there are too few results,
    those of an earlier message never came. A result without an id answers the next of the latest calls.
    """
    waiting: dict[str, deque[int]] = {}
    for number, call in enumerate(calls):
        waiting.setdefault(call.id, deque()).append(number)
    left = Counter(message.answers for _, message in answers)
    unnamed: dict[range, Iterator[int]] = {}
    results: dict[int, str] = {}
    for latest, message in answers:
        at: int | None = None
        if message.answers is None:
            at = next((i for i in unnamed.setdefault(latest, iter(latest)) if i not in results), None)
        elif queue := waiting.get(message.answers):
            while left[message.answers] < len(queue) and queue[0] < latest.start and queue[1] < latest.stop:
                queue.popleft()
            at = queue.popleft() if queue[0] < latest.stop else None
        left[message.answers] -= 1
        if at is not None:
            results[at] = message.text
    return results


def _build_step(call: Call, result: str | None) -> Step:
    arguments = encode_arguments(call.arguments)
    tool = flatten(call.name, 80) or "tool"
    step = Step(tool=tool, arguments=arguments, result=NO_RESULT, failed=False)
    if result is None:
        return step
    line, failed = summarize_result(result, reads=looks_up(step), of=find_source(step))
    return replace(step, result=line, failed=failed)


def has_worked(step: Step) -> bool:
    """Whether a step has a result, and that is not a failure."""
    return not step.failed and step.result != NO_RESULT
