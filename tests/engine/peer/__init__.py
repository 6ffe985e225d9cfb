"""Random stories of two engines on one bus: ours and the simulated P take turns on two queues, in any order.

`base` is what both hold and the look at the books, `ours` and `theirs` the steps of each side, `story` the telling and
its end. What does not hold together yet is left out by `switches`.
"""
