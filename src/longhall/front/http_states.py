"""The states of an HTTP connection, as integers that mypyc inlines.

A connection is a product of four small machines. Each is one field with one owner.

`HttpConnection.state` says what may still happen. A cell is the state after the event; the table is total.

| state     | request   | last request | malformed | client ends | answered  | last answered | close     | lost   |
|-----------|-----------|--------------|-----------|-------------|-----------|---------------|-----------|--------|
| OPEN      | OPEN      | LAST         | REFUSED   | LAST        | OPEN      | CLOSING       | CLOSING   | CLOSED |
| LAST      | LAST      | LAST         | LAST      | LAST        | LAST      | CLOSING       | CLOSING   | CLOSED |
| REFUSED   | REFUSED   | REFUSED      | REFUSED   | LAST        | REFUSED   | LINGERING     | CLOSING   | CLOSED |
| LINGERING | LINGERING | LINGERING    | LINGERING | LINGERING   | LINGERING | LINGERING     | CLOSING   | CLOSED |
| CLOSING   | CLOSING   | CLOSING      | CLOSING   | CLOSING     | CLOSING   | CLOSING       | CLOSING   | CLOSED |
| CLOSED    | CLOSED    | CLOSED       | CLOSED    | CLOSED      | CLOSED    | CLOSED        | CLOSED    | CLOSED |

    request        a whole request; only OPEN serves it, the other states ignore its bytes
    last request   a request that closes the connection: `Connection: close`, HTTP/1.0, or the server says so
    malformed      bytes that are no proper request, a request over a bound, or a body that admission gave up
    client ends    the client half-closes: its bytes are all read, so the connection need not linger
    answered       an answer leaves and others are outstanding
    last answered  an answer that closes the connection leaves, or in LAST the only one that was outstanding
    close          `close` or `abort`, by the server or by a timeout
    lost           the transport is gone

LINGERING has sent its end and discards what the client sends: a close with unread bytes would reset the connection,
and the client would not see the refusal.

`HttpConnection._reading` follows from the bounds, and STOPPED is final:

    READING  -> PAUSED   the slots are full, a request waits for memory, or the client does not read
    PAUSED   -> READING  none of these holds any more
    any      -> STOPPED  the server stops; only LINGERING reads again, to see the client's end

`HttpConnection._writing` collects the answers of one turn of the loop into one write:

    IDLE      -> SCHEDULED  an answer is ready, and others may follow it
    SCHEDULED -> IDLE       the loop calls the flush
    any       -> HELD       bytes are being parsed: answers leave when the parser returns

`RequestReader._phase` says which part of a request the parser reads: BETWEEN -> HEAD -> BODY -> BETWEEN.
"""

from __future__ import annotations

from typing import Final

# HttpConnection.state, in the order of a connection's life: from LINGERING on nothing is written any more.
OPEN: Final = 0
LAST: Final = 1
REFUSED: Final = 2
LINGERING: Final = 3
CLOSING: Final = 4
CLOSED: Final = 5

# HttpConnection._reading
READING: Final = 0
PAUSED: Final = 1
STOPPED: Final = 2

# HttpConnection._writing
IDLE: Final = 0
SCHEDULED: Final = 1
HELD: Final = 2

# RequestReader._phase
BETWEEN: Final = 0
HEAD: Final = 1
BODY: Final = 2
