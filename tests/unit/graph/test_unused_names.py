"""Names that are not taken: one function for values, regions and files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tosa_convert.graph.derived import unused_name

NAMES = st.sampled_from(["a", "A", "a_1", "a_2", "A_1", "b", ""])


@given(NAMES, st.sets(NAMES))
def test_an_unused_name_is_the_first_that_is_not_taken(wanted: str, taken: set[str]) -> None:
    candidates = [wanted, *(f"{wanted}_{number}" for number in range(1, 10))]
    assert unused_name(wanted, taken) == next(name for name in candidates if name not in taken)


def test_names_of_files_that_differ_only_in_case_are_the_same() -> None:
    assert unused_name("A", {"a"}) == "A"
    assert unused_name("A", {"a"}, fold=str.lower, separator="-", first=2) == "A-2"
    assert unused_name("A", {"a", "a-2"}, fold=str.lower, separator="-", first=2) == "A-3"


@given(st.lists(NAMES))
def test_remembered_numbers_give_the_same_names(names: list[str]) -> None:
    slow: list[str] = []
    fast: list[str] = []
    numbers: dict[str, int] = {}
    for name in names:
        slow.append(unused_name(name, set(slow)))
        fast.append(unused_name(name, set(fast), numbers=numbers))
    assert fast == slow
    assert len(set(fast)) == len(fast)


def test_many_equal_names_take_linear_time() -> None:
    looked_up = 0

    class Taken(set[str]):
        def __contains__(self, name: object) -> bool:
            nonlocal looked_up
            looked_up += 1
            return super().__contains__(name)

    taken, numbers = Taken(), dict[str, int]()
    for _ in range(1000):
        taken.add(unused_name("a", taken, numbers=numbers))
    assert len(taken) == 1000
    assert looked_up <= 3000
