"""Brings the engines onto a machine and keeps the processes of one data directory running; imports no other room."""

from deploy.directory import DataDirectoryLock, LockHolder, RunState, holder, read_state, stop_running
from deploy.errors import (
    AlreadyRunningError,
    ChildDiedError,
    ChildNotReadyError,
    CredentialsUnusableError,
    DeployError,
    StopRequestedError,
    StopTimedOutError,
)
from deploy.ports import free_ports
from deploy.probes import http_ready, tcp_ready
from deploy.supervisor import ChildSpec, Supervisor, supervise

__all__ = [
    "AlreadyRunningError",
    "ChildDiedError",
    "ChildNotReadyError",
    "ChildSpec",
    "CredentialsUnusableError",
    "DataDirectoryLock",
    "DeployError",
    "LockHolder",
    "RunState",
    "StopRequestedError",
    "StopTimedOutError",
    "Supervisor",
    "free_ports",
    "holder",
    "http_ready",
    "read_state",
    "stop_running",
    "supervise",
    "tcp_ready",
]
