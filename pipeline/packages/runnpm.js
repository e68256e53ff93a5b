// Runs npm, which lies in different places beside node, on a copy of the layer that there is.
'use strict'
const fs = require('fs')
const path = require('path')

const [target, old, ...args] = process.argv.slice(2)

function onPath () {
  return (process.env.PATH || '').split(':').map(dir => path.join(dir, 'npm')).map(name => {
    try { return fs.realpathSync(name) } catch { return '' }
  })
}

const cli = [
  path.join(path.dirname(process.execPath), '../lib/node_modules/npm/bin/npm-cli.js'),
  ...onPath(),
  '/usr/lib/node_modules/npm/bin/npm-cli.js',
  '/usr/local/lib/node_modules/npm/bin/npm-cli.js',
  '/usr/share/nodejs/npm/bin/npm-cli.js'
].find(name => name.endsWith('npm-cli.js') && fs.existsSync(name))
if (!cli) {
  process.stderr.write('there is no npm\n')
  process.exit(97)
}
if (old && args.includes('--package-lock-only')) {
  for (const name of ['package.json', 'package-lock.json']) fs.copyFileSync(path.join(old, name), path.join(target, name))
} else if (old) fs.cpSync(old, target, { recursive: true })
process.chdir('/tmp')
process.argv = [process.execPath, cli, ...args]
require(cli)
