# pip(args) runs pip, wherever it is: installed, or in the wheel that Python brings along for new
# environments. Without any it ends this program with exit 97.
import glob
import importlib.util
import os
import runpy
import sys
import sysconfig


def bundled():
    directories = [sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels"]
    ensurepip = importlib.util.find_spec("ensurepip")
    if ensurepip and ensurepip.origin:
        directories.append(os.path.join(os.path.dirname(ensurepip.origin), "_bundled"))
    for directory in filter(None, directories):
        wheels = sorted(glob.glob(os.path.join(directory, "pip-*.whl")))
        if wheels:
            return wheels[-1]


def pip(args):
    if importlib.util.find_spec("pip") is None:
        wheel = bundled()
        if wheel is None:
            sys.stderr.write("there is no pip\n")
            sys.exit(97)
        sys.path.insert(0, wheel)
    version = __import__("pip").__version__.split(".")
    if "--report" in args and tuple(int(n) for n in version[:2] if n.isdigit()) < (22, 2):
        sys.exit("this pip is too old to say what it installs: python3 -m pip install --upgrade 'pip>=22.2'")
    sys.argv = ["pip"] + args
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
