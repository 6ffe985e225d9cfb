"""People who play: they write, press and read, and remember what they were shown.

A `Game` is what one game looks like from outside: its messages in one chat. It knows neither the code nor anything
that stands in no chat; what the bot said before the end is read from the Bot API's log, in which every text stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.telegram import Json, People, buttons
from tests.system import solver

WAIT_S = 60.0


@dataclass
class Company:
    """Ada, Boris and Chen with their group, and Dora on her own: new for every test, in a product that lasts."""

    people: People
    ada: int
    boris: int
    chen: int
    dora: int
    group: int

    @classmethod
    async def gather(cls, people: People) -> Company:
        """New people who have pressed Start, and a group whose administrator the bot is, so that it hears emojis."""
        ids = [await people.add_person(name) for name in ("Ada", "Boris", "Chen", "Dora")]
        group = await people.add_group("The Den", ids[:3], bot_admin=True)
        for user_id in ids:
            await people.start(user_id)
            await says(people, user_id, "Pick a game")
        return cls(people, *ids, group)

    @property
    def three(self) -> list[tuple[int, str]]:
        """Who plays in the group."""
        return [(self.ada, "Ada"), (self.boris, "Boris"), (self.chen, "Chen")]

    async def another_group(self) -> int:
        """One more group of the same three."""
        return await self.people.add_group("The Attic", [self.ada, self.boris, self.chen], bot_admin=True)

    async def play(self, who: int, chat: int, order: str) -> Game:
        """Order a game and wait for its board."""
        asked = await self.people.send(who, chat, order)
        board = await says(self.people, chat, "No guess yet", after=asked["message_id"])
        return Game.on(self.people, chat, board)

    async def play_a_round(self, who: int, order: str) -> tuple[Game, list[solver.Row]]:
        """Order a game in the group, and everybody guesses once; once more when somebody was lucky at once."""
        while True:
            game = await self.play(who, self.group, order)
            over, rows = await game.open_round(self.three)
            if not over:
                return game, rows
            await game.result()


@dataclass
class Game:
    """One game in one chat. `played` is who guessed what, in order; `toasts` what buttons answered before the end."""

    people: People
    chat: int
    message_id: int
    id: str
    palette: str
    length: int
    commitment: str
    played: list[tuple[str, str]] = field(default_factory=list)
    toasts: list[str] = field(default_factory=list)

    @classmethod
    def on(cls, people: People, chat: int, board: Json) -> Game:
        """The game of a board that nobody has guessed on."""
        lines = board["text"].splitlines()
        data = next(b["callback_data"] for b in buttons(board) if b.get("callback_data", "").startswith(("b:", "c:")))
        palette = next(line for line in lines if line.startswith("🎨")).removeprefix("🎨 ")
        return cls(
            people,
            chat,
            board["message_id"],
            id=data.split(":")[1],
            palette=palette,
            length=int(lines[0].partition("– ")[2].split()[0]),
            commitment=lines[2].partition("🔏 ")[2].rstrip("…"),
        )

    async def guess(self, who: int, name: str, code: str) -> None:
        """Type a code into the chat."""
        await self.people.send(who, self.chat, code)
        self.played.append((name, code))

    async def message(self) -> Json:
        """The board's message as it is now."""
        return next(m for m in await self.people.messages(self.chat) if m["message_id"] == self.message_id)

    async def board(self, *parts: str) -> str:
        """The board's text as soon as it holds all the parts; it is one message from the first to the last word."""
        found = await self.people.wait_for_message(
            self.chat,
            lambda m: m["message_id"] == self.message_id and all(part in m["text"] for part in parts),
            WAIT_S,
        )
        return found["text"]

    async def scored(self) -> tuple[bool, list[solver.Row]]:
        """The board's rows once every guess so far stands there with its score, and whether the game is over."""

        def complete(m: Json) -> bool:
            if m["message_id"] != self.message_id:
                return False
            return "The code was" in m["text"] or len(solver.rows(m["text"])) == len(self.played)

        text = (await self.people.wait_for_message(self.chat, complete, WAIT_S))["text"]
        return "The code was" in text, solver.rows(text)

    async def open_round(self, players: Sequence[tuple[int, str]]) -> tuple[bool, list[solver.Row]]:
        """Everybody guesses at once; `scored` afterwards."""
        for (who, name), code in zip(players, solver.spread(self.palette, self.length, len(players)), strict=True):
            await self.guess(who, name, code)
        return await self.scored()

    async def crack(self, players: Sequence[tuple[int, str]], rows: list[solver.Row]) -> None:
        """One after the other thinks about what the board shows and guesses, until the code is cracked."""
        turn, over = 0, False
        while not over:
            left = solver.candidates(self.palette, self.length, rows)
            assert left, f"no code agrees with the board: {rows}"
            await self.guess(*players[turn % len(players)], solver.best(left))
            over, rows = await self.scored()
            turn += 1

    async def press(self, who: int, label: str) -> str:
        """Press a button under the board; what the toast says."""
        answer = await self.people.press_text(who, self.chat, self.message_id, label)
        assert answer is not None, f"the button {label!r} was not answered"
        self.toasts.append(answer.get("text") or "")
        return self.toasts[-1]

    async def result(self, *parts: str) -> Result:
        """The message that ends the game, once it is there."""
        found = await says(self.people, self.chat, "🏁", "🎲", *parts, after=self.message_id)
        return Result.read(found["text"])

    async def tap(self, who: int, name: str, code: str, place: tuple[int, int] | None = None) -> str:
        """Put a code together with the composer's buttons and hand it in; what the last toast says.

        `place` is chat and message of a composer that is not the board itself.
        """
        chat, message_id = place or (self.chat, self.message_id)
        tries = sum(player == name for player, _ in self.played)
        send = f"c:{self.id}:send:{tries}"
        await self.people.wait_for_message(
            chat,
            lambda m: m["message_id"] == message_id and send in [b.get("callback_data") for b in buttons(m)],
            WAIT_S,
        )
        for token in code:
            answer = await self.people.press(
                who, chat, message_id, f"c:{self.id}:{self.palette.index(token)}:{tries}", wait_s=WAIT_S
            )
            assert answer is not None, f"the button {token} was not answered"
            assert not answer.get("text"), answer
        answer = await self.people.press(who, chat, message_id, send, wait_s=WAIT_S)
        assert answer is not None, "the button that sends the guess was not answered"
        self.played.append((name, code))
        self.toasts.append(answer["text"])
        return answer["text"]

    async def kept_its_secret(self, result: Result, *chats: int) -> bool:
        """In no text of the bot for this and the given chats stood the code or the nonce before one told the end.

        A palette is no secret, and a draft is what its player has put together.
        """
        watched = {str(chat) for chat in (self.chat, *chats)}
        for call in await self.people.log():
            text = call["fields"].get("text", "")
            if str(call["fields"].get("chat_id")) not in watched:
                continue
            lines = [line for line in text.splitlines() if self.palette not in line and "✏️" not in line]
            if result.code in "\n".join(lines) or result.nonce in text:
                return "🏁" in text and not any(result.code in toast for toast in self.toasts)
        raise AssertionError("the end was told in no text")


@dataclass(frozen=True)
class Result:
    """What the message that ends a game says."""

    text: str
    ending: str
    code: str
    standings: tuple[str, ...]
    commitment: str
    nonce: str

    @classmethod
    def read(cls, text: str) -> Result:
        lines = text.splitlines()
        told = {line[0]: line[1:].strip() for line in lines if line[:1] in ("🏁", "🔏", "🎲")}
        code = next(line for line in lines if line.startswith("The code was")).removeprefix("The code was ")
        table = tuple(line for line in lines if line[:1].isdigit())
        return cls(text, told["🏁"], code, table, told["🔏"], told["🎲"])

    @property
    def fair(self) -> bool:
        """Whether code and nonce give the commitment, worked out as /verify explains it."""
        proof = "\x1e".join([*self.code, self.nonce])
        return hashlib.sha256(proof.encode()).hexdigest() == self.commitment


async def says(people: People, chat: int, *parts: str, after: int = 0) -> Json:
    """The bot's first message in a chat with all the parts."""

    def fits(message: Json) -> bool:
        return message["from"]["is_bot"] and all(part in message.get("text", "") for part in parts)

    return await people.wait_for_message(chat, fits, WAIT_S, after=after)
