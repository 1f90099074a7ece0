"""What libraries do in a sandbox: no network, no fonts to look for, jobs of a program's own."""

from collections.abc import Iterator

import pytest
from support.cores import SEVERAL_CORES
from support.tiers import TIERS

from trl_mle.execution import LocalExecutor, Outcome


@pytest.fixture(scope="module", params=TIERS)
def executor(request) -> Iterator[LocalExecutor]:
    with LocalExecutor(1, timeout_s=60, threads_per_program=2, disk_mb=64, sandbox=request.param) as executor:
        yield executor


HUB = "from huggingface_hub import hf_hub_download\nhf_hub_download('org/model', 'config.json')"
PIP = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', {!r}], check=True)"


def test_what_needs_a_network_fails_at_once(executor, competition):
    """Before, the Hub's client and pip tried again for 23 and 10 s, and transformers for 51 s."""
    sources = (HUB, PIP.format("no-such-package"), PIP.format("https://example.org/a-1-py3-none-any.whl"))
    results = executor.run_many([(source, competition) for source in sources])
    assert [result.outcome for result in results] == [Outcome.ERROR] * 3
    assert ["OfflineModeIsEnabled" in result.stderr for result in results] == [True, False, False]
    assert not any("Retry" in result.stderr for result in results)


PLOTS = """
import os, sys
print("matplotlib.font_manager" in sys.modules)
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.title("Größe $x^2$")
plt.savefig("plot.png")
print([name for name in os.listdir(os.environ["HOME"]) if name.startswith(".")])  # an environment may lie there
"""


def test_a_program_that_plots_looks_for_no_fonts(executor, competition):
    """Before, each wrote a list of all fonts into its home, which took from a quarter of a second to several."""
    [result] = executor.run_many([(PLOTS, competition)])
    assert (result.outcome, result.stdout, result.stderr) == (Outcome.OK, "True\n[]\n", "")


JOBS = """
import joblib
from sklearn.ensemble import RandomForestClassifier
forest = RandomForestClassifier(4, n_jobs=-1).fit([[number] for number in range(20)], [0, 1] * 10)
print(joblib.Parallel(2)(map(joblib.delayed(abs), [-1, -2])), joblib.effective_n_jobs(-1))
"""


@SEVERAL_CORES
def test_programs_may_ask_for_jobs(executor, competition):
    """What the warm parent may do is not what programs may: before, `n_jobs` failed with Landlock."""
    [result] = executor.run_many([(JOBS, competition)])
    jobs = 2 if executor.tier.namespaces else 1
    assert (result.outcome, result.stdout) == (Outcome.OK, f"[1, 2] {jobs}\n"), result.stderr


MAPS = """
import mmap, tempfile, time
for _ in range(150):
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 4096)
        file.flush()
        with mmap.mmap(file.fileno(), 4096):
            time.sleep(0.01)
print("done")
"""


def test_a_deleted_file_that_a_library_maps_is_no_offence(executor, competition):
    [result] = executor.run_many([(MAPS, competition)])
    assert (result.outcome, result.stdout) == (Outcome.OK, "done\n"), result
