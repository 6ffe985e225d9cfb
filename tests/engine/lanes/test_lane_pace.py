"""A lane keeps its own pace: the nearest of its own, its kind's and the default setting counts."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import InvalidId
from codemojex.engine.ids import Minter
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import claims, jobs
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.lanes import limits
from codemojex.engine.transport.connector import Connector

mint = Minter(5)


async def test_the_nearest_setting_of_a_lanes_pace_counts(bus: Connector, queue: str) -> None:
    chat, group, special = mint.mint("CHT"), mint.mint("GRP"), mint.mint("GRP")
    await limits.set_lane_rate(bus, queue, 0.001, 3)
    await limits.set_lane_rate(bus, queue, 0.001, 2, kind="GRP")
    await limits.set_lane_rate(bus, queue, 0.001, 1, lane=special)
    new = [NewJob(mint.mint("JOB"), b"", lane) for lane in (chat, group, special) for _ in range(5)]
    await jobs.admit_many(bus, queue, new)
    claimed = await claims.claim_many(bus, queue, 100, 10_000)
    served = [job.lane for job in claimed.jobs]
    assert [served.count(lane) for lane in (chat, group, special)] == [3, 2, 1]
    assert not await audit(bus, queue)
    await limits.set_lane_rate(bus, queue, None, kind="GRP")


async def test_a_kind_that_is_no_namespace_is_refused(bus: Connector, queue: str) -> None:
    with pytest.raises(InvalidId):
        await limits.set_lane_rate(bus, queue, 1, 1, kind="group")
