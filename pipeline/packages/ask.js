// Prints what npm install would be configured with, as JSON. The credentials, which npm keeps to itself, are read where npm does: in the
// user's and the global file, and the environment. Without npm it ends with exit 97.
'use strict'
const fs = require('fs')
const path = require('path')
const { execFileSync } = require('child_process')

const npm = [path.dirname(process.execPath), ...(process.env.PATH || '').split(':')].map(dir => path.join(dir, 'npm')).find(fs.existsSync)
if (!npm) process.exit(97)
const options = JSON.parse(execFileSync(npm, ['config', 'list', '--json'], { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 26 }))
const found = {} // by "//host/path/", then by name
function note (name, value) {
  const [, prefix, key] = /^(\/\/.*):([^:]*)$/.exec(name) || []
  if (prefix) (found[prefix] ||= {})[key] = value
}
function unquote (text) {
  try { return String(JSON.parse(text)) } catch { return text.replace(/^'(.*)'$/, '$1') }
}

for (const file of [options.globalconfig, options.userconfig]) {
  let text = ''
  try { text = fs.readFileSync(file, 'utf8') } catch {} // most have none
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    const value = unquote(line.slice(at + 1).trim()).replace(/\$\{([^}?]+)\??\}/g, (_, name) => process.env[name] || '')
    if (at > 0) note(line.slice(0, at).trim(), value)
  }
}
for (const [name, value] of Object.entries(process.env)) {
  if (/^npm_config_/i.test(name)) note(name.slice('npm_config_'.length), value)
}

function parsed (text) {
  try { return new URL(text) } catch { return {} }
}

const decoded = text => Buffer.from(text || '', 'base64').toString()
// A prefix has no scheme, nor its port.
const logins = Object.entries(found).flatMap(([prefix, c]) => ['https:', 'http:'].filter(scheme => parsed(scheme + prefix).host).map(scheme => {
  const url = scheme + prefix
  if (c._authToken) return { url, token: c._authToken }
  if (!c._auth && !c._password) return { url }
  const [, name, password] = /^([^:]*):?([^]*)$/.exec(c._auth ? decoded(c._auth) : (c.username || '') + ':' + decoded(c._password))
  return { url, name, password }
}))

const text = value => Array.isArray(value) ? value.join('\n') : String(value ?? '')
const registries = []
let npmrc = ''
function set (name, value) { npmrc += `${name} = ${JSON.stringify(value)}\n` }
for (const name of Object.keys(options).filter(name => name === 'registry' || /^@.*:registry$/.test(name)).sort()) {
  const url = parsed(text(options[name]).trim())
  if (!/^https?:$/.test(url.protocol)) {
    process.stderr.write(`npm's ${name} is not a http or https URL\n`) // it may have a password
    process.exit(1)
  }
  const login = { name: decodeURIComponent(url.username), password: decodeURIComponent(url.password) }
  url.username = url.password = url.hash = ''
  registries.push({ url: url.href, name: "npm's " + name })
  logins.push({ url: url.href, ...login })
  set(name, url.href)
}
for (const name of ['before', 'min-release-age', 'replace-registry-host', 'tag', 'fetch-retries', 'fetch-timeout']) {
  if (text(options[name])) set(name, text(options[name]))
}
const read = name => fs.readFileSync(name, 'utf8')
const extra = process.env.NODE_EXTRA_CA_CERTS
console.log(JSON.stringify({
  registries,
  logins,
  inside: { npmrc },
  proxy: text(options.proxy),
  httpsProxy: text(options['https-proxy']),
  noproxy: text(options.noproxy).replace(/\n/g, ','),
  roots: options.cafile ? read(options.cafile) : options.ca ? text(options.ca) : extra ? read(extra) : undefined,
  more: !options.cafile && !options.ca,
  client: options.cert && options.key ? options.cert + '\n' + options.key : undefined,
  untrusted: options['strict-ssl'] === false ? ['*'] : []
}))
