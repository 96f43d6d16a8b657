"""Classifiers of images, in Keras."""

from __future__ import annotations

from keras import layers
from keras_layers import Model, Tensor, activated, classifier, conv, image, network, squeeze_excite


def make_lenet() -> Model:
    """LeNet-5 (LeCun and others, 1998)."""
    x = given = image(32, 1)
    for width in (6, 16):
        x = layers.Conv2D(width, 5, activation="tanh")(x)
        x = layers.AveragePooling2D(2)(x)
    x = layers.Flatten()(x)
    for width in (120, 84):
        x = layers.Dense(width, activation="tanh")(x)
    return network(given, layers.Dense(10, activation="softmax")(x))


def make_vgg() -> Model:
    """VGG-11 (Simonyan, Zisserman, 2014)."""
    x = given = image(32)
    for width, depth in ((8, 1), (12, 1), (16, 2), (24, 2), (24, 2)):
        for _ in range(depth):
            x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(32, activation="relu")(x)
    return network(given, layers.Dense(10)(x))


def _branches(
    x: Tensor, one: int, three: tuple[int, int], five: tuple[int, int], pool: int
) -> Tensor:
    """Return a block of GoogLeNet."""
    pooled = layers.MaxPooling2D(3, 1, padding="same")(x)
    parts = [
        conv(x, one, 1),
        conv(conv(x, three[0], 1), three[1]),
        conv(conv(x, five[0], 1), five[1], 5),
        conv(pooled, pool, 1),
    ]
    return layers.Concatenate()(parts)


def make_inception_v1() -> Model:
    """GoogLeNet (Szegedy and others, 2014)."""
    given = image(64)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(given, 8, 7, 2))
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(conv(x, 8, 1), 12))
    x = _branches(x, 8, (6, 12), (4, 6), 6)
    x = _branches(x, 8, (8, 12), (4, 8), 8)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    return network(given, classifier(_branches(x, 12, (8, 16), (4, 8), 8)))


def make_inception_v3() -> Model:
    """Inception v3 (Szegedy and others, 2015)."""
    given = image(64)
    x = layers.MaxPooling2D(3, 2)(conv(conv(given, 8, 3, 2), 12))
    pooled = layers.AveragePooling2D(3, 1, padding="same")(x)
    double = conv(conv(conv(x, 8, 1), 12), 12)
    x = layers.Concatenate()([conv(x, 8, 1), conv(conv(x, 6, 1), 8, 5), double, conv(pooled, 6, 1)])
    x = layers.Concatenate()([conv(x, 24, 3, 2), layers.MaxPooling2D(3, 2, padding="same")(x)])
    pooled = layers.AveragePooling2D(3, 1, padding="same")(x)
    seven = conv(conv(conv(x, 12, 1), 12, (1, 7)), 16, (7, 1))
    x = layers.Concatenate()([conv(x, 16, 1), seven, conv(pooled, 16, 1)])
    wide = conv(x, 16, 1)
    fanned = [conv(wide, 12, (1, 3)), conv(wide, 12, (3, 1))]
    return network(given, classifier(layers.Concatenate()([conv(x, 12, 1), *fanned])))


def _residual(x: Tensor, y: Tensor, stride: int) -> Tensor:
    """Return the sum of a branch and what went into it, activated."""
    if stride != 1 or x.shape[-1] != y.shape[-1]:
        x = conv(x, y.shape[-1], 1, stride, act=None)
    return layers.ReLU()(layers.Add()([x, y]))


def make_resnet_basic() -> Model:
    """ResNet-18 (He and others, 2015)."""
    given = image(64)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(given, 8, 7, 2))
    for width, stride in ((8, 1), (12, 2), (16, 2), (24, 2)):
        for step in (stride, 1):
            x = _residual(x, conv(conv(x, width, 3, step), width, act=None), step)
    return network(given, classifier(x))


def make_resnet_bottleneck() -> Model:
    """The form of ResNet-50 (He and others, 2015), with one or two blocks of each width."""
    given = image(64)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(given, 8, 7, 2))
    for width, depth, stride in ((4, 1, 1), (8, 2, 2), (12, 1, 2), (16, 1, 2)):
        for index in range(depth):
            step = 1 if index else stride
            y = conv(conv(conv(x, width, 1), width, 3, step), 4 * width, 1, act=None)
            x = _residual(x, y, step)
    return network(given, classifier(x))


def make_se_resnet() -> Model:
    """SE-ResNet (Hu and others, 2017)."""
    given = image(32)
    x = conv(given, 8)
    for width, stride in ((8, 1), (16, 2), (24, 2)):
        y = conv(conv(x, width, 3, stride), width, act=None)
        x = _residual(x, squeeze_excite(y, 4), stride)
    return network(given, classifier(x))


def make_densenet() -> Model:
    """DenseNet-BC (Huang and others, 2016)."""

    def normalized(x: Tensor) -> Tensor:
        return activated(layers.BatchNormalization()(x), "relu")

    given = image(32)
    x = layers.Conv2D(12, 3, 2, padding="same", use_bias=False)(given)
    for block in range(3):
        for _ in range(3):
            y = conv(normalized(x), 16, 1)
            y = layers.Conv2D(6, 3, padding="same", use_bias=False)(y)
            x = layers.Concatenate()([x, y])
        if block < 2:
            x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(normalized(x))
            x = layers.AveragePooling2D(2)(x)
    return network(given, classifier(normalized(x)))


def make_squeezenet() -> Model:
    """SqueezeNet 1.1 (Iandola and others, 2016)."""

    def fire(x: Tensor, narrow: int, wide: int) -> Tensor:
        x = layers.Conv2D(narrow, 1, activation="relu")(x)
        parts = [layers.Conv2D(wide, size, padding="same", activation="relu")(x) for size in (1, 3)]
        return layers.Concatenate()(parts)

    given = image(64)
    x = layers.Conv2D(8, 3, 2, activation="relu")(given)
    for widths in (((4, 8), (4, 8)), ((6, 12), (6, 12)), ((8, 16), (8, 16))):
        x = layers.MaxPooling2D(3, 2)(x)
        for narrow, wide in widths:
            x = fire(x, narrow, wide)
    x = layers.Conv2D(10, 1, activation="relu")(x)
    return network(given, layers.Softmax()(layers.GlobalAveragePooling2D()(x)))


def make_convnext() -> Model:
    """ConvNeXt (Liu and others, 2022)."""
    given = image(32)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(8, 4, 4)(given))
    for width in (8, 16):
        if x.shape[-1] != width:
            x = layers.Conv2D(width, 2, 2)(layers.LayerNormalization(epsilon=1e-6)(x))
        for _ in range(2):
            y = layers.DepthwiseConv2D(7, padding="same")(x)
            y = layers.LayerNormalization(epsilon=1e-6)(y)
            y = layers.Dense(4 * width, activation="gelu")(y)
            x = layers.Add()([x, layers.Dense(width)(y)])
    x = layers.LayerNormalization(epsilon=1e-6)(layers.GlobalAveragePooling2D()(x))
    return network(given, layers.Dense(10)(x))
