"""A program: takes TLS connections, and passes what is in them on to a port of the same machine, and back.

    tls_relay.py ADDRESS PORT INNER_PORT CERTIFICATE KEY ALPN [CLIENTS_CA]

It stands before servers that have no TLS of their own. With CLIENTS_CA, clients need a certificate of that authority.
"""

import asyncio
import contextlib
import ssl
import sys

CHUNK = 1 << 16


async def serve(address: str, port: int, inner: int, context: ssl.SSLContext) -> None:
    """Relay until the process is ended."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", inner)
            await asyncio.gather(_pass(reader, back), _pass(there, writer))
        writer.close()

    server = await asyncio.start_server(relay, address, port, ssl=context)
    await server.serve_forever()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(CHUNK):
            writer.write(part)
            await writer.drain()
    writer.close()


def main(address: str, port: str, inner: str, certificate: str, key: str, alpn: str, clients_ca: str = "") -> None:
    """Begin to serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([alpn])
    if clients_ca:
        context.load_verify_locations(clients_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    asyncio.run(serve(address, int(port), int(inner), context))


if __name__ == "__main__":
    main(*sys.argv[1:])
