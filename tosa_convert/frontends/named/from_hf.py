"""Makes models of transformers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.named.wanted import (
    SEED,
    Wanted,
    imports_of,
    in_inference,
    parameters,
    random_numbers,
    refuse_too_large,
)

# --------------------------------------------------------------------------------------------------
# example inputs of models of transformers, by what they are called and what the configuration
# says.

#: Tokens of a text, samples of a sound, and the size of an image, if a configuration does not say.
_TOKENS, _SAMPLES, _PIXELS, _FRAMES = 16, 16000, 224, 16
#: Inputs that go with another.
_COMPANIONS: Final = {
    "input_ids": ("attention_mask", "bbox", "pixel_values", "decoder_input_ids"),
    "pixel_values": ("input_ids", "decoder_input_ids"),
    "input_features": ("decoder_input_ids", "input_ids"),
}


def example_inputs(torch: Any, module: Any, wanted: Wanted) -> dict[str, Any]:
    """Return the main input of a model by name, and what it needs: masks, decoder tokens, an image."""
    config, main = module.config, module.main_input_name
    taken = inspect.signature(module.forward).parameters
    names = [main]
    for name in _COMPANIONS.get(main, ()):
        if name in taken and _is_needed(name, main, config):
            names.append(name)
    inputs = {}
    for name in names:
        if name not in _MAKERS:
            message = f"its main input is {name}, for which there is no example"
            hint = "write a Python file with a function that returns the model and its arguments"
            raise fail("frontend-failed", wanted.shown, message, hint)
        inputs[name] = _MAKERS[name](torch, module, wanted, name)
    wanted.refuse_unused(names, ("batch", "sequence"))
    return inputs


def _is_needed(name: str, main: str, config: Any) -> bool:
    if name == "decoder_input_ids":
        return bool(config.is_encoder_decoder)
    if name == "bbox":
        return hasattr(config, "max_2d_position_embeddings")
    both = hasattr(config, "text_config") and hasattr(config, "vision_config")
    return name == "attention_mask" or (both and main != name)


def _value(config: Any, names: Sequence[str], default: Any) -> Any:
    """Return what a configuration says by one of several names, or a part of it says."""
    for part in _parts(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def _parts(config: Any) -> Iterator[Any]:
    yield config
    for name in ("text_config", "vision_config", "audio_config", "encoder", "backbone_config"):
        part = getattr(config, name, None)
        if part is not None:
            yield part


def _tokens(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    size = wanted.size("batch", 1), wanted.size("sequence", _TOKENS)
    shape = wanted.shape(name, size)
    words = _value(module.config, ("vocab_size",), 2)
    words = words[0] if isinstance(words, (list, tuple)) else words
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(min(10, words - 1), words, shape, generator=generator)


def _mask(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    size = wanted.size("batch", 1), wanted.size("sequence", _TOKENS)
    shape = wanted.shapes.get(name) or wanted.shapes.get("input_ids") or size
    wanted.used.add(name)
    return torch.ones(tuple(shape), dtype=torch.long)


def _boxes(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    size = wanted.size("batch", 1), wanted.size("sequence", _TOKENS), 4
    return torch.ones(wanted.shape(name, size), dtype=torch.long)


def _image(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    config = module.config
    size = _value(config, ("image_size", "input_size"), _PIXELS)
    if isinstance(size, dict):
        size = [size["height"], size["width"]]
    if not isinstance(size, (list, tuple)):
        size = [size, size]
    channels = _value(config, ("num_channels", "in_channels", "in_chans"), 3)
    frames: list[int] = []
    if hasattr(config, "num_frames") or hasattr(config, "tubelet_size"):
        frames = [_value(config, ("num_frames", "frames_per_clip"), _FRAMES)]
    shape = (wanted.size("batch", 1), *frames, channels, *list(size)[-2:])
    return random_numbers(torch, wanted.shape(name, shape))


def _features(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    """Return a spectrogram; models of Whisper have its bands first, others its frames."""
    config = module.config
    bands = _value(config, ("num_mel_bins", "input_feat_per_channel", "feature_size"), 80)
    batch = wanted.size("batch", 1)
    frames = _value(config, ("max_source_positions",), 0)
    shape = (batch, bands, 2 * frames) if config.model_type == "whisper" else (batch, 100, bands)
    return random_numbers(torch, wanted.shape(name, shape))


def _values(torch: Any, module: Any, wanted: Wanted, name: str) -> Any:
    """Return a spectrogram for models that say how long theirs is; the samples of a sound for others."""
    config, batch = module.config, wanted.size("batch", 1)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        shape: tuple[int, ...] = batch, config.max_length, config.num_mel_bins
    elif hasattr(config, "audio_channels") or hasattr(config, "codebook_size"):
        shape = batch, getattr(config, "audio_channels", 1), _SAMPLES
    else:
        shape = batch, _SAMPLES
    return random_numbers(torch, wanted.shape(name, shape))


_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _tokens,
    "attention_mask": _mask,
    "bbox": _boxes,
    "pixel_values": _image,
    "pixel_values_videos": _image,
    "input_features": _features,
    "input_values": _values,
}


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
    """Return a model of a folder, of the hub or, with random weights, of a type such as `bert`."""
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
    with wanted.made():
        if wanted.random_weights:
            # A class of its own and an automatic one differ in the name of what makes a model.
            make = getattr(kind, "_from_config", None) or kind.from_config
            count = parameters(torch, lambda: make(config, dtype=torch.float32))
            refuse_too_large(count, wanted)
            torch.manual_seed(SEED)
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
