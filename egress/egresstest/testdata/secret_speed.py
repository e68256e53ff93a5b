"""How long small requests take, through a relay that puts a secret in and spliced: medians in milliseconds."""
import http.client, json, os, statistics, time

KEY = os.environ["API_KEY"]


def once(c):
    begun = time.perf_counter()
    c.request("GET", "/ok", headers={"Authorization": "Bearer " + KEY})
    c.getresponse().read()
    return (time.perf_counter() - begun) * 1000


times = {"exact.example": ([], []), "front.test": ([], [])}
conns = {}
for i in range(40):
    for host, (new, kept) in times.items():
        c = http.client.HTTPSConnection(host, timeout=10)
        new.append(once(c))
        c.close()
for i in range(500):
    for host, (new, kept) in times.items():
        c = conns.setdefault(host, http.client.HTTPSConnection(host, timeout=10))
        kept.append(once(c))
print(json.dumps({host: [statistics.median(new), statistics.median(kept[1:])] for host, (new, kept) in times.items()}))
