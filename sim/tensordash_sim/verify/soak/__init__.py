"""Soak: a long campaign of random tiles, operands, arrivals and stalls, in lockstep with golden."""

from .campaign import Campaign, Summary
from .draw import SoakJob, draw_job
from .job import Record, run_job

__all__ = ["Campaign", "Record", "SoakJob", "Summary", "draw_job", "run_job"]
