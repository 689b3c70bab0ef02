"""Runs Coloquinte in a separate process: `python placer_worker.py PROBLEM.npz SOLUTION.npz`.

A crash in compiled code must not end the calling process, and the placer's output is discarded. Lengths are whole
units: horizontally a site, vertically a fraction of a row that is closest to a site.
"""

import sys
from itertools import pairwise

import numpy as np

ORIENTATIONS = ("N", "FS", "FN", "S")


def main(problem: str, solution: str) -> None:
    """Place the cells of `problem`, and write columns, rows and orientations of its movable cells."""
    import coloquinte as placer  # Only this process needs it.

    with np.load(problem) as file:
        arrays = {name: file[name] for name in file.files}
    height, rows, sites = (int(arrays[name]) for name in ("height", "rows", "sites"))
    widths, pad_x, pad_y = arrays["widths"], arrays["pad_x"], arrays["pad_y"]
    cells, pads = len(widths), len(pad_x)
    circuit = placer.Circuit(cells + pads)
    circuit.cell_width = [*widths.tolist(), *[0] * pads]
    circuit.cell_height = [height] * cells + [0] * pads
    circuit.cell_is_fixed = [False] * cells + [True] * pads
    circuit.cell_is_obstruction = [True] * cells + [False] * pads
    circuit.cell_row_polarity = [placer.CellRowPolarity.SAME] * (cells + pads)
    starts = arrays["starts"].tolist()
    places, xs, ys = (arrays[name].tolist() for name in ("places", "offset_x", "offset_y"))
    for start, end in pairwise(starts):
        circuit.add_net(places[start:end], xs[start:end], ys[start:end])
    circuit.cell_x = [*[sites // 2] * cells, *pad_x.tolist()]
    circuit.cell_y = [*[rows * height // 2] * cells, *pad_y.tolist()]
    upright = placer.CellOrientation.N, placer.CellOrientation.FS
    circuit.rows = [
        placer.Row(placer.Rectangle(0, sites, row * height, (row + 1) * height), upright[row % 2])
        for row in range(rows)
    ]
    circuit.check()
    parameters = placer.ColoquinteParameters(int(arrays["effort"]), int(arrays["seed"]))
    circuit.place_global(parameters)
    if arrays["rough"]:
        circuit.legalize(parameters)
    else:
        circuit.place_detailed(parameters)
    np.savez(
        solution,
        x=np.array(circuit.cell_x[:cells], np.int64),
        y=np.array(circuit.cell_y[:cells], np.int64),
        orientation=np.array([ORIENTATIONS.index(each.name) for each in circuit.cell_orientation[:cells]], np.int8),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
