// Prints what npm install would be configured with, as JSON: options, lists with a line for each item, and the credentials, which npm keeps
// to itself. They are read where npm does: in the user's and the global file, and the environment. Argument: npm.
'use strict'
const fs = require('fs')
const { execFileSync } = require('child_process')

const options = JSON.parse(execFileSync(process.argv[1], ['config', 'list', '--json'], { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 26 }))
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

const decoded = text => Buffer.from(text || '', 'base64').toString()
const logins = Object.entries(found).map(([host, c]) => {
  if (c._authToken) return { host, token: c._authToken }
  if (!c._auth && !c._password) return { host }
  const [, name, password] = /^([^:]*):?([^]*)$/.exec(c._auth ? decoded(c._auth) : (c.username || '') + ':' + decoded(c._password))
  return { host, name, password }
})
const text = value => Array.isArray(value) ? value.join('\n') : String(value ?? '')
const read = name => fs.readFileSync(name, 'utf8')
const extra = process.env.NODE_EXTRA_CA_CERTS
const roots = options.cafile ? read(options.cafile) : options.ca ? text(options.ca) : extra ? read(extra) : undefined
const client = options.cert && options.key ? options.cert + '\n' + options.key : undefined
console.log(JSON.stringify({ options: Object.fromEntries(Object.entries(options).map(([name, value]) => [name, text(value)])), logins, roots, client, more: !options.cafile && !options.ca }))
