"""Classifiers of images for small devices, in Keras."""

from __future__ import annotations

from keras import layers, ops
from keras_layers import (
    Model,
    Tensor,
    classifier,
    conv,
    depthwise,
    image,
    network,
    separable,
    squeeze_excite,
)


def make_mobilenet_v1() -> Model:
    """MobileNet v1 (Howard and others, 2017)."""
    given = image(64)
    x = conv(given, 8, 3, 2)
    for width, stride in ((16, 1), (32, 2), (32, 1), (48, 2), (48, 1), (64, 2), (64, 1)):
        x = separable(x, width, stride)
    return network(given, classifier(x))


def _inverted(
    x: Tensor,
    width: int,
    stride: int,
    hidden: int,
    *,
    size: int = 3,
    act: str = "relu6",
    squeeze: int = 0,
    gate: str = "sigmoid",
) -> Tensor:
    """Wide, depthwise, narrow without activation; with a shortcut where the shapes are equal."""
    y = conv(x, hidden, 1, act=act) if hidden != x.shape[-1] else x
    y = depthwise(y, size, stride, act=act)
    if squeeze:
        y = squeeze_excite(y, squeeze, gate=gate, act="silu" if act == "silu" else "relu")
    y = conv(y, width, 1, act=None)
    return layers.Add()([x, y]) if x.shape == y.shape else y


def make_mobilenet_v2() -> Model:
    """MobileNet v2 (Sandler and others, 2018)."""
    given = image(64)
    x = conv(given, 8, 3, 2, act="relu6")
    rows = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 1), (6, 32, 2, 2))
    for factor, width, depth, stride in rows:
        for index in range(depth):
            x = _inverted(x, width, 1 if index else stride, x.shape[-1] * factor)
    return network(given, classifier(conv(x, 64, 1, act="relu6")))


def make_mobilenet_v3() -> Model:
    """MobileNet v3 small (Howard and others, 2019): hard swish, squeeze-and-excitation."""
    given = image(64)
    x = conv(given, 8, 3, 2, act="hard_silu")
    rows = (
        (3, 8, 8, 4, "relu", 2),
        (3, 36, 12, 0, "relu", 2),
        (3, 44, 12, 0, "relu", 1),
        (5, 48, 16, 8, "hard_silu", 2),
        (5, 60, 16, 8, "hard_silu", 1),
    )
    for size, hidden, width, squeeze, act, stride in rows:
        x = _inverted(
            x, width, stride, hidden, size=size, act=act, squeeze=squeeze, gate="hard_sigmoid"
        )
    x = layers.GlobalAveragePooling2D()(conv(x, 48, 1, act="hard_silu"))
    x = layers.Dense(64, activation="hard_silu")(x)
    return network(given, layers.Dense(10, activation="softmax")(x))


def make_mnasnet() -> Model:
    """MNASNet (Tan and others, 2018)."""
    given = image(64)
    x = separable(conv(given, 8, 3, 2), 8)
    for factor, size, width, depth, stride in (
        (3, 3, 12, 2, 2),
        (3, 5, 16, 2, 2),
        (6, 5, 24, 2, 2),
    ):
        for index in range(depth):
            step = 1 if index else stride
            x = _inverted(x, width, step, x.shape[-1] * factor, size=size, act="relu")
    return network(given, classifier(x))


def make_efficientnet() -> Model:
    """EfficientNet (Tan, Le, 2019)."""
    given = image(64)
    x = conv(given, 8, 3, 2, act="silu")
    rows = ((1, 3, 8, 1, 1), (6, 3, 12, 1, 2), (6, 5, 16, 2, 2), (6, 3, 24, 2, 2))
    for factor, size, width, depth, stride in rows:
        for index in range(depth):
            step = 1 if index else stride
            x = _inverted(x, width, step, x.shape[-1] * factor, size=size, act="silu", squeeze=4)
    return network(given, classifier(conv(x, 48, 1, act="silu")))


def make_efficientnet_lite() -> Model:
    """EfficientNet-Lite (Liu, 2020): ReLU6, and no squeeze-and-excitation."""
    given = image(64)
    x = conv(given, 8, 3, 2, act="relu6")
    rows = ((1, 3, 8, 1, 1), (6, 3, 12, 1, 2), (6, 5, 16, 2, 2), (6, 3, 24, 2, 2))
    for factor, size, width, depth, stride in rows:
        for index in range(depth):
            x = _inverted(x, width, 1 if index else stride, x.shape[-1] * factor, size=size)
    return network(given, classifier(conv(x, 48, 1, act="relu6")))


def _shuffled(x: Tensor) -> Tensor:
    """Return two groups of channels, one of each in turn."""
    _, high, wide, channels = x.shape
    x = ops.transpose(ops.reshape(x, (1, high, wide, 2, channels // 2)), (0, 1, 2, 4, 3))
    return ops.reshape(x, (1, high, wide, channels))


def make_shufflenet_v2() -> Model:
    """ShuffleNet v2 (Ma and others, 2018)."""
    given = image(64)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(given, 8, 3, 2))
    for width in (16, 24):
        left = conv(depthwise(x, 3, 2, act=None), width // 2, 1)
        right = conv(depthwise(conv(x, width // 2, 1), 3, 2, act=None), width // 2, 1)
        x = _shuffled(layers.Concatenate()([left, right]))
        for _ in range(2):
            left, right = ops.split(x, 2, axis=-1)
            right = conv(depthwise(conv(right, width // 2, 1), act=None), width // 2, 1)
            x = _shuffled(layers.Concatenate()([left, right]))
    return network(given, classifier(conv(x, 48, 1)))


def make_ghostnet() -> Model:
    """GhostNet (Han and others, 2019)."""

    def ghost(x: Tensor, width: int, act: str | None) -> Tensor:
        some = conv(x, width // 2, 1, act=act)
        return layers.Concatenate()([some, depthwise(some, act=act)])

    given = image(64)
    x = conv(given, 8, 3, 2)
    for hidden, width, stride, squeeze in ((16, 8, 1, 0), (24, 12, 2, 0), (36, 16, 2, 4)):
        y = ghost(x, hidden, "relu")
        if stride == 2:
            y = depthwise(y, 3, 2, act=None)
        if squeeze:
            y = squeeze_excite(y, squeeze, gate="hard_sigmoid")
        y = ghost(y, width, None)
        if stride == 2:
            x = conv(depthwise(x, 3, 2, act=None), width, 1, act=None)
        x = layers.Add()([x, y])
    return network(given, classifier(x))
