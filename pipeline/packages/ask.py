# Prints what pip install would be configured with, as JSON: options, the environment's before those of the section install before global
# ones, and the logins of the user's netrc, which pip heeds.
import ast
import contextlib
import io
import json
import netrc
import os
import re


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
        return []
    hosts.pop("default", None)  # which is not meant for registries
    return [{"host": host.lower(), "name": login or account, "password": password} for host, (login, account, password) in hosts.items()]


def pem(name):
    if os.path.isdir(name):
        return "\n".join(map(pem, (os.path.join(name, one) for one in os.listdir(name))))
    return open(name, errors="replace").read()


found = options()
if not found.get("index-url"):  # it is in the help, also where a distribution has changed it
    found["default-index-url"] = "".join(re.findall(r"(?s)--index-url <url>.*?\(default\s+(https?://[^\s)]+)\)", said("install", "--help"))[:1])
try:
    authorities = found.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    certificates = {name: pem(file) for name, file in [("roots", authorities), ("client", found.get("client-cert"))] if file}
    found["constraint"] = "\n".join(open(name).read() for name in found.get("constraint", "").split())
except (OSError, UnicodeDecodeError) as e:
    sys.exit("cert, client-cert or constraint: %s" % e)
# An option is stronger than the environment and its exceptions.
found.setdefault("noproxy", "" if found.get("proxy") else os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "")
print(json.dumps({"options": found, "logins": logins(), **certificates}))
