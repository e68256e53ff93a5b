// Everyday operations of Node programs.
const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { execFileSync, exec, fork, spawn } = require('child_process');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { promisify } = require('util');

if (!isMainThread) {
  parentPort.on('message', (n) => parentPort.postMessage(n * n));
} else if (process.argv[2] === 'forked') {
  process.on('message', (m) => { process.send(m + 1); process.disconnect(); });
} else {
  setImmediate(main); // after the definitions below
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const checks = {
  async workers() {
    const sums = await Promise.all([1, 2, 3].map((n) => new Promise((done, fail) => {
      const w = new Worker(__filename);
      w.on('error', fail);
      w.on('message', (m) => { w.terminate(); done(m); });
      w.postMessage(n);
    })));
    assert.deepStrictEqual(sums, [1, 4, 9]);
  },
  async children() {
    assert.strictEqual(execFileSync('echo', ['hi']).toString(), 'hi\n');
    assert.strictEqual((await promisify(exec)('echo $((1+1))')).stdout, '2\n');
    assert.strictEqual(execFileSync(process.execPath, ['-p', '1+1']).toString(), '2\n');
    const child = fork(__filename, ['forked']);
    const answer = new Promise((done) => child.on('message', done));
    child.send(41);
    assert.strictEqual(await answer, 42);
    const p = spawn('sleep', ['100']);
    p.kill();
    await new Promise((done) => p.on('exit', done));
  },
  async watch() {
    fs.mkdirSync('watched');
    const seen = new Promise((done) => fs.watch('watched', (_, name) => done(name)));
    await sleep(50);
    fs.writeFileSync('watched/a', 'x');
    assert.strictEqual(await seen, 'a');
  },
  async server_and_fetch() {
    const server = require('http').createServer((_, res) => res.end('hello'));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const res = await fetch(`http://127.0.0.1:${server.address().port}/`);
    assert.strictEqual(await res.text(), 'hello');
    const named = await fetch(`http://localhost:${server.address().port}/`);
    assert.strictEqual(await named.text(), 'hello');
    server.closeAllConnections();
    server.close();
  },
  async sockets() {
    const net = require('net');
    const server = net.createServer((c) => c.pipe(c)).listen(path.join(os.tmpdir(), 'node.sock'));
    const c = net.connect(path.join(os.tmpdir(), 'node.sock'));
    c.write('x');
    assert.strictEqual((await new Promise((done) => c.once('data', done))).toString(), 'x');
    c.destroy();
    server.close();
    const dgram = require('dgram').createSocket('udp4');
    await new Promise((done) => dgram.bind(0, '127.0.0.1', done));
    dgram.send('x', dgram.address().port, '127.0.0.1');
    await new Promise((done) => dgram.once('message', done));
    dgram.close();
  },
  async no_network_is_said_at_once() {
    if (process.argv.includes('interfaces')) return; // the network drops packets silently
    const told = (e) => !/TIME/.test((e.cause || e).code);
    await assert.rejects(fetch('https://example.com/'), told);
    await assert.rejects(fetch('http://93.184.216.34/'), told);
    await assert.rejects(require('dns').promises.resolve4('example.com'), told);
  },
  async files() {
    await fs.promises.writeFile('f', 'x'.repeat(1 << 20));
    await require('stream/promises').pipeline(fs.createReadStream('f'), require('zlib').createGzip(), fs.createWriteStream('f.gz'));
    assert.ok(fs.statSync('f.gz').size > 0);
    fs.mkdtempSync(path.join(os.tmpdir(), 'x-'));
    fs.symlinkSync('f', 'link');
    fs.copyFileSync('f', 'copy');
    fs.rmSync('copy');
  },
  async crypto() {
    const crypto = require('crypto');
    await promisify(crypto.scrypt)('x', 'y', 32);
    crypto.generateKeyPairSync('ed25519');
    assert.strictEqual(crypto.createHash('sha256').update('').digest('hex').length, 64);
  },
  async wasm() {
    await WebAssembly.instantiate(Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0]));
  },
  async shared_memory() {
    const a = new Int32Array(new SharedArrayBuffer(4));
    assert.strictEqual(Atomics.wait(a, 0, 0, 10), 'timed-out');
  },
  async signals() {
    const got = new Promise((done) => process.once('SIGUSR2', done));
    process.kill(process.pid, 'SIGUSR2');
    await got;
  },
  async module() {
    fs.mkdirSync('node_modules/m', { recursive: true });
    fs.writeFileSync('node_modules/m/index.js', 'module.exports = 42');
    assert.strictEqual(require('m'), 42);
    fs.writeFileSync('e.mjs', 'export default 43; await 1');
    assert.strictEqual((await import(path.resolve('e.mjs'))).default, 43);
  },
  async npm() {
    try {
      execFileSync('npm', ['--version'], { stdio: 'pipe' });
    } catch (e) {
      if (e.code === 'ENOENT') return 'missing';
      throw e;
    }
    fs.writeFileSync('package.json', '{"name":"x","version":"1.0.0","scripts":{"hello":"echo hello"}}');
    assert.match(execFileSync('npm', ['run', 'hello'], { stdio: 'pipe' }).toString(), /hello/);
  },
};

// An unawaited error, such as that of a server that may not listen, fails its check.
let fail = () => {};
process.on('uncaughtException', (e) => fail(e));

async function main() {
  for (const [name, f] of Object.entries(checks)) {
    let result = { name, state: 'ok', detail: '' };
    try {
      const said = await Promise.race([f(), new Promise((_, no) => { fail = no; }),
        sleep(30000).then(() => { throw new Error('hangs'); })]);
      if (said === 'missing') result = { name, state: 'missing', detail: name };
    } catch (e) {
      result = { name, state: 'failed', detail: String(e.stack).slice(0, 1500) };
    }
    console.log('CHECK ' + JSON.stringify(result));
  }
  console.log('ALL DONE');
  process.exit(0);
}
