"""Makes the weights by which the rules judge what a sentence is, from the training half of the labelled messages.

usage: python -m benchmarks.fit_extraction [--cross] [--write] [--misses]

Three small linear models over the same features (see extract/rules/senses): what a sentence is (knowledge of its
speaker, an instruction, news of the world, or noise), which class of knowledge, and whether it says that something
ended. --cross prints how well each does on hands that it was not fitted on: only those figures, and never the test
half, decide on features and penalties. --write puts the weights, as bytes, into the package.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cofio import Settings
from cofio.embed import open_embedder
from cofio.extract.rules.messages.manner import Manner
from cofio.extract.rules.messages.sentences import read_message
from cofio.extract.rules.senses.classifier import CLASSES, LABELS, VECTOR_WEIGHTS, WEIGHTS
from cofio.extract.rules.senses.cues import GRAMS, PAIRS_OF_WORDS, WORDS, count_cues, count_features, list_features
from cofio.extract.rules.senses.word_groups import GROUPS

from .labelled_messages import DATA, WORLD, Labelled, load_messages

Floats = NDArray[np.float32]
FOLDS = 5
STRENGTH, STEPS, MEMORY = 0.5, 80, 8
"""How much the examples count beside the penalty on large weights, and the most steps of a fit."""
IMPORTANCE = {"cues": 1.0, "groups": 0.6, "words": 0.5, "pairs": 0.5, "grams": 0.3, "vector": 2.0}
"""What a feature counts, beside a cue."""
COUNTS = {"knowledge": 1.0, "instruction": 2.2, "world": 1.0, "noise": 1.0}
"""How much a sentence of each label counts: there are few instructions."""
SHOWING = frozenset({"paste", "roleplay", "translate", "correct", "quote"})
"""Noise of which only the first sentence is an example: alone, "my name is Ken" in a part that is played is none."""
SPREAD = frozenset({"noor"})
"""Hands that wrote nothing but noise of one sort: left out as a whole, that sort would be unknown to the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A sentence of a labelled message and what it is."""

    hand: str
    text: str
    label: str
    kind: str | None = None
    ended: bool = False


def list_examples(messages: Sequence[Labelled]) -> list[Example]:
    """The sentences of the messages that can be labelled: of a message that leaves several things, those with a key."""
    found: list[Example] = []
    for message in messages:
        sentences = read_message(message.text, lambda _: False).sentences
        texts = [one.text for one in sentences if one.manner is not Manner.CODE]
        for text in texts:
            if message.noise is not None:
                label = "world" if message.noise == WORLD else "noise"
                found.append(Example(hand=message.hand, text=text, label=label))
                if message.noise in SHOWING:
                    break
                continue
            leaves = [leaf for leaf in message.leaves if leaf.is_in(text)] or list(message.leaves) * (len(texts) == 1)
            known = [leaf for leaf in leaves if leaf.kind != "instruction"]
            if known:
                kind = known[0].was or known[0].kind
                ended = any(leaf.kind == "ended" for leaf in known)
                found.append(Example(hand=message.hand, text=text, label="knowledge", kind=kind, ended=ended))
            elif leaves:
                found.append(Example(hand=message.hand, text=text, label="instruction"))
    return found


def build_matrix(texts: Sequence[str], vectors: Floats | None = None) -> Floats:
    """A row of features for each text, and after them its vector, if there are vectors."""
    matrix = np.zeros((len(texts), count_features()), dtype=np.float32)
    for row, text in enumerate(texts):
        matrix[row, list_features(text)] = 1
    matrix *= list_importance()
    return matrix if vectors is None else np.hstack([matrix, IMPORTANCE["vector"] * vectors])


def list_importance() -> Floats:
    """What each feature counts."""
    sizes = {"cues": count_cues(), "groups": GROUPS, "words": WORDS, "pairs": PAIRS_OF_WORDS, "grams": GRAMS}
    return np.concatenate([np.full(size, IMPORTANCE[name], dtype=np.float32) for name, size in sizes.items()])


def embed(texts: Sequence[str]) -> Floats:
    """The vectors of the texts, by the model that is installed by default."""
    embedder = open_embedder("minilm", models=Settings.load(Path()).models_folder)
    assert embedder is not None
    unique = list(dict.fromkeys(texts))
    found = dict(zip(unique, embedder.embed(unique), strict=True))
    return np.array([found[text] for text in texts], dtype=np.float32)


def fit(matrix: Floats, labels: NDArray[np.intp], classes: int, counts: Floats) -> Floats:
    """The weights of a softmax regression with a penalty on their squares, by L-BFGS."""
    wanted = np.eye(classes, dtype=np.float32)[labels]

    def measure(weights: Floats) -> tuple[float, Floats]:
        shares = predict(matrix, weights)
        loss = -float(counts @ np.log((shares * wanted).sum(1) + 1e-12)) * STRENGTH + float((weights**2).sum()) / 2
        slope: Floats = np.float32(STRENGTH) * (matrix.T @ ((shares - wanted) * counts[:, None])) + weights
        return loss, slope

    weights = np.zeros((matrix.shape[1], classes), dtype=np.float32)
    loss, slope = measure(weights)
    past: list[tuple[Floats, Floats]] = []
    for _ in range(STEPS):
        way = _find_way(slope, past)
        size = 1.0 if past else 1.0 / max(1.0, float(np.abs(slope).sum()))
        for _ in range(20):
            other = weights + np.float32(size) * way
            other_loss, other_slope = measure(other)
            if other_loss <= loss + 1e-4 * size * float((slope * way).sum()):
                break
            size /= 2
        gain = loss - other_loss
        past = [*past[1 - MEMORY :], (other - weights, other_slope - slope)]
        weights, loss, slope = other, other_loss, other_slope
        if gain < 1e-5 * abs(loss):
            break
    return weights


def _find_way(slope: Floats, past: Sequence[tuple[Floats, Floats]]) -> Floats:
    """The way down, by the slope and how it changed in the last steps."""
    way, kept = -slope, []
    for moved, changed in reversed(past):
        share = float((moved * way).sum()) / max(float((moved * changed).sum()), 1e-12)
        way = way - np.float32(share) * changed
        kept.append(share)
    if past:
        moved, changed = past[-1]
        way = way * np.float32((moved * changed).sum() / max(float((changed**2).sum()), 1e-12))
    for (moved, changed), share in zip(past, reversed(kept), strict=True):
        back = float((changed * way).sum()) / max(float((moved * changed).sum()), 1e-12)
        way = way + np.float32(share - back) * moved
    return way


def predict(matrix: Floats, weights: Floats) -> Floats:
    """The probability of each class for each row."""
    scores = matrix @ weights
    scores = np.exp(scores - scores.max(1, keepdims=True))
    shares: Floats = scores / scores.sum(1, keepdims=True)
    return shares


def fit_all(examples: Sequence[Example], matrix: Floats) -> Floats:
    """The weights of the three models side by side: labels, classes, and whether it ended."""
    labels = np.array([LABELS.index(each.label) for each in examples])
    counts = np.array([COUNTS[each.label] for each in examples], dtype=np.float32)
    known = np.array([each.kind is not None for each in examples])
    mine = [each for each in examples if each.kind is not None]
    kinds = np.array([CLASSES.index(each.kind or "") for each in mine])
    ended = np.array([int(each.ended) for each in mine])
    return np.hstack(
        [
            fit(matrix, labels, len(LABELS), counts),
            fit(matrix[known], kinds, len(CLASSES), np.ones(len(mine), dtype=np.float32)),
            fit(matrix[known], ended, 2, (1 + 2.0 * ended).astype(np.float32)),
        ]
    )


def assign_folds(examples: Sequence[Example | Labelled]) -> NDArray[np.intp]:
    """The fold of each example or message, by its hand."""
    hands = sorted({each.hand for each in examples})
    numbers = (zlib.crc32(each.text.encode()) if each.hand in SPREAD else hands.index(each.hand) for each in examples)
    return np.array([number % FOLDS for number in numbers])


def cross_validate(examples: Sequence[Example], matrix: Floats) -> Floats:
    """The probabilities of each example by weights that were fitted without its hand, of all three models."""
    folds = assign_folds(examples)
    found = np.zeros((len(examples), len(LABELS) + len(CLASSES) + 2), dtype=np.float32)
    for fold in range(FOLDS):
        others = [each for each, of in zip(examples, folds, strict=True) if of != fold]
        weights = fit_all(others, matrix[folds != fold])
        start = 0
        for size in (len(LABELS), len(CLASSES), 2):
            found[folds == fold, start : start + size] = predict(
                matrix[folds == fold], weights[:, start : start + size]
            )
            start += size
    return found


def render_figures(examples: Sequence[Example], shares: Floats) -> list[str]:
    """How many of each label are kept at several thresholds, and how many classes are right."""
    labels = np.array([each.label for each in examples])
    noise, instruction = shares[:, LABELS.index("noise")], shares[:, LABELS.index("instruction")]
    lines = []
    for floor in (0.3, 0.4, 0.5, 0.6):
        kept = {label: f"{(noise[labels == label] < floor).mean():.3f}" for label in LABELS}
        lines.append(f"kept where P(noise) < {floor}: {kept}")
    for floor in (0.3, 0.4, 0.5):
        right, wrong = instruction[labels == "instruction"] >= floor, instruction[labels != "instruction"] >= floor
        lines.append(f"instruction at {floor}: found {right.mean():.3f}, of the others {wrong.mean():.3f}")
    known = np.array([each.kind is not None for each in examples])
    kinds = np.array([CLASSES.index(each.kind or "name") for each in examples])[known]
    of_class = shares[known, len(LABELS) : len(LABELS) + len(CLASSES)]
    lines.append(f"class: right {(of_class.argmax(1) == kinds).mean():.3f}")
    for floor in (0.3, 0.4, 0.5, 0.6, 0.7):
        sure = of_class.max(1) >= floor
        right = (of_class.argmax(1) == kinds)[sure].mean()
        lines.append(f"class where p >= {floor}: {sure.mean():.3f} of all, of these right {right:.3f}")
    ended, said = shares[known, -1], np.array([each.ended for each in examples])[known]
    lines.append(
        f"ended at .5: found {(ended[said] >= 0.5).mean():.3f}, of the others {(ended[~said] >= 0.5).mean():.3f}"
    )
    for floor in (0.6, 0.7, 0.8, 0.9):
        sure = shares[:, LABELS.index("knowledge")] >= floor
        taken = {label: f"{sure[labels == label].mean():.3f}" for label in LABELS}
        lines.append(f"P(knowledge) >= {floor}: {taken}")
    return lines


def write_weights(weights: Floats, file: Path) -> None:
    """Put the weights into the package: a line of JSON with the scale of each column, then a byte for each weight."""
    named = count_features()
    words, dimensions = weights[:named] * list_importance()[:, None], IMPORTANCE["vector"] * weights[named:]
    head: dict[str, object] = {"features": named}
    body = b""
    for name, part in (("scales", words), ("steps", dimensions)):
        if len(part):
            scales = np.abs(part).max(0) / 127
            scales[scales == 0] = 1
            head[name] = [round(float(scale), 9) for scale in scales]
            body += np.rint(part / scales).astype(np.int8).tobytes()
    file.write_bytes(json.dumps(head).encode() + b"\n" + body)


def main() -> None:
    """Fit, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cross", action="store_true", help="print the figures of hands that were left out")
    parser.add_argument("--misses", action="store_true", help="with --cross: print what was judged wrongly")
    parser.add_argument("--write", action="store_true", help="put the weights into the package")
    parser.add_argument("--vectors", action="store_true", help="with the sentences' vectors as well (needs MiniLM)")
    given = parser.parse_args()
    examples = list_examples(load_messages(DATA / "extraction_train.jsonl"))
    texts = [each.text for each in examples]
    matrix = build_matrix(texts, embed(texts) if given.vectors else None)
    if given.cross:
        shares = cross_validate(examples, matrix)
        print("\n".join(render_figures(examples, shares)))
        for each, row in zip(examples, shares, strict=True):
            judged = {name: round(float(share), 2) for name, share in zip(LABELS, row, strict=False)}
            if given.misses and judged[each.label] < max(judged.values()):
                print(each.label, judged, repr(each.text[:100]))
            best = CLASSES[int(row[len(LABELS) : -2].argmax())]
            if given.misses and each.kind not in (None, best):
                print(f"class {each.kind}, not {best}", repr(each.text[:100]))
    if given.write:
        write_weights(fit_all(examples, matrix), VECTOR_WEIGHTS if given.vectors else WEIGHTS)


if __name__ == "__main__":
    main()
