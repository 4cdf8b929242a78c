"""What a server is allowed to do, and for whom: checked before it starts."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from clearfold.errors import InputError

LEAST_TOKEN = 16
"""Characters of a token that nobody guesses."""
LOOPBACK = "localhost"


@dataclass(frozen=True)
class Settings:
    """host and port to listen on, who may ask, and the limits for what comes in.

    token : whoever asks must know it; needed on any address but this machine's own
    behind_proxy : public name of a reverse proxy that lets only the right people through; takes the place of a token
    slides : folders whose slides may be opened
    upload_bytes, pixels, seconds, memory : limits for one upload: its size, its pixels, its time and bytes of memory
    measured : pixels that are measured at once; of a larger upload, a box has to be drawn
    https : the server itself speaks TLS
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    behind_proxy: str | None = None
    slides: tuple[Path, ...] = ()
    upload_bytes: int = 64 * 2**20
    pixels: int = 25_000_000
    measured: int = 4_000_000
    seconds: float = 120.0
    memory: int = 6 * 2**30
    https: bool = False

    def __post_init__(self) -> None:
        if not self.local and self.token is None and self.behind_proxy is None:
            raise InputError(
                f"host {self.host} can be reached from other machines: everybody there could see the cases. Give "
                "--token (or CLEARFOLD_TOKEN), or --behind-proxy NAME when a reverse proxy checks who asks, or stay "
                "on 127.0.0.1."
            )
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise InputError(f"a token of {len(self.token)} characters can be guessed; {LEAST_TOKEN} are wanted.")
        for folder in self.slides:
            if not folder.is_dir():
                raise InputError(f"{folder} is not a folder. Give --slides the folder that holds the slides.")

    @property
    def local(self) -> bool:
        """Whether only this machine can ask."""
        return self.host == LOOPBACK or _is_loopback(self.host)

    def knows(self, host: str) -> bool:
        """Whether a Host header (name, perhaps with a port) is ours: a name of a stranger may point here as well."""
        name = host_name(host)
        if name == LOOPBACK or _is_loopback(name):
            return self.local or self.behind_proxy is None
        if name in self._names:
            return True
        # no name server is asked for a plain number, so nobody can make it point here
        return not self.local and self.behind_proxy is None and _is_address(name)

    @property
    def _names(self) -> set[str]:
        if self.behind_proxy is not None:
            return {self.behind_proxy.lower()}
        return set() if self.local else {self.host.lower(), socket.gethostname().lower()}


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].split("]")[0].lower()
    return host.rsplit(":", 1)[0].lower() if host.count(":") == 1 else host.lower()


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
