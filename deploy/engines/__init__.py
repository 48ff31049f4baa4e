"""The engines: their pins, how their binaries are found or built, and how they are started."""

from deploy.engines.builder import BuildStage, Progress, ensure
from deploy.engines.credentials import EngineCredentials
from deploy.engines.locate import locate, missing_reasons
from deploy.engines.pins import EnginePin, load_pins
from deploy.engines.processes import WeaviatePorts, opa_child, weaviate_child

__all__ = [
    "BuildStage",
    "EngineCredentials",
    "EnginePin",
    "Progress",
    "WeaviatePorts",
    "ensure",
    "load_pins",
    "locate",
    "missing_reasons",
    "opa_child",
    "weaviate_child",
]
