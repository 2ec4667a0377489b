"""How fast Gloo exchanges between two ranks, by the size of its messages.

    unshare --net --mount python bench/message_sizes.py [--links loopback,1gbit,200mbit] [--sizes 10.5,5.25,3.5,2.1,1.5,1.05,0.5]

21 MiB at a time, as gradients of a large model travel (cogwheel/distributed/buckets.h): an all-to-all and a gather of the halves, in
messages of so many MiB, those of the next 21 MiB begun before these have come, all by one thread of Gloo. Between hosts that are
network namespaces, whose links a token bucket slows (tests/python/hosts.py; needs root). Prints megabytes a second that each rank sends.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python")]
import hosts  # noqa: E402

MIB = 1 << 20
BUCKET = 21 * MIB
# So many buckets take a few seconds.
BUCKETS = {"loopback": 60, "1gbit": 16, "200mbit": 6}


def group_of_one_thread():
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(interface=os.environ["GLOO_SOCKET_IFNAME"])]
    options._threads = 1
    dist.Backend.register_backend("gloo_of_one_thread", lambda store, rank, ranks, _: dist.ProcessGroupGloo(store, rank, ranks, options), devices=["cpu"])
    dist.init_process_group("gloo_of_one_thread")
    return dist.group.WORLD.group_name


def seconds(group, buckets, message):
    operators, ranks = torch.ops._c10d_functional, dist.get_world_size()
    pieces = max(1, round(BUCKET / ranks / message))
    size = BUCKET // ranks // pieces
    gathers, before = [], []

    def gather(exchanges):
        owns = [operators.wait_tensor(come)[:size].clone() for come, _ in exchanges]
        gathers.extend((operators.all_gather_into_tensor(own, ranks, group), own) for own in owns)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(buckets):
        sent = [torch.zeros(ranks * size, dtype=torch.uint8) for _ in range(pieces)]
        exchanges = [(operators.all_to_all_single(each, [size] * ranks, [size] * ranks, group), each) for each in sent]
        gather(before)
        before = exchanges
    gather(before)
    for come, _ in gathers:
        operators.wait_tensor(come)
    return time.perf_counter() - start


def be_a_rank(link, sizes):
    torch.set_num_threads(1)
    group = group_of_one_thread()
    for size in sizes:
        took = seconds(group, BUCKETS[link], size * MIB)
        if dist.get_rank() == 0:
            print(f"{link:10}{size:10.2f}{BUCKET * BUCKETS[link] / took / 1e6:10.1f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="loopback,1gbit,200mbit")
    parser.add_argument("--sizes", default="10.5,5.25,3.5,2.1,1.5,1.05,0.5")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        return be_a_rank(arguments.links, [float(size) for size in arguments.sizes.split(",")])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    hosts.make_hosts()
    print(f"{'link':10}{'MiB':>10}{'MB/s':>10}")
    for number, link in enumerate(arguments.links.split(",")):
        if link != "loopback":
            hosts.slow(link)
        ranks = []
        for rank in range(2):
            address, interface = ("127.0.0.1", "lo") if link == "loopback" else (hosts.address(0), "wire")
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(29700 + number), "GLOO_SOCKET_IFNAME": interface}
            at_host = [] if link == "loopback" else ["ip", "netns", "exec", f"host{rank}"]
            command = [*at_host, sys.executable, __file__, "--links", link, "--sizes", arguments.sizes]
            ranks.append(subprocess.Popen(command, env={**os.environ, **place}, stderr=subprocess.DEVNULL))
        assert [rank.wait() for rank in ranks] == [0, 0]


if __name__ == "__main__":
    main()
