"""The page of the log-in, as bytes: one form, a style of its own, no script. Pure.

The page loads nothing from elsewhere and runs nothing (`SECURITY_HEADERS`), so that what a browser shows here is what
this node has sent.
"""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import urlencode

SECURITY_HEADERS: Final = (
    "Content-Security-Policy: default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Frame-Options: DENY\r\n"
)

STYLE: Final = b""":root { color-scheme: light dark; --line: #8a8f98; --accent: #1d5fbf; --error: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --accent: #8ab4f8; --error: #f2b8b5; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; font: 1rem/1.5 system-ui, sans-serif; }
main { width: min(22rem, 92vw); padding: 2rem 0; }
h1 { margin: 0 0 .25rem; font-size: 1.5rem; }
p { margin: 0 0 1.25rem; }
label { display: block; margin: 0 0 1rem; }
input { display: block; width: 100%; margin-top: .25rem; padding: .6rem; font: inherit; border: 1px solid var(--line);
  border-radius: .3rem; background: Field; color: FieldText; }
button, .button { display: block; width: 100%; padding: .65rem; font: inherit; font-weight: 600; text-align: center;
  border: 1px solid var(--accent); border-radius: .3rem; background: var(--accent); color: Canvas; cursor: pointer;
  text-decoration: none; }
.button { margin-top: .75rem; background: transparent; color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.error { padding: .6rem .75rem; border-left: .25rem solid var(--error); color: var(--error); }
"""


def login_page(*, error: str = "", user: str = "", following: str = "", with_provider: bool = False) -> bytes:
    """The form. `following` is the path to which a browser goes afterwards."""
    told = f'<p class="error" role="alert">{escape(error)}</p>\n' if error else ""
    hidden = f'<input type="hidden" name="next" value="{escape(following)}">\n' if following else ""
    query = f"?{urlencode({'next': following})}" if following else ""
    provider = f'<a class="button" href="/login/provider{query}">Log in with the identity provider</a>\n'
    return _page(
        "Log in",
        f"""<h1>Longhall</h1>
<p>Log in to this cluster.</p>
{told}<form method="post" action="/login">
{hidden}<label>User <input name="user" value="{escape(user)}" autocomplete="username" required autofocus></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Log in</button>
</form>
{provider if with_provider else ""}""",
    )


def session_page(user: str, tenant: str) -> bytes:
    """What a browser with a session gets."""
    return _page(
        "Logged in",
        f"""<h1>Longhall</h1>
<p>You are logged in as <strong>{escape(user)}</strong> of tenant {escape(tenant)}.</p>
<form method="post" action="/login/out"><button>Log out</button></form>
""",
    )


def notice_page(line: str) -> bytes:
    """One line, for example that nobody has to log in here."""
    return _page("Longhall", f"<h1>Longhall</h1>\n<p>{escape(line)}</p>\n")


def _page(title: str, body: str) -> bytes:
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} - Longhall</title>\n"
        '<link rel="stylesheet" href="/login/style.css">\n</head>\n'
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    ).encode()
