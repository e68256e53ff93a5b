import os

print(os.environ["API_KEY"])
