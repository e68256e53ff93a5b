// Prints the packages that can be required: name, version, and the directory that has them.
'use strict'
const fs = require('fs')
const path = require('path')
const { globalPaths, _nodeModulePaths } = require('module')

function read (directory) {
  try { return fs.readdirSync(directory) } catch { return [] }
}

const seen = new Set()
for (const directory of [..._nodeModulePaths(process.cwd()), ...globalPaths]) {
  for (const entry of read(directory)) {
    const names = entry.startsWith('@') ? read(path.join(directory, entry)).map(name => `${entry}/${name}`) : [entry]
    for (const name of names) {
      if (seen.has(name) || name.startsWith('.')) continue
      try {
        const { version } = JSON.parse(fs.readFileSync(path.join(directory, name, 'package.json'), 'utf8'))
        seen.add(name)
        console.log([name, version, directory].join('\t'))
      } catch {}
    }
  }
}
