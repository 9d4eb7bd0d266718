"""Deterministic simulation of brokers, clients, time, network and disks in one event loop."""

from pykbroker.testing.simulation.chaos import CLUSTER, SOFT, SURVIVABLE, Kind
from pykbroker.testing.simulation.link import Link
from pykbroker.testing.simulation.node import SimulatedNode
from pykbroker.testing.simulation.seeds import seeds
from pykbroker.testing.simulation.trace import Happened, Trace
from pykbroker.testing.simulation.virtual_loop import NeverEnds
from pykbroker.testing.simulation.world import Simulation

__all__ = [
    "CLUSTER",
    "SOFT",
    "SURVIVABLE",
    "Happened",
    "Kind",
    "Link",
    "NeverEnds",
    "SimulatedNode",
    "Simulation",
    "Trace",
    "seeds",
]
