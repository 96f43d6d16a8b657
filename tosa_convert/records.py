"""Data classes and named tuples, as `dataclasses` and `typing` have them, that are made at once.

A command makes 60 such classes before it reads its file. `dataclasses` imports much, and compiles each
method of a class by itself: ten times as long as this module takes. What it makes is a data class to
`dataclasses` too, whose own record of the fields is made when someone asks for it.
"""

from __future__ import annotations

from collections import namedtuple
from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Final

__all__ = ["MISSING", "NamedTuple", "dataclass", "field", "fields", "replace"]


class _Missing:
    """A default that there is none of."""


class _Factory:
    """The default, in a signature, of a parameter whose value a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING: Final = _Missing()
_FACTORY: Final = _Factory()
_NEEDS_TEXT: Final = "annotations must be text; expected `from __future__ import annotations`"
#: What flags of a class, and of `field`, are if they are not given.
_CLASS: Final = {
    "frozen": False,
    "slots": False,
    "kw_only": False,
    "eq": True,
    "repr": True,
}
_FIELD: Final = {
    "default": _MISSING,
    "default_factory": _MISSING,
    "init": True,
    "repr": True,
    "compare": True,
    "metadata": None,
}


class _Field:
    """A field: what `field` was given, its name and type, and whether it is for keywords only."""

    compare: bool
    default: Any
    default_factory: Any
    init: bool
    metadata: Mapping[str, Any]
    repr: bool

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - _FIELD:
            raise TypeError(f"field: {', '.join(sorted(unknown))} is not supported")
        self.given = given
        self.name, self.type, self.kw_only = "", "", False
        vars(self).update(_FIELD, **given)


def _dataclass(cls: type | None = None, /, **flags: bool) -> Any:
    """Make a class a record of its annotated attributes, as `dataclasses.dataclass` does."""
    if unknown := flags.keys() - _CLASS:
        raise TypeError(f"dataclass: {', '.join(sorted(unknown))} is not supported")
    return (lambda it: _record(it, flags)) if cls is None else _record(cls, flags)


def _record(cls: type, flags: dict[str, bool]) -> type:
    chosen = _CLASS | flags
    inherited: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        if "__record_fields__" in vars(base):
            inherited.update(vars(base)["__record_fields__"])
        elif "__dataclass_fields__" in vars(base):
            raise TypeError(f"{cls.__name__}: {base.__name__} is of dataclasses")
    own = dict(_own_fields(cls, chosen["kw_only"]))
    found = inherited | own
    for name, row in own.items():
        if row.default is not _MISSING and not chosen["slots"]:
            setattr(cls, name, row.default)
        elif name in vars(cls):
            delattr(cls, name)
    made = dict(_methods(cls, found, chosen))
    if chosen["slots"]:
        return _with_slots(cls, own, made)
    for name, value in made.items():
        setattr(cls, name, value)
    return cls


def _own_fields(cls: type, kw_only: bool) -> Iterator[tuple[str, _Field]]:
    for name, annotation in cls.__annotations__.items():
        if not isinstance(annotation, str):
            raise TypeError(f"{cls.__name__}.{name}: {_NEEDS_TEXT}")
        if annotation.startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = vars(cls).get(name, _MISSING)
        if default is not _MISSING and type(default).__name__ == "member_descriptor":
            default = _MISSING
        row = default if isinstance(default, _Field) else _Field(default=default)
        row.name, row.type, row.kw_only = name, annotation, kw_only
        yield name, row


def _with_slots(cls: type, own: dict[str, _Field], made: dict[str, Any]) -> type:
    """Return the class again, with a slot for each field of its own."""
    left_out = {"__dict__", "__weakref__"}
    content = {name: value for name, value in vars(cls).items() if name not in left_out}
    slots = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    content |= made | {"__slots__": tuple(name for name in own if name not in slots)}
    return type(cls)(cls.__name__, cls.__bases__, content)


def _methods(
    cls: type, found: dict[str, _Field], chosen: dict[str, bool]
) -> Iterator[tuple[str, Any]]:
    """Yield what a record has besides its own attributes; methods that the class has are kept."""
    own = vars(cls)

    def names(wanted: Callable[[_Field], bool]) -> tuple[str, ...]:
        return tuple(row.name for row in found.values() if wanted(row))

    yield "__record_fields__", found
    yield "__dataclass_fields__", _AsDataclass("__dataclass_fields__", chosen)
    yield "__dataclass_params__", _AsDataclass("__dataclass_params__", chosen)
    yield "__replace__", replace
    if "__match_args__" not in own:
        yield "__match_args__", names(lambda row: row.init and not row.kw_only)
    if "__init__" not in own:
        yield "__init__", _constructor(cls, found, chosen)
    if chosen["repr"] and "__repr__" not in own:
        yield "__repr__", _shown(names(lambda row: row.repr))
    if chosen["eq"]:
        values = _values(names(lambda row: row.compare))
        if "__eq__" not in own:
            yield "__eq__", _equal(values)
        if "__hash__" not in own or (own["__hash__"] is None and "__eq__" in own):
            yield "__hash__", (lambda self: hash(values(self))) if chosen["frozen"] else None
    if chosen["frozen"]:
        yield from _frozen(found)
        if chosen["slots"] and "__getstate__" not in own:
            yield "__getstate__", lambda self: [getattr(self, name) for name in found]
            yield "__setstate__", _set_state


def _constructor(cls: type, found: dict[str, _Field], chosen: dict[str, bool]) -> Any:
    """Return `__init__`: compiled once, since programs have many operators and tensors."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    positional: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for name, row in found.items():
        value = name
        if row.default_factory is not _MISSING:
            names[f"_make_{name}"] = row.default_factory
            value = f"_make_{name}()"
            if row.init:
                value = f"{value} if {name} is _FACTORY else {name}"
        elif row.default is not _MISSING:
            names[f"_default_{name}"] = row.default
            value = name if row.init else f"_default_{name}"
        if row.init:
            default = "" if row.default is _MISSING else f"=_default_{name}"
            if row.default_factory is not _MISSING:
                default = "=_FACTORY"
            (keywords if row.kw_only else positional).append(f"{name}{default}")
        elif value == name:
            continue  # `__post_init__` sets it
        set_it = f"_set(self, {name!r}, {value})" if chosen["frozen"] else f"self.{name} = {value}"
        lines.append(set_it)
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ["self", *positional, *(["*", *keywords] if keywords else [])]
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__({', '.join(parameters)}):\n {body}", names)
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {row.name: row.type for row in found.values() if row.init}
    made.__annotations__["return"] = None
    return made


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from a record to the values of some fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equal(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal


def _shown(names: tuple[str, ...]) -> Any:
    def shown(self: Any) -> str:
        parts = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({', '.join(parts)})"

    return shown


def _frozen(found: dict[str, _Field]) -> Iterator[tuple[str, Any]]:
    def assign(self: Any, name: str, value: object) -> None:
        _refuse(self, name, "assign to")
        object.__setattr__(self, name, value)

    def delete(self: Any, name: str) -> None:
        _refuse(self, name, "delete")
        object.__delattr__(self, name)

    def _refuse(self: Any, name: str, what: str) -> None:
        if name in found or vars(type(self)).get("__setattr__") is assign:
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {what} field {name!r}")

    yield "__setattr__", assign
    yield "__delattr__", delete


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__record_fields__, state, strict=True):
        object.__setattr__(self, name, value)


