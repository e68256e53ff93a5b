// Carries out /workspace/order.json with npm, which lies in different places beside node, on a copy of what is installed: packages stay at
// their versions if they can, and are not fetched again. Leaves report.json.
'use strict'
const fs = require('fs')
const path = require('path')

const order = JSON.parse(fs.readFileSync('/workspace/order.json', 'utf8'))
const { old } = order
const target = '/workspace/new'

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
fs.mkdirSync(target, { recursive: true })
if (old && fs.existsSync(path.join(old, 'package.json'))) {
  if (!order.dry) fs.cpSync(old, target, { recursive: true })
  else for (const name of ['package.json', 'package-lock.json']) fs.copyFileSync(path.join(old, name), path.join(target, name))
} else fs.writeFileSync(path.join(target, 'package.json'), '{}\n')

// npm's own waits of 10 and 60 seconds are for networks that come and go: the gateway is here.
fs.writeFileSync('/workspace/npmrc', order.configuration.npmrc + `fetch-retry-mintimeout = 500\nfetch-retry-maxtimeout = 1500
proxy = ${order.proxy}\nhttps-proxy = ${order.proxy}\nnoproxy = ""\ncafile = ${order.trust}\n`)
Object.assign(process.env, {
  npm_config_userconfig: '/workspace/npmrc',
  npm_config_globalconfig: '/dev/null',
  npm_config_update_notifier: 'false',
  npm_config_ignore_scripts: String(!order.scripts)
})
// npm 11 runs scripts only of packages that a project names; older ones don't know of it.
if (order.scripts) process.env.npm_config_dangerously_allow_all_scripts = 'true'

// report lists the packages of the tree that npm made. It brought those that the order names, and those that have changed.
function report () {
  const lock = fs.readFileSync(path.join(target, 'package-lock.json'), 'utf8')
  const tree = JSON.parse(lock).packages
  const before = new Set((order.installed || []).map(p => [p.name, p.version, p.hash].join(' ')))
  const packages = []
  const brought = []
  for (const place of Object.keys(tree).sort()) {
    const entry = tree[place]
    const at = place.lastIndexOf('node_modules/')
    if (at < 0 || entry.link || !entry.version) continue
    const p = { name: entry.name || place.slice(at + 'node_modules/'.length), version: entry.version, hash: entry.integrity || '' }
    const named = at === 0 && order.names.includes(p.name)
    packages.push({ ...p, requested: at === 0 && Boolean((tree[''].dependencies || {})[p.name]) })
    if (named || !before.has([p.name, p.version, p.hash].join(' '))) brought.push({ ...p, requested: named })
  }
  fs.writeFileSync('/workspace/report.json', JSON.stringify({ packages, brought, whole: true, lock }))
}

process.on('exit', code => { if (!code && !process.exitCode) report() })
process.chdir('/tmp')
process.argv = [process.execPath, cli, 'install', '--prefix=' + target, '--no-audit', '--no-fund', '--no-progress', '--no-bin-links', '--color=false',
  '--package-lock=true', ...(order.dry ? ['--package-lock-only'] : []), ...(order.scripts ? [] : ['--ignore-scripts']), '--', ...order.packages]
require(cli)
