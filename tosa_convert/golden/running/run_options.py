"""How a program is run for a golden answer."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.work import Progress
from tosa_convert.io.options import refuse_time_limit
from tosa_convert.records import dataclass, field, replace

Level = Literal["none", "8k"]
#: "auto": the reference model if it is installed, else numpy.
Engine = Literal["auto", "numpy", "reference-model"]


#: Seconds a run may take unless the caller says otherwise.
TIMEOUT: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run of the reference model.

    precise: compute floating point in FP64. bounds: also compute the tensors that TOSA's accuracy
        rules are made from (implies precise).
    level: "none" or "8k", the limits on sizes that the model checks.
    timeout: seconds for one run.
    engine: what runs the program: "reference-model", "numpy" (`tosa_convert.reference`), or "auto", the
        reference model if it is installed, else numpy.
    progress: called during each run with the amount of work that is done, and all that there is; for the
        reference model it is an estimate by time. A program may take several runs.
    Raises TosaConvertError("option-conflict") for an unknown level or engine, and for a timeout that no
    timer has.

    Example:
        >>> from tosa_convert import golden
        >>> golden.RunOptions(precise=True, timeout=10).level
        'none'
    """

    precise: bool = False
    bounds: bool = False
    level: Level = "none"
    timeout: float = TIMEOUT
    engine: Engine = "auto"
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_unknown("level", self.level, get_args(Level))
        refuse_unknown("engine", self.engine, get_args(Engine))
        refuse_time_limit(self.timeout)

    @property
    def uses_numpy(self) -> bool:
        """Return whether programs run on numpy."""
        return chosen_engine(self.engine) == "numpy"

    def with_keywords(self, **given: Any) -> RunOptions:
        """Return these options with those that were given as keywords beside them, besides defaults.

        Raises TosaConvertError("option-conflict") for an unknown value, or if both name another one.
        """
        chosen = {}
        for name, value in given.items():
            default, own = getattr(DEFAULT_RUN, name), getattr(self, name)
            if value in (default, own):
                continue
            if own != default:
                message = f"{name}={value!r}, and the options have {name}={own!r}"
                raise fail("option-conflict", name, message, "give one of them")
            chosen[name] = value
        return replace(self, **chosen) if chosen else self


def chosen_engine(engine: Engine) -> Engine:
    """Return the engine that "auto" selects here; another engine is returned as it is.

    Raises TosaConvertError("missing-refmodel") if $TOSA_REFERENCE_MODEL does not name a program.
    """
    if engine != "auto":
        return engine
    return "reference-model" if reference_model_process.is_installed() else "numpy"


DEFAULT_RUN: Final = RunOptions()
