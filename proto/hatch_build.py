"""Generates the stubs beside the protos before the wheel, or the editable install, is made."""

import sys
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent


def generate() -> None:
    """Run protoc with the Python, gRPC and mypy plugins over `muniment/v1/*.proto`."""
    from grpc_tools import protoc

    protos = sorted(str(p.relative_to(HERE)) for p in (HERE / "muniment" / "v1").glob("*.proto"))
    bundled = resources.files("grpc_tools") / "_proto"
    bin_folder = Path(sys.executable).parent
    arguments = [
        "protoc",
        f"-I{HERE}",
        f"-I{bundled}",
        f"--plugin=protoc-gen-mypy={bin_folder / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={bin_folder / 'protoc-gen-mypy_grpc'}",
        *(f"--{kind}_out={HERE}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
        *protos,
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed; its message is above")


class StubsHook(BuildHookInterface[Any]):
    """Hatchling's hook: stubs are made for every kind of build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()


if __name__ == "__main__":
    generate()
