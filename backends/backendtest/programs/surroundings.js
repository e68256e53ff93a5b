// The environment that every script may rely on.
const assert = require('assert');
const fs = require('fs');
const os = require('os');
assert.strictEqual(process.cwd(), '/workspace');
assert.strictEqual(__filename, '/workspace/surroundings.js');
assert.strictEqual(os.homedir(), '/workspace');
assert.ok(os.userInfo().username);
assert.strictEqual(os.tmpdir(), '/tmp');
assert.ok(os.hostname());
assert.ok(os.cpus().length >= 1);
assert.ok(process.argv[2] === 'interfaces' || Object.keys(os.networkInterfaces()).every((n) => n === 'lo'));
assert.strictEqual(fs.readFileSync(0).length, 0);
assert.ok(fs.existsSync(process.execPath), process.execPath);
fs.writeFileSync('ünï ☃', 'x');
assert.ok(fs.readdirSync('.').includes('ünï ☃'));
assert.ok(!fs.existsSync('/etc/shadow'));
