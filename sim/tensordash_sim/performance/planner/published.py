"""Training steps in their published shapes: VGG16, ResNet-50, a block of a 13B GPT."""

from collections.abc import Iterator

from ...lowering import Convolution, MatrixProduct
from .graph import Graph
from .step import Cycles, GraphWriter, Value

__all__ = ["GPT_HEADS", "STAGES", "convolution", "gpt_block", "resnet50", "vgg16"]

VGG = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Filters and number of convolutions between poolings (Simonyan and Zisserman, Table 1, D)."""
VGG_LINEAR = (4096, 4096, 1000)
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and blocks of each stage of ResNet-50 (He et al., Deep Residual Learning for Image Recognition, Table 1)."""
GPT_HIDDEN = 5120
GPT_HEADS = 40
GPT_LENGTH = 2048
"""Sequence length of the 13B network of Srinivasan et al. 2023, as are the hidden size and the heads."""
GPT_POSITIONS = 8
"""Parts into which a head's positions can be cut; each part needs all of the head's keys."""
SAMPLES = "samples"
TOKENS = "tokens"
HEADS = "heads"
BIT = 1 / 8
"""Bytes that a ReLU saves for each result."""
INDEX = 1 / 4
"""Bytes that a 2 x 2 pooling saves for each result."""


def convolution(
    images: int, channels: int, filters: int, size: int, kernel: int, stride: int = 1, *, padding: int | None = None
) -> Convolution:
    """Return a square convolution, by default padded to keep the size."""
    border = kernel // 2 if padding is None else padding
    return Convolution(
        batch=images,
        in_channels=channels,
        out_channels=filters,
        size=(size, size),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(border, border),
        dilation=(1, 1),
        groups=1,
    )


def _relu(step: GraphWriter, name: str, x: Value, zeros: float) -> Value:
    density = 1 - zeros
    return step.element_wise(
        name, [x], axis=SAMPLES, density=density, mask_bytes=BIT, gradient_density=step.gradient_density
    )


def vgg16(images: int, zeros: float, cycles: Cycles, *, size: int = 224, thin: int = 1) -> Graph:
    """Return the graph of VGG16 on images of 224 x 224, with momentum.

    Parameters
    ----------
    images : int
        Images of a batch.
    zeros : float
        Share of zeros in activations and in gradients that products read.
    cycles : Cycles
        Cycles of products.
    size, thin : int
        Size of images, a multiple of 32; divisor of all widths.
    """
    step = GraphWriter({SAMPLES: images}, cycles, gradient_density=1 - zeros)
    x = step.add_input("images", images * 3 * size * size, axes={SAMPLES}, density=1 - zeros)
    channels = 3
    for group, (width, count) in enumerate(VGG, start=1):
        filters = width // thin
        for number in range(1, count + 1):
            name = f"conv{group}_{number}"
            layer = convolution(images, channels, filters, size, 3)
            x = step.product(name, layer, x, axis=SAMPLES, density=1.0, kind="convolution")
            x, channels = _relu(step, f"{name}.relu", x, zeros), filters
        size //= 2
        x = step.element_wise(
            f"pool{group}",
            [x],
            axis=SAMPLES,
            density=1 - zeros,
            values=images * channels * size * size,
            mask_bytes=INDEX,
            gradient_density=(1 - zeros) / 4,
        )
    features = channels * size * size
    for number, width in enumerate(VGG_LINEAR, start=6):
        outputs = width // thin
        linear = MatrixProduct(batch=1, samples=images, in_features=features, out_features=outputs)
        x, features = step.product(f"fc{number}", linear, x, axis=SAMPLES, density=1.0), outputs
        if number < 8:
            x = _relu(step, f"fc{number}.relu", x, zeros)
    return step.finish(x, axis=SAMPLES)


def resnet50_layers(images: int, size: int = 224, thin: int = 1) -> Iterator[tuple[str, Convolution]]:
    """Yield ResNet-50's convolutions; a block's 3 x 3 one has its stride. `size` and `thin` are as for `vgg16`."""
    channels = 64 // thin
    yield "conv1", convolution(images, 3, channels, size, 7, 2)
    size //= 4
    for stage, (published, blocks) in enumerate(STAGES, start=1):
        width = published // thin
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            name = f"layer{stage}.{block}"
            yield f"{name}.conv1", convolution(images, channels, width, size, 1)
            yield f"{name}.conv2", convolution(images, width, width, size, 3, stride)
            if block == 0:
                yield f"{name}.downsample", convolution(images, channels, 4 * width, size, 1, stride)
            size //= stride
            yield f"{name}.conv3", convolution(images, width, 4 * width, size, 1)
            channels = 4 * width


