# Prints what pip is asked, and for the user's logins in netrc, which pip heeds, a line like those of pip's settings:
# :netrc:.HOST='name\npassword'
import netrc
import os

code = pip(sys.argv[1:])
for name in [os.environ["NETRC"]] if os.environ.get("NETRC") else map(os.path.expanduser, ("~/.netrc", "~/_netrc")):
    try:
        hosts = netrc.netrc(name).hosts
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        continue
    for host, (login, account, password) in hosts.items():
        if host != "default":  # which is not meant for registries
            print(":netrc:.%s=%r" % (host.lower(), "%s\n%s" % (login or account or "", password or "")))
    break
sys.exit(code)
