"""Users and their SCRAM credentials, as administrators list and change them."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, data, int8, int16, int32, string


class DescribeUserScramCredentialsRequestUser(Message):
    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Message, flexible=0):
    """Asks for some users, or for all with none or null."""

    users: list[DescribeUserScramCredentialsRequestUser] | None = array(
        "0+", DescribeUserScramCredentialsRequestUser, null="0+"
    )


class DescribeUserScramCredentialsResponseCredential(Message):
    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResponseResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    credential_infos: list[DescribeUserScramCredentialsResponseCredential] = array(
        "0+", DescribeUserScramCredentialsResponseCredential
    )


class DescribeUserScramCredentialsResponse(Message, flexible=0):
    """The mechanisms of each user, without keys."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    results: list[DescribeUserScramCredentialsResponseResult] = array("0+", DescribeUserScramCredentialsResponseResult)


class AlterUserScramCredentialsRequestDeletion(Message):
    name: str = string("0+")
    mechanism: int = int8("0+")


class AlterUserScramCredentialsRequestUpsertion(Message):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = data("0+")
    salted_password: bytes = data("0+")


class AlterUserScramCredentialsRequest(Message, flexible=0):
    """Removes and sets credentials. The client has salted the password."""

    deletions: list[AlterUserScramCredentialsRequestDeletion] = array("0+", AlterUserScramCredentialsRequestDeletion)
    upsertions: list[AlterUserScramCredentialsRequestUpsertion] = array("0+", AlterUserScramCredentialsRequestUpsertion)


class AlterUserScramCredentialsResponseResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class AlterUserScramCredentialsResponse(Message, flexible=0):
    """One result a user."""

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResponseResult] = array("0+", AlterUserScramCredentialsResponseResult)
