"""Load a program folder's initial memory into an executor, and compare what the golden core leaves there."""

from tensordash_runtime.program_folder.execution import EXECUTORS, Executor, run_plan
from tensordash_runtime.program_folder.folder import ProgramFolder, compare


def load_memory(folder: ProgramFolder, executor: str) -> Executor:
    """Return the memory of a new executor with the folder's initial contents."""
    memory = EXECUTORS[executor](folder.plan, folder.memory_map)
    memory.write(folder.memory_map.base, folder.initial)
    return memory


def check_on_golden_core(folder: ProgramFolder) -> Executor:
    """Run the folder's plan on the golden core; return its memory, which must be the expected one."""
    memory = load_memory(folder, "golden")
    run_plan(memory, folder.plan, folder.memory_map)
    assert compare(folder, memory) == ""
    return memory
