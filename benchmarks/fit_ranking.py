"""Makes the weights of the ranking and the calibration of its scores, from questions whose answers are known.

usage: python -m benchmarks.fit_ranking --data FILE … --stores FOLDER [--evidence tokens …] [--cache FOLDER]

The data are those of `benchmarks.retrieval`; candidates and their features come from the real search. The weights of
turns are fitted by a softmax over the candidates of each question: those of short turns on chats between people, those
of long turns on chats with an assistant, and each is checked on every conversation with weights from the others. Those
of records without a session are not fitted: no set of documents is large enough for it not to fit that set alone.

The calibration is a logistic regression over the first ten hits of each question, every set counting the same. Hits
of questions that were asked where nothing answers them count a little, too: who asks is mostly right to, but not
always. Prints what goes into engine/weights.py and engine/calibration.py.
"""

from __future__ import annotations

import argparse
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from cofio import Engine, Query, Settings
from cofio.embed import Embedder
from cofio.engine import search as searching
from cofio.engine.calibration import list_signals, make_monotone
from cofio.engine.features import Features
from cofio.engine.weights import WEIGHTS, Evidence, WeightSet
from cofio.text.tokenizer import split_query
from cofio.values.query import Bounds, Mode

from . import datasets
from .datasets import Dataset, Question
from .figures import FIRST, Judgement, calibrate, measure
from .retrieval import fill

Floats = NDArray[np.float64]
LIMIT = 10  # hits that a user asks for
FLOOR = Settings().floor
SIGNALS: Mapping[Evidence, tuple[str, ...]] = {
    "words": ("cover", "standing"),
    "vectors": ("cosine", "standing"),
    "vectors+tokens": ("cosine", "likeness", "standing"),
    "words+vectors": ("cosine", "cover", "standing"),
    "words+vectors+tokens": ("cosine", "likeness", "cover", "standing"),
}
ELSEWHERE: Mapping[Evidence, float] = {
    "words": 0.2, "vectors": 0.05, "vectors+tokens": 0.15, "words+vectors": 0.15, "words+vectors+tokens": 0.1,
}  # fmt: skip
"""How much questions count that were asked where nothing answers them."""
STEPS, RATE, SHARPNESS, PENALTY = 300, 0.03, 8.0, 1e-3  # of the fit of weights
ALL_FITTED = (
    "words", "window", "meaning", "tokens", "neighbours", "session", "author", "asker", "date", "question", "reply",
    "length", "adjacent",
)  # fmt: skip
OF_EVIDENCE = {"words": ("words", "window", "adjacent"), "vectors": ("meaning",), "tokens": ("tokens",)}
"""The features that there are only with some evidence."""
NOT_FITTED = {"exact": 0.5}
"""Names and quotations that count as a whole: hardly any question of these sets has one."""
NOT_BELOW_ZERO = (
    "words", "window", "meaning", "tokens", "neighbours", "session", "author", "asker", "date", "reply", "adjacent",
)  # fmt: skip
LONG_LEFT_OUT = ("question", "length", "date")
"""What chats with an assistant are too few to tell."""
COUNTS = {"5 adversarial": 0.25}
"""Questions that ask of one what another said, so that a name misleads: they are there, but people ask few of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question with the features of its candidates."""

    scope: str
    kind: str
    gold: int
    features: Features
    columns: Mapping[str, Floats]
    length: float
    in_session: bool
    relevant: Floats
    """1 for each candidate that answers."""
    rows: Floats


def collect(memory: Engine, dataset: Dataset, evidence: Evidence, *, elsewhere: bool = False) -> list[Case]:
    """Return the candidates of each question or, `elsewhere`, of the scope after its own, where nothing answers it."""
    mode: Mode = "keyword" if evidence == "words" else "hybrid" if "words" in evidence else "semantic"
    embedder = None if mode == "keyword" else memory.embedder()
    scopes = dataset.scopes
    cases = []
    for question in dataset.answerable:
        scope = question.scope
        if elsewhere:
            scope = scopes[(scopes.index(scope) + 1) % len(scopes)]
        asked_at = question.asked_at
        query = Query(question.text, scope=scope, mode=mode, limit=LIMIT, asker=question.asker, asked_at=asked_at)
        cases.append(_make_case(memory, query, question, evidence, embedder, elsewhere=elsewhere))
    return cases


