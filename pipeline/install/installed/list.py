# Prints the packages that can be imported: name, version, and the directory that has them. The directories' names say it all.
import os
import sys

seen = set()
for directory in sys.path:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        continue
    for entry in names:
        stem, ending = os.path.splitext(entry)
        name, dash, version = stem.partition("-")
        if ending in (".dist-info", ".egg-info") and dash and name.lower() not in seen:
            seen.add(name.lower())
            print(name, version.partition("-")[0], directory, sep="\t")
