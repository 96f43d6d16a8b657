"""Networks of sequences, speech and sets, in Keras."""

from __future__ import annotations

import keras
from keras import layers, ops
from keras_layers import Model, Tensor, conv, image, network, separable


def _frames(length: int, channels: int) -> Tensor:
    return keras.Input(batch_shape=(1, length, channels), name="frames")


def make_lstm() -> Model:
    """An LSTM (Hochreiter, Schmidhuber, 1997)."""
    given = _frames(8, 6)
    x = layers.LSTM(12, return_sequences=True, unroll=True)(given)
    return network(given, layers.Dense(3)(layers.LSTM(12, unroll=True)(x)))


def make_gru() -> Model:
    """A GRU (Cho and others, 2014)."""
    given = _frames(8, 6)
    both = layers.Bidirectional(layers.GRU(12, return_sequences=True, unroll=True))(given)
    return network(given, layers.Dense(4)(both))


def make_tcn() -> Model:
    """A TCN (Bai, Kolter, Koltun, 2018)."""
    x = given = _frames(32, 4)
    for rate in (1, 2, 4):
        y = x
        for _ in range(2):
            y = layers.Conv1D(12, 3, padding="causal", dilation_rate=rate, activation="relu")(y)
        if x.shape[-1] != 12:
            x = layers.Conv1D(12, 1)(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    return network(given, layers.Conv1D(5, 1)(x))


def make_wavenet() -> Model:
    """WaveNet (van den Oord and others, 2016)."""
    given = _frames(32, 4)
    x = layers.Conv1D(12, 2, padding="causal")(given)
    skips = []
    for rate in (1, 2, 4, 8):
        signal = layers.Conv1D(12, 2, padding="causal", dilation_rate=rate, activation="tanh")(x)
        gate = layers.Conv1D(12, 2, padding="causal", dilation_rate=rate, activation="sigmoid")(x)
        y = layers.Multiply()([signal, gate])
        skips.append(layers.Conv1D(16, 1)(y))
        x = layers.Add()([x, layers.Conv1D(12, 1)(y)])
    x = layers.Conv1D(16, 1, activation="relu")(layers.ReLU()(layers.Add()(skips)))
    return network(given, layers.Conv1D(8, 1, activation="softmax")(x))


def make_ds_cnn() -> Model:
    """DS-CNN for keywords (Zhang and others, 2017)."""
    given = keras.Input(batch_shape=(1, 49, 10, 1), name="frames")
    x = conv(given, 16, (10, 4), 2)
    for _ in range(4):
        x = separable(x, 16)
    x = layers.Flatten()(layers.AveragePooling2D(x.shape[1:3])(x))
    return network(given, layers.Dense(12, activation="softmax")(x))


def make_anomaly_autoencoder() -> Model:
    """The autoencoder of anomaly detection in machine sounds (Koizumi and others, 2020)."""
    x = given = keras.Input(batch_shape=(1, 64), name="frames")
    for width in (32, 32, 8, 32, 32):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Dense(width)(x)))
    return network(given, layers.Dense(64)(x))


def make_crnn() -> Model:
    """CRNN (Shi, Bai, Yao, 2015)."""
    given = keras.Input(batch_shape=(1, 16, 32, 1), name="image")
    x = layers.MaxPooling2D(2)(conv(given, 8))
    x = layers.MaxPooling2D((8, 2))(conv(x, 12))
    x = layers.Reshape((8, 12))(x)
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True, unroll=True))(x)
    return network(given, layers.Dense(11, activation="softmax")(x))


