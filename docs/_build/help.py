"""
Writes the help of the commands whose options are known only after slow imports: trl_mle/help/<command>.txt.

    python docs/_build/help.py
"""

import io
import os
from argparse import Namespace
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

from trl_mle import cli


FOLDER = Path(cli.__file__).parent / "help"


def pictures() -> dict[Path, str]:
    """The text of each file."""
    texts = {}
    for command in (cli.train, cli.evaluate, cli.solve):
        with patch.dict(os.environ, COLUMNS="100"), redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
            command(Namespace(options=["--help"]))
        texts[FOLDER / f"{command.__name__}.txt"] = f"{printed.getvalue()}\n({cli.libraries()})\n"
    return texts


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
