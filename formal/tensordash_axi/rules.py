"""The rules: names, who has to keep them, and where the specification says so."""

from dataclasses import dataclass

__all__ = ["CHANNELS", "Rule", "axi4_rules", "lite_rules"]


@dataclass(frozen=True)
class Rule:
    """A rule of the bus.

    Parameters
    ----------
    name : str
        Begins with the channel.
    side : str
        Who keeps it: "master", "slave", or "limit": nobody has to, but beyond it a checker loses count. A limit is a
        claim about the master as long as it is asserted, and leaves runs out if it is assumed.
    section : str
        Of AMBA AXI and ACE Protocol Specification, ARM IHI 0022E.
    text : str
        What it says.
    """

    name: str
    side: str
    section: str
    text: str


CHANNELS = {"ar": "master", "r": "slave", "aw": "master", "w": "master", "b": "slave"}
"""Channels, and who drives VALID on each."""


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
        "size": ("A3.4.1", f"{upper}SIZE is not above the bus's bytes"),
        "page": ("A3.4.1", "an INCR burst does not cross a boundary of 4 KiB"),
        "wrap_length": ("A3.4.1", "a WRAP burst has 2, 4, 8 or 16 beats"),
        "wrap_aligned": ("A3.4.1", f"a WRAP burst's {upper}ADDR is a multiple of its beats' size"),
        "fixed_length": ("A3.4.1", "a FIXED burst has at most 16 beats"),
        "exclusive_size": (
            "A7.2.4",
            "an exclusive access has at most 16 beats, and a power of two of at most 128 bytes",
        ),
        "exclusive_aligned": ("A7.2.4", f"an exclusive access's {upper}ADDR is a multiple of its bytes"),
        "cache": ("A4.4", f"{upper}CACHE asks for no allocation where it is not modifiable"),
    }
    return [Rule(f"{channel}_{name}", "master", section, text) for name, (section, text) in texts.items()]


def _within(bounded: bool) -> list[Rule]:
    texts = {
        "ar": ("A3.3.1", "ARREADY comes within the bound, unless R waits for the master"),
        "aw": ("A3.3.1", "AWREADY comes within the bound, unless B or data wait for the master"),
        "w": ("A3.3.1", "WREADY comes within the bound, unless B or an address wait for the master"),
        "r": ("A3.3.1", "RVALID comes within the bound while an answer is due, whatever RREADY does"),
        "b": ("A3.3.1", "BVALID comes within the bound while an answer is due, whatever BREADY does"),
    }
    return [Rule(f"{c}_within", "slave", section, text) for c, (section, text) in texts.items() if bounded]


def lite_rules(*, bounded: bool = False) -> tuple[Rule, ...]:
    """Rules of AXI4-Lite.

    Parameters
    ----------
    bounded : bool
        Those with a bound on what a slave takes, too. The specification asks for an answer and has no bound.
    """
    return (
        *(rule for channel in CHANNELS for rule in _handshake(channel)),
        Rule("r_requested", "slave", "A3.3.1", "RVALID only after a read address was taken that has no answer"),
        Rule("r_okay", "slave", "B1.1.1", "RRESP is not EXOKAY"),
        Rule("b_requested", "slave", "A3.3.1", "BVALID only after address and data were taken that have no answer"),
        Rule("b_okay", "slave", "B1.1.1", "BRESP is not EXOKAY"),
        Rule("ar_limit", "limit", "-", "no more reads are on their way than can be counted"),
        Rule("aw_limit", "limit", "-", "no more write addresses are on their way than can be counted"),
        Rule("w_limit", "limit", "-", "no more write data are on their way than can be counted"),
        *_within(bounded),
    )


def axi4_rules(*, bounded: bool = False) -> tuple[Rule, ...]:
    """Rules of AXI4; `bounded` as of `lite_rules`."""
    return (
        *(rule for channel in CHANNELS for rule in _handshake(channel)),
        *_burst("ar"),
        *_burst("aw"),
        Rule("w_last", "master", "A3.4.1", "WLAST in the last beat that AWLEN says, and in no other"),
        Rule("aw_length", "master", "A3.4.1", "AWLEN is what data that came before the address say"),
        Rule("w_strobes", "master", "A3.4.3", "WSTRB is high only in lanes that the beat transfers"),
        Rule(
            "r_requested", "slave", "A3.3.1", "RVALID only for an ID with a read address that was taken, not answered"
        ),
        Rule("r_last", "slave", "A3.4.1", "RLAST in the last beat of the ID's oldest read, and in no other"),
        Rule("r_exokay", "slave", "A7.2.3", "EXOKAY only to exclusive reads"),
        Rule("b_requested", "slave", "A3.3.1", "BVALID only for an ID of which address and all data were taken"),
        Rule("b_exokay", "slave", "A7.2.3", "EXOKAY only to exclusive writes"),
        Rule("ar_limit", "limit", "-", "no more reads of an ID are on their way than can be counted"),
        Rule("aw_limit", "limit", "-", "no more write bursts are on their way than can be counted"),
        Rule("w_limit", "limit", "-", "no more bursts of data are ahead of their addresses than can be counted"),
        *_within(bounded),
    )
