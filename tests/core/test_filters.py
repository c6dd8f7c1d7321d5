"""A filter means the same to the engine and to a few lines of plain Python, whatever the data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio import AllOf, AnyOf, Draft, Engine, Filter, Json, Query, Scope, Where

from .plain import holds

DEMO = Scope("demo")
names = st.sampled_from(["a", "b", "a.b", "", '"', "'", "[0]", "0", "$", "\\", "é", "🔑", "\n", "\u2028", " "])
texts = st.sampled_from(["", "a", "A", "é", "1", "true", "null", "🔑", "\uffff", "\U0001f511", "'", "%"])
floats = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | floats | st.sampled_from([0.1, 0.3, 2.0**53, 1e22])
scalars: st.SearchStrategy[bool | int | float | str | None] = st.none() | st.booleans() | numbers | texts
datas: st.SearchStrategy[Json] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
objects = st.dictionaries(names, datas, max_size=4)
paths = st.lists(names, min_size=1, max_size=3).map(lambda path: ("data", *path))
ordered = st.sampled_from(["<", "<=", ">", ">="])
tests = (
    st.builds(Where, paths, st.sampled_from(["=", "!="]), scalars)
    | st.builds(Where, paths, ordered, numbers | texts)
    | st.builds(Where, paths, st.just("in"), st.lists(scalars, max_size=3).map(tuple))
)
filters: st.SearchStrategy[Filter] = st.recursive(
    tests,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: AllOf(*parts))
        | st.lists(inner, max_size=3).map(lambda parts: AnyOf(*parts))
    ),
    max_leaves=4,
)


@given(
    stored=st.lists(objects | datas, min_size=1, max_size=4),
    asked=st.lists(filters, min_size=1, max_size=4),
    data=st.data(),
)
def test_a_filter_on_data_lets_through_what_plain_python_does(
    memory: Engine, stored: list[Json], asked: list[Filter], data: st.DataObject
) -> None:
    memory.drop(Scope())
    records = memory.write_many([Draft(scope=DEMO, text="common", data=each) for each in stored])
    # A value that is there, asked for by its own path, is the case that matters and that chance seldom makes.
    for record in records:
        if isinstance(record.data, dict):
            for name, value in record.data.items():
                if value is None or isinstance(value, bool | int | float | str):
                    asked = [*asked, Where(("data", name), data.draw(st.sampled_from(["=", "!="])), value)]
    for filter_ in asked:
        expected = [record for record in records if holds(filter_, record)]
        assert memory.list(filter=filter_, newest=False) == expected
        hits = memory.search(Query("common", mode="keyword", filter=filter_))
        assert sorted(hit.record.id for hit in hits) == sorted(record.id for record in expected)
