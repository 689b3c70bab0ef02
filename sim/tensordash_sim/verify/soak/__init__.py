"""Soak: a long random campaign of tiles, operands, arrival and stalls, golden beside the Verilog in every cycle."""

from .campaign import Campaign, Summary
from .draw import SoakJob, draw_job
from .job import Record, run_job

__all__ = ["Campaign", "Record", "SoakJob", "Summary", "draw_job", "run_job"]