def _make_case(
    memory: Engine, query: Query, question: Question, evidence: Evidence, embedder: Embedder | None, *, elsewhere: bool
) -> Case:
    wanted = searching.embed_query(query, embedder, None)
    if "tokens" not in evidence:
        wanted = searching.QueryVector(wanted.vector, wanted.embedder)
    asked = split_query(query.text)
    with memory._backend.search(Bounds(scope=query.scope)) as searcher:
        found = searching.find_candidates(searcher, query, asked, wanted)
        found, _, features = searching.gather_features(searcher, query, asked, found, wanted)
        records = searcher.records(features.rows) if features.rows else {}
    answers = [not elsewhere and str(records[row].data) in question.gold for row in features.rows]
    return Case(
        str(question.scope), question.kind, len(question.gold),
        features, {name: np.array(column) for name, column in features.columns.items()},
        features.length, features.positions is not None, np.array(answers, float), np.array(features.rows, float),
    )  # fmt: skip


Scored: TypeAlias = tuple[Case, Floats]
"""A question's candidates with their totals."""


def stack(case: Case, names: Sequence[str]) -> Floats:
    """Return the features as a matrix: a row for each candidate."""
    nothing = np.zeros(len(case.rows))
    return np.stack([case.columns.get(name, nothing) for name in names], axis=1)


