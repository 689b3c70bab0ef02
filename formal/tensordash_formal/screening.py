"""Bench of mutants: a component's tests on one after the other, in one run, each until a test fails.

Loaded by a simulator, as the benches are. Each mutant begins with the registers that the last one left, and a reset.
"""

import json
import resource
from importlib import import_module
from pathlib import Path

import cocotb

from tensordash_sim.verify.job import current_job


@cocotb.test()
async def every_mutant(dut) -> None:
    """Choose each mutant in turn and write a line of what the tests say of it.

    The first test alone, which most end at; or all others, the last one first, which look at what is rare. One that
    takes too many seconds of the processor ends the simulation, and is the first without a line.
    """
    options = current_job().options
    modules = [import_module(bench) for bench in options["benches"]]
    generators = [each for module in modules for each in vars(module).values() if hasattr(each, "generate_tests")]
    first, *others = [test for generator in generators for test in generator.generate_tests()]
    others.reverse()
    with Path(options["answers"]).open("w", encoding="utf-8") as answers:
        for number in options["numbers"]:
            # Logic that goes round and round takes no time in a simulation.
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(used) + options["seconds"], hard))
            dut.mutant_select.value = number
            said = ""
            for test in others if options["others"] and number else [first]:
                try:
                    await test.func(dut, **test.kwargs)
                except Exception as error:  # whatever a test raises, it does not pass
                    said = f"{test.name}: {(str(error) or type(error).__name__).splitlines()[0]}"
                    break
            answers.write(json.dumps([number, said]) + "\n")
            answers.flush()
