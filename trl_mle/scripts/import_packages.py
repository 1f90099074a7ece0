"""`trl-mle import`: makes competitions of the task packages of other projects."""

import argparse
import shlex
from pathlib import Path

from trl_mle.competitions.importing import find_packages, import_package
from trl_mle.showing import metric_name, terminal_line


def import_packages(args: argparse.Namespace) -> int:
    """Makes a competition of each package in a folder; exit code 1 if one cannot become one."""
    packages = find_packages(Path(args.folder))
    made = []
    for package in packages:
        target = Path(args.to) / package.name
        try:
            competition = import_package(package, target, args.metric, args.higher_is_better)
        except (ValueError, OSError, OverflowError) as error:  # a CompetitionError; a number too large for a float
            print(f"failed    {terminal_line(f'{package.name}: {error}')}", flush=True)
            continue
        made.append(target)
        name = metric_name(args.metric, competition.higher_is_better)
        print(f"imported  {terminal_line(f'{package.name}: {name}')}", flush=True)
    print(f"{len(made)} of {len(packages)} in {args.to}/")
    if made:
        first = str(made[0]) if "/" in str(made[0]) else f"./{made[0]}"
        print(f"then      trl-mle prompt {terminal_line(shlex.quote(first))}")
    return 0 if len(made) == len(packages) else 1
