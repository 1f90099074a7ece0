"""Opens files in a headless Chromium."""

import json
import shutil
import subprocess
from pathlib import Path


CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing leaves this machine
    "--allow-file-access-from-files",  # lets the outer page measure the frame
    "--hide-scrollbars",
)  # fmt: skip

NO_ORIGIN = "not an origin"

FRAME = """\
<!DOCTYPE html><meta charset="utf-8"><body style="margin: 0">
<iframe src="{url}" style="border: 0; width: {width}px; height: {height}px" onload="measure(this)"></iframe>
<pre id="found"></pre>
<script>
async function measure(frame) {{
  const page = frame.contentDocument;
  await Promise.all([...page.images].map(image => image.decode().catch(() => 0)));
  document.getElementById("found").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth,
    height: page.documentElement.scrollHeight,
    images: [...page.images].map(image => [image.alt, image.naturalWidth, image.getBoundingClientRect().width]),
    headings: [...page.querySelectorAll("h2")].map(heading => heading.textContent),
    requests: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name.slice(0, 40)),
  }});
}}
</script>
"""


def look_at(page: Path, folder: Path, width: int, screenshot: Path | None = None, height: int = 900) -> dict:
    """
    Opens a page in a window; returns `width` and `height` of the content, `images` with their alt texts, natural and
    displayed widths, `headings`, `requests`, the resources of the page, and `urls`, everything that it requested.
    """
    frame = folder / f"frame-{width}.html"
    frame.write_text(FRAME.format(url=page.as_uri(), width=width, height=height))
    log = folder / f"net-{width}.json"
    flags = [*FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},{height}"]
    dom = subprocess.run(
        [CHROMIUM, *flags, f"--log-net-log={log}", "--virtual-time-budget=10000", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    found = json.loads(dom.partition('<pre id="found">')[2].partition("</pre>")[0])
    events = json.loads(log.read_text())["events"]
    # Chromium's own requests have no origin
    origins = [event["params"] for event in events if event.get("params", {}).get("initiator", NO_ORIGIN) != NO_ORIGIN]
    found["urls"] = sorted({params["url"] for params in origins})
    if screenshot is not None:
        subprocess.run(
            [CHROMIUM, *flags, f"--screenshot={screenshot}", "--virtual-time-budget=10000", frame.as_uri()],
            capture_output=True, timeout=120, check=True,
        )  # fmt: skip
    return found
