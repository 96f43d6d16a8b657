"""Names that are not taken: one function for values, regions and files."""

from __future__ import annotations

from tosa_convert.graph.derived import unused_name


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
