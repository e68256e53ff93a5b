# Prints what compiled packages fit: the version of Python, its ABI, and the C library.
import glob
import os
import subprocess
import sys
import sysconfig


def libc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").replace(" ", "")  # "glibc 2.36"
    except (AttributeError, OSError, ValueError):
        pass
    for loader in sorted(glob.glob("/lib/ld-musl-*.so.1")):
        said = subprocess.run([loader], stderr=subprocess.PIPE).stderr.decode()
        return "musl" + said.partition("Version ")[2].partition("\n")[0]
    return "libc"


abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag + "-" + sysconfig.get_platform()
print("%d.%d-%s-%s" % (*sys.version_info[:2], abi, libc()))
