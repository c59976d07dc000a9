"""A small HTTP server that speaks the part of Vault's transit API that Longhall uses. It is not Vault."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN = "s.token-of-the-test"


class TransitServer:
    """Keys with versions, over HTTP."""

    def __init__(self, names: list[str]) -> None:
        self.keys = {name: [AESGCM.generate_key(256)] for name in names}
        self.asked = 0
        self.hangs = threading.Event()  # While it is set, requests are not answered.
        self._over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked += 1
                while outer.hangs.is_set() and not outer._over.wait(0.02):
                    pass
                status, answer = outer._answer(self.path, self.headers.get("X-Vault-Token", ""), body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def rotate(self, name: str) -> None:
        """Add a version, which encrypts from now on."""
        self.keys[name].append(AESGCM.generate_key(256))

    def _answer(self, path: str, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if token != TOKEN:
            return 403, {"errors": ["permission denied"]}
        words = path.removeprefix("/v1/transit/").split("/")
        action, name = words[0], unquote(words[-1])
        if name not in self.keys:
            return 400, {"errors": ["encryption key not found"]}
        bound = base64.b64decode(body["associated_data"])
        if action == "datakey":
            clear = secrets.token_bytes(body["bits"] // 8)
        else:
            try:
                clear = self._decrypt(name, body["ciphertext"], bound)
            except (InvalidTag, ValueError, IndexError):
                return 400, {"errors": ["cipher: message authentication failed"]}
        nonce = secrets.token_bytes(12)
        sealed = nonce + AESGCM(self.keys[name][-1]).encrypt(nonce, clear, bound)
        wrapped = f"vault:v{len(self.keys[name])}:{base64.b64encode(sealed).decode()}"
        data = {"ciphertext": wrapped}
        if action != "rewrap":
            data["plaintext"] = base64.b64encode(clear).decode()
        return 200, {"data": data}

    def _decrypt(self, name: str, wrapped: str, bound: bytes) -> bytes:
        _, version, text = wrapped.split(":")
        data = base64.b64decode(text, validate=True)
        return AESGCM(self.keys[name][int(version[1:]) - 1]).decrypt(data[:12], data[12:], bound)
