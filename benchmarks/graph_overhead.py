"""What a graph costs beside its kernels: building, planning and running a chain of nodes.

    python benchmarks/graph_overhead.py [nodes]

Every node is the cheapest there is, an Identity; what it costs is the graph's share.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gradops.graph import ClientSession, Scope, add_symbolic_gradients, import_graph_def, ops


def chain(count: int) -> tuple[Scope, Any, Any]:
    """Return a scope, a placeholder, and the last of `count` nodes that follow it."""
    root = Scope.new_root_scope()
    x = y = ops.Placeholder(root, np.float32, shape=[1])
    for _ in range(count):
        y = ops.Identity(root, y)
    return root, x, y


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def gradients(count: int) -> float:
    """Return the time that the gradients of a fresh chain take."""
    root, x, y = chain(count)
    return seconds(lambda: add_symbolic_gradients(root, [y], [x]), 1)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    root, x, y = chain(count)
    feeds, session = {x: np.zeros(1, np.float32)}, ClientSession(root)
    graph_def = root.to_graph_def()
    rows = {
        "build": seconds(lambda: chain(count), 11),
        "first run (check and plan)": seconds(lambda: ClientSession(root).run(feeds, [y]), 11),
        "run": seconds(lambda: session.run(feeds, [y]), 101),
        "gradients": statistics.median(gradients(count) for _ in range(11)),
        "write a GraphDef": seconds(root.to_graph_def, 11),
        "read a GraphDef": seconds(lambda: import_graph_def(graph_def, Scope.new_root_scope()), 11),
    }
    print(f"a chain of {count} nodes, median")
    for name, value in rows.items():
        print(f"{name:<28}{value * 1e3:10.3f} ms{value / count * 1e6:10.3f} us per node")


if __name__ == "__main__":
    main()
