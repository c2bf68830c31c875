"""Run all benchmarks, or those named on the command line: ``run.py kendall stumps``."""

import runpy
import sys
from pathlib import Path


def main() -> None:
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    names = sys.argv[1:] or [path.stem[6:] for path in sorted(folder.glob("bench_*.py"))]
    for name in names:
        print(f"\n{name}", flush=True)
        runpy.run_path(str(folder / f"bench_{name}.py"), run_name="__main__")


if __name__ == "__main__":
    main()
