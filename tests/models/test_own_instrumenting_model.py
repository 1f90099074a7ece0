import json

import pytest
from support import own_instrumenting_model
from support.launch import launch
from support.own_instrumenting_model import PROMPTS, TOKENS


@pytest.mark.slow
@pytest.mark.timeout(600)  # DeepSpeed compiles an op at its first use on a machine, for minutes on one core
def test_it_is_whole_in_each_process_where_the_policy_is_sharded(tiny_model, tiny, tmp_path):
    script, arguments = own_instrumenting_model.__file__, [tiny_model, str(tmp_path)]
    status, output = launch(script, arguments, tmp_path, zero_stage=3, timeout_s=540)
    assert all((tmp_path / f"{rank}.json").exists() for rank in range(2)), (status, output[-3000:])
    expected = [tiny(prompt, TOKENS)[0] for prompt in PROMPTS]
    for rank in range(2):
        results = json.loads((tmp_path / f"{rank}.json").read_text())
        assert results == {"answers": expected[rank:], "frozen": True, "sharded": True}
