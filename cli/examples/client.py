"""Uses a secret that it never sees: its variable has a placeholder."""

import os
import urllib.request

key = os.environ["SERVICE_KEY"]
print("I have", len(key), "characters, and they are the key:", key == "correct horse battery staple")
request = urllib.request.Request("http://api.example.com:8765/", headers={"Authorization": "Bearer " + key})
print("The service says:", urllib.request.urlopen(request).read().decode().strip())
