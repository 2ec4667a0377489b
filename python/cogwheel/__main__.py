"""``python -m cogwheel``: the command line in this process, one of several ranks where a launcher says so.

    torchrun --nproc-per-node 2 -m cogwheel train CONFIG

A launcher names the ranks in RANK and WORLD_SIZE, and where they meet in MASTER_ADDR and MASTER_PORT, as torchrun does. Of a
machine's GPUs each rank sees the one of its LOCAL_RANK, which then is `cuda`.
COGWHEEL_RANK_TIMEOUT: how many seconds a rank waits for another, 600 unless set. GLOO_SOCKET_IFNAME: the network interface through
which ranks reach each other, or several, separated by commas; without it the one of the machine's name.
"""

import contextlib
import ctypes
import datetime
import os
import signal
import socket
import sys
from typing import NoReturn

import torch
import torch.distributed

from cogwheel import _library


def _fail(what: str, expected: str, got: str, status: int = 2) -> NoReturn:
    print(f"cogwheel: {what}: expected {expected}, got {got}", file=sys.stderr, flush=True)
    os._exit(status)


def _number(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) < least:
        _fail(name, f"a whole number from {least}", text or "nothing")
    return int(text)


def _devices() -> list:
    """The interfaces that GLOO_SOCKET_IFNAME names, which PyTorch reads only for groups that it makes itself."""
    gloo, known = torch.distributed.ProcessGroupGloo, [name for _, name in socket.if_nameindex()]
    named = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
    for name in named:
        if name not in known:
            _fail("GLOO_SOCKET_IFNAME", f"network interfaces of this machine ({', '.join(known)})", name)
    return [gloo.create_device(interface=name) for name in named] or [gloo.create_default_device()]


def _gloo_of_one_thread(store: torch.distributed.Store, rank: int, ranks: int, timeout: datetime.timedelta):
    """Gloo, whose threads share a string without a lock where it has several (cogwheel/distributed/group.cpp)."""
    options = torch.distributed.ProcessGroupGloo._Options()
    options._devices = _devices()
    options._threads, options._timeout = 1, timeout
    return torch.distributed.ProcessGroupGloo(store, rank, ranks, options)


def _take_own_gpu() -> None:
    """Before anything looks for GPUs. A launcher that names no LOCAL_RANK, or lets each rank see fewer GPUs, has chosen itself."""
    if "LOCAL_RANK" not in os.environ:
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(torch.cuda.device_count())] if visible is None else visible.split(",")
    local_rank = _number("LOCAL_RANK", 0, 0)
    if local_rank < len(names):
        os.environ["CUDA_VISIBLE_DEVICES"] = names[local_rank]


def _backends() -> str:
    """NCCL is there only in a PyTorch for CUDA; it exchanges what lies on GPUs, Gloo all else."""
    with_gpus = torch.cuda.is_available() and torch.distributed.is_nccl_available()
    return "cpu:gloo_of_one_thread,cuda:nccl" if with_gpus else "gloo_of_one_thread"


def _process_group(rank: int, ranks: int) -> str:
    """The name of a group of all ranks, once all of them are there."""
    place = os.environ.get("COGWHEEL_RENDEZVOUS", "env://")
    timeout = datetime.timedelta(seconds=_number("COGWHEEL_RANK_TIMEOUT", 600, 1))
    for name in ("RANK", *(("MASTER_ADDR", "MASTER_PORT") if place == "env://" else ())):
        if name not in os.environ:
            _fail(name, f"one for each of {ranks} ranks", "none")
    torch.distributed.Backend.register_backend("gloo_of_one_thread", _gloo_of_one_thread, devices=["cpu"])
    _take_own_gpu()
    try:
        torch.distributed.init_process_group(_backends(), place, timeout, rank=rank, world_size=ranks)
    except (RuntimeError, ValueError) as error:
        # Not what bad input ends with: the next start may find all of them.
        _fail("ranks", f"all {ranks} to meet within {timeout.total_seconds():.0f} s", f"on rank {rank}: {' '.join(str(error).split())}", status=1)
    return torch.distributed.group.WORLD.group_name


_MAKE_GROUP = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


def _maker_of_groups(rank: int, ranks: int):
    """Of `CogwheelMakeGroup` in cogwheel/cli/entry.h."""

    def make(size: int, stride: int, name: int, capacity: int) -> None:
        try:
            timeout = datetime.timedelta(seconds=_number("COGWHEEL_RANK_TIMEOUT", 600, 1))
            members = [
                list(range(first + place, first + size * stride, stride))
                for first in range(0, ranks, size * stride)
                for place in range(stride)
            ]
            groups = [torch.distributed.new_group(each, timeout, backend=_backends()) for each in members]
        except (RuntimeError, ValueError) as error:
            _fail("ranks", f"groups of {size} of them", f"on rank {rank}: {' '.join(str(error).split())}", status=1)
        own = next(group.group_name for group, each in zip(groups, members, strict=True) if rank in each).encode()[: capacity - 1] + b"\0"
        ctypes.memmove(name, own, len(own))

    return _MAKE_GROUP(make)


def _end_with_launcher() -> None:
    """SIGTERM, at which a run keeps a checkpoint, where the process that started this one is gone."""
    end_with_parent = 1  # PR_SET_PDEATHSIG of Linux
    ctypes.CDLL(None).prctl(end_with_parent, signal.SIGTERM)


def _status_of_first(rank: int, status: int) -> int:
    """What the first rank ends with: who only helped it to train has not done so before the first has written everything.

    A launcher that starts again what has failed so starts all of them, and none that ends others with the first to end takes
    the first rank's time to write.
    """
    ended_with = torch.tensor([status])
    if rank == 0:
        with contextlib.suppress(RuntimeError):  # one that is gone need not know
            torch.distributed.broadcast(ended_with, 0)
        return status
    try:
        torch.distributed.broadcast(ended_with, 0)
    except RuntimeError:
        return 1  # the first has said what went wrong
    return int(ended_with)


def main() -> NoReturn:
    rank, ranks = _number("RANK", 0, 0), _number("WORLD_SIZE", 1, 1)
    if rank >= ranks:
        _fail("RANK", f"one below {ranks}, the ranks that there are", str(rank))
    group = ""
    if ranks > 1:
        _end_with_launcher()
        group = _process_group(rank, ranks)
    library = ctypes.CDLL(str(_library.PATH.with_name("libcogwheel_command.so")))
    words = [b"cogwheel", *map(os.fsencode, sys.argv[1:])]
    make_group = _maker_of_groups(rank, ranks)
    status = library.cogwheel_command(len(words), (ctypes.c_char_p * (len(words) + 1))(*words), group.encode(), rank, ranks, make_group)
    interrupted = 130
    if group and status in (0, interrupted):
        status = _status_of_first(rank, status)
    if status == 0 and group:
        torch.distributed.destroy_process_group()
    # Where something went wrong, threads that still wait for others would keep this process.
    os._exit(status)


if __name__ == "__main__":
    main()
