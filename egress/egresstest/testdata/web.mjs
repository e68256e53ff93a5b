// What Node programs do with the web.
import http2 from "node:http2";
import https from "node:https";
import http from "node:http";

const want = (ok, got) => { if (!ok) throw new Error(JSON.stringify(got)); };

const tests = {
  async fetch_https() {
    for (const name of ["example.test", "v6.test"]) {
      const got = await (await fetch(`https://${name}/echo`)).json();
      want(got.host === name, got);
    }
    const all = await Promise.all(Array.from({ length: 20 }, () => fetch("https://example.test/echo").then((r) => r.json())));
    want(all.every((g) => g.host === "example.test"), all);
  },
  async fetch_http() {
    const got = await (await fetch("http://example.test/echo", { method: "POST", body: "x".repeat(100000) })).json();
    want(got.body === 100000, got);
  },
  https_agent: () => new Promise((done, fail) => {
    https.get("https://example.test/echo", { agent: new https.Agent({ keepAlive: false }) }, (r) => { r.resume(); r.on("end", done); }).on("error", fail);
  }),
  http2: () => new Promise((done, fail) => {
    const s = http2.connect("https://example.test");
    s.on("error", fail);
    let left = 10;
    for (let i = 0; i < 10; i++) {
      const r = s.request({ ":path": "/echo" });
      let text = "";
      r.on("data", (d) => (text += d));
      r.on("end", () => {
        try { want(JSON.parse(text).proto === "HTTP/2.0", text); } catch (e) { fail(e); }
        if (--left === 0) { s.close(); done(); }
      });
    }
  }),
  upgrade: () => new Promise((done, fail) => {
    const r = http.request("http://example.test/ws", { headers: { Upgrade: "websocket", Connection: "Upgrade", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Version": "13" } });
    r.on("upgrade", (res, socket) => {
      socket.on("data", (d) => { try { want(d.toString("latin1") === "\x81\x02hi", d.toString("latin1")); done(); } catch (e) { fail(e); } socket.destroy(); });
      socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
    });
    r.on("error", fail);
    r.end();
  }),
};

for (const [name, f] of Object.entries(tests)) {
  try {
    await f();
    console.log(`${name}: ok`);
  } catch (e) {
    console.log(`${name}: ${e} ${e.cause ?? ""}`);
    process.exitCode = 1;
  }
}
process.exit();
