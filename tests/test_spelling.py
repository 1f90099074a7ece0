from trl_mle.spelling import did_you_mean


def test_close_names_are_suggested():
    assert did_you_mean("winne", ["digits", "wine"]) == "did you mean 'wine'?"
    assert did_you_mean("wines", ["wine", "winds"], {"winds": "./winds"}) == "did you mean 'wine' or './winds'?"
    assert did_you_mean("xyz", ["wine"]) == ""
    assert did_you_mean("RMSE", ["rmse", "rmsle"]) == "did you mean 'rmse'?"
