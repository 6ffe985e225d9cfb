"""`make bench` measures: every line ends in a figure that is not zero."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.architecture.sources import ROOT


def test_the_benchmark_runs_and_prints_a_figure_per_measurement() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "300"], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = re.findall(r"^  .*? {2,}([\d,.]+) (?:jobs/s|ms)$", done.stdout, re.MULTILINE)
    assert len(figures) == 6, done.stdout
    assert all(float(figure.replace(",", "")) > 0 for figure in figures)
