"""Runs on a real cluster of two nodes, which are processes on this machine."""

import os
import time

import pytest

from trl_mle.execution import Limits, Outcome, SandboxError
from trl_mle.execution.executor import START_TIMEOUT_S, longest_round_s
from trl_mle.execution.program import REQUIRED


ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
from trl_mle.execution.ray_executor import RayExecutor  # noqa: E402 (needs Ray)


pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def head():
    """A cluster whose only node runs no programs; its start takes longer than all other nodes together."""
    # Notices a lost node within seconds.
    settings = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    head_node = {"num_cpus": 0, "_system_config": settings, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head_node)
        yield cluster
        cluster.shutdown()


@pytest.fixture
def cluster(head):
    yield head
    ray.shutdown()
    for node in list(head.worker_nodes):
        head.remove_node(node, allow_graceful=False)
    head.wait_for_nodes()  # until the cluster knows that they are gone


def test_programs_of_a_lost_node_run_again_on_another(cluster, competition):
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    program = "import os, time\ntime.sleep(1)\nprint(os.path.exists('input'))\nopen('submission.csv', 'w').write('x')"
    with RayExecutor(cluster.address, timeout_s=30, memory_mb=512) as executor:
        assert executor.description == "programs run on a Ray cluster of 2 cores"
        # three rounds of two programs that all run into their timeout, on four machines one after the other
        assert executor.longest_s(5) == 4 * (START_TIMEOUT_S + 3 * longest_round_s(30))
        assert executor.run_many([(program, competition)])[0].outcome is Outcome.OK
        futures = [executor.submit(program, competition) for _ in range(6)]
        time.sleep(1.5)
        cluster.remove_node(nodes[0], allow_graceful=False)
        results = [future.result(timeout=120) for future in futures]
    for result in results:
        assert (result.outcome, result.stdout, result.submission) == (Outcome.OK, "True\n", b"x")
        assert 1.0 <= result.duration_s < 3.0


def test_each_machine_is_checked(cluster, competition, broken_pillow):
    cluster.add_node(num_cpus=1, num_gpus=1)
    with RayExecutor(cluster.address, timeout_s=30, memory_mb=512, sandbox="no such tier") as executor:
        result = executor.run_many([("pass", competition)])[0]
        with pytest.raises(SandboxError, match="no such tier"):
            executor.check(competition)
    assert (result.outcome, result.duration_s) == (Outcome.INFRASTRUCTURE, None)
    assert "no such tier" in result.detail
    with pytest.raises(ValueError, match="2 GPU"):
        RayExecutor(cluster.address, num_gpus=2, memory_mb=512)
    options = {"timeout_s": 30, "memory_mb": 512}
    with RayExecutor(cluster.address, num_gpus=1, max_parallel=2, sandbox="none", **options) as executor:
        program = "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])"
        assert executor.run_many([(program, competition)])[0].stdout == "0\n"
    with RayExecutor(cluster.address, timeout_s=30, memory_mb=512) as executor:
        executor.check(competition)
        path = os.pathsep.join([broken_pillow, os.environ.get("PYTHONPATH", "")])
        cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": path})
        with pytest.raises(SandboxError, match="PIL: FileNotFoundError") as error:
            executor.check(competition)
    assert str(error.value).count("PIL: ") == 1  # only of the second machine


def test_closing_ends_what_runs(cluster, competition):
    cluster.add_node(num_cpus=1)
    with RayExecutor(cluster.address, timeout_s=200, memory_mb=512) as executor:
        assert executor.run_many([("pass", competition)])[0].outcome is Outcome.OK
        futures = [executor.submit("import time; time.sleep(100)", competition) for _ in range(2)]
        time.sleep(1)  # one runs, one waits
        packages = executor.limits.packages  # without a wait for the first
        assert not any(future.done() for future in futures)
        assert packages[:5] == REQUIRED
        assert executor.limits == Limits(200, 512, 1, packages)
    assert [future.result(timeout=0).outcome for future in futures] == [Outcome.INFRASTRUCTURE] * 2
    assert not ray.is_initialized()