def _encoder(x: Tensor, *, heads: int, act: str, first: bool) -> Tensor:
    """Return a block of a transformer; normalized before its parts, or after."""
    width = x.shape[-1]

    def attended(y: Tensor) -> Tensor:
        return layers.MultiHeadAttention(heads, width // heads)(y, y)

    def spread(y: Tensor) -> Tensor:
        return layers.Dense(width)(layers.Dense(2 * width, activation=act)(y))

    for part in (attended, spread):
        norm = layers.LayerNormalization(epsilon=1e-6)
        x = layers.Add()([x, part(norm(x))]) if first else norm(layers.Add()([x, part(x)]))
    return x


class Places(layers.Layer):
    """Adds a weight to each element of a sequence."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.places = self.add_weight(name="places", shape=shape[1:])

    def call(self, x: Tensor) -> Tensor:
        return x + self.places


def make_bert() -> Model:
    """BERT (Devlin and others, 2018)."""
    given = keras.Input(batch_shape=(1, 12), dtype="int32", name="tokens")
    x = Places()(layers.Embedding(40, 16)(given))
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    for _ in range(2):
        x = _encoder(x, heads=2, act="gelu", first=False)
    return network(given, layers.Dense(3)(layers.Dense(16, activation="tanh")(x[:, 0])))


def make_vit() -> Model:
    """ViT (Dosovitskiy and others, 2020)."""
    given = image(32)
    x = layers.Reshape((16, 24))(layers.Conv2D(24, 8, 8)(given))
    x = Places()(x)
    for _ in range(2):
        x = _encoder(x, heads=3, act="gelu", first=True)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return network(given, layers.Dense(10)(x))


def make_transformer() -> Model:
    """The encoder of a transformer (Vaswani and others, 2017), with ReLU."""
    given = _frames(10, 8)
    x = Places()(layers.Dense(16)(given))
    for _ in range(2):
        x = _encoder(x, heads=4, act="relu", first=False)
    return network(given, layers.Dense(5, activation="softmax")(x))


def make_mlp_mixer() -> Model:
    """MLP-Mixer (Tolstikhin and others, 2021)."""

    def mixed(x: Tensor, hidden: int) -> Tensor:
        return layers.Dense(x.shape[-1])(layers.Dense(hidden, activation="gelu")(x))

    given = image(32)
    x = layers.Reshape((16, 16))(layers.Conv2D(16, 8, 8)(given))
    for _ in range(2):
        y = layers.Permute((2, 1))(layers.LayerNormalization(epsilon=1e-6)(x))
        x = layers.Add()([x, layers.Permute((2, 1))(mixed(y, 24))])
        x = layers.Add()([x, mixed(layers.LayerNormalization(epsilon=1e-6)(x), 32)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return network(given, layers.Dense(10)(x))


def make_pointnet() -> Model:
    """PointNet (Qi and others, 2016)."""

    def shared(x: Tensor, *widths: int) -> Tensor:
        for width in widths:
            x = layers.BatchNormalization()(layers.Conv1D(width, 1)(x))
            x = layers.ReLU()(x)
        return x

    given = keras.Input(batch_shape=(1, 32, 3), name="points")
    x = layers.GlobalMaxPooling1D()(shared(given, 8, 16))
    turn = layers.Reshape((3, 3))(layers.Dense(9)(layers.Dense(8, activation="relu")(x)))
    x = ops.matmul(given, turn)
    x = layers.GlobalMaxPooling1D()(shared(x, 16, 32))
    return network(given, layers.Dense(5)(layers.Dense(16, activation="relu")(x)))


def make_siamese() -> Model:
    """A siamese network (Koch, Zemel, Salakhutdinov, 2015)."""
    pair = [keras.Input(batch_shape=(1, 16, 16, 1), name=name) for name in ("left", "right")]
    first, second = layers.Conv2D(8, 3, activation="relu"), layers.Dense(16, activation="sigmoid")
    codes = [second(layers.Flatten()(layers.MaxPooling2D(2)(first(one)))) for one in pair]
    apart = ops.abs(codes[0] - codes[1])
    return network(pair, layers.Dense(1, activation="sigmoid")(apart))


def make_nerf() -> Model:
    """NeRF (Mildenhall and others, 2020)."""
    given = keras.Input(batch_shape=(8, 3), name="points")
    waves = [wave(given * 2.0**power) for power in range(3) for wave in (ops.sin, ops.cos)]
    encoded = layers.Concatenate()([given, *waves])
    x = layers.Dense(24, activation="relu")(layers.Dense(24, activation="relu")(encoded))
    x = layers.Dense(24, activation="relu")(layers.Concatenate()([x, encoded]))
    density = layers.Dense(1, activation="relu", name="density")(x)
    return network(given, [density, layers.Dense(3, activation="sigmoid", name="color")(x)])


def make_dlrm() -> Model:
    """DLRM (Naumov and others, 2019)."""
    numbers = keras.Input(batch_shape=(2, 6), name="numbers")
    kinds = keras.Input(batch_shape=(2, 3), dtype="int32", name="kinds")
    dense = layers.Dense(8, activation="relu")(layers.Dense(16, activation="relu")(numbers))
    embedded = layers.Embedding(20, 8)(kinds)
    vectors = layers.Concatenate(axis=1)([layers.Reshape((1, 8))(dense), embedded])
    products = layers.Flatten()(ops.matmul(vectors, ops.transpose(vectors, (0, 2, 1))))
    x = layers.Concatenate()([dense, products])
    x = layers.Dense(12, activation="relu")(x)
    return network([numbers, kinds], layers.Dense(1, activation="sigmoid")(x))