def fit_weights(cases: Iterable[Case], names: Sequence[str], fixed: Mapping[str, float]) -> dict[str, float]:
    """Return the weights under which the answers of each question get the largest share of a softmax."""
    every = [*names, *fixed]
    pairs = [
        (stack(case, every), case.relevant / case.relevant.sum(), COUNTS.get(case.kind, 1.0))
        for case in cases
        if case.relevant.any()
    ]
    number = sum(count for _, _, count in pairs)
    weights = np.array([0.3] * len(names) + list(fixed.values()))
    free = np.array([1.0] * len(names) + [0.0] * len(fixed))
    low = np.array([0.0 if name in NOT_BELOW_ZERO else -np.inf for name in every])
    momentum, spread = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = PENALTY * SHARPNESS * weights
        for matrix, wanted, count in pairs:
            scores = SHARPNESS * (matrix @ weights)
            shares = np.exp(scores - scores.max())
            slope += count * SHARPNESS * (matrix.T @ (shares / shares.sum() - wanted)) / number
        slope *= free
        momentum, spread = 0.9 * momentum + 0.1 * slope, 0.999 * spread + 0.001 * slope**2
        move = (momentum / (1 - 0.9**step)) / (np.sqrt(spread / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights - RATE * move * free, low)
    return dict(zip(every, weights.tolist(), strict=True))


def score(case: Case, weights: Mapping[str, float]) -> Floats:
    """Return the total of each candidate."""
    totals: Floats = stack(case, [*weights]) @ np.array([*weights.values()])
    return totals


def judge(cases: Sequence[Case], totals: Sequence[Floats]) -> str:
    """Return R@10 and nDCG@10 as text."""
    figures = []
    for case, total in zip(cases, totals, strict=True):
        order = np.lexsort((-case.rows, -total))
        found = [str(row) for row in case.rows[order].tolist()]
        answers = {str(row) for row in case.rows[case.relevant > 0].tolist()}
        missing = {f"missing {number}" for number in range(case.gold - len(answers))}
        figures.append(measure(found, frozenset(answers | missing)))
    recall, gain = (100 * np.mean([getattr(each, name) for each in figures]) for name in ("recall_10", "ndcg_10"))
    return f"R@10 {recall:.1f} nDCG@10 {gain:.1f}"


def check(cases: Sequence[Case], names: Sequence[str], fixed: Mapping[str, float]) -> list[Floats]:
    """Return the totals of each candidate by weights that were fitted without its conversation."""
    by_scope = {
        scope: fit_weights((case for case in cases if case.scope != scope), names, fixed)
        for scope in {case.scope for case in cases}
    }
    return [score(case, by_scope[case.scope]) for case in cases]


def fit_calibration(groups: Sequence[tuple[Sequence[Scored], float]], names: Sequence[str]) -> dict[str, float]:
    """Return the factors of a logistic regression in which the cases of each group count as much as it is said to."""
    rows, labels, counts = [], [], []
    for group, count in groups:
        size = sum(min(FIRST, len(case.rows)) for case, _ in group)
        for case, totals in group:
            signals = list_signals(case.features, totals.tolist())
            first = np.lexsort((-case.rows, -totals))[:FIRST]
            rows.append(np.stack([np.ones(len(first)), *(np.array(signals[name])[first] for name in names)], axis=1))
            labels.append(case.relevant[first])
            counts.append(np.full(len(first), count / size))
    matrix, relevant, count_of = np.concatenate(rows), np.concatenate(labels), np.concatenate(counts)
    factors = np.zeros(matrix.shape[1])
    for _ in range(50):  # Newton's
        chances = 1 / (1 + np.exp(-matrix @ factors))
        slope = matrix.T @ (count_of * (chances - relevant)) + 1e-4 * factors
        curve = (matrix.T * (count_of * chances * (1 - chances))) @ matrix + 1e-4 * np.eye(len(factors))
        factors -= np.linalg.solve(curve, slope)
    return dict(zip(("", *names), factors.tolist(), strict=True))


def load_cases(given: argparse.Namespace, dataset: Dataset, evidence: Evidence, *, elsewhere: bool) -> list[Case]:
    """Collect cases, or read those that were collected before."""
    kept = given.cache / f"{dataset.root.names[0]}-{evidence}{'-elsewhere' if elsewhere else ''}.pickle"
    if kept.exists():
        return cast("list[Case]", pickle.loads(kept.read_bytes()))
    store = given.stores / f"{dataset.root.names[0]}-minilm"
    settings = Settings(background=False, models=os.environ.get("COFIO_MODELS", ""))
    fill(store, settings, [dataset])
    with Engine.open(store, settings=settings) as memory:
        cases = collect(memory, dataset, evidence, elsewhere=elsewhere)
    kept.write_bytes(pickle.dumps(cases))
    return cases


def main() -> None:
    """Collect, fit, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--stores", type=Path, required=True, help="those of `benchmarks.retrieval --stores`")
    parser.add_argument("--cache", type=Path, required=True, help="where collected features are kept")
    parser.add_argument("--evidence", nargs="+", default=get_args(Evidence), choices=get_args(Evidence))
    given = parser.parse_args()
    given.cache.mkdir(exist_ok=True)
    sets = [datasets.load(path) for path in given.data]
    for evidence in given.evidence:
        fit(given, sets, evidence)


def fit(given: argparse.Namespace, sets: Sequence[Dataset], evidence: Evidence) -> None:
    """Fit the weights and the calibration for one kind of search, and print them."""
    print(f"{evidence}:")
    every = {each.name: load_cases(given, each, evidence, elsewhere=False) for each in sets}
    fitted = {"short": WEIGHTS[evidence].short, "long": WEIGHTS[evidence].long}
    for which in fitted:
        chats = [cases for cases in every.values() if cases[0].in_session and _is_long(cases) == (which == "long")]
        together = [case for cases in chats for case in cases]
        if together:
            names = list_features(evidence, is_long=which == "long")
            totals = check(together, names, NOT_FITTED)
            print(f"  {which} turns, each conversation left out: {judge_groups(together, totals)}")
            fitted[which] = rescale(fit_weights(together, names, NOT_FITTED))
    for which, weights in fitted.items():
        print(f"    {which}={_render(weights)}")
    groups: list[tuple[str, list[Scored], list[Scored]]] = []
    for dataset in sets:
        elsewhere = load_cases(given, dataset, evidence, elsewhere=True) if len(dataset.scopes) > 1 else []
        scored = [
            [(case, score(case, choose(case, evidence, fitted))) for case in cases if len(case.rows)]
            for cases in (every[dataset.name], elsewhere)
        ]
        groups.append((dataset.name, scored[0], scored[1]))
        print(f"  {dataset.name}: {judge_groups([case for case, _ in scored[0]], [total for _, total in scored[0]])}")
    weighed = [(own, 1.0) for _, own, _ in groups] + [(off, ELSEWHERE[evidence]) for _, _, off in groups if off]
    factors = fit_calibration(weighed, SIGNALS[evidence])
    print(f"    {_render(factors)}")
    for name, own, off in groups:
        print(f"  {name}: {judge_scores(own, off, factors)}")


def list_features(evidence: Evidence, *, is_long: bool) -> list[str]:
    """Return the features whose weights are fitted."""
    missing = {name for part, names in OF_EVIDENCE.items() if part not in evidence.split("+") for name in names}
    return [each for each in ALL_FITTED if each not in missing and not (is_long and each in LONG_LEFT_OUT)]


def _is_long(cases: Sequence[Case]) -> bool:
    return float(np.mean([case.length for case in cases])) > 0.5


def rescale(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights of which those of words and meaning are 1 together, as they are for records without a session."""
    size = sum(weights.get(each, 0.0) for each in ("words", "window", "meaning", "tokens"))
    return {name: value if name in NOT_FITTED else value / size for name, value in weights.items()}


def choose(case: Case, evidence: Evidence, fitted: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Return the weights that a search would go by."""
    if not case.in_session:
        return WEIGHTS[evidence].notes
    return WeightSet({}, fitted["short"], fitted["long"]).mix(case.length)


def judge_groups(cases: Sequence[Case], totals: Sequence[Floats]) -> str:
    """Return figures of all questions and, where some of them count less, of the others."""
    usual = [at for at, case in enumerate(cases) if case.kind not in COUNTS]
    every = judge(cases, totals)
    if len(usual) == len(cases):
        return every
    return f"{judge([cases[at] for at in usual], [totals[at] for at in usual])} without adversarial ones, {every} with"


def judge_scores(own: Sequence[Scored], off: Sequence[Scored], factors: Mapping[str, float]) -> str:
    """Return how often nothing is found with a floor, and how far scores are probabilities."""
    answers = [estimate(case, totals, factors) for case, totals in own]
    silent = [estimate(case, totals, factors)[0][0] < FLOOR for case, totals in off]
    lost = [chances[0] < FLOOR for chances, _ in answers]
    judgements = [
        Judgement(chance, bool(relevant))
        for chances, labels in answers
        for chance, relevant in zip(chances[:FIRST], labels[:FIRST], strict=True)
    ]
    error = calibrate(judgements).error
    return (
        f"silent elsewhere {np.mean(silent) if silent else float('nan'):.3f}, silent where there is an answer"
        f" {np.mean(lost):.3f}, calibration error {error:.3f}"
    )


def estimate(case: Case, totals: Floats, factors: Mapping[str, float]) -> tuple[list[float], list[float]]:
    """Return the probability of each candidate in the order of the ranking, and whether it answers."""
    signals, order = list_signals(case.features, totals.tolist()), np.lexsort((-case.rows, -totals))
    sums = np.full(len(totals), factors[""])
    for name, factor in factors.items():
        if name:
            sums += factor * np.array(signals[name])
    return make_monotone((1 / (1 + np.exp(-sums[order]))).tolist()), case.relevant[order].tolist()


def _render(numbers: Mapping[str, float]) -> str:
    shown = ", ".join(f'"{name}": {value:.2f}' for name, value in numbers.items() if abs(value) >= 0.005)
    return f"{{{shown}}}"


if __name__ == "__main__":
    main()
