"""The rules of AXI4 and AXI4-Lite: names, responsible sides, and sections of the specification."""

from dataclasses import dataclass

__all__ = ["CHANNELS", "Rule", "axi4_rules", "lite_rules"]


@dataclass(frozen=True)
class Rule:
    """A rule of the bus.

    Parameters
    ----------
    name : str
        Name, which starts with the channel.
    side : str
        The side that must follow the rule: "master" or "slave". A "limit" is not in the specification: beyond a limit,
        the checker's counters overflow. Assert limits for a master, or assume them to exclude such runs.
    section : str
        Section of AMBA AXI and ACE Protocol Specification, ARM IHI 0022E.
    text : str
        Statement of the rule.
    """

    name: str
    side: str
    section: str
    text: str


CHANNELS = {"ar": "master", "r": "slave", "aw": "master", "w": "master", "b": "slave"}
"""Channels, and the side that drives VALID on each."""


def _handshake(channel: str) -> list[Rule]:
    side, upper = CHANNELS[channel], channel.upper()
    return [
        Rule(f"{channel}_reset", side, "A3.1.2", f"{upper}VALID is low during reset and in the cycle after it"),
        Rule(f"{channel}_stays", side, "A3.2.1", f"{upper}VALID stays until {upper}READY"),
        Rule(f"{channel}_stable", side, "A3.2.1", f"all of {upper} is unchanged while {upper}VALID waits for READY"),
    ]


def _burst(channel: str) -> list[Rule]:
    upper = "AR" if channel == "ar" else "AW"
    texts = {
        "burst_type": ("A3.4.1", f"{upper}BURST is FIXED, INCR or WRAP"),
        "size": ("A3.4.1", f"{upper}SIZE is at most the width of the bus"),
        "page": ("A3.4.1", "an INCR burst does not cross a 4 KiB boundary"),
        "wrap_length": ("A3.4.1", "a WRAP burst has 2, 4, 8 or 16 beats"),
        "wrap_aligned": ("A3.4.1", f"a WRAP burst's {upper}ADDR is a multiple of its beats' size"),
        "fixed_length": ("A3.4.1", "a FIXED burst has at most 16 beats"),
        "exclusive_size": (
            "A7.2.4",
            "an exclusive access has at most 16 beats, and a power of two of at most 128 bytes",
        ),
        "exclusive_aligned": ("A7.2.4", f"an exclusive access's {upper}ADDR is a multiple of its bytes"),
        "cache": ("A4.4", f"{upper}CACHE requests allocation only if it is modifiable"),
    }
    return [Rule(f"{channel}_{name}", "master", section, text) for name, (section, text) in texts.items()]


def _within(bounded: bool) -> list[Rule]:
    texts = {
        "ar": ("A3.3.1", "ARREADY is high within the bound, unless R waits for the master"),
        "aw": ("A3.3.1", "AWREADY is high within the bound, unless B or data wait for the master"),
        "w": ("A3.3.1", "WREADY is high within the bound, unless B or an address wait for the master"),
        "r": ("A3.3.1", "RVALID is high within the bound while a response is pending, independently of RREADY"),
        "b": ("A3.3.1", "BVALID is high within the bound while a response is pending, independently of BREADY"),
    }
    return [Rule(f"{c}_within", "slave", section, text) for c, (section, text) in texts.items() if bounded]


def lite_rules(*, bounded: bool = False) -> tuple[Rule, ...]:
    """List the rules of AXI4-Lite.

    Parameters
    ----------
    bounded : bool
        Include the rules of response times. The specification requires a response but sets no bound.
    """
    return (
        *(rule for channel in CHANNELS for rule in _handshake(channel)),
        Rule("r_requested", "slave", "A3.3.1", "RVALID only after an accepted read address without a response"),
        Rule("r_okay", "slave", "B1.1.1", "RRESP is not EXOKAY"),
        Rule("b_requested", "slave", "A3.3.1", "BVALID only after accepted address and data without a response"),
        Rule("b_okay", "slave", "B1.1.1", "BRESP is not EXOKAY"),
        Rule("ar_limit", "limit", "-", "the number of outstanding reads is within the limit"),
        Rule("aw_limit", "limit", "-", "the number of outstanding write addresses is within the limit"),
        Rule("w_limit", "limit", "-", "the number of outstanding write data is within the limit"),
        *_within(bounded),
    )


def axi4_rules(*, bounded: bool = False) -> tuple[Rule, ...]:
    """List the rules of AXI4. `bounded` is the same as in `lite_rules`."""
    return (
        *(rule for channel in CHANNELS for rule in _handshake(channel)),
        *_burst("ar"),
        *_burst("aw"),
        Rule("w_last", "master", "A3.4.1", "WLAST is high in the last beat, as given by AWLEN, and in no other"),
        Rule("aw_length", "master", "A3.4.1", "AWLEN matches the data that preceded the address"),
        Rule("w_strobes", "master", "A3.4.3", "WSTRB is high only in lanes that the beat transfers"),
        Rule("r_requested", "slave", "A3.3.1", "RVALID only for an ID with an accepted read without a response"),
        Rule("r_last", "slave", "A3.4.1", "RLAST is high in the last beat of the ID's oldest read, and in no other"),
        Rule("r_exokay", "slave", "A7.2.3", "EXOKAY only to exclusive reads"),
        Rule("b_requested", "slave", "A3.3.1", "BVALID only for an ID with accepted address and data"),
        Rule("b_exokay", "slave", "A7.2.3", "EXOKAY only to exclusive writes"),
        Rule("ar_limit", "limit", "-", "the number of outstanding reads of an ID is within the limit"),
        Rule("aw_limit", "limit", "-", "the number of outstanding write bursts is within the limit"),
        Rule("w_limit", "limit", "-", "the number of data bursts ahead of their addresses is within the limit"),
        *_within(bounded),
    )
