"""How long a browser needs for a pool of 64 workers: from the snapshot until all is laid out. Durations in seconds by row name.

The view is that of panel and widget, as built. Without a browser, or Playwright, nothing is measured."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.cells import Measured
from tests.support.browser import CHROMIUM_ARGS, ROOT, find_chromium
from tests.support.snapshots import SNAPSHOTS
from wool_jupyter.notebook.snapshot import as_builtins

MISSING = "Frames are measured where Playwright and Debian's chromium are (`make test-browser` installs Playwright)."

_STATIC = ROOT / "wool_jupyter" / "notebook" / "static"
_FRAMES = 50

# Each further snapshot brings new figures for every worker.
_DRAW = """
async ([source, snapshot, frames]) => {
  const widget = (await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })))).default;
  let draw, taken = snapshot;
  const model = { get: () => taken, send() {}, off() {}, on(event, handler) { if (event === 'change:snapshot') draw = handler } };
  const el = document.getElementById('pool');
  const timed = act => { const began = performance.now(); act(); el.getBoundingClientRect(); return performance.now() - began };
  const took = [timed(() => widget.render({ model, el }))];
  for (let n = 1; n <= frames; n++) {
    taken = { ...snapshot, time: snapshot.time + n, workers: snapshot.workers.map(worker => ({ ...worker,
      done: worker.done + n, cpu: (n % 7) / 10, rss: 1e8 + n * 1e6, peak: 2e8 + n * 1e6 })) };
    took.push(timed(draw));
    await new Promise(requestAnimationFrame);
  }
  return took;
}
"""


def is_possible() -> bool:
    return find_spec("playwright") is not None and find_chromium() is not None


def sixty_four_workers() -> Measured:
    if not is_possible():
        return {}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGS)
        first, *later = _drawn(browser.new_page(viewport={"width": 350, "height": 900}))
        browser.close()
    later.sort()
    return {
        "64 workers drawn, first": (first / 1000, None),
        "64 workers drawn, all figures new": (later[_FRAMES // 2] / 1000, None),
        "64 workers drawn, 95 of 100 below": (later[_FRAMES * 95 // 100] / 1000, None),
    }


def _drawn(page: Any) -> list[float]:
    """In milliseconds."""
    page.set_content("<body><div id='pool' style='width: 340px'></div></body>")
    page.add_style_tag(content=_text("widget.css"))
    snapshot = json.loads(json.dumps(as_builtins(SNAPSHOTS["sixty-four"])))
    took: list[float] = page.evaluate(_DRAW, [_text("widget.js"), snapshot, _FRAMES])
    return took


def _text(name: str) -> str:
    return Path(_STATIC / name).read_text(encoding="utf-8")
