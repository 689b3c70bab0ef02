"""A job in a process of its own: SEED:INDEX, the folder to work in, and the simulator. Leaves ``record.json`` there."""

import json
import sys
from pathlib import Path

from tensordash import TensorDashError

from .draw import draw_job
from .job import run_job


def main(name: str, folder: str, simulator: str) -> None:
    """Run the job; the last line on stderr says why it could not run."""
    seed, index = map(int, name.split(":"))
    try:
        record = run_job(draw_job(seed, index), Path(folder), simulator=simulator)
    except (TensorDashError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
    (Path(folder) / "record.json").write_text(json.dumps(record.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
