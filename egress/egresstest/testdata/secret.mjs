// What Node programs do with a key: secret.mjs WAY.
import http2 from "node:http2";
import https from "node:https";

const headers = { authorization: "Bearer " + process.env.API_KEY };
const want = (text) => { if (text !== "ok known\n") throw new Error(text); };
const text = async (stream) => { let all = ""; for await (const part of stream) all += part; return all; };

const ways = {
  async fetch() {
    await Promise.all(Array.from({ length: 10 }, async () => want(await (await fetch("https://exact.example/ok", { headers })).text())));
    want(await (await fetch("https://exact.example/ok", { headers, method: "POST", body: "x".repeat(100000) })).text());
  },
  https: () => new Promise((done, fail) => {
    https.get("https://exact.example/ok", { headers, agent: new https.Agent({ keepAlive: true }) }, async (r) => { want(await text(r)); done(); }).on("error", fail);
  }),
  async http2() {
    const s = http2.connect("https://exact.example");
    await Promise.all(Array.from({ length: 10 }, async () => want(await text(s.request({ ":path": "/ok", ...headers })))));
    s.close();
  },
};

await ways[process.argv[2]]();
process.exit();
