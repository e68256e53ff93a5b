// Gives away the secrets of its environment in the encodings that Node has at hand.
const util = require('util'), fs = require('fs'), qs = require('querystring');
const secrets = Object.keys(process.env).filter(n => n.startsWith('LEAK_')).sort().map(n => process.env[n]);
for (const s of secrets) {
  const b = Buffer.from(s);
  console.log(s, JSON.stringify({s}), JSON.stringify(JSON.stringify({s})), util.inspect({s}), util.inspect(b, {maxArrayLength: 10000}));
  console.log(b.toString('base64'), b.toString('base64url'), b.toString('hex'), encodeURIComponent(s), qs.stringify({s}), escape(s));
  console.log(b.toString('utf16le').length, JSON.stringify(b), [...b].join(), [...s].reverse().join(''));
  process.stdout.write(Buffer.from(s, 'utf16le'));
  console.error('failed with %o', s);
  console.error(new URL('https://host.example/?q=' + encodeURIComponent(s)));
}
fs.writeFileSync('out.json', JSON.stringify(secrets));
fs.writeFileSync('out.bin', Buffer.concat(secrets.slice(0, 3).map(s => Buffer.from(s, 'utf16le'))));
process.emitWarning(secrets[5]);
throw new Error('it was ' + secrets.slice(0, 40).join(' '), {cause: new TypeError(secrets[41])});
