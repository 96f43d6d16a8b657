"""Networks that answer for each place of an image, or that make one, in Keras."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import layers, ops
from keras_layers import Model, Tensor, conv, image, network, separable


def make_unet() -> Model:
    """U-Net (Ronneberger, Fischer, Brox, 2015)."""
    x = given = image(32)
    kept = []
    for width in (8, 12, 16):
        x = conv(conv(x, width), width)
        kept.append(x)
        x = layers.MaxPooling2D(2)(x)
    x = conv(x, 24)
    for width, other in zip((16, 12, 8), reversed(kept), strict=True):
        x = layers.Conv2DTranspose(width, 2, 2)(x)
        x = conv(conv(layers.Concatenate()([other, x]), width), width)
    return network(given, layers.Conv2D(3, 1, activation="softmax")(x))


def make_fcn() -> Model:
    """FCN-8s (Long, Shelhamer, Darrell, 2014)."""
    x = given = image(32)
    levels = []
    for width in (8, 12, 16, 24):
        x = layers.MaxPooling2D(2)(conv(x, width))
        levels.append(x)
    classes = [layers.Conv2D(4, 1)(level) for level in levels[1:]]
    x = classes.pop()
    while classes:
        x = layers.Conv2DTranspose(4, 4, 2, padding="same")(x)
        x = layers.Add()([x, classes.pop()])
    return network(given, layers.Conv2DTranspose(4, 8, 4, padding="same")(x))


def make_deeplab_v3() -> Model:
    """DeepLab v3+ (Chen and others, 2018)."""
    given = image(32)
    early = separable(conv(given, 8, 3, 2), 12)
    x = separable(separable(early, 16, 2), 24)
    parts = [conv(x, 8, 1), *(separable(x, 8, rate=rate) for rate in (2, 3))]
    whole = conv(layers.GlobalAveragePooling2D(keepdims=True)(x), 8, 1)
    parts.append(layers.UpSampling2D(8, interpolation="bilinear")(whole))
    x = layers.UpSampling2D(2, interpolation="bilinear")(conv(layers.Concatenate()(parts), 12, 1))
    x = separable(layers.Concatenate()([x, conv(early, 6, 1)]), 12)
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.Conv2D(4, 1)(x))
    return network(given, x)


def _leaky(x: Tensor, width: int, size: int = 3, stride: int = 1) -> Tensor:
    x = conv(x, width, size, stride, act=None)
    return layers.LeakyReLU(negative_slope=0.1)(x)


def make_yolo() -> Model:
    """A small YOLO v3 (Redmon, Farhadi, 2018)."""
    given = image(64)
    x = _leaky(_leaky(given, 8), 12, 3, 2)
    x = layers.Add()([x, _leaky(_leaky(x, 6, 1), 12)])
    middle = _leaky(x, 16, 3, 2)
    middle = layers.Add()([middle, _leaky(_leaky(middle, 8, 1), 16)])
    last = _leaky(_leaky(middle, 24, 3, 2), 24)
    up = layers.UpSampling2D()(_leaky(last, 8, 1))
    near = _leaky(layers.Concatenate()([up, middle]), 16)
    outputs = []
    for level, name in ((last, "far"), (near, "near")):
        boxes = layers.Conv2D(3 * 9, 1)(level)
        _, high, wide, _ = boxes.shape
        boxes = layers.Reshape((high, wide, 3, 9))(boxes)
        places, sizes, classes = ops.split(boxes, (2, 4), axis=-1)
        parts = [ops.sigmoid(places), ops.exp(sizes * 0.5), ops.sigmoid(classes)]
        outputs.append(layers.Concatenate(name=name)(parts))
    return network(given, outputs)


def make_ssd() -> Model:
    """SSD (Liu and others, 2015) on MobileNet."""
    given = image(64)
    x = separable(separable(conv(given, 8, 3, 2), 16, 2), 24, 2)
    levels = [x]
    for width in (24, 32):
        x = separable(x, width, 2)
        levels.append(x)
    boxes, classes = [], []
    for level in levels:
        count = 4 * level.shape[1] * level.shape[2]
        boxes.append(layers.Reshape((count, 4))(layers.Conv2D(16, 3, padding="same")(level)))
        classes.append(layers.Reshape((count, 5))(layers.Conv2D(20, 3, padding="same")(level)))
    scores = layers.Activation("sigmoid", name="scores")(layers.Concatenate(axis=1)(classes))
    return network(given, [layers.Concatenate(axis=1, name="boxes")(boxes), scores])


class DepthToSpace(layers.Layer):
    """Channels become places, as in sub-pixel convolutions."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def call(self, x: Tensor) -> Tensor:
        return tf.nn.depth_to_space(x, self.factor)


