# Prints what pip install would be configured with, as JSON. The environment's options come before those of the section install, and these
# before global ones. pip heeds the logins of the user's netrc, too.
import ast
import contextlib
import io
import json
import netrc
import os
import re
from urllib.parse import unquote, urlsplit


def said(*args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = pip(list(args))
    if code:
        sys.exit(code)
    return out.getvalue()


def options():
    found = {}
    for line in said("config", "list").splitlines():
        name, is_option, value = line.partition("=")
        section, _, option = name.strip().rpartition(".")
        rank = ["global", "install", ":env:"].index(section) if section in ("global", "install", ":env:") else -1
        if is_option and rank >= found.get(option, (-1, ""))[0]:
            found[option] = rank, ast.literal_eval(value.strip())
    return {option: value for option, (rank, value) in found.items() if rank >= 0 and value}


def logins():
    home = (os.path.expanduser(name) for name in ("~/.netrc", "~/_netrc"))
    name = os.environ.get("NETRC") or next(filter(os.path.exists, home), os.devnull)
    try:
        hosts = netrc.netrc(name).hosts
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        return {}
    hosts.pop("default", None)  # which is not meant for registries
    return {host.lower(): (login or account, password) for host, (login, account, password) in hosts.items()}


def pem(name):
    if os.path.isdir(name):
        return "\n".join(map(pem, (os.path.join(name, one) for one in os.listdir(name))))
    return open(name, errors="replace").read()


class Sources:
    def __init__(self):
        self.registries, self.own, self.mounts, self.clear = [], [], [], []

    def add(self, option, raw):
        """Returns the address inside of a registry, without its password, or of a directory. pip passes over directories that are not there."""
        if raw.startswith(("/", "~", "file:")):
            path = os.path.expanduser(unquote(urlsplit(raw).path) if raw.startswith("file:") else raw)
            if not os.path.isabs(path) or not os.path.isdir(path):
                return None
            self.mounts.append({"host": os.path.normpath(path), "inside": "/packages-local/%d" % len(self.mounts)})
            return "file://" + self.mounts[-1]["inside"]
        try:
            url = urlsplit(raw)
            if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:
                raise ValueError
        except ValueError:
            sys.exit("pip's %s is not a http or https URL" % option)  # which may have a password
        clean = url._replace(netloc=url.netloc.rpartition("@")[2], fragment="").geturl()
        self.registries.append({"url": clean, "name": "pip's " + option})
        if url.username is not None:
            self.own.append({"url": clean, "name": unquote(url.username), "password": unquote(url.password or "")})
        if url.scheme == "http":
            self.clear.append(urlsplit(clean).netloc)
        return clean


def on(name):
    return found.get(name, "").lower() in ("1", "true", "yes", "on", "y", "t")


found = options()
index = found.get("index-url")
if not index:  # it is in the help, also where a distribution has changed it
    index = "".join(re.findall(r"(?s)--index-url <url>.*?\(default\s+(https?://[^\s)]+)\)", said("install", "--help"))[:1])
if not index and not on("no-index"):
    sys.exit("pip does not say which index it uses: pip config set global.index-url URL")
sources, passed = Sources(), {}
for option, value in ("find-links", found.get("find-links", "")), ("index-url", index), ("extra-index-url", found.get("extra-index-url", "")):
    if option == "find-links" or not on("no-index"):
        passed[option] = " ".join(filter(None, [sources.add(option, raw) for raw in value.split()]))
passed["trusted-host"] = " ".join(sources.clear)
# Those for the choice of versions, and timeouts and retries.
passed.update((name, found.get(name, "")) for name in ("no-index", "pre", "prefer-binary", "uploaded-prior-to", "default-timeout", "timeout", "retries"))
try:
    authorities = found.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    certificates = {name: pem(file) for name, file in [("roots", authorities), ("client", found.get("client-cert"))] if file}
    constraint = "\n".join(open(name).read() for name in found.get("constraint", "").split())
except (OSError, UnicodeDecodeError) as e:
    sys.exit("cert, client-cert or constraint: %s" % e)
files = logins()
hosts = [(r["url"], files[urlsplit(r["url"]).hostname]) for r in sources.registries if urlsplit(r["url"]).hostname in files]
print(json.dumps({
    "registries": sources.registries,
    "logins": sources.own + [{"url": "%s://%s/" % urlsplit(url)[:2], "name": name, "password": password} for url, (name, password) in hosts],
    "mounts": sources.mounts,
    "inside": {"options": {name: value for name, value in passed.items() if value}, "constraint": constraint},
    "proxy": found.get("proxy", ""),
    # An option is stronger than the environment and its exceptions.
    "noproxy": found.get("noproxy", "" if found.get("proxy") else os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""),
    "untrusted": found.get("trusted-host", "").split(),
    **certificates}))
