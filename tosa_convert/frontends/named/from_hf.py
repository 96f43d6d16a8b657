"""Makes models of transformers."""

from __future__ import annotations

import os
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.named.hf_inputs import example_inputs
from tosa_convert.frontends.named.wanted import SEED, Wanted, imports_of, in_inference

#: Task -> the class of transformers that makes a model for it.
TASKS: Final = {
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "text-generation": "AutoModelForCausalLM",
    "text2text-generation": "AutoModelForSeq2SeqLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    "object-detection": "AutoModelForObjectDetection",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "depth-estimation": "AutoModelForDepthEstimation",
    "video-classification": "AutoModelForVideoClassification",
    "image-to-image": "AutoModelForImageToImage",
    "zero-shot-image-classification": "AutoModelForZeroShotImageClassification",
    "audio-classification": "AutoModelForAudioClassification",
    "automatic-speech-recognition": "AutoModelForSpeechSeq2Seq",
    "ctc": "AutoModelForCTC",
}


def make_model(wanted: Wanted) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a model of transformers, and example inputs of its task.

    The name is that of a folder or of a model on the hub; with random weights it may also be a type of
    model, such as `bert`, which has the configuration that transformers has for it.
    """
    with imports_of("hf"):
        import torch
        import transformers as library
    transformers: Any = library
    transformers.logging.set_verbosity_error()
    name, _, task = wanted.name.partition(":")
    if task and task not in TASKS:
        raise wanted.unknown("task", TASKS, task)
    with wanted.made():
        config = _configuration(transformers, wanted, name)
    kind = _class(transformers, wanted, config, task)
    torch.manual_seed(SEED)
    with wanted.made():
        if wanted.random_weights:
            # A class of its own and an automatic one differ in the name of what makes a model.
            make = getattr(kind, "_from_config", None) or kind.from_config
            with torch.device("meta"):
                _refuse_too_large(make(config, dtype=torch.float32), wanted)
            module = make(config, dtype=torch.float32)
        else:
            module = kind.from_pretrained(name, dtype=torch.float32)
    module = in_inference(torch, module, wanted)
    configurations: list[Any] = [getattr(part, "config", None) for part in module.modules()]
    caching = [one for one in configurations if getattr(one, "use_cache", False)]
    for one in caching:
        one.use_cache = False
    if caching and module.can_generate():
        wanted.assume("no cache of keys and values is returned")
    return module, (), example_inputs(torch, module, wanted)


def _refuse_too_large(module: Any, wanted: Wanted) -> None:
    """Say how large the model will be; refuse what the machine does not hold."""
    count = sum(tensor.numel() for tensor in module.parameters())
    size, memory = 4 * count / 2**30, _memory() / 2**30
    text = f"it has {count:,} parameters, {size:.1f} GiB in FP32"
    if size > memory > 0:
        hint = "name a folder with a config.json of fewer layers or smaller ones"
        message = f"{text}, and this machine has {memory:.1f} GiB of memory"
        raise fail("frontend-failed", wanted.shown, message, hint)
    wanted.assume(text)


def _memory() -> int:
    """Return the bytes of memory of this machine, 0 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows.
        return 0


def _configuration(transformers: Any, wanted: Wanted, name: str) -> Any:
    """Return the configuration of a model: of its folder, of the hub, or of its type."""
    if not wanted.random_weights:
        return transformers.AutoConfig.from_pretrained(name)
    types = list(transformers.CONFIG_MAPPING)
    if name in types and not os.path.isdir(name):
        wanted.assume(f"it has the configuration that transformers has for the type {name}")
        return transformers.AutoConfig.for_model(name)
    try:
        return transformers.AutoConfig.from_pretrained(name, local_files_only=True)
    except OSError:
        if os.path.isdir(name):
            raise
        if "/" not in name:
            raise wanted.unknown("type of model or folder", types, name) from None
        message = "its configuration is not on this disk, and --random-weights downloads nothing"
        hint = "name a folder with its config.json, or a type of model, such as hf:bert"
        raise fail("frontend-failed", wanted.shown, message, hint) from None


def _class(transformers: Any, wanted: Wanted, config: Any, task: str) -> Any:
    """Return the class that makes a model: of its task, or the one that its configuration names."""
    if task:
        kind = getattr(transformers, TASKS[task])
        if type(config) not in kind._model_mapping:
            message = f"transformers has no {TASKS[task]} of the type {config.model_type}"
            hint = f"another task: {', '.join(TASKS)}"
            raise fail("frontend-failed", wanted.shown, message, hint)
        return kind
    (name, *_) = config.architectures or ["AutoModel"]
    kind = getattr(transformers, name, None)
    if kind is None:
        message = f"transformers {transformers.__version__} has no class {name}"
        raise fail("frontend-failed", wanted.shown, message, "name a task: hf:NAME:TASK")
    wanted.assume(f"its class is {name}; hf:NAME:TASK chooses another class")
    return kind
