"""A data analysis: sandboxmcp run analysis.py --input sales.csv --artifacts out"""

import csv
import statistics

with open("sales.csv") as file:
    rows = list(csv.DictReader(file))

months = {}
for row in rows:
    months[row["month"]] = months.get(row["month"], 0) + float(row["amount"])
for month, amount in months.items():
    print(f"{month}  {amount:8.2f}")
print(f"mean     {statistics.mean(months.values()):8.2f}")

# A chart without a library: what lies in the workspace at the end is an artifact.
top = max(months.values())
bars = "".join(
    f'<rect x="{i * 60}" y="{100 - 100 * amount / top:.0f}" width="50" height="{100 * amount / top:.0f}"/>'
    for i, amount in enumerate(months.values())
)
with open("chart.svg", "w") as file:
    file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {60 * len(months)} 100">{bars}</svg>\n')