def make_srcnn() -> Model:
    """SRCNN (Dong and others, 2014)."""
    given = image(16)
    x = layers.UpSampling2D(2, interpolation="bilinear")(given)
    x = layers.Conv2D(16, 9, padding="same", activation="relu")(x)
    x = layers.Conv2D(8, 1, activation="relu")(x)
    return network(given, layers.Conv2D(3, 5, padding="same")(x))


def make_espcn() -> Model:
    """ESPCN (Shi and others, 2016)."""
    given = image(16, 1)
    x = layers.Conv2D(16, 5, padding="same", activation="tanh")(given)
    x = layers.Conv2D(12, 3, padding="same", activation="tanh")(x)
    return network(given, DepthToSpace(3)(layers.Conv2D(9, 3, padding="same")(x)))


def make_edsr() -> Model:
    """EDSR (Lim and others, 2017)."""
    given = image(16)
    x = first = layers.Conv2D(16, 3, padding="same")(given)
    for _ in range(3):
        y = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
        x = layers.Add()([x, layers.Conv2D(16, 3, padding="same")(y) * 0.1])
    x = layers.Add()([first, layers.Conv2D(16, 3, padding="same")(x)])
    x = DepthToSpace(2)(layers.Conv2D(64, 3, padding="same")(x))
    return network(given, layers.Conv2D(3, 3, padding="same")(x))


def make_dncnn() -> Model:
    """DnCNN (Zhang and others, 2016)."""
    given = image(32, 1)
    x = layers.Conv2D(12, 3, padding="same", activation="relu")(given)
    for _ in range(4):
        x = conv(x, 12)
    return network(given, layers.Subtract()([given, layers.Conv2D(1, 3, padding="same")(x)]))


def make_autoencoder() -> Model:
    """A convolutional autoencoder (Masci and others, 2011) with pools and enlargement."""
    x = given = image(32)
    for width in (12, 8):
        x = layers.MaxPooling2D(2)(layers.Conv2D(width, 3, padding="same", activation="relu")(x))
    for width in (8, 12):
        x = layers.UpSampling2D()(layers.Conv2D(width, 3, padding="same", activation="relu")(x))
    return network(given, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x))


def _noise() -> Tensor:
    return keras.Input(batch_shape=(1, 16), name="noise")


def make_vae_decoder() -> Model:
    """The decoder of a variational autoencoder (Kingma, Welling, 2013)."""
    given = _noise()
    x = layers.Reshape((4, 4, 16))(layers.Dense(256, activation="relu")(given))
    for width in (12, 8):
        x = layers.Conv2DTranspose(width, 3, 2, padding="same", activation="relu")(x)
    return network(given, layers.Conv2DTranspose(1, 3, 2, padding="same", activation="sigmoid")(x))


def make_dcgan() -> Model:
    """The generator of DCGAN (Radford, Metz, Chintala, 2015)."""
    given = _noise()
    x = layers.Reshape((4, 4, 24))(layers.Dense(384, use_bias=False)(given))
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for width in (16, 8):
        x = layers.Conv2DTranspose(width, 4, 2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return network(given, layers.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh")(x))
