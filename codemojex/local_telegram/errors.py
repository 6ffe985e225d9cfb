"""The answers of the Bot API that are not success, in Telegram's own words.

Bots tell reasons apart by these texts, so they are kept in one place and are never decorated. Whatever the server
does not simulate is `NotSimulated`: an honest 501 that no bot can mistake for success.
"""

from typing import Any

Json = dict[str, Any]  # the Bot API is JSON of any shape


class ApiError(Exception):
    """A refusal by the Bot API: HTTP status, description and `parameters` exactly as the bot receives them."""

    def __init__(self, code: int, description: str, parameters: Json | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> Json:
        """The JSON answer."""
        body: Json = {"ok": False, "error_code": self.code, "description": self.description}
        if self.parameters:
            body["parameters"] = self.parameters
        return body


def bad_request(reason: str, parameters: Json | None = None) -> ApiError:
    """400 with Telegram's prefix."""
    return ApiError(400, f"Bad Request: {reason}", parameters)


def forbidden(reason: str) -> ApiError:
    """403 with Telegram's prefix."""
    return ApiError(403, f"Forbidden: {reason}")


def conflict(reason: str) -> ApiError:
    """409 with Telegram's prefix."""
    return ApiError(409, f"Conflict: {reason}")


def too_many_requests(retry_after_s: int) -> ApiError:
    """429 that tells how many seconds to wait."""
    return ApiError(429, f"Too Many Requests: retry after {retry_after_s}", {"retry_after": retry_after_s})


def not_simulated(what: str) -> ApiError:
    """501: the real server knows this, the local one does not."""
    return ApiError(501, f"not simulated: {what}")


class ControlError(Exception):
    """A person cannot do that; the sentence says why and what to do instead. Answered as HTTP 400 (404: unknown)."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
