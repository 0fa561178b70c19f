"""loadtest/simulate.py: against a formula, against itself, and its small case against two real daemons behind haproxy."""
# not under sanitizers: what it tests is timing between processes
import asyncio
import math
import os
import shutil
import sys

from daemon import BUILD, ROOT, Skip, case, need_descriptors, tap

sys.path.insert(0, os.path.join(ROOT, "loadtest"))
import roll  # noqa: E402
import simulate  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402
from websockets.exceptions import InvalidHandshake  # noqa: E402


def erlang_b(load, places):
    """The share of refused calls (Erlang's formula of 1917), by its recursion."""
    b = 1.0
    for i in range(1, places + 1):
        b = load * b / (i + load * b)
    return b


@case
def refusals_are_those_of_erlang():
    arrivals = simulate.schedule(10, 3.0, 20000, 7)
    refused = simulate.live(arrivals, 3, 10)[0] / len(arrivals)
    assert abs(refused - erlang_b(30, 30)) < 0.005, (refused, erlang_b(30, 30))


@case
def waits_grow_with_the_load_and_the_same_seed_gives_the_same():
    waits = [simulate.jobs(c, 1e4, 36000)[0] for c in (3, 4, 8)]
    assert waits[0] > waits[1] > waits[2] >= 0, waits
    assert simulate.jobs(4, 1e4, 3600) == simulate.jobs(4, 1e4, 3600)


@case
def the_loss_of_a_zone_needs_half_as_many_machines_again():
    arrivals = simulate.schedule(10, 180, 60, 3)
    lost = [simulate.live(arrivals, m, 100, lose_at=30.0, start=1800) for m in (18, 24, 30)]
    assert [x[1] > 500 for x in lost] == [True] * 3, lost
    assert lost[0][2] > lost[1][2] > lost[2][2] == 0 and lost[2][3] <= 2, lost


@case
def two_daemons_refuse_as_simulated():
    if not shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin"):
        raise Skip("haproxy is not installed")
    arrivals = simulate.schedule(8, 3.0, 25, 11)
    want = simulate.live(arrivals, 2, 10)[0]
    assert want > 25, want

    async def client(port, at, length):
        await asyncio.sleep(at)
        try:
            async with connect(f"ws://127.0.0.1:{port}/v1/stream", **roll.OPEN):
                await asyncio.sleep(length)
            return 0
        except InvalidHandshake:
            return 1

    async def all_of(port):
        return sum(await asyncio.gather(*(client(port, *a) for a in arrivals)))
    need_descriptors(4096)  # haproxy's, for maxconn 2000
    with roll.Pair("pool.capacity=1000", "limits.sessions=10") as p:
        got = asyncio.run(all_of(p.port))
    # places are free again a little later than in the simulation: when the close was answered
    print(f"# {len(arrivals)} arrivals, refused: {want} simulated, {got} real")
    assert abs(got - want) <= 3 + 3 * math.sqrt(want), (got, want)


if __name__ == "__main__":
    os.environ.setdefault("STENO_DATA", os.path.join(BUILD, "data"))
    sys.exit(tap())
