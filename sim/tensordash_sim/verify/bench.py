"""Setup of every cocotb bench."""

from random import Random
from typing import Any

import cocotb

from .job import BenchJob, current_job
from .pins import Pins

__all__ = ["start_bench"]


def start_bench(dut: Any, label: str) -> tuple[BenchJob, Random, Pins]:
    """Return the current job, a random source for its seed and the label, and the pins; log the seed."""
    job = current_job()
    cocotb.log.info("seed %s", job.seed)
    return job, Random(f"{job.seed} {label}"), Pins(dut)
