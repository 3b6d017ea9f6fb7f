"""A site with accounts, and people who ask it."""

import os

from argon2 import PasswordHasher

from tests.unit.webapp.fakes import Site
from webapp.api.callers import behind_proxy

PASSWORD = "correct horse battery"
OTHER_UID = 54321
SAME_SITE = {"X-Bellrock": "1"}
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7", "Host": "bellrock.example"}


def cheap_hash(password=PASSWORD):
    """At a small cost: what tests wait for is not the hash."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


class People(Site):
    """Accounts ada (uid 1000), eve (uid 1001) and boss (an administrator). Who asks is `uid`; `proxy`: they ask through the proxy."""

    def __init__(self, tmp_path, uid=OTHER_UID, **config):
        self.uid = uid
        super().__init__(tmp_path, **{"PEER_UID": lambda environ: self.uid, "PROXY_HOSTS": ("bellrock.example", "localhost"), **config})
        hashed = cheap_hash()
        for name, role, number in (("ada", "user", 1000), ("eve", "user", 1001), ("boss", "admin", None)):
            self.jobdb.accounts.add(name, hashed, role, number)
        self.tokens = {name: self.jobdb.accounts.add_token(name, "test", 1)[0] for name in ("ada", "eve", "boss")}

    def bearer(self, name):
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def through_proxy(self):
        """A client that asks through the proxy, whose process is the server's own user's."""
        self.uid = os.geteuid()
        direct, self.app.wsgi_app = self.app.wsgi_app, behind_proxy(self.app.wsgi_app)
        client = self.app.test_client()
        client.environ_base = {**client.environ_base, **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in FORWARDED.items()}}
        self.direct = direct
        return client

    def sign_in(self, client=None, name="ada", password=PASSWORD, status=200, **headers):
        response = (client or self.client).post("/api/v1/session", json={"name": name, "password": password}, headers={**SAME_SITE, **headers})
        assert response.status_code == status, response.text
        return response
