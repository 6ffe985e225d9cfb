"""Each sentence of Telegram's server means one thing to do."""

from __future__ import annotations

import asyncio

import pytest
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.exceptions import ClientDecodeError, TelegramNetworkError
from aiogram.methods import EditMessageText, SendMessage

from codemojex.bot.factory import build_bot
from codemojex.bot.telegram.errors import Classified, TelegramFault, classify

TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def answered(status: int, body: str) -> Classified:
    """What an answer of the server is classified as, on the way through the real client."""
    method = EditMessageText(text="x", chat_id=7, message_id=1)
    try:
        AiohttpSession().check_response(build_bot(TOKEN), method, status, body)
    except Exception as error:
        return classify(error)
    raise AssertionError("the client raised nothing")


def refused(status: int, description: str, parameters: str = "{}") -> Classified:
    return answered(
        status,
        f'{{"ok":false,"error_code":{status},"description":"{description}","parameters":{parameters}}}',
    )


@pytest.mark.parametrize(
    ("status", "description", "fault"),
    [
        (
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly the same "
            "as a current content and reply markup of the message",
            TelegramFault.NOT_MODIFIED,
        ),
        (400, "Bad Request: message to edit not found", TelegramFault.MESSAGE_GONE),
        (400, "Bad Request: message can't be edited", TelegramFault.MESSAGE_GONE),
        (
            400,
            "Bad Request: query is too old and response timeout expired or query ID is invalid",
            TelegramFault.QUERY_EXPIRED,
        ),
        (400, "Bad Request: message thread not found", TelegramFault.THREAD_GONE),
        (400, "Bad Request: TOPIC_CLOSED", TelegramFault.NO_RIGHTS),
        (400, "Bad Request: not enough rights to send text messages to the chat", TelegramFault.NO_RIGHTS),
        (400, "Bad Request: chat not found", TelegramFault.CHAT_GONE),
        (400, "Bad Request: BUTTON_DATA_INVALID", TelegramFault.REFUSED),
        (400, "Bad Request: REPLY_MARKUP_TOO_LONG", TelegramFault.REFUSED),
        (400, "Bad Request: message is too long", TelegramFault.REFUSED),
        (403, "Forbidden: bot was blocked by the user", TelegramFault.CHAT_GONE),
        (403, "Forbidden: bot was kicked from the supergroup chat", TelegramFault.CHAT_GONE),
        (401, "Unauthorized", TelegramFault.UNAUTHORIZED),
        (404, "Not Found", TelegramFault.UNAUTHORIZED),
        (404, "Not Found: method not found", TelegramFault.REFUSED),
        (409, "Conflict: terminated by other getUpdates request", TelegramFault.CONFLICT),
        (500, "Internal Server Error", TelegramFault.SERVER),
        (502, "Bad Gateway", TelegramFault.SERVER),
        (501, "not simulated: sendDice", TelegramFault.REFUSED),
    ],
)
def test_the_servers_sentence_decides(status: int, description: str, fault: TelegramFault) -> None:
    assert refused(status, description).fault is fault


def test_a_flood_says_how_long_to_rest() -> None:
    met = refused(429, "Too Many Requests: retry after 17", '{"retry_after":17}')
    assert (met.fault, met.retry_after_s) == (TelegramFault.FLOOD, 17)


def test_a_migration_says_where_to() -> None:
    met = refused(
        400,
        "Bad Request: group chat was upgraded to a supergroup chat",
        '{"migrate_to_chat_id":-1009876543210}',
    )
    assert (met.fault, met.migrated_to) == (TelegramFault.MIGRATED, -1009876543210)


def test_a_proxys_html_page_is_a_sick_server() -> None:
    assert answered(502, "<html><body>502 Bad Gateway</body></html>").fault is TelegramFault.SERVER


def test_a_success_of_an_unknown_shape_has_happened() -> None:
    assert answered(200, '{"ok":true,"result":{"surprise":1}}').fault is TelegramFault.UNKNOWN_OUTCOME


def test_a_lost_answer_is_unknown_and_a_failed_connection_is_not() -> None:
    method = SendMessage(chat_id=1, text="x")
    lost = TelegramNetworkError(method=method, message="ServerDisconnectedError: Server disconnected")
    lost.__cause__ = ConnectionResetError()
    assert classify(lost).fault is TelegramFault.UNKNOWN_OUTCOME

    met = asyncio.run(called("http://127.0.0.1:1"))
    assert met.fault is TelegramFault.NEVER_SENT
    assert met.reason.startswith("SendMessage: ClientConnectorError: Connect call failed")


def test_no_reason_holds_the_token() -> None:
    error = ClientDecodeError("Failed to decode object", ValueError(), f"/bot{TOKEN}/getMe")
    assert TOKEN not in classify(error).reason


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://us:hunter2@127.0.0.1:99999/x", "http://[::1", "x"])
def test_an_address_that_is_none_shows_neither_itself_nor_the_token(url: str) -> None:
    reason = asyncio.run(called(url)).reason
    assert TOKEN not in reason
    assert "hunter2" not in reason


async def called(url: str) -> Classified:
    """What a call is classified as that cannot succeed at `url`."""
    bot = build_bot(TOKEN, url)
    try:
        await bot(SendMessage(chat_id=1, text="x"))
    except Exception as error:
        return classify(error)
    finally:
        await bot.session.close()
    raise AssertionError("the call succeeded")
