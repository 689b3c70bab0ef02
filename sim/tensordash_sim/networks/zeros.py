"""Zeros of a recorded network next to those that the paper reports."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tensordash.configuration.parameters import require_choice

from ..trace import Record, Trace

__all__ = ["CLAIMS", "Claim", "Zeros", "zeros_beside_the_papers"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says of the zeros of one tensor in some layers.

    Parameters
    ----------
    tensor : "A", "W" or "G"
        Activations, weights or output gradients.
    layers : str
        Patterns (``*``, ``?``, ``[...]``) of the layers' names, separated by spaces.
    what : str
        What these layers are.
    paper : str
        The share, in the paper's words.
    word : str
        Where and why it differs here.
    """

    tensor: str
    layers: str = "*"
    what: str = "all layers"
    paper: str
    word: str = ""


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """A claim and what was recorded.

    Parameters
    ----------
    claim : Claim
        The claim.
    share : float or None
        Zeros among the values of the tensor in these layers, 0 to 1; None if none was recorded.
    """

    claim: Claim
    share: float | None


_DENSE = Claim(tensor="W", paper="negligible")
_RELU = "the paper gives no share; ReLU zeroes about half at a random start, and more once the network has learnt"
_NORMALIZED = "normalization between a layer and its ReLU leaves no zeros"
_NONE = "no share given"

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "squeezenet": (
        Claim(tensor="A", paper="considerable", word=_RELU),
        _DENSE,
        Claim(tensor="G", paper="considerable", word="the paper gives no share"),
    ),
    "vgg16": (
        Claim(tensor="A", paper="considerable", word=_RELU),
        _DENSE,
        Claim(tensor="G", paper="considerable", word="few at the random start, as the paper reports"),
    ),
    "resnet50": (
        Claim(tensor="A", paper="considerable", word=_RELU),
        _DENSE,
        Claim(tensor="G", paper="almost none", word=_NORMALIZED),
    ),
    "resnet50-sparse": (
        Claim(tensor="A", paper="considerable", word=_RELU),
        Claim(tensor="W", paper="90%", word="biases and normalization, which are not pruned, are no operands"),
        Claim(tensor="G", paper="almost none", word=_NORMALIZED),
    ),
    "img2txt": (
        Claim(tensor="A", paper=_NONE, word="ReLU in the encoder, none in the LSTM"),
        _DENSE,
        Claim(tensor="G", paper=_NONE, word=_NORMALIZED),
    ),
    "snli": (
        Claim(
            tensor="A",
            layers="projection",
            what="projections",
            paper="63% and 60%",
            word="padding; a smaller batch pads less",
        ),
        Claim(
            tensor="A",
            layers="fc1",
            what="first classifier layer",
            paper="0%",
            word="dropout, which zeroes a fifth",
        ),
        Claim(
            tensor="A",
            layers="fc2 fc3 classifier",
            what="other classifier layers",
            paper="above 94%",
            word="ReLU and dropout here; made pairs are few words and an easier task",
        ),
        _DENSE,
        Claim(
            tensor="G",
            layers="projection fc*",
            what="layers with ReLU",
            paper="above 95%",
            word="as for the classifier's activations",
        ),
        Claim(
            tensor="G",
            layers="encoder*",
            what="LSTM",
            paper="above 95%",
            word="gates have no ReLU, and padding is run through the LSTM, too",
        ),
    ),
    "bert": (
        Claim(tensor="A", paper="little", word="padding, and masked attention"),
        _DENSE,
        Claim(
            tensor="G",
            paper="about 60% in most layers",
            word="padded words, so it depends on the lengths of sentences; the last layer's only word is the first",
        ),
    ),
    "detectron2": (
        Claim(
            tensor="A",
            layers="pyramid.output.* proposals.convolution",
            what="first convolutions of FPN and RPN",
            paper="negligible",
        ),
        Claim(tensor="A", paper=_NONE, word="ReLU in the trunk"),
        _DENSE,
        Claim(
            tensor="G",
            layers="pyramid.output.* proposals.convolution",
            what="first convolutions of FPN and RPN",
            paper="73% to 94%",
            word="RPN has it; FPN's has what boxes and RPN hand back, more from 1,000 proposals than from few",
        ),
        Claim(tensor="G", paper=_NONE),
    ),
    "ncf": (
        Claim(tensor="A", layers="layers.0", what="first layer", paper="0%"),
        Claim(tensor="A", layers="layers.[!0] predict", what="other layers", paper=_NONE, word="ReLU"),
        _DENSE,
        Claim(
            tensor="G",
            paper="83%",
            word="ReLU zeroes half at a random start; MovieLens-20M is 200 times as large",
        ),
    ),
    "gcn": (
        Claim(
            tensor="A",
            paper="none, about 5% in a few layers",
            word="padding in front of a sample; longer ones have less",
        ),
        Claim(tensor="W", paper="none"),
        Claim(tensor="G", paper="none"),
    ),
    "gpt": (
        Claim(
            tensor="A",
            paper="not in the paper",
            word="the causal mask's, in attention; GELU makes none",
        ),
        Claim(
            tensor="W",
            layers="*.qkv *.out *.up *.down",
            what="pruned layers",
            paper="87.5% (Srinivasan et al. 2023)",
        ),
        Claim(tensor="G", paper="not in the paper", word="the causal mask's"),
    ),
}
"""Sections II, IV and V-C, V-G of the paper."""


def zeros_beside_the_papers(trace: Trace, name: str) -> list[Zeros]:
    """Share of zeros of each tensor that the paper says something of.

    Parameters
    ----------
    trace : Trace
        A recording of the network.
    name : str
        The network, one of `NAMES`.

    Returns
    -------
    list of Zeros
        Over all recorded steps, weighted by size. A tensor counts once for each product of the forward pass (A, W) or
        weight gradient (G; of the input where weights are frozen) that it is in.

    Examples
    --------
    >>> import tempfile
    >>> from tensordash_sim.networks import load
    >>> from tensordash_sim.trace import record
    >>> run = load("ncf", "tiny")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with record(f"{folder}/run.trace", model=run.model):
    ...         _ = run.step()
    ...     first = zeros_beside_the_papers(Trace.open(f"{folder}/run.trace"), "ncf")[0]
    >>> first.claim.what, first.claim.paper, first.share
    ('first layer', '0%', 0.0)
    """
    records = list(trace.records)
    with_axg = {record.layer for record in records if record.operation == "AxG"}
    return [
        Zeros(claim=claim, share=_share(records, claim, with_axg))
        for claim in CLAIMS[require_choice("model", name, tuple(CLAIMS))]
    ]


def _share(records: list[Record], claim: Claim, with_axg: set[str]) -> float | None:
    size = nonzeros = 0
    for record in records:
        operation = "AxW" if claim.tensor != "G" else "AxG" if record.layer in with_axg else "WxG"
        if record.operation != operation or not any(fnmatchcase(record.layer, each) for each in claim.layers.split()):
            continue
        operand = record.operands[claim.tensor]
        size, nonzeros = size + operand.size, nonzeros + operand.nonzeros
    return 1 - nonzeros / size if size else None
