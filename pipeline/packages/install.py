# Carries out /workspace/order.json with pip, into an empty directory, as if nothing were installed. What is installed stays at its version through
# constraints, unless the order names it. Prints pip's output, and leaves report.json.
import compileall
import csv
import json
import py_compile
import re

order = json.load(open("/workspace/order.json"))
target, old, installed = "/workspace/new", order["old"], order["installed"] or []


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints():
    named = set(map(canonical, order["names"]))
    pins = ["%s==%s" % (p["name"], p["version"]) for p in installed if canonical(p["name"]) not in named]
    for name, text in ("installed", "\n".join(pins)), ("operator", order["configuration"]["constraint"]):
        if text:
            with open("/workspace/constraints-%s.txt" % name, "w") as f:
                f.write(text + "\n")
            yield "--constraint=" + f.name


def brought():
    for one in json.load(open("/workspace/pip.json"))["install"]:
        archive = one.get("download_info", {}).get("archive_info") or {}
        sha256 = (archive.get("hashes") or {}).get("sha256")
        yield {"name": one["metadata"]["name"], "version": one["metadata"]["version"], "requested": bool(one.get("requested")),
               "hash": "sha256:" + sha256 if sha256 else archive.get("hash", "").replace("=", ":", 1)}


def stale(fresh):
    """Returns the files of what is installed in another version. RECORD lists programs with a path that leads out of the directory."""
    for info in os.listdir(old) if old else ():
        name, _, is_info = info.rpartition(".")
        if is_info != "dist-info" or canonical(name.partition("-")[0]) not in fresh:
            continue
        yield from (info + "/" + file for file in os.listdir(os.path.join(old, info)))
        with open(os.path.join(old, info, "RECORD"), newline="", encoding="utf-8") as record:
            for row in csv.reader(record):
                file = re.sub(r"^(\.\./)+", "", os.path.normpath(row[0]))
                yield file
                if file.endswith(".py"):
                    yield importlib.util.cache_from_source(file)


os.environ.update({"PIP_" + name.upper().replace("-", "_"): value for name, value in order["configuration"]["options"].items()})
os.environ.update(PIP_CONFIG_FILE=os.devnull, PIP_PROXY=order["proxy"], PIP_CERT=order["trust"], PIP_NO_INPUT="1", PIP_NO_CACHE_DIR="1",
                  PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_COLOR="1", PIP_PROGRESS_BAR="off", PIP_NO_WARN_SCRIPT_LOCATION="1",
                  PIP_ROOT_USER_ACTION="ignore")
args = ["install", "--target", target, "--report", "/workspace/pip.json", "--no-compile", *constraints()]
args += [] if order["scripts"] else ["--only-binary=:all:"]
args += ["--dry-run"] if order["dry"] else []
code = pip(args + ["--"] + order["packages"])
if code:
    sys.exit(code)
packages = list(brought())
fresh = {canonical(p["name"]): p for p in packages}
asked = {canonical(p["name"]) for p in installed if p["requested"]}
kept = [p for p in installed if canonical(p["name"]) not in fresh]
everything = [dict(p, requested=p["requested"] or canonical(p["name"]) in asked) for p in packages] + kept
with open("/workspace/report.json", "w") as f:
    json.dump({"brought": packages, "packages": everything, "stale": sorted(set(stale(fresh)))}, f)
if not order["dry"]:
    # Layers are read-only, so no run could keep what it compiles; and their files get new times, so
    # the usual check by time would find everything compiled out of date.
    compileall.compile_dir(
        target, ddir="/packages", quiet=2, force=True, maxlevels=50,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
