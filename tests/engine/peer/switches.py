"""What the stories beside a peer leave out: P's habits and our own steps that do not hold together yet.

A name is a field of `Habits`, a step of a story, or `parents_gauge`; the number is the item of issue 6, section B.
Whoever fixes an item takes its line out: this is the one place.
"""

from __future__ import annotations

OFF: dict[str, int] = {
    "trims_blindly": 1,  # P delivers, we pop, P cuts: one make of pump per queue with cross-queue children
    "our_rest": 11,  # P puts a lane that rests into the ring
}
