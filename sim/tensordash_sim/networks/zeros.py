"""Comparison of a recorded network's zeros with those that the paper reports."""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tensordash.configuration.parameters import require_choice

from ..trace import Record, Trace

__all__ = ["CLAIMS", "Claim", "Zeros", "zeros_beside_the_papers"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The zeros that the paper reports for one tensor in some layers.

    Parameters
    ----------
    tensor : "A", "W" or "G"
        Activations, weights or output gradients.
    layers : str
        Patterns (``*``, ``?``, ``[...]``) of the layers' names, separated by spaces.
    what : str
        Description of these layers.
    paper : str
        The share, in the paper's words.
    word : str
        Reason for a difference here.
    """

    tensor: str
    layers: str = "*"
    what: str = "all layers"
    paper: str
    word: str = ""


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """A claim and the recorded share.

    Parameters
    ----------
    claim : Claim
        The claim.
    share : float or None
        Share of zeros in the tensor in these layers, 0 to 1. None if the tensor was not recorded.
    """

    claim: Claim
    share: float | None


CLAIMS: dict[str, tuple[Claim, ...]] = {
    name: tuple(Claim(**fields) for fields in claims)
    for name, claims in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
"""Claims by network. Source: sections II, IV, V-C and V-G of the paper."""


def zeros_beside_the_papers(trace: Trace, name: str) -> list[Zeros]:
    """Return the recorded share of zeros of each tensor for which the paper reports one.

    Parameters
    ----------
    trace : Trace
        A recording of the network.
    name : str
        The network, one of `NAMES`.

    Returns
    -------
    list of Zeros
        Shares over all recorded steps, weighted by size. A and W count once for each forward product. G counts once for
        each weight gradient or, where weights are frozen, for each input gradient.

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
