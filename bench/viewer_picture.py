"""Draw the picture at the head of the README: the report's schedule viewer in a browser.

python bench/viewer_picture.py [FILE.png]    # writes docs/viewer.png; needs Chromium and pip install '.[test]'
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tensordash_sim.report import example_runs, write_report
from tensordash_storage.files import atomic_path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CYCLE = 141
"""A cycle in which rows wait for another row, and lanes take pairs of later steps and of their neighbours."""
WIDTH = 1200


def picture(path: Path) -> None:
    """Write the report, show the cycle in its viewer, and store a screenshot as PNG.

    Raises
    ------
    OSError
        If Chromium is missing.
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise OSError(f"needs one of {', '.join(BROWSERS)} on the PATH (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "schedules.html"
        write_report([], page_file, runs=example_runs(), title="TensorDash: schedules")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 1200},
            color_scheme="light",
            reduced_motion="reduce",
            offline=True,
            device_scale_factor=1.5,
        )
        page.goto(page_file.as_uri())
        page.fill("#viewer-slider", str(CYCLE))
        page.evaluate("document.activeElement.blur()")
        # The page's header would cover the viewer. The hint about keys and the table are useless in a picture.
        page.add_style_tag(content=".top, .lead, .viewer > details, .viewer > .hint:last-child { display: none; }")
        with atomic_path(path) as place:
            page.locator("#schedule").screenshot(path=place, type="png")
        browser.close()


if __name__ == "__main__":
    picture(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "viewer.png")
