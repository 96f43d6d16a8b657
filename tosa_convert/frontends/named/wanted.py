"""What is asked of a library, what is assumed where nothing is asked, and what it cannot do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail, suggest
from tosa_convert.frontends.process.python_file import assumed
from tosa_convert.frontends.table import FRONTENDS, LIBRARIES

#: The seed of random weights and of example inputs.
SEED: Final = 0
#: Characters of what a library says that a message repeats.
_CHARACTERS: Final = 300
#: How far random weights are from the value that all elements of a tensor begin with.
NOISE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model as the user asked for it.

    library, name: what makes it, and what it is called there.
    shapes: input -> its sizes, or the name of a size -> its value.
    random_weights: make it from its configuration alone.
    memory: the bytes that it may take; 0 for those of the machine.
    used: the names of `shapes` that counted.
    """

    library: str
    name: str
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    random_weights: bool = False
    memory: int = 0
    used: set[str] = field(default_factory=set)

    @property
    def shown(self) -> str:
        return f"{self.library}:{self.name}"

    def assume(self, text: str) -> None:
        assumed.append(f"{self.shown}: {text}")

    def shape(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of an input: those that were asked for, or the default with a remark."""
        text = "x".join(map(str, default))
        if name not in self.shapes:
            self.assume(f"the input {name} is {text}; --input-shape {name}=... changes it")
            return tuple(default)
        self.used.add(name)
        found = tuple(self.shapes[name])
        if len(found) != len(default):
            message = f"the input has {len(default)} dimensions, found {len(found)} sizes"
            raise fail("option-conflict", f"--input-shape {name}", message, f"such as {text}")
        return found

    def size(self, name: str, default: int) -> int:
        """Return a size that several inputs share, by its name: "batch", "sequence"."""
        if name not in self.shapes:
            return default
        self.used.add(name)
        found = self.shapes[name]
        if len(found) != 1:
            message = f"it is one size, found {len(found)}"
            raise fail("option-conflict", f"--input-shape {name}", message, f"such as {name}=1")
        return found[0]

    def refuse_unused(self, inputs: Iterable[str], sizes: Iterable[str] = ("batch",)) -> None:
        """Refuse shapes of what the model does not have."""
        unknown = sorted(self.shapes.keys() - self.used)
        if unknown:
            message = f"no input or size is called {', '.join(unknown)}"
            hint = f"inputs: {', '.join(inputs)}; sizes: {', '.join(sizes)}"
            raise fail("unknown-argument", "--input-shape", message, hint)

    def unknown(self, what: str, known: Iterable[str], found: str = "") -> TosaConvertError:
        """Return the error for a name that the library does not have."""
        known = list(known)
        name = found or self.name
        message = f"{self.library} has no {what} {name!r} among its {len(known)}"
        return fail("frontend-failed", self.shown, message, suggest(name, known))

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Say that the library does not make the model, or has no trained weights for it."""
        try:
            yield
        except TosaConvertError:
            raise
        except Exception as error:  # Each library has its own, and those of what it downloads with.
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:_CHARACTERS]}"
            message, hint = f"{self.library} does not make it: {said}", ""
            if not self.random_weights:
                message = f"its trained weights cannot be had: {said}"
                hint = "--random-weights makes the model from its configuration, without a download"
            raise fail("frontend-failed", self.shown, message, hint) from None


@contextlib.contextmanager
def imports_of(library: str) -> Iterator[None]:
    """Refuse a library that is not installed, by the extra that has it, or that does not fit another."""
    try:
        yield
    except ModuleNotFoundError as error:
        row = FRONTENDS[LIBRARIES[library]]
        message = f"{error.name} is not installed, and {row.reads} need it"
        raise fail("frontend-missing", library, message, row.install()) from None
    except (ImportError, OSError, RuntimeError) as error:  # What a compiled part of it raises.
        said = " ".join(str(error).split())[:_CHARACTERS]
        message = f"{library} is installed and does not import: {type(error).__name__}: {said}"
        hint = (
            f"its release and that of torch may not fit: install the {library} made for this torch"
        )
        raise fail("frontend-failed", library, message, hint) from None


def in_inference(torch: Any, module: Any, wanted: Wanted) -> Any:
    """Return a module in inference mode; weights all equal would hide operators from a comparison."""
    module.eval()
    if wanted.random_weights:
        wanted.assume(f"its weights are random, of the seed {SEED}")
        generator = torch.Generator().manual_seed(SEED)
        statistics = [
            (name, tensor)
            for name, tensor in module.named_buffers()
            if name.endswith(("running_mean", "running_var"))
        ]
        with torch.no_grad():
            for _, tensor in (*module.named_parameters(), *statistics):
                if tensor.is_floating_point() and len(tensor.unique()) == 1:
                    tensor += NOISE * torch.rand(tensor.shape, generator=generator)
    return module


def parameters(torch: Any, make: Callable[[], Any]) -> int:
    """Return how many parameters a module of torch has that `make` makes, without their memory."""
    with torch.device("meta"):
        return sum(tensor.numel() for tensor in make().parameters())


def refuse_too_large(count: int, wanted: Wanted) -> None:
    """Say how large a model of so many parameters will be; refuse what the machine does not hold."""
    size, memory = 4 * count / 2**30, (wanted.memory or memory_of_machine()) / 2**30
    text = f"it has {count:,} parameters, {size:.1f} GiB in FP32"
    if size > memory > 0:
        smaller = "name a folder with a config.json of fewer layers or smaller ones"
        hint = (
            f"{smaller if wanted.library == 'hf' else 'name a smaller model'}; to make it all the "
        )
        hint += "same, --limit converter-memory=BYTES allows more"
        whose = "--limit allows" if wanted.memory else "this machine has"
        message = f"{text}, and {whose} {memory:.1f} GiB of memory"
        raise fail("frontend-failed", wanted.shown, message, hint)
    wanted.assume(text)


def memory_of_machine() -> int:
    """Return the bytes of memory of this machine, 0 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows.
        return 0


def random_numbers(torch: Any, shape: Sequence[int]) -> Any:
    """Return numbers such as an image has after it is normalised."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(SEED))