class _AsDataclass:
    """What `dataclasses` keeps of a class, made when it is asked for."""

    def __init__(self, name: str, chosen: dict[str, bool]) -> None:
        self.name, self.chosen = name, chosen

    def __get__(self, record: object, cls: type) -> Any:
        import dataclasses

        owner = next(base for base in cls.__mro__ if vars(base).get(self.name) is self)
        rows = vars(owner)["__record_fields__"].values()
        known = []
        for row in rows:
            given = {key: value for key, value in row.given.items() if value is not _MISSING}
            known.append((row.name, row.type, dataclasses.field(kw_only=row.kw_only, **given)))
        flags = self.chosen | {"slots": False, "kw_only": False}
        return getattr(dataclasses.make_dataclass(owner.__name__, known, **flags), self.name)  # type: ignore[arg-type]


def _fields(record: Any) -> tuple[_Field, ...]:
    """Return the fields of a record or of its class."""
    return tuple(record.__record_fields__.values())


def _replace(record: Any, /, **changes: Any) -> Any:
    """Return a record of the same class with some other values."""
    found = getattr(record, "__record_fields__", None)
    if found is None or vars(type(record)).get("__record_fields__") is None:
        import dataclasses

        return dataclasses.replace(record, **changes)
    for name, row in found.items():
        if row.init and name not in changes:
            changes[name] = getattr(record, name)
        elif not row.init and name in changes:
            raise TypeError(
                f"field {name} is declared with init=False, and replace does not set it"
            )
    return record.__class__(**changes)


class _TupleClass(type):
    """What makes a class below `NamedTuple` a named tuple of its annotated attributes."""

    def __new__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> Any:
        types = content.pop("__annotations__", {})
        if not all(isinstance(annotation, str) for annotation in types.values()) or not types:
            raise TypeError(f"{name}: {_NEEDS_TEXT}")
        defaults = [content.pop(key) for key in types if key in content]
        made: Any = namedtuple(name, types, defaults=defaults, module=content["__module__"])  # type: ignore[misc]
        made.__annotations__ = made.__new__.__annotations__ = types
        for key, value in content.items():
            if key not in ("__module__", "__orig_bases__"):
                setattr(made, key, value)
        return made


class _NamedTuple:
    """A class below it is a named tuple."""

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (_BASE,)


_BASE: Final = type.__new__(_TupleClass, "NamedTuple", (), {})

if TYPE_CHECKING:
    from dataclasses import MISSING, dataclass, field, fields, replace
    from typing import NamedTuple
else:
    MISSING, dataclass, field, fields, replace = _MISSING, _dataclass, _Field, _fields, _replace
    NamedTuple = _NamedTuple()