def resnet50(
    images: int, zeros: float, cycles: Cycles, *, ghost: bool = False, size: int = 224, thin: int = 1
) -> Graph:
    """Return the graph of ResNet-50 on images of 224 x 224, with momentum.

    Parameters
    ----------
    images, zeros, cycles, size, thin
        As for `vgg16`.
    ghost : bool
        Whether each part of a batch is normalised by itself (ghost batch normalisation), for any number of parts.
    """
    layers = dict(resnet50_layers(images, size, thin))
    step = GraphWriter({SAMPLES: images}, cycles, gradient_density=1 - zeros)

    def convolve(name: str, x: Value) -> Value:
        layer = layers[name]
        y = step.product(name, layer, x, axis=SAMPLES, density=1.0, kind="convolution")
        parts, over = (images, {SAMPLES}) if ghost else (1, set[str]())
        return step.norm(f"{name}.norm", y, sums=parts * layer.out_channels, over=over, axis=SAMPLES)

    x = step.add_input("images", images * 3 * size * size, axes={SAMPLES}, density=1 - zeros)
    x = _relu(step, "conv1.relu", convolve("conv1", x), zeros)
    x = step.element_wise(
        "pool",
        [x],
        axis=SAMPLES,
        density=1 - zeros,
        values=images * (64 // thin) * (size // 4) ** 2,
        mask_bytes=2 * INDEX,  # 3 x 3
        gradient_density=(1 - zeros) / 4,
    )
    for stage, (_, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            y = _relu(step, f"{name}.relu1", convolve(f"{name}.conv1", x), zeros)
            y = _relu(step, f"{name}.relu2", convolve(f"{name}.conv2", y), zeros)
            y = convolve(f"{name}.conv3", y)
            shortcut = convolve(f"{name}.downsample", x) if block == 0 else x
            x = _relu(step, f"{name}.relu3", step.add(f"{name}.add", y, shortcut, axis=SAMPLES), zeros)
    x = step.element_wise("mean", [x], axis=SAMPLES, values=images * 2048 // thin)
    layer = MatrixProduct(batch=1, samples=images, in_features=2048 // thin, out_features=1000 // thin)
    return step.finish(step.product("fc", layer, x, axis=SAMPLES, density=1.0), axis=SAMPLES)


def gpt_block(zeros: float, cycles: Cycles, *, thin: int = 1) -> Graph:
    """Return the graph of a block in the middle of a 13B GPT on one sequence, with Adam and statically masked weights.

    Masked weights have neither gradients nor state, so these are as sparse as the weights.

    Parameters
    ----------
    zeros : float
        Share of zeros in the weights of linear layers.
    cycles : Cycles
        Cycles of products.
    thin : int
        Divides the width, the length and the number of heads.
    """
    hidden, heads, length = GPT_HIDDEN // thin, GPT_HEADS // thin, GPT_LENGTH // thin
    head = hidden // heads
    step = GraphWriter({TOKENS: length, HEADS: heads * GPT_POSITIONS}, cycles, states=2)

    def linear(name: str, x: Value, inputs: int, outputs: int) -> Value:
        layer = MatrixProduct(batch=1, samples=length, in_features=inputs, out_features=outputs)
        return step.product(name, layer, x, axis=TOKENS, density=1.0, weight_density=1 - zeros)

    def attention(name: str, a: Value, b: Value, inputs: int, outputs: int, axes: set[str]) -> Value:
        layer = MatrixProduct(batch=heads, samples=length, in_features=inputs, out_features=outputs)
        return step.contraction(name, layer, a, b, axis=HEADS, density=1.0, axes=axes)

    both = {TOKENS, HEADS}
    x = step.add_input("x", length * hidden, axes={TOKENS}, needs_gradient=True)
    h = step.norm("norm1", x, sums=length, over={TOKENS}, axis=TOKENS)
    q, k, v = step.products(
        "qkv",
        MatrixProduct(batch=1, samples=length, in_features=hidden, out_features=3 * hidden),
        h,
        axis=TOKENS,
        density=1.0,
        kind="linear",
        weight_density=1 - zeros,
        axes=both,
        into=("Q", "K", "V"),
    )
    scores = attention("attention.scores", q, k, head, length, {HEADS})
    # Causal masking leaves half of the scores: a position attends to the positions before it.
    weights = step.element_wise(
        "attention.softmax",
        [scores],
        axis=HEADS,
        density=0.5,
        saved=["attention.softmax.Y"],
        gradient_density=0.5,
        row_wise=True,
    )
    attended = attention("attention.values", weights, v, length, head, both)
    x = step.add("residual1", x, linear("out", attended, hidden, hidden), axis=TOKENS)
    h = step.norm("norm2", x, sums=length, over={TOKENS}, axis=TOKENS)
    up = linear("up", h, hidden, 4 * hidden)
    h = step.element_wise("gelu", [up], axis=TOKENS, saved=[up.tensor])
    return step.finish(
        step.add("residual2", x, linear("down", h, 4 * hidden, hidden), axis=TOKENS), axis=TOKENS, is_block=True
    )
