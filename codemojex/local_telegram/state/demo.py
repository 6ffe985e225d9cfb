"""Three people and a group to begin with.

Only an empty Telegram is furnished: whoever comes back finds what was left. The people have pressed Start in their
private chats, so the bot may write to each of them.
"""

from codemojex.local_telegram.state import membership, people
from codemojex.local_telegram.state.world import World

PEOPLE = ("Ada", "Boris", "Chen")
GROUP = "Codebreakers"


def furnish(world: World) -> bool:
    """Add the people and their group; False when somebody lives here already."""
    if world.state.people:
        return False
    ids = [people.add_person(world, name, name.lower()).user_id for name in PEOPLE]
    membership.create_group(world, GROUP, ids, bot_admin=True)  # an administrator reads plain guesses too
    for user_id in ids:
        people.send(world, user_id, user_id, "/start")
    return True
