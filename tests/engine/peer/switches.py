"""What the stories beside a peer leave out: P's habits and our own steps that do not hold together yet.

A name is a field of `Habits`, a step of a story, or `parents_gauge`; the number is the item of issue 6, section B.
Whoever fixes an item takes its line out: this is the one place.
"""

from __future__ import annotations

OFF = {
    # P delivers, we pop, P cuts: entries are lost. Once ours can leave an outbox to P, `Ours.beat` and the pump of
    # `Story.turn_of_our_pump` do so when this line goes, and `Story.work_off` repairs what the audit names.
    "trims_blindly": 1,
    "forgets_strange_repeats": 2,  # P removes a repeat without `every_ms`
    "stall_leaves_ring": 3,  # nobody brings the lane of a buried holder back into the ring
    "our_default_ceiling": 4,  # and 15: it deletes P's own; an idle lane that P ended keeps it
    "parents_gauge": 7,  # `parents` keeps parents that P released or buried
    "our_rest": 11,  # P puts a lane that rests into the ring
}
