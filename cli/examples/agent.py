"""An agent's loop over MCP, without a library: python3 agent.py [COMMAND]

A model would choose the calls; here they are a list. A line on standard input is a request, a line on
standard output an answer.
"""

import json
import subprocess
import sys

server = subprocess.Popen(
    sys.argv[1:] or ["sandboxmcp", "serve", "--namespace", "example"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
last = 0


def send(message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def request(method, **params):
    global last
    last += 1
    send({"id": last, "method": method, "params": params})
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == last and "method" not in answer:
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            return answer["result"]
        if "id" in answer:  # a request of the server, such as a question to the user
            send({"id": answer["id"], "error": {"code": -32601, "message": "nobody is here to ask"}})
    raise RuntimeError("the server ended")


def call(tool, **arguments):
    result = request("tools/call", name=tool, arguments=arguments)
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    return text, result.get("isError", False)


request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "example", "version": "1"})
send({"method": "notifications/initialized"})
print(len(request("tools/list")["tools"]), "tools")

plan = [
    {"language": "python", "code": "sum(range(10))"},
    {"language": "shell", "code": "cat /root/.ssh/id_ed25519"},
    {"language": "shell", "code": "getent hosts evil.example || echo there is no such name"},
]
for step in plan:
    text, failed = call("execute_code", **step)
    print("---", step["code"])
    print("refused:" if failed else "ran:", text)

server.stdin.close()
sys.exit(server.wait())
