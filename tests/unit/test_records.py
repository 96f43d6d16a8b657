"""Data classes and named tuples of `records` are those of `dataclasses` and `typing`."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from types import ModuleType, new_class
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosa_convert import records

#: The form of a field: its annotation, and what `field` is given, or a default.
_FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("int", {}),
    ("str", {}),
    ("str", {"default": "x"}),
    ("int | None", {"default": None}),
    ("list[int]", {"default_factory": list}),
    ("int", {"default": 3, "repr": False}),
    ("int", {"default": 4, "compare": False}),
    ("int", {"default": 5, "init": False}),
    ("list[int]", {"default_factory": list, "init": False}),
    ("typing.ClassVar[int]", {"default": 7}),
)
_FLAGS = ("frozen", "slots", "kw_only", "eq", "repr")
_NAMES = ("a", "b", "c", "d", "e")


def made(
    module: Any,
    forms: list[tuple[str, dict[str, Any]]],
    flags: dict[str, bool],
    base: type = object,
) -> type:
    """Make a data class with these fields; `module` has `dataclass` and `field`."""
    names = _NAMES[len(getattr(base, "__match_args__", ())) :]
    content: dict[str, Any] = {"__module__": __name__, "__qualname__": "Made", "__doc__": "Made."}
    content["__annotations__"] = {}
    for name, (annotation, options) in zip(names, forms, strict=False):
        content["__annotations__"][name] = annotation
        if annotation.startswith("typing.ClassVar") or options.keys() == {"default"}:
            content[name] = options["default"]
        elif options:
            content[name] = module.field(**options)
    return typing.cast(type, module.dataclass(**flags)(type(base)("Made", (base,), content)))


def result(work: Callable[[], Any]) -> str:
    """Describe what a call returns, without its address, or the type of its error."""
    try:
        return repr(work()).partition(" at 0x")[0]
    except (TypeError, ValueError):  # which of them depends on the release of Python
        return "refused"
    except Exception as error:
        return type(error).__name__


def seen(cls: type, values: list[int]) -> list[Any]:
    """Describe a data class, and instances with these values."""
    rows = [(row.name, row.type, row.init, row.repr) for row in dataclasses.fields(cls)]
    slots = getattr(cls, "__slots__", None)
    found: list[Any] = [str(inspect.signature(cls)), rows, slots, cls.__hash__ is None]
    found += [getattr(cls, "__match_args__", None), cls.__doc__, cls.__qualname__]
    keywords = dict(zip(_NAMES, values, strict=False))
    for arguments, named in ((values, {}), ((), keywords), (values[:1], {}), ((), {})):
        make = functools.partial(cls, *arguments, **named)
        found.append(result(make))
        if found[-1] != "refused":
            found += seen_of_instances(make(), make())
    return found


def seen_of_instances(one: Any, two: Any) -> list[Any]:
    """Describe two equal instances."""
    changes: tuple[dict[str, Any], ...] = ({}, {"a": 9}, {"c": 9}, {"nonsense": 1})
    return [
        *(one == two, one == 3, result(lambda: hash(one) == hash(two))),
        *(result(functools.partial(dataclasses.replace, one, **row)) for row in changes),
        *(result(functools.partial(records.replace, one, **row)) for row in changes),
        result(lambda: dataclasses.asdict(one)),
        result(lambda: copy.copy(one)),
        result(lambda: one),
        *(result(functools.partial(setattr, one, name, 1)) for name in one.__match_args__),
        *(result(functools.partial(delattr, one, name)) for name in one.__match_args__),
        # With slots, Python before 3.14 has the error of another class here.
        hasattr(one, "__dict__") and result(lambda: setattr(one, "nonsense", 1)),
    ]


@pytest.mark.parametrize("flags", [(), ("frozen", "slots"), ("slots", "kw_only"), ("eq", "repr")])
def test_a_data_class_with_every_form_of_field_is_what_dataclasses_makes(
    flags: tuple[str, ...],
) -> None:
    chosen = {name: name in flags for name in _FLAGS}
    for forms in (_FORMS[:5], (_FORMS[0], *_FORMS[5:])):
        theirs, ours = (made(module, list(forms), chosen) for module in (dataclasses, records))
        assert seen(ours, [1, 2]) == seen(theirs, [1, 2])


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.sampled_from(_FORMS), max_size=4),
    st.fixed_dictionaries({name: st.booleans() for name in _FLAGS}),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_a_data_class_is_what_dataclasses_makes(
    forms: list[tuple[str, dict[str, Any]]], flags: dict[str, bool], values: list[int]
) -> None:
    classes: list[list[type]] = []
    for module in (dataclasses, records):
        try:
            classes.append([made(module, forms, flags)])
        except (SyntaxError, TypeError):
            classes.append([])
    theirs, ours = classes
    assert [seen(cls, values) for cls in ours] == [seen(cls, values) for cls in theirs]


@dataclasses.dataclass(frozen=True, slots=True)
class _Theirs:
    """A pair."""

    a: int
    b: list[int] = dataclasses.field(default_factory=list)


@records.dataclass(frozen=True, slots=True)
class _Ours:
    """A pair."""

    a: int
    b: list[int] = records.field(default_factory=list)


@pytest.mark.parametrize("cls", [_Theirs, _Ours])
def test_a_frozen_data_class_can_be_pickled_and_copied(cls: type[_Ours]) -> None:
    one = cls(1, [2])
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2  # type: ignore[misc]


@pytest.mark.parametrize("sub", [dataclasses, records], ids=["dataclasses", "records"])
def test_a_data_class_below_another_has_the_fields_of_both(sub: ModuleType) -> None:
    forms = [("int", {}), ("str", {"default": "x"})]
    base = made(records, forms, {"slots": True})
    below = made(sub, forms[1:], {"slots": True}, base)
    expected = made(
        dataclasses, forms[1:], {"slots": True}, made(dataclasses, forms, {"slots": True})
    )
    assert repr(below(1, c="z")) == repr(expected(1, c="z"))
    assert str(inspect.signature(below)) == str(inspect.signature(expected))
    # Python 3.10 gives a class the slots of its base again.
    assert vars(below)["__slots__"][-1:] == vars(expected)["__slots__"][-1:] == ("c",)


@pytest.mark.parametrize("base", [(), (records.NamedTuple,)], ids=["data class", "named tuple"])
@pytest.mark.parametrize("annotations", [{"a": int}, {"a": "int", "b": int}])
def test_annotations_that_are_no_text_are_refused(
    base: tuple[Any, ...], annotations: dict[str, Any]
) -> None:
    content = {"__annotations__": annotations, "__module__": __name__}
    with pytest.raises(TypeError, match="expected `from __future__ import annotations`"):
        records.dataclass(new_class("Own", base, {}, lambda names: names.update(content)))


def test_a_class_keeps_its_own_methods() -> None:
    @records.dataclass(slots=True)
    class Own:
        a: int
        b: int = records.field(init=False)

        def __post_init__(self) -> None:
            self.b = self.a + 1

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Own(1)), Own(1) == 3, hash(Own(1)), Own(1).b) == ("own", True, 5, 2)


def test_what_only_dataclasses_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="order is not supported"):
        records.dataclass(order=True)
    with pytest.raises(TypeError, match="hash is not supported"):
        records.field(hash=True)
    with pytest.raises(TypeError, match="_Theirs is of dataclasses"):
        records.dataclass(type("Below", (_Theirs,), {}))


class _TheirTuple(typing.NamedTuple):
    """A pair."""

    a: int
    b: str = "x"

    def twice(self) -> int:
        return 2 * self.a


class _OurTuple(records.NamedTuple):
    """A pair."""

    a: int
    b: str = "x"

    def twice(self) -> int:
        return 2 * self.a


def test_a_named_tuple_is_what_typing_makes() -> None:
    def of(cls: type[_OurTuple]) -> list[Any]:
        one = cls(2)
        return [
            *(one, repr(one).partition("(")[2], one.twice(), one._asdict(), one._replace(b="y")),
            *(cls._fields, cls._field_defaults, cls.__doc__, cls.__mro__[1:], cls.__match_args__),
            *(str(inspect.signature(cls)).replace("'", ""), typing.get_type_hints(cls)),
            *(pickle.loads(pickle.dumps(one)), cls._make([1, "z"]), cls.__module__),
            cls.__qualname__.partition("Tuple")[1:],
        ]

    found, expected = of(_OurTuple), of(typing.cast(type[_OurTuple], _TheirTuple))
    assert "a: " in expected[10]
    expected[10] = expected[10].replace("ForwardRef(int)", "int").replace("ForwardRef(str)", "str")
    assert found == expected


def test_data_classes_and_named_tuples_are_made_without_dataclasses() -> None:
    code = (
        "import sys; from tosa_convert.records import dataclass, NamedTuple\n"
        "made = dataclass(slots=True)(type('A', (), {'__annotations__': {'a': 'int'}}))\n"
        "print(made(1), sorted({'dataclasses', 'inspect', 'typing'} & set(sys.modules)))"
    )
    words = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "A(a=1) []\n"
