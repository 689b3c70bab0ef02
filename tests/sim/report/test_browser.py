"""Test the page in headless Chromium: no errors or loads; the viewer equals the golden model; tables; themes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tensordash_sim.evaluation import Figure, Point
from tensordash_sim.report import ScheduleRun, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class OpenPage:
    """A page in a tab without network. `close` fails after a console message or a load."""

    def __init__(self, browser: "Browser", path: Path, scheme: Any = "light", width: int = 1280) -> None:
        self.address = path.as_uri()
        self.heard: list[str] = []
        self.context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True, reduced_motion="reduce"
        )
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.heard.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.heard.append(f"error: {error}"))
        self.page.on("request", lambda request: self.heard.append(f"request: {request.url}"))
        self.page.goto(self.address)

    def close(self) -> None:
        self.context.close()
        assert self.heard == [f"request: {self.address}"]


@pytest.fixture(scope="module")
def figures(browser: "Browser", page: Path) -> Iterator["Page"]:
    """Open the complete page once: without a graphics card, its charts take seconds to draw."""
    tab = OpenPage(browser, page)
    yield tab.page
    tab.close()


@pytest.fixture
def viewer(browser: "Browser", schedules_page: Path) -> Iterator["Page"]:
    tab = OpenPage(browser, schedules_page)
    yield tab.page
    tab.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 380)])
def test_loads(scheme: str, width: int, browser: "Browser", page: Path) -> None:
    tab = OpenPage(browser, page, scheme, width)
    charts = tab.page.locator(".chart")
    assert charts.count() == tab.page.locator(".chart .main-svg .xaxislayer-above").count() == 4
    color = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, color[4:-1].split(","))) > 384) == (scheme == "light")
    tab.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    # Only elements that scroll may be wider than the window.
    assert tab.page.evaluate("document.documentElement.scrollWidth") == width
    tab.close()


def choose(page: "Page", run: ScheduleRun) -> None:
    page.select_option("#viewer-run", label=run.title)


def viewer_text(page: "Page", name: str) -> str:
    return page.inner_text(f"#viewer-{name}")


STEP_TO_THE_END = """() => {
    const text = (name) => document.getElementById(`viewer-${name}`).textContent;
    const all = (root, name, what) => [...root.querySelectorAll(name)].map(what);
    const next = document.getElementById("viewer-next");
    const cycles = [];
    for (;;) {
        cycles.push({
            cycle: text("cycle"), advance: text("advance"), steps: text("steps"), busy: text("busy"),
            badges: all(document, ".panel .badge.advance", (badge) => badge.textContent),
            sources: all(document, ".panel", (panel) => all(panel, ".lane", (lane) => lane.dataset.source ?? null)),
            taken: all(document, ".panel", (panel) => all(panel, ".cell.taken",
                (cell) => `${cell.parentNode.dataset.step},${cell.dataset.lane}`)),
        });
        if (next.ariaDisabled === "true") return cycles;
        next.click();
    }
}"""
"""Values that the viewer shows in every cycle."""


def test_viewer_counts_match_the_simulator(viewer: "Page", runs: dict[str, ScheduleRun]) -> None:
    for run in runs.values():
        choose(viewer, run)
        cycles = len(viewer.evaluate(STEP_TO_THE_END))
        assert cycles == run.simulated_cycles == run.counters.cycles
        assert (
            viewer_text(viewer, "cycle")
            == viewer_text(viewer, "cycles")
            == viewer_text(viewer, "simulated")
            == str(cycles)
        )
        assert viewer_text(viewer, "steps") == viewer_text(viewer, "total") == str(run.counters.steps)
        assert viewer_text(viewer, "speedup") == f"{run.counters.steps / cycles:.2f}\N{MULTIPLICATION SIGN}"
        waited = viewer.locator(".panel .badge.sum").all_inner_texts()
        assert waited == [f"waited {wait}" for wait in run.counters.row_wait]


@pytest.mark.parametrize(("name", "column"), [("rows", 1), ("both", 2), ("none", 0), ("wide", 0), ("real", 3)])
def test_viewer_shows_the_golden_schedule(name: str, column: int, viewer: "Page", runs: dict[str, ScheduleRun]) -> None:
    """Compare each lane's source, the marked cells, the window's head, AS and waits in every cycle."""
    run = runs[name]
    choose(viewer, run)
    viewer.select_option("#viewer-column", str(column))
    head = 0
    for number, (step, cycle) in enumerate(zip(run.schedules, viewer.evaluate(STEP_TO_THE_END), strict=True), start=1):
        assert cycle["cycle"] == str(number)
        expected = []
        for schedules in step.schedules:
            selected = schedules[column % len(schedules)].selected
            expected.append([None if one is None else f"{head + one[0]},{one[1]}" for one in selected])
        assert cycle["sources"] == expected
        assert [set(row) for row in cycle["taken"]] == [{one for one in row if one} for row in expected]
        assert cycle["advance"] == str(step.advance)
        assert cycle["badges"] == [f"AS {advance}" for advance in step.row_advance]
        assert cycle["busy"] == str(step.consumed * (1 if name == "both" else run.config.columns))
        head += step.advance
        assert cycle["steps"] == str(head)


def test_viewer_keyboard_navigation(viewer: "Page", runs: dict[str, ScheduleRun]) -> None:
    run = runs["real"]
    choose(viewer, run)
    last = str(run.counters.cycles)
    assert viewer_text(viewer, "cycle") == "1"
    assert viewer.get_attribute("#viewer-back", "aria-disabled") == "true"
    viewer.focus("#viewer-next")
    for key, cycle in (("End", last), ("ArrowLeft", str(run.counters.cycles - 1)), ("Home", "1"), ("ArrowRight", "2")):
        viewer.keyboard.press(key)
        assert viewer_text(viewer, "cycle") == cycle
    viewer.fill("#viewer-slider", "5")
    assert viewer_text(viewer, "cycle") == "5"
    viewer.select_option("#viewer-speed", "30")
    viewer.click("#viewer-play")
    assert viewer.get_attribute("#viewer-play", "aria-label") == "Pause"
    viewer.wait_for_selector("#viewer-play[aria-label=Play]")
    assert viewer_text(viewer, "cycle") == last
    viewer.click("#viewer-play")  # The run starts in the first cycle.
    viewer.click("#viewer-play")
    stopped = viewer_text(viewer, "cycle")
    assert int(stopped) < run.counters.cycles
    viewer.locator("#viewer-waits").click(position={"x": 1, "y": 5})
    assert viewer_text(viewer, "cycle") == "1"


def test_options_of_a_selected_lane(viewer: "Page", runs: dict[str, ScheduleRun]) -> None:
    choose(viewer, runs["figure 3"])
    assert viewer.locator(".reach circle").count() == 0
    viewer.select_option("#viewer-lane", "3")
    assert viewer.locator(".reach text").all_text_contents() == ["1", "2", "3", "4"]


def test_cycle_as_a_table(viewer: "Page", runs: dict[str, ScheduleRun]) -> None:
    choose(viewer, runs["figure 3"])
    rows = viewer.evaluate("[...document.querySelectorAll('#viewer-table tbody td')].map((cell) => cell.textContent)")
    rows = [text.replace("\N{MULTIPLICATION SIGN}", "x") for text in rows]
    assert rows[:3] == ["0", "2 x 15 of step 1, lane 1 (lookaside 1, +1)", "1 x 11 of step 0, lane 1 (dense)"]
    assert rows[-3:] == ["2", "0", "0"]


def column(page: "Page", number: int) -> list[str]:
    cells = f"#numbers tbody tr:not([hidden]) td:nth-child({number})"
    return page.evaluate(f"[...document.querySelectorAll('{cells}')].map((one) => one.dataset.value ?? one.innerText)")


def test_sorting_and_filtering(figures: "Page") -> None:
    header = figures.locator("#numbers th").nth(6)
    before = column(figures, 7)
    for order, reverse in (("ascending", False), ("descending", True)):
        header.locator("button").press("Enter")
        assert header.get_attribute("aria-sort") == order
        assert [float(value) for value in column(figures, 7)] == sorted(map(float, before), reverse=reverse)
    figures.locator("#numbers th button").first.click()
    assert header.get_attribute("aria-sort") is None
    assert column(figures, 1) == sorted(column(figures, 1))
    figures.fill("input[data-filters=numbers]", "fig15, 0.9")
    assert sorted(column(figures, 4)) == ["0.9", "0.99"]
    figures.fill("input[data-filters=numbers]", "")
    assert len(column(figures, 1)) == len(before) == 6


def test_empty_cells_sort_last(figures: "Page") -> None:
    table = figures.locator("#fig15 table.sortable")
    table.evaluate("(table) => { table.closest('details').open = true; }")
    for _ in range(2):
        table.locator("th button").nth(3).click()
        values = table.evaluate("(table) => [...table.tBodies[0].rows].map((row) => row.cells[3].dataset.value)")
        assert values[3:] == [""] * 5
        assert all(values[:3])


def test_theme_is_switched(figures: "Page") -> None:
    def colors_of_page() -> tuple[str, str]:
        axis = "getComputedStyle(document.querySelector('#fig15 .xtitle')).fill"
        return figures.evaluate("getComputedStyle(document.body).backgroundColor"), figures.evaluate(axis)

    light = colors_of_page()
    figures.click("#theme")
    assert colors_of_page() == light  # The system's theme is light.
    figures.click("#theme")
    dark = colors_of_page()
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    figures.click("#theme")
    assert colors_of_page() == light


def test_no_button_sends_anything(figures: "Page") -> None:
    buttons = figures.locator("#fig15 .modebar-btn").evaluate_all("(all) => all.map((one) => one.dataset.title)")
    assert set(buttons) == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_charts_hover_and_zoom(figures: "Page") -> None:
    chart = figures.locator("#fig15 .chart")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").bounding_box()
    assert box is not None
    place = """(chart) => {
        const { xaxis, yaxis } = chart._fullLayout;
        return [xaxis.l2p(chart.data[0].x[1]), yaxis.l2p(chart.data[0].y[1])];
    }"""
    x, y = chart.evaluate(place)
    figures.mouse.move(box["x"] + x + 3, box["y"] + y - 3)
    hover = chart.locator(".hoverlayer .hovertext")
    hover.wait_for()
    assert "at 0.51 rows, ours" in (hover.text_content() or "")
    full = chart.evaluate("(chart) => chart._fullLayout.xaxis.range")
    figures.mouse.down()
    figures.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.9 * box["height"], steps=4)
    figures.mouse.up()
    figures.wait_for_function(
        "([was]) => document.querySelector('#fig15 .chart')._fullLayout.xaxis.range[0] > was", arg=full
    )


@pytest.fixture(scope="module")
def axes(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator["Page"]:
    """Return figures over shares, consecutive integers and distant integers."""
    places = {"speedup": (0.1, 0.5, 0.9), "speedup by depth": (2, 3, 4, 5), "speedup by steps": (4, 36, 757)}
    long = [f"a series with a name that takes much room, {number}" for number in range(11)]
    points = [
        Point(metric=metric, series=series, x=x, ours=1.0 + number, paper=1.5)
        for metric, xs in places.items()
        for number, series in enumerate(long)
        for x in xs
    ]
    figure = Figure(
        name="axes",
        title="Axes",
        source="",
        kind="line",
        x_label="share of zeros",
        y_label="speedup",
        points=points,
        notes=["`core` is <logic>."],
    )
    path = tmp_path_factory.mktemp("axes") / "page.html"
    write_report([figure], path)
    tab = OpenPage(browser, path)
    yield tab.page
    tab.close()


def test_axes_match_their_metric(axes: "Page") -> None:
    titles = axes.locator(".chart[data-metric] .xtitle").all_text_contents()
    assert titles == ["share of zeros", "depth", "steps"]
    ticks = [chart.locator(".xtick text").all_text_contents() for chart in axes.locator(".chart[data-metric]").all()]
    assert ticks[0]
    assert ticks[1:] == [["2", "3", "4", "5"], ["4", "36", "757"]]
    labels = axes.locator(".chart[data-metric]").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    assert [label.split(" over ")[1].split(".")[0] for label in labels] == titles


def test_series_are_distinguishable(axes: "Page") -> None:
    looks = axes.locator(".chart[data-metric]").first.evaluate(
        "(chart) => chart.data.filter((one) => one.marker.symbol !== 'diamond-open')"
        ".map((one) => `${one.line.color} ${one.line.dash} ${one.marker.symbol}`)"
    )
    assert len(looks) == len(set(looks)) == 11


def test_toolbar_does_not_overlap_the_chart(axes: "Page") -> None:
    for chart in axes.locator(".chart[data-metric]").all():
        chart.hover()
        bar = chart.locator(".modebar").bounding_box()
        assert bar is not None
        for other in (".legend", ".nsewdrag"):
            box = chart.locator(other).bounding_box()
            assert box is not None
            apart = box["x"] + box["width"] <= bar["x"] or bar["y"] + bar["height"] <= box["y"]
            assert apart, (other, box, bar)


def test_backticks_become_code(axes: "Page") -> None:
    note = axes.locator(".note")
    assert note.inner_text() == "core is <logic>."
    assert note.locator("code").inner_text() == "core"


def test_arrow_keys_need_no_click(browser: "Browser", page: Path, schedules_page: Path) -> None:
    """Among figures, keys work while the viewer is visible. On its own page, the viewer takes all keys immediately."""
    for path, alone in ((page, False), (schedules_page, True)):
        tab = OpenPage(browser, path)
        tab.page.keyboard.press("ArrowRight")
        assert viewer_text(tab.page, "cycle") == ("2" if alone else "1"), "it is not in sight among figures"
        tab.page.locator("#viewer-windows").scroll_into_view_if_needed()
        before = int(viewer_text(tab.page, "cycle"))
        tab.page.keyboard.press("ArrowRight")
        assert viewer_text(tab.page, "cycle") == str(before + 1)
        tab.page.keyboard.press("End")
        assert (viewer_text(tab.page, "cycle") == viewer_text(tab.page, "cycles")) == alone
        tab.close()
