// An agent's loop over MCP, without a library: node agent.ts [COMMAND] (Node 22.18 or newer runs TypeScript as it is)
//
// A model would choose the calls; here they are a list. A line on standard input is a request, a line on
// standard output an answer.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

type Message = { id?: number; method?: string; params?: object; result?: any; error?: { code: number; message: string } };

const command = process.argv.length > 2 ? process.argv.slice(2) : ["sandboxmcp", "serve", "--namespace", "example"];
const server = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise<number>((resolve) => server.on("close", (code) => resolve(code ?? 1)));
const waiting = new Map<number, (answer: Message) => void>();
let last = 0;

function send(message: Message): void {
  server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}

createInterface({ input: server.stdout }).on("line", (line) => {
  const message: Message = JSON.parse(line);
  if (message.id === undefined) return; // a notification
  if (message.method) send({ id: message.id, error: { code: -32601, message: "nobody is here to ask" } });
  else waiting.get(message.id)?.(message);
});

async function request(method: string, params: object = {}): Promise<any> {
  const id = ++last;
  const answer = await new Promise<Message>((resolve) => {
    waiting.set(id, resolve);
    send({ id, method, params });
  });
  waiting.delete(id);
  if (answer.error) throw new Error(answer.error.message);
  return answer.result;
}

async function call(tool: string, args: object): Promise<[string, boolean]> {
  const result = await request("tools/call", { name: tool, arguments: args });
  const text = result.content.filter((part: any) => part.type === "text").map((part: any) => part.text);
  return [text.join("\n"), result.isError ?? false];
}

await request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "example", version: "1" } });
send({ method: "notifications/initialized" });
console.log((await request("tools/list")).tools.length, "tools");

const plan = [
  { language: "python", code: "sum(range(10))" },
  { language: "shell", code: "cat /root/.ssh/id_ed25519" },
  { language: "shell", code: "getent hosts evil.example || echo there is no such name" },
];
for (const step of plan) {
  const [text, failed] = await call("execute_code", step);
  console.log("---", step.code);
  console.log(failed ? "refused:" : "ran:", text);
}

server.stdin.end();
process.exitCode = await ended;
