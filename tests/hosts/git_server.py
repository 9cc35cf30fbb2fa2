"""A program: serves the git repositories of a folder by HTTP, on loopback, with git's own `http-backend`.

    git_server.py PORT FOLDER USER:PASSWORD

Whatever asks for a repository has to log in.
"""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

CHUNK = 1 << 16


class GitRequest(BaseHTTPRequestHandler):
    """One request, which `git http-backend` answers as a CGI program."""

    protocol_version = "HTTP/1.1"
    folder: ClassVar[str]
    login: ClassVar[str]

    def do_GET(self) -> None:
        """Answer a request for refs."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a fetch or a push."""
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Keep no log."""

    def _answer(self) -> None:
        if self.headers["Authorization"] != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            for _ in self._body():
                pass
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        given = {
            "GIT_PROJECT_ROOT": self.folder, "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": self.login.partition(":")[0],
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
        }  # fmt: skip
        with subprocess.Popen(
            ["git", "-c", "http.receivepack=true", "-c", "safe.directory=*", "http-backend"],
            env={**os.environ, **given}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as backend:  # fmt: skip
            assert backend.stdin is not None
            assert backend.stdout is not None
            for part in self._body():
                backend.stdin.write(part)
            backend.stdin.close()
            self._send(backend)

    def _send(self, backend: subprocess.Popen[bytes]) -> None:
        assert backend.stdout is not None
        status, headers = 200, []
        while line := backend.stdout.readline().strip().decode():
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            else:
                headers.append((name, value))
        self.send_response(status)
        for name, value in (*headers, ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        while part := backend.stdout.read1(CHUNK):  # type: ignore[attr-defined]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> Iterator[bytes]:
        if self.headers["Transfer-Encoding"] == "chunked":
            while length := int(self.rfile.readline(), 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers["Content-Length"] or 0)
        while left:
            part = self.rfile.read(min(left, CHUNK))
            if not part:
                return
            left -= len(part)
            yield part


def main(port: str, folder: str, login: str) -> None:
    """Serve until the process is ended."""
    GitRequest.folder, GitRequest.login = folder, login
    ThreadingHTTPServer(("127.0.0.1", int(port)), GitRequest).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
