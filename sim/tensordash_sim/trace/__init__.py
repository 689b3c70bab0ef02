"""Traces: operands of training steps on disk. docs/trace.md defines the format."""

from .example import example_trace
from .flow import Flow, FlowTensor, Update, Work
from .format import DTYPES, Operand, TraceError
from .reader import Record, Step, Trace
from .recorder import Recorder, record
from .step_writer import StepWriter
from .writer import TraceWriter

__all__ = [
    "DTYPES",
    "Flow",
    "FlowTensor",
    "Operand",
    "Record",
    "Recorder",
    "Step",
    "StepWriter",
    "Trace",
    "TraceError",
    "TraceWriter",
    "Update",
    "Work",
    "example_trace",
    "record",
]
