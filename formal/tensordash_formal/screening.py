"""Screening bench: runs a component's tests on many mutants in one simulation.

A simulator loads this module. Each mutant starts with a reset, and with the previous mutant's register values.
"""

import json
import resource
from importlib import import_module
from pathlib import Path

import cocotb

from tensordash_sim.verify.job import current_job


@cocotb.test()
async def screen_mutants(dut) -> None:
    """Select each mutant in turn, run tests on it until one fails, and write one line of results.

    Only the first test runs. With the option `others`, all other tests run instead, the last test first. A mutant that
    exceeds its CPU time ends the simulation, so it is the first mutant without a line.
    """
    options = current_job().options
    modules = [import_module(bench) for bench in options["benches"]]
    generators = [each for module in modules for each in vars(module).values() if hasattr(each, "generate_tests")]
    first, *others = [test for generator in generators for test in generator.generate_tests()]
    others.reverse()
    with Path(options["answers"]).open("w", encoding="utf-8") as answers:
        for number in options["numbers"]:
            # A combinational loop takes CPU time but no simulated time.
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(used) + options["seconds"], hard))
            dut.mutant_select.value = number
            failure = ""
            for test in others if options["others"] and number else [first]:
                try:
                    await test.func(dut, **test.kwargs)
                except Exception as error:  # any exception is a failure
                    failure = f"{test.name}: {(str(error) or type(error).__name__).splitlines()[0]}"
                    break
            answers.write(json.dumps([number, failure]) + "\n")
            answers.flush()
