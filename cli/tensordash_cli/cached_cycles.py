"""Expected cycles of a trace's products on cores, cached in a folder, so that a repeated search reads them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import code_digest
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

if TYPE_CHECKING:
    from tensordash_runtime.traced_products import TracedProduct
    from tensordash_sim.trace import Record

__all__ = ["cached_cycles"]


def cached_cycles(
    configs: Sequence[CoreConfig], records: "Sequence[Record]", folder: Path, runner: Runner = LOCAL
) -> "list[list[TracedProduct] | str]":
    """Return the expected figures of products on each core, or the reason why a core cannot run one of them.

    Parameters
    ----------
    configs : sequence of CoreConfig
        Cores.
    records : sequence of Record
        Products that a core can run if they fit.
    folder : Path
        The cache; the code and the products' operands are parts of its keys.
    runner : Runner
        Runs the estimates, one job for each core.

    Raises
    ------
    JobError
        As in `Runner.run`.
    """
    products = [
        [each.operation, repr(each.geometry), {name: operand.to_json() for name, operand in each.operands.items()}]
        for each in records
    ]
    digest = hashlib.sha256(json.dumps([_code(), products], sort_keys=True).encode()).hexdigest()
    jobs = [Job(_key(config, digest), _expect, (config, tuple(records))) for config in configs]
    found = dict(runner.run(jobs, AnswerStore(folder, _read), title="cycles"))
    return [found[job.key] for job in jobs]


def _expect(config: CoreConfig, records: "Sequence[Record]") -> "list[TracedProduct] | str":
    from tensordash_runtime.traced_products import expect_product
    from tensordash_sim.compiler.program import ProgramError

    try:
        return [expect_product(config, record) for record in records]
    except ProgramError as error:
        return str(error)


def _read(document: Any) -> "list[TracedProduct] | str":
    from tensordash_runtime.traced_products import TracedProduct

    return document if isinstance(document, str) else [TracedProduct.from_json(each) for each in document]


def _code() -> str:
    import tensordash
    import tensordash_runtime
    import tensordash_sim

    packages = (tensordash, tensordash_sim, tensordash_runtime)
    return code_digest(*(Path(package.__file__ or "").parent for package in packages))


def _key(config: CoreConfig, digest: str) -> str:
    text = json.dumps([config.to_mapping(), config.tile.options, digest], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
